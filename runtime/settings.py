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
PrometheusPort = Annotated[Port, Meta(description="Own counters for Prometheus on this port of 127.0.0.1; 0 is off")]

S = TypeVar("S", bound=msgspec.Struct)

PREFIX = "LOCKSTEP_"

SECRET = ("password", "key", "token", "secret", "webhook_url", "alertmanager_url")
"""In the names of settings whose values are never shown: addresses may have a secret as their path, or a password."""


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """Where the broker is and how to speak to it; shared by every process."""

    broker: Annotated[
        str, Meta(pattern=r"^\s*[^\s,:]+:\d{1,5}(,[^\s,:]+:\d{1,5})*\s*$", description="HOST:PORT[,HOST:PORT] of Kafka")
    ] = "127.0.0.1:9092"
    broker_embedded: Annotated[bool, Meta(description="It is the embedded broker of `lockstep up`, no Kafka")] = False
    broker_tls: Annotated[bool, Meta(description="Speak TLS, trusting the system's CAs")] = False
    broker_tls_ca: Annotated[str, Meta(description="PEM file of the CA to trust instead")] = ""
    broker_tls_cert: Annotated[str, Meta(description="PEM file of this client's certificate")] = ""
    broker_tls_key: Annotated[str, Meta(description="PEM file of its key")] = ""
    broker_user: Annotated[
        str, Meta(description="User name (SASL); its password comes from LOCKSTEP_BROKER_PASSWORD only")
    ] = ""
    broker_password: str = ""
    broker_sasl_mechanism: Annotated[
        Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"], Meta(description="How the user logs in")
    ] = "SCRAM-SHA-512"
    cluster: Annotated[
        str, Meta(min_length=1, max_length=256, description="Name of the cluster; stands in every record")
    ] = "default"


Host = Annotated[str, Meta(min_length=1, description="Host of ClickHouse's HTTP interface")]
HttpPort = Annotated[Port, Meta(description="Its port")]
User = Annotated[str, Meta(description="Its user; the password comes from LOCKSTEP_CLICKHOUSE_PASSWORD only")]
Database = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="The database with Lockstep's tables")]
Secure = Annotated[bool, Meta(description="Speak HTTPS")]
Servers = Annotated[
    str,
    Meta(pattern=r"^[A-Za-z0-9_.-]*$", description="Cluster of ClickHouse servers to make tables on; none: one server"),
]


class ClickHouse(msgspec.Struct, frozen=True, kw_only=True):
    """Where ClickHouse's HTTP interface is."""

    clickhouse_host: Host = "127.0.0.1"
    clickhouse_port: HttpPort = 8123
    clickhouse_user: User = "default"
    clickhouse_password: str = ""
    clickhouse_database: Database = "lockstep"
    clickhouse_secure: Secure = False
    clickhouse_cluster: Servers = ""


def from_environment(cls: type[S], environment: Mapping[str, str], **given: Any) -> S:
    """A `cls` filled from LOCKSTEP_* variables; `given` (command-line options, None = not given) wins.

    Raises UserError naming the variable or option that makes no sense.
    """
    values: dict[str, Any] = {}
    for field in msgspec.structs.fields(cls):
        variable = PREFIX + field.name.upper()
        if variable in environment:
            # A secret out of a file often has the file's line end.
            values[field.name] = environment[variable].rstrip("\r\n")
        if given.get(field.name) is not None:
            values[field.name] = given[field.name]
    for name, value in values.items():
        if isinstance(value, str) and not _is_text(value):
            raise UserError(f"{_where(name, given)}: its bytes are no UTF-8")
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


def _is_text(value: str) -> bool:
    """Whether it can be written as UTF-8; Python keeps other bytes of the environment and of the command line
    as half characters."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


_SPOKEN = {"yes": "true", "no": "false", "on": "true", "off": "false"}


def _is_flag(cls: type[msgspec.Struct], name: str, value: Any) -> bool:
    return isinstance(value, str) and _says_yes_or_no(_kind(cls, name))


def _kind(cls: type[msgspec.Struct], name: str) -> Any:
    return next(field.type for field in msgspec.structs.fields(cls) if field.name == name)


def _says_yes_or_no(kind: Any) -> bool:
    return (get_args(kind)[0] if get_origin(kind) is Annotated else kind) is bool


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
    kind = _kind(cls, name)
    if name == "broker":
        return "give HOST:PORT[,HOST:PORT]"
    if name.endswith("_url"):
        return "give http://HOST:PORT/PATH, or https"
    if _says_yes_or_no(kind):
        return "give yes or no"
    return f"give one of {', '.join(choices(kind))}" if choices(kind) else ""


def _only(cls: type[msgspec.Struct], name: str) -> type[msgspec.Struct]:
    return msgspec.defstruct("_Only", [(name, _kind(cls, name))])


def _where(name: str, given: Mapping[str, Any]) -> str:
    return f"--{name.replace('_', '-')}" if given.get(name) is not None else PREFIX + name.upper()


def _shown(name: str, value: Any) -> str:
    return "***" if any(word in name for word in SECRET) else repr(value)
