"""The environment variables that Lockstep reads, a file in their place, and a warning for one that it does not read.

A misspelt LOCKSTEP_BROKR would be ignored without a word, and the process would talk to the wrong broker.
"""

import tomllib
from collections.abc import Callable, Iterable, MutableMapping
from difflib import get_close_matches
from pathlib import Path

import msgspec

from collectors.agent.settings import AgentSettings
from runtime.errors import UserError
from runtime.settings import PREFIX

# The settings' fields but the agent's (a test compares them with the classes), and what is read by itself.
KNOWN: tuple[str, ...] = (
    # every process
    *("BROKER", "BROKER_EMBEDDED", "BROKER_TLS", "BROKER_TLS_CA", "BROKER_TLS_CERT", "BROKER_TLS_KEY"),
    *("BROKER_USER", "BROKER_PASSWORD", "BROKER_SASL_MECHANISM", "CLUSTER", "PROMETHEUS_PORT", "CONFIG"),
    # whoever asks ClickHouse, and the embedded engine
    *("CLICKHOUSE_HOST", "CLICKHOUSE_PORT", "CLICKHOUSE_USER", "CLICKHOUSE_PASSWORD", "CLICKHOUSE_DATABASE"),
    *("CLICKHOUSE_SECURE", "DATA", "ENGINE_DATA", "ENGINE_MEMORY_MB", "ENGINE_QUERY_MEMORY_MB"),
    *("ENGINE_QUERY_TIME_S", "ENGINE_THREADS", "CLICKHOUSE_CLUSTER"),
    # what a training process and its pod say
    *("STEPS_SOCKET", "STEPS_DIR", "POD_GROUP_UID"),
    # worker and writer
    *("SLOT", "GROUP", "MODEL_PATH", "COMMIT_INTERVAL_S", "CHECKPOINT_S", "HEALTH_INTERVAL_S"),
    *("BATCH_ROWS", "BATCH_S", "ROLL", "FINDINGS_PER_10K_GPU_DAYS"),
    # alerts
    *("PAGERDUTY_ROUTING_KEY", "PAGERDUTY_ROUTING_KEY_HARDWARE", "PAGERDUTY_ROUTING_KEY_NETWORK"),
    *("PAGERDUTY_ROUTING_KEY_FACILITIES", "PAGERDUTY_ROUTING_KEY_JOB_OWNER", "PAGERDUTY_ROUTING_KEY_OPERATIONS"),
    *("PAGERDUTY_ROUTING_KEYS_BEFORE", "PAGERDUTY_URL", "PAGERDUTY_CA", "PAGERDUTY_TIMEOUT_S"),
    *("RUNBOOK_URL", "ALERTS_LEAST", "ALERTS_CA", "ALERTS_TIMEOUT_S", "WEBHOOK_URL", "WEBHOOK_SECRET"),
    *("WEBHOOK_TEMPLATE", "ALERTMANAGER_URL", "ALERTMANAGER_USER", "ALERTMANAGER_PASSWORD"),
    *("SLACK_TOKEN", "SLACK_CHANNEL", "SLACK_URL"),
    # demo and simulate
    *("RACKS", "TRAYS", "JOB_SIZE", "SEED", "SPEED", "FAULT", "TARGET", "SEVERITY", "ONSET_S", "DURATION_S"),
    *("STEP_S", "RAS", "TICKS", "START_MS"),
)

OTHERS = ("TEST_", "REQUIRE_", "UPDATE_")
"""Begin the names of variables that only the tests read."""


def known() -> frozenset[str]:
    """The names without their prefix; the agent's settings are many, and say theirs themselves."""
    return frozenset(KNOWN) | {field.name.upper() for field in msgspec.structs.fields(AgentSettings)}


def warn_of_unknown(environment: MutableMapping[str, str], say: Callable[[str], object]) -> None:
    """Name each LOCKSTEP_* variable that nothing reads, with the known one nearest to it.

    It is taken out of `environment`, so that the processes started from here do not say it again.
    """
    names = known()
    for variable in sorted(variable for variable in environment if variable.startswith(PREFIX)):
        name = variable.removeprefix(PREFIX)
        if name in names or name.startswith(OTHERS):
            continue
        say(f"{variable} is no setting of Lockstep and is ignored{_meant(name, names, PREFIX)}")
        del environment[variable]


def from_file(path: str) -> dict[str, str]:
    """The variables that a TOML file gives: `broker = "kafka-1:9092"` is LOCKSTEP_BROKER. One file may serve all
    processes of a machine, so it may name any process's settings, and none that nothing reads.

    Raises UserError with the file, and the line or key, that cannot be meant. Values are judged by who uses them.
    """
    try:
        told = tomllib.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise UserError(f"--config {path}: {error.strerror}") from None
    except RecursionError:
        raise UserError(f"--config {path}: it is nested too deep") from None
    except ValueError as error:  # no TOML, no UTF-8, or a number of thousands of digits
        raise UserError(f'--config {path}: {error}; write lines like broker = "kafka-1:9092"') from None
    names = known() - {"CONFIG"}
    for key, value in told.items():
        if key.upper() not in names:
            raise UserError(f"--config {path}: no setting {key}{_meant(key.upper(), names).lower()}")
        if not isinstance(value, str | int | float) or (isinstance(value, int) and value.bit_length() > 64):
            raise UserError(f"--config {path}: {key} must be a text, a number, true or false")
        if "\0" in str(value):
            raise UserError(f"--config {path}: {key} has a zero character in it")
    return {
        PREFIX + key.upper(): str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in told.items()
    }


def _meant(name: str, names: Iterable[str], prefix: str = "") -> str:
    near = get_close_matches(name, list(names), 1)
    return f"; did you mean {prefix}{near[0]}?" if near else ""
