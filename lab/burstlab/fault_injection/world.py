"""The world of the story: volumes, what is sent to AWS and to people, and how it stands in the end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from burstlab.fault_injection.effects import Effect, Strike, Wire
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.volume import LabVolume
from burstwatch.core.ledger.ledger import Ledger
from burstwatch.engine.collector import Gathering
from burstwatch.engine.services import Shell

BEGINS_AT: Final = datetime(2026, 11, 20, 16, 0, tzinfo=UTC)
SINCE: Final = BEGINS_AT - timedelta(days=30)

SICK: Final = "vol-0000000000000000a"
TWIN: Final = "vol-0000000000000000b"
HELD: Final = "vol-0000000000000000c"
CALM: Final = "vol-0000000000000000d"
UNTAGGED: Final = "vol-0000000000000000e"
HOST: Final = "i-00000000000000005"

NAMES: Final[Mapping[str, str]] = {
    SICK: "ci-7, drains, is moved to io1 and returns",
    TWIN: "ci-8, drains in the same minute, is moved to gp3 and stays",
    HELD: "etcd-1, drains while a person holds it, then moved to gp3",
    CALM: "wiki, may be moved and has no need",
    UNTAGGED: "db-3, runs dry, and carries no opt-in tag",
}
IN_SCOPE: Final = frozenset({SICK, TWIN, HELD})

POLICY: Final = """\
version: 1
cadence: {focus_at_most: 1m}
levels: {refilling_for: 3m}
flip: {act_at: critical, cooldown: 4m}
flip_back: {dwell: 5m, calm_for: 5m}
lead: {least: 2m, reserve: 1m, per_tib: 10m}
"""
"""As shipped but quicker, so that a whole story takes less than half an hour.

A change to gp3, which costs nothing, waits for ``critical`` too: two volumes are to be moved in the same
minute.
"""

_DRY_UNTIL_MIN: Final = 9

_LAB: Final = LabSettings(
    lag_s=60, modifying_s=70, modify_minutes_per_tib=1, modify_spread=0, modify_event_results=("completed",)
)


class Told(NamedTuple):
    """An alert that people got."""

    at_s: int
    alert_id: str
    volume_id: str
    kind: str
    level: str


class Sent(NamedTuple):
    """A ModifyVolume that the watchdog sent, and the intent that the ledger had then, if any."""

    at_s: int
    volume_id: str
    intent_id: str | None
    is_held: bool


class Made(NamedTuple):
    """A modification that AWS accepted."""

    at_s: int
    volume_id: str
    volume_type: str


class Entry(NamedTuple):
    """A line of a volume's history."""

    at_s: int
    volume_id: str
    kind: str
    body: Mapping[str, Any]


class Standing(NamedTuple):
    """How the ledger has a volume at the end."""

    volume_id: str
    level: str
    phase: str | None
    spent: tuple[int, ...]
    is_contested: bool


class Lost(NamedTuple):
    """A moment at which the ledger did not know what a volume was before its flip."""

    at_s: int
    volume_id: str
    is_now: str
    ledger_says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What became of a run, as it is judged; times are seconds since 1970.

    ``dry_from_s`` is when a volume first had no credits left, which the simulation knows and nobody else.
    """

    house: str
    strike: Strike | None
    begins_s: int
    ended_s: int
    struck_at_s: float | None
    deaths: int
    is_at_rest: bool
    effects: Sequence[Effect]
    told: Sequence[Told]
    sent: Sequence[Sent]
    made: Sequence[Made]
    entries: Sequence[Entry]
    standings: Sequence[Standing]
    types: Mapping[str, str]
    lost: Sequence[Lost]
    dry_from_s: Mapping[str, int]
    undelivered: int
    bugs: Sequence[str]
    failed_passes: int
    took_s: float


class SimulatedShell(Shell):
    """The product's own shell, but its passes take as long as the simulated clock says."""

    __slots__ = ()

    def gathering(self, now_s: float) -> Gathering:
        return replace(super().gathering(now_s), monotonic=self.clock)


@dataclass(slots=True)
class World:
    """Volumes and people; what happens to them is kept."""

    fleet: LabFleet
    wire: Wire
    told: list[Told] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    lost: list[Lost] = field(default_factory=list)
    bugs: list[str] = field(default_factory=list)
    relieved: set[str] = field(default_factory=set)
    failed_passes: int = 0
    ledger: Ledger | None = None

    @classmethod
    def begin(cls, strike: Strike | None = None, *, records: bool = False) -> "World":
        """Five volumes on one host, which have been living for ten minutes."""
        fleet = LabFleet(LabClock.by_hand(BEGINS_AT - timedelta(minutes=1)), _LAB)
        for volume in _volumes():
            fleet.add(volume)
        fleet.set_load(UNTAGGED, "idle", BEGINS_AT + timedelta(minutes=_DRY_UNTIL_MIN))
        return cls(fleet, Wire(fleet.clock, strike, records=records))

    @property
    def now_s(self) -> int:
        return self.fleet.now_s()

    def hear(self, document: Mapping[str, Any]) -> None:
        """People get an alert."""
        volume_id = document["volume"].get("volume_id", "")
        self.told.append(
            Told(self.now_s, document["alert_id"], volume_id, document["kind"], document["level"])
        )

    def note_send(self, volume_id: str) -> None:
        """The watchdog sends a ModifyVolume."""
        assert self.ledger is not None
        state = self.ledger.states_of({volume_id}).get(volume_id)
        flip = state.flip if state else None
        holds = [hold for hold in self.ledger.holds(self.now_s) if hold.holds(volume_id, self.now_s)]
        intent_id = flip.intent_id if flip is not None and flip.is_under_way else None
        self.sent.append(Sent(self.now_s, volume_id, intent_id, bool(holds)))

    def check_originals(self) -> None:
        """Whether the ledger knows what every volume was that is away from it, or on its way."""
        assert self.ledger is not None
        states = self.ledger.states()
        for volume in self.fleet:
            self.fleet.find(volume.volume_id)
            if volume.volume_type == "gp2" and volume.change is None:
                continue
            state = states.get(volume.volume_id)
            flip = (state.flip or state.lost) if state else None
            says = "nothing" if flip is None else f"{flip.original}, {flip.size_gib} GiB"
            if flip is None or str(flip.original.volume_type) != "gp2" or flip.size_gib != volume.size_gib:
                self.lost.append(Lost(self.now_s, volume.volume_id, volume.volume_type, says))


def _volumes() -> Sequence[LabVolume]:
    """As they are ten minutes before the story.

    At 2,500 IOPS 2.4 % of 100 GiB's bucket go a minute, so at its begin 45 % are left, which last 18 minutes:
    a warning first, critical some minutes later. Of 900 GiB's at 3,000 IOPS 0.33 % go a minute:
    2.4 % are left and last seven minutes; at rest 3 % come back a minute.
    """
    auto = {"burstwatch:mode": "auto"}
    return [
        _volume(SICK, "steady:2500", 69.5, auto | {"burstwatch:target": "io1"}),
        _volume(TWIN, "steady:2500", 69.5, auto),
        _volume(HELD, "steady:2500", 69.5, auto),
        _volume(CALM, "idle", 100, auto),
        _volume(UNTAGGED, "steady:3000", 5.73, {}, size_gib=900),
    ]


def _volume(
    volume_id: str, load: str, balance_pct: float, tags: Mapping[str, str], *, size_gib: int = 100
) -> LabVolume:
    return LabVolume(
        volume_id=volume_id,
        size_gib=size_gib,
        load=load,
        balance_pct=balance_pct,
        starts_at=BEGINS_AT - timedelta(minutes=10),
        instance_id=HOST,
        tags={"Name": NAMES[volume_id].split(",", 1)[0], **tags},
    )
