"""This is about what every contract has in common: how it is read, and how it is written.

Bodies are compact camelCase JSON (SPEC CON-1). Readers ignore unknown fields (CON-6) and take
`null` for "not set" (CON-2): hence each optional field is `X | None = None`. Writers omit what
is not set; only `to_patch_json` writes an explicit null, the order "back to unset".
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticSerializationError, to_jsonable_python

from aalis_contracts.text import compact_json, one_line, well_formed_json

if TYPE_CHECKING:
    from typing_extensions import Self


class InvalidBody(ValueError):
    """A body that is not what its contract says; the message is one line and names the field."""


class Contract(BaseModel):
    """A value on the wire: immutable, camelCase outside, snake_case inside."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        frozen=True,
        extra="ignore",
        ser_json_inf_nan="null",
    )

    @classmethod
    def from_json(cls, data: bytes | str) -> Self:
        """Read a body; raise `InvalidBody` with a one-line reason when it does not fit.

        Lone surrogates become U+FFFD here (SPEC CON-5): the fast parser refuses them, so the
        rare body that has any is read the slow way.
        """
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            if not _is_malformed_json(error):
                raise InvalidBody(_reason(cls, error)) from None
        return cls.from_object(_parse(cls, data))

    @classmethod
    def from_object(cls, value: object) -> Self:
        """Read an already parsed JSON value; raise `InvalidBody` like `from_json`."""
        try:
            return cls.model_validate(well_formed_json(value))
        except ValidationError as error:
            raise InvalidBody(_reason(cls, error)) from None

    def to_json(self) -> bytes:
        """Write the compact body without unset fields; text that is not well-formed is mended."""
        try:
            return self.model_dump_json(by_alias=True, exclude_none=True).encode()
        except PydanticSerializationError:
            return compact_json(self.to_object()).encode()

    def to_object(self) -> dict[str, object]:
        """Return the JSON object that `to_json` writes, as Python dicts and lists."""
        raw = self.model_dump(mode="python", by_alias=True, exclude_none=True)
        return well_formed_json(to_jsonable_python(well_formed_json(raw)))

    def to_patch_json(self) -> bytes:
        """Write only the fields that were given, explicit nulls included (SPEC CON-2)."""
        raw = self.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return compact_json(well_formed_json(raw)).encode()


AnyContract = TypeVar("AnyContract", bound=Contract)


def _is_malformed_json(error: ValidationError) -> bool:
    return error.errors(include_url=False, include_input=False)[0]["type"] == "json_invalid"


def _parse(cls: type[Contract], data: bytes | str) -> object:
    try:
        text = data.decode("utf-8", "surrogatepass") if isinstance(data, bytes) else data
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = one_line(f"{cls.__name__}: the body is not JSON: {error}", 300)
        raise InvalidBody(reason) from None


def _reason(cls: type[Contract], error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "body"
    more = error.error_count() - 1
    tail = f" (and {more} more)" if more else ""
    return one_line(f"{cls.__name__}: {where}: {first['msg']}{tail}", 300)
