from datetime import UTC, datetime, timedelta

import pytest
from burstwatch.core.assess import Assessment, Evidence, assess
from burstwatch.core.policy import Policy
from burstwatch.core.samples import Series
from burstwatch.core.volume import Volume

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def at(clock: str) -> float:
    """Seconds since the epoch of a time on the day of the tests."""
    hour, minute, *second = (int(part) for part in clock.split(":"))
    return NOON.replace(hour=hour, minute=minute, second=second[0] if second else 0).timestamp()


def a_volume(size_gib: int = 100, **changes) -> Volume:
    facts = {
        "volume_id": "vol-0a1",
        "volume_type": "gp2",
        "size_gib": size_gib,
        "created_at": NOON - timedelta(days=30),
        "attached": True,
        "attached_at": NOON - timedelta(days=30),
        "instance_id": "i-0a1",
    }
    return Volume(**(facts | changes))


def balances(*values: float, newest_starts_at: str = "11:58") -> Series:
    """One-minute balances without gaps, oldest first, ending with the minute that starts as given."""
    newest = int(at(newest_starts_at))
    first = newest - 60 * (len(values) - 1)
    return Series(tuple(first + 60 * index for index in range(len(values))), tuple(values))


def an_assessment(
    balance: Series | None,
    *,
    volume: Volume | None = None,
    now: str = "12:00",
    policy: Policy | None = None,
    **evidence,
) -> Assessment:
    return assess(
        volume or a_volume(),
        Evidence(balance=balance, **evidence),
        now_s=at(now),
        telemetry=(policy or Policy()).telemetry,
    )


@pytest.fixture
def policy() -> Policy:
    return Policy()
