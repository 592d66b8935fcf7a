"""When the labs of the tests begin, and an instance of theirs."""

from datetime import UTC, datetime

START = datetime(2026, 11, 20, 18, 0, tzinfo=UTC)
INSTANCE = "i-0000000000000000a"
