"""Settings from the environment: one frozen dataclass-like Struct per process, beside the code that uses it.

A field `broker` of settings with prefix LOCKSTEP is read from LOCKSTEP_BROKER. Types and ranges are the Struct's own
annotations; a value that makes no sense is one line with the variable's name, never a traceback.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import msgspec
from msgspec import Meta

from runtime.errors import UserError

Port = Annotated[int, Meta(ge=0, le=65535)]
Positive = Annotated[float, Meta(gt=0)]

S = TypeVar("S", bound=msgspec.Struct)

PREFIX = "LOCKSTEP_"


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """Where the broker is and how to speak to it; shared by every process."""

    broker: Annotated[str, Meta(pattern=r"^\s*[^\s,:]+:\d{1,5}(,[^\s,:]+:\d{1,5})*\s*$")] = "127.0.0.1:9092"
    broker_embedded: bool = False
    broker_tls: bool = False
    broker_tls_ca: str = ""
    broker_tls_cert: str = ""
    broker_tls_key: str = ""
    broker_user: str = ""
    broker_password: str = ""
    broker_sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512"
    cluster: Annotated[str, Meta(min_length=1, max_length=256)] = "default"


class ClickHouse(msgspec.Struct, frozen=True, kw_only=True):
    """Where ClickHouse's HTTP interface is."""

    clickhouse_host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    clickhouse_port: Port = 8123
    clickhouse_user: str = "default"
    clickhouse_password: str = ""
    clickhouse_database: Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] = "lockstep"
    clickhouse_secure: bool = False
    clickhouse_cluster: Annotated[
        str,
        Meta(
            pattern=r"^[A-Za-z0-9_.-]*$",
            description="Cluster of ClickHouse servers to make tables on; none: one server",
        ),
    ] = ""


def from_environment(cls: type[S], environment: Mapping[str, str], **given: Any) -> S:
    """A `cls` filled from LOCKSTEP_* variables; `given` (command-line options, None = not given) wins.

    Raises UserError naming the variable or option that makes no sense.
    """
    values: dict[str, Any] = {}
    for field in msgspec.structs.fields(cls):
        variable = PREFIX + field.name.upper()
        if variable in environment:
            values[field.name] = environment[variable]
        if given.get(field.name) is not None:
            values[field.name] = given[field.name]
    for name, value in values.items():
        value = values[name] = _SPOKEN.get(value.lower(), value) if _is_flag(cls, name, value) else value
        try:
            converted = getattr(msgspec.convert({name: value}, _only(cls, name), strict=False), name)
            # A number without end passes every range check or none of them as it likes; no setting means it.
            if isinstance(converted, float) and not math.isfinite(converted):
                raise msgspec.ValidationError("give a finite number")
        except msgspec.ValidationError as error:
            said = _where(name, given)
            why = _expected(cls, name) or str(error).split(" - at")[0]
            raise UserError(f"{said}={_shown(name, value)}: {why}") from None
    return msgspec.convert(values, cls, strict=False)


_SPOKEN = {"yes": "true", "no": "false", "on": "true", "off": "false"}


def _is_flag(cls: type[msgspec.Struct], name: str, value: Any) -> bool:
    return isinstance(value, str) and next(f for f in msgspec.structs.fields(cls) if f.name == name).type is bool


def choices(kind: Any) -> tuple[str, ...]:
    """The values of an enumerated setting's type; none for any other type.

    >>> choices(Literal["PLAIN", "SCRAM"] | None)
    ('PLAIN', 'SCRAM')
    """
    return tuple(str(value) for value in _literals(kind))


def _literals(kind: Any) -> Iterator[Any]:
    if get_origin(kind) is Literal:
        yield from get_args(kind)
    else:
        for part in get_args(kind):
            yield from _literals(part)


def _expected(cls: type[msgspec.Struct], name: str) -> str:
    """What to give instead, where the type's own complaint does not say it."""
    kind = next(field.type for field in msgspec.structs.fields(cls) if field.name == name)
    if name == "broker":
        return "give HOST:PORT[,HOST:PORT]"
    if kind is bool:
        return "give yes or no"
    return f"give one of {', '.join(choices(kind))}" if choices(kind) else ""


def _only(cls: type[msgspec.Struct], name: str) -> type[msgspec.Struct]:
    field = next(f for f in msgspec.structs.fields(cls) if f.name == name)
    return msgspec.defstruct("_Only", [(name, field.type)])


def _where(name: str, given: Mapping[str, Any]) -> str:
    return f"--{name.replace('_', '-')}" if given.get(name) is not None else PREFIX + name.upper()


def _shown(name: str, value: Any) -> str:
    return "***" if "password" in name or "key" in name or "token" in name else repr(value)
