from datetime import UTC, datetime, timedelta

import pytest

from burstwatch.core.alerts import Alert
from burstwatch.core.assess import Assessment, Evidence, assess
from burstwatch.core.decide import Decision, Look, decide
from burstwatch.core.ledger import VolumeState
from burstwatch.core.place import Place
from burstwatch.core.policy import Mode, Policy
from burstwatch.core.samples import Series
from burstwatch.core.tags import Wishes
from burstwatch.core.volume import Volume

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write the transcripts of tests/scenarios anew")


def at(clock: str | float) -> float:
    """Seconds since the epoch of a time on the day of the tests; seconds are taken as they are."""
    if not isinstance(clock, str):
        return clock
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
    now: str | float = "12:00",
    policy: Policy | None = None,
    **evidence,
) -> Assessment:
    return assess(
        volume or a_volume(),
        Evidence(balance=balance, **evidence),
        now_s=at(now),
        telemetry=(policy or Policy()).telemetry,
    )


def draining_to(
    end_pct: float, per_minute: float, *, count: int = 61, newest_starts_at: str = "11:58"
) -> Series:
    """Balances that fall by the same amount every minute; they rise where the amount is negative."""
    falling = (end_pct + per_minute * index for index in reversed(range(count)))
    return balances(*falling, newest_starts_at=newest_starts_at)


def a_look(now: str | float = "12:00", *, region: str = "us-east-1") -> Look:
    return Look(now_s=at(now), tick_s=int(at(now)), place=Place(region=region, account="111122223333"))


def a_decision(
    assessment: Assessment,
    state: VolumeState | None = None,
    *,
    now: str | float = "12:00",
    mode: Mode = Mode.PROPOSE,
    policy: Policy | None = None,
) -> Decision:
    return decide(assessment, state, Wishes(mode=mode), policy=policy or Policy(), look=a_look(now))


class Memory:
    """What the ledger would remember of one volume from look to look, and every alert so far."""

    def __init__(self, *, mode: Mode = Mode.PROPOSE, policy: Policy | None = None) -> None:
        self.mode = mode
        self.policy = policy or Policy()
        self.state: VolumeState | None = None
        self.alerts: list[Alert] = []

    def look(self, now: str | float, balance: Series | None, **evidence) -> Decision:
        """Look at the volume and keep what is to be kept."""
        assessment = an_assessment(balance, now=now, policy=self.policy, **evidence)
        decision = a_decision(assessment, self.state, now=now, mode=self.mode, policy=self.policy)
        if decision.change is not None:
            self.state = decision.change.state
        self.alerts += decision.alerts
        return decision


@pytest.fixture
def policy() -> Policy:
    return Policy()
