"""A pass under way: what it was started with, what it has found so far, and what went wrong in it."""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field

from burstwatch.core.assessment.assess import Assessment
from burstwatch.core.assessment.host_stall import Stall
from burstwatch.core.assessment.resource import Resource
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ebs.instance_bottleneck import InstanceLimits
from burstwatch.core.flips.outcome import Outcome
from burstwatch.core.ledger.flip_state import Hold
from burstwatch.core.ledger.ledger import Change, States
from burstwatch.core.policy.bucket_policy import BucketPolicies
from burstwatch.core.policy.policy import Mode, Policy
from burstwatch.core.policy.volume_tags import VolumeSettings, read_tags
from burstwatch.core.policy.windows import WindowState
from burstwatch.core.text import format_count
from burstwatch.core.watch.decision import Decision, TickContext
from burstwatch.core.watch.window_status import WindowSchedule
from burstwatch.engine.collector import Collector
from burstwatch.engine.services import Services


@dataclass(slots=True)
class WatchPass:
    """A pass under way: what it found so far."""

    services: Services
    context: TickContext
    collector: Collector
    states: States
    window_schedule: WindowSchedule
    holds: Sequence[Hold]
    decisions: list[Decision] = field(default_factory=list)
    in_window: dict[str, WindowState] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    dropped: list[Change] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    stalls: Mapping[str, Stall] = field(default_factory=dict)
    instances: dict[str, InstanceLimits] = field(default_factory=dict)
    """What the instances of volumes in trouble allow, by volume id, if instances are watched."""
    internal_errors: list[str] = field(default_factory=list)
    fleet_size: int | None = None
    is_read_only: bool = False
    is_incomplete: bool = False
    """Whether something was left to the next pass: the ticks of this one are not completed."""
    keeps_samples: bool = False
    leaves_flips: bool = False
    """Whether a flip that is wanted is left to the next tick, as this process may not request it."""
    explains_drains: bool = True
    """Whether what drained a volume is read for its alert; a pass that sends none spends nothing on it."""
    policies: BucketPolicies = field(init=False)
    _volume_settings: dict[str, VolumeSettings] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.policies = BucketPolicies(self.services.policy)

    @property
    def known_windows(self) -> frozenset[str]:
        return (
            frozenset(w.name for w in self.services.policy.windows)
            | self.window_schedule.manual_starts.keys()
        )

    @property
    def known_ids(self) -> AbstractSet[str]:
        """The keys of everything that the ledger remembers, readable or not."""
        return self.states.keys() | self.states.unreadable.keys()

    def shows_evidence(self, assessment: Assessment, level: Level) -> bool:
        """Whether more than the balance is shown: an alert about this level is due, or a person asked."""
        state = self.states.get(assessment.subject)
        if not self.explains_drains:
            return True
        if self.settings_of(assessment.resource).mode is Mode.OBSERVE:
            return False
        if state is None:
            return True
        alerts = state.alerts
        elapsed_s = self.context.now_s - (alerts.level_at_s or 0)
        is_reminder_due = elapsed_s >= self.policy_of(assessment).alerts.remind_every.total_seconds()
        return alerts.open_level is not level or alerts.is_gap_open or is_reminder_due

    def policy_of(self, assessment: Assessment) -> Policy:
        """The policy with the thresholds of the bucket that was assessed."""
        return self.policies.of(assessment.kind, assessment.bucket)

    def settings_of(self, resource: Resource) -> VolumeSettings:
        """How a resource wants to be treated: its tags are read once in a pass."""
        volume_settings = self._volume_settings.get(resource.resource_id)
        if volume_settings is None:
            volume_settings = read_tags(
                resource.tags, self.services.policy.mode, known_windows=self.known_windows
            )
            self._volume_settings[resource.resource_id] = volume_settings
        return volume_settings


def record_stop(watch_pass: WatchPass, remaining_count: int, noun: str) -> None:
    """Record that the pass was stopped with this many left."""
    watch_pass.is_incomplete = True
    verb = "was" if remaining_count == 1 else "were"
    watch_pass.collector.failures.append(
        f"the pass was stopped: {format_count(remaining_count, noun)} {verb} not evaluated; the next pass"
        " evaluates them"
    )


@contextmanager
def isolate_errors(
    watch_pass: WatchPass, volume_id: str, effect: str = "was not evaluated"
) -> Iterator[None]:
    """Let an internal error about one volume fail the pass without hiding the other volumes."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is, the others must be looked at; it is reported
        record_internal_error(watch_pass, f"{volume_id} {effect}", error)


def record_internal_error(watch_pass: WatchPass, effect: str, error: Exception) -> None:
    """Record an internal error and what it prevented: the pass goes on, and fails in the end."""
    reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    watch_pass.internal_errors.append(f"{effect} because of an internal error: {reason}")
    watch_pass.collector.failures.append(watch_pass.internal_errors[-1])
