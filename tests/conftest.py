"""Fixtures of all tests live in tests/support, one file a provider."""

from hypothesis import HealthCheck, settings

pytest_plugins = ["clickhouse_provider", "kafka_provider"]

# Seconds are no property: on a busy machine nothing is wrong.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
