"""This is about values of the environment: read once, checked, named when they are wrong (AG-9)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Final, cast, get_args
from urllib.parse import urlsplit

from aalis_contracts.models import Capability
from aalis_contracts.text import cut, one_line
from aalis_llm.errors import without_keys
from aalis_llm.settings import CustomModel

_CAPABILITIES: Final[tuple[Capability, ...]] = get_args(Capability)
_MOST_TOKENS: Final = 1_000_000_000
_CUSTOM: Final = re.compile(r"(?P<id>[^=]+?)(?:=(?P<window>\d{1,9})(?:/(?P<output>\d{1,9}))?)?")


class InvalidSetting(ValueError):
    """A variable has a bad value; the message is one line: variable, value, range."""

    def __init__(self, variable: str, value: str, wanted: str) -> None:
        shown = "(hidden)" if variable.endswith("KEY") else cut(one_line(value), 80, "…")
        super().__init__(f"{variable}={without_keys(shown)}: must be {one_line(wanted, 300)}")


class Env:
    """The variables that begin with a prefix; empty counts as unset."""

    def __init__(self, variables: Mapping[str, str], prefix: str = "") -> None:
        self._variables = variables
        self._prefix = prefix

    def within(self, prefix: str) -> Env:
        """Return the variables whose names begin with `prefix` and an underscore."""
        return Env(self._variables, f"{self._prefix}{prefix}_")

    def text(self, name: str) -> str:
        """Return a value without blanks around it, '' when it is not set."""
        return self._variables.get(self._prefix + name, "").strip()

    def url(self, name: str, default: str) -> str:
        """Return an http or https address."""
        value = self.text(name)
        try:
            parts = urlsplit(value)
            fine = parts.scheme in {"http", "https"} and bool(parts.hostname)
        except ValueError:
            fine = False
        if value and not fine:
            raise self._bad(name, value, "an address with http:// or https://")
        return value or default

    def number(self, name: str, default: float, low: float, high: float) -> float:
        """Return a number from `low` to `high`."""
        value = self.text(name)
        try:
            number = float(value) if value else default
        except ValueError:
            number = math.nan
        if not low <= number <= high:
            raise self._bad(name, value, f"a number from {low:g} to {high:g}")
        return number

    def count(self, name: str, default: int) -> int:
        """Return a positive integer."""
        value = self.text(name)
        if not value:
            return default
        if not re.fullmatch(r"[0-9]{1,10}", value) or not 0 < int(value) <= _MOST_TOKENS:
            raise self._bad(name, value, f"an integer from 1 to {_MOST_TOKENS}")
        return int(value)

    def flag(self, name: str, *, default: bool) -> bool:
        """Return on or off."""
        value = self.text(name).lower()
        if value in {"on", "true", "1", "yes"}:
            return True
        if value in {"off", "false", "0", "no"}:
            return False
        if value:
            raise self._bad(name, value, "on or off")
        return default

    def choice(self, name: str, choices: Sequence[str], default: str) -> str:
        """Return one of `choices`."""
        value = self.text(name)
        if value and value not in choices:
            raise self._bad(name, value, f"one of {', '.join(choices)}")
        return value or default

    def capabilities(self, name: str, default: tuple[Capability, ...]) -> tuple[Capability, ...]:
        """Return a list of capabilities."""
        value = self.text(name)
        return self._capabilities(name, value, value) if value else default

    def capability_lines(self, name: str) -> dict[str, tuple[Capability, ...]]:
        """Read lines `model: a, b`, split at the last colon (SPEC LLM-4); `;` ends one too."""
        value = self.text(name)
        found: dict[str, tuple[Capability, ...]] = {}
        for line in filter(None, (part.strip() for part in re.split(r"[\n;]", value))):
            model, colon, listed = line.rpartition(":")
            if not colon or not model.strip():
                raise self._bad(name, line, "lines `model: capability, capability`")
            found[model.strip()] = self._capabilities(name, line, listed)
        return found

    def custom_models(self, name: str) -> tuple[CustomModel, ...]:
        """Read a list of models: `id`, `id=window` or `id=window/output`."""
        found: list[CustomModel] = []
        for item in filter(None, (part.strip() for part in re.split(r"[\n,]", self.text(name)))):
            match = _CUSTOM.fullmatch(item)
            numbers = [int(n) for n in match.group("window", "output") if n] if match else [0]
            if match is None or 0 in numbers:
                raise self._bad(name, item, "a list of id, id=window or id=window/output")
            found.append(CustomModel(match["id"].strip(), *numbers))
        return tuple(found)

    def _capabilities(self, name: str, whole: str, listed: str) -> tuple[Capability, ...]:
        words = [word.strip() for word in listed.split(",") if word.strip()]
        if not set(words) <= set(_CAPABILITIES):
            raise self._bad(name, whole, f"made of {', '.join(_CAPABILITIES)}")
        return tuple(cast("list[Capability]", words))

    def _bad(self, name: str, value: str, wanted: str) -> InvalidSetting:
        return InvalidSetting(self._prefix + name, value, wanted)
