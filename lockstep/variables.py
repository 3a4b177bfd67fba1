"""The environment variables that Lockstep reads, and a warning for one that it does not.

A misspelt LOCKSTEP_BROKR would be ignored without a word, and the process would talk to the wrong broker.
"""

from collections.abc import Callable, MutableMapping
from difflib import get_close_matches

import msgspec

from collectors.settings import AgentSettings
from runtime.settings import PREFIX

# The settings' fields but the agent's (a test compares them with the classes), and what is read by itself.
KNOWN: tuple[str, ...] = (
    # every process
    *("BROKER", "BROKER_EMBEDDED", "BROKER_TLS", "BROKER_TLS_CA", "BROKER_TLS_CERT", "BROKER_TLS_KEY"),
    *("BROKER_USER", "BROKER_PASSWORD", "BROKER_SASL_MECHANISM", "CLUSTER", "PROMETHEUS_PORT"),
    # whoever asks ClickHouse, and the embedded engine
    *("CLICKHOUSE_HOST", "CLICKHOUSE_PORT", "CLICKHOUSE_USER", "CLICKHOUSE_PASSWORD", "CLICKHOUSE_DATABASE"),
    *("CLICKHOUSE_SECURE", "DATA", "ENGINE_DATA", "ENGINE_MEMORY_MB", "ENGINE_QUERY_MEMORY_MB"),
    *("ENGINE_QUERY_TIME_S", "ENGINE_THREADS"),
    # what a training process and its pod say
    *("STEPS_SOCKET", "STEPS_DIR", "POD_GROUP_UID"),
    # worker and writer
    *("SLOT", "GROUP", "MODEL_PATH", "COMMIT_INTERVAL_S", "CHECKPOINT_S", "HEALTH_INTERVAL_S"),
    *("BATCH_ROWS", "BATCH_S"),
    # alerts
    *("PAGERDUTY_ROUTING_KEY", "PAGERDUTY_URL", "PAGERDUTY_CA", "PAGERDUTY_TIMEOUT_S"),
    # demo and simulate
    *("RACKS", "TRAYS", "JOB_SIZE", "SEED", "SPEED", "FAULT", "TARGET", "SEVERITY", "ONSET_S", "DURATION_S"),
    *("STEP_S", "TICKS", "START_MS"),
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
        near = get_close_matches(name, names, 1)
        meant = f"; did you mean {PREFIX}{near[0]}?" if near else ""
        say(f"{variable} is no setting of Lockstep and is ignored{meant}")
        del environment[variable]
