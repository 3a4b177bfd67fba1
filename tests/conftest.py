"""Fixtures of all tests live in tests/support, one file a provider."""

pytest_plugins = ["clickhouse_provider", "kafka_provider"]
