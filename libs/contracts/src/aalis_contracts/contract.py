"""This is about what every contract has in common: how it is read, and how it is written.

Bodies are compact camelCase JSON (SPEC CON-1). Readers ignore unknown fields (CON-6) and take
`null` for "not set" (CON-2): an optional field is `X | None = None`, and a null met where a field
has another default gives that default. Writers omit what is not set; only `to_patch_json` writes
an explicit null, the order "back to unset".
"""

from __future__ import annotations

import json
from typing import ClassVar, Self, TypeVar, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticSerializationError, to_jsonable_python

from aalis_contracts.text import (
    compact_json,
    cut,
    not_too_deep,
    one_line,
    well_formed_json,
)


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

    _defaulted: ClassVar[frozenset[str]] = frozenset()
    """Names and aliases of the fields whose default is not null."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: object) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        fields = cls.model_fields.items()
        defaulted = [(n, f) for n, f in fields if not f.is_required() and f.default is not None]
        cls._defaulted = frozenset(part for n, f in defaulted for part in (n, f.alias or n))

    @model_validator(mode="before")
    @classmethod
    def _null_is_unset(cls, data: object) -> object:
        """Leave out the nulls that would meet a field with a default (SPEC CON-2)."""
        if not cls._defaulted or not isinstance(data, dict):
            return data
        fields = cast("dict[str, object]", data)
        if None not in fields.values():
            return fields
        return {k: v for k, v in fields.items() if v is not None or k not in cls._defaulted}

    @classmethod
    def from_json(cls, data: bytes | str) -> Self:
        """Read a body; raise `InvalidBody` with a one-line reason when it does not fit.

        Lone surrogates become U+FFFD here (SPEC CON-5): the fast parser refuses them, so the
        rare body that has any is read the slow way.
        """
        raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
        try:
            return cls.model_validate_json(raw)
        except ValidationError as error:
            if not _is_malformed_json(error):
                raise InvalidBody(_reason(cls, error)) from None
        return cls.from_object(_parse(cls, raw))

    @classmethod
    def from_object(cls, value: object) -> Self:
        """Read an already parsed JSON value; raise `InvalidBody` like `from_json`."""
        try:
            return cls.model_validate(well_formed_json(value))
        except ValidationError as error:
            raise InvalidBody(_reason(cls, error)) from None
        except RecursionError:
            raise InvalidBody(f"{cls.__name__}: the body is nested too deeply") from None

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


class OpenContract(Contract):
    """A contract whose unknown fields survive, nulls among them and in their order (CON-6)."""

    model_config = ConfigDict(extra="allow")

    @model_validator(mode="after")
    def _extra_is_carried(self) -> Self:
        if self.model_extra:
            not_too_deep(self.model_extra)
        return self

    @model_serializer(mode="wrap")
    def _write_extra(self, write: SerializerFunctionWrapHandler) -> dict[str, object]:
        written = cast("dict[str, object]", write(self))
        extra = self.model_extra
        if not extra:
            return written
        own = {key: value for key, value in written.items() if key not in extra}
        return {**own, **{key: written.get(key) for key in extra}}


AnyContract = TypeVar("AnyContract", bound=Contract)


def _is_malformed_json(error: ValidationError) -> bool:
    return error.errors(include_url=False, include_input=False)[0]["type"] == "json_invalid"


def _parse(cls: type[Contract], data: bytes) -> object:
    try:
        return json.loads(data.decode("utf-8", "surrogatepass"))
    except RecursionError:
        raise InvalidBody(f"{cls.__name__}: the body is nested too deeply") from None
    except ValueError as error:
        reason = one_line(f"{cls.__name__}: the body is not JSON: {error}", 300)
        raise InvalidBody(reason) from None


def _reason(cls: type[Contract], error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = cut(".".join(str(part) for part in first["loc"]), 120, "…") or "body"
    more = error.error_count() - 1
    tail = f" (and {more} more)" if more else ""
    return one_line(f"{cls.__name__}: {where}: {first['msg']}{tail}", 300)
