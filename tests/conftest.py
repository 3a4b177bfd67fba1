"""Fixtures of all tests live in tests/support, one file a provider."""

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["clickhouse_provider", "kafka_provider"]

# Seconds are no property: on a busy machine nothing is wrong. The same examples everywhere: what passes here passes
# there. New ones are looked for by hand (`--hypothesis-profile=default`) and by `bench.fuzz`.
settings.register_profile("any machine", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests first: no process is left alone with the longest one at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
