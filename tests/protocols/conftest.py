from tests.cli.conftest import machine as machine  # noqa: PLC0414 - a fixture
