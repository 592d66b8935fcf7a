"""The volumes whose days of metrics a command reads: which are suited, what that costs, and what was read."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from burstctl.cli.output import Unread, print_failures, print_first_lines
from burstctl.context.context import CommandContext
from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.adapters.aws.metric_history import HistoryReader
from burstwatch.core.ebs.instance_bottleneck import InstanceLimits
from burstwatch.core.ebs.metric_history import MetricHistory
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.policy.policy import ModePolicy
from burstwatch.core.policy.volume_tags import read_tags
from burstwatch.core.text import format_usd
from burstwatch.core.watch.api_cost import USD_PER_METRIC
from burstwatch.engine.collector import Collector
from burstwatch.wiring.bootstrap import WORKERS, build_client
from burstwatch.wiring.settings import SettingsError

if TYPE_CHECKING:
    from documents.shared import VolumeSelectionDocument

METRIC_LAG_S: Final = 120  # the last two minutes may be incomplete; AWS documents no delay


@dataclass(slots=True, kw_only=True)
class VolumeSelection:
    """The volumes to read, and why the others are not: reasons by volume ID, or only IDs.

    ``unsuited`` are volumes of types for which there is no answer, ``ignored`` those with the ignore tag, and
    ``unread`` those whose history could not be read.
    """

    volumes: list[Volume] = field(default_factory=list)
    unsuited: dict[str, str] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)
    missing: Sequence[str] = ()
    unread: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    metrics_requested: int = 0
    api_calls: Mapping[str, int] = field(default_factory=dict)

    @property
    def has_failed(self) -> bool:
        return bool(self.failures or self.missing or self.unread)

    @property
    def read_cost_usd(self) -> float:
        """What the reads cost."""
        return self.metrics_requested * USD_PER_METRIC

    def count_calls(self, calls: CallCounter) -> None:
        """Note what was called so far."""
        self.metrics_requested, self.api_calls = calls.metrics_requested, calls.calls

    def to_document(self) -> "VolumeSelectionDocument":
        """As JSON."""
        return {
            "unsuited": self.unsuited,
            "ignored": self.ignored,
            "missing": list(self.missing),
            "unread": self.unread,
            "failures": self.failures,
            "cost": {"metrics_requested": self.metrics_requested, "usd": round(self.read_cost_usd, 6)},
            "api_calls": dict(self.api_calls),
        }

    def print_unused(self, unsuited_label: str) -> None:
        """Print the volumes that are left out on purpose."""
        print_first_lines("ignored by tag", self.ignored)
        print_first_lines(unsuited_label, (f"{name}: {reason}" for name, reason in self.unsuited.items()))

    def print_failures(self, region: str) -> None:
        """Print what could not be read."""
        unread = [Unread(volume_id, volume_id, reason) for volume_id, reason in self.unread.items()]
        print_failures(self.failures, unread=unread, missing=self.missing, region=region)


def select_volumes(
    collector: Collector,
    volume_ids: Collection[str],
    mode: ModePolicy,
    unsuited_reason: Callable[[Volume], str | None],
    *,
    more_ids: Collection[str] = (),
) -> VolumeSelection:
    """The named volumes, whatever their tags say; if none is named, all gp2 volumes and ``more_ids``."""
    selection = VolumeSelection(failures=collector.failures)
    if volume_ids:
        volumes, selection.missing = collector.volumes_by_id(volume_ids)
    else:
        volumes, _ = collector.fleet()
        other_ids = set(more_ids) - {volume.volume_id for volume in volumes}
        volumes += collector.volumes_by_id(other_ids)[0] if other_ids else []
    for volume in volumes:
        if not volume_ids and read_tags(volume.tags, mode).is_ignored:
            selection.ignored.append(volume.volume_id)
        elif (reason := unsuited_reason(volume)) is not None:
            selection.unsuited[volume.volume_id] = reason
        else:
            selection.volumes.append(volume)
    return selection


def check_read_cost(volumes: int, metrics: int, *, max_usd: float, assumes_yes: bool) -> float:
    """The cost of reading ``metrics`` metrics of each of ``volumes`` volumes, in dollars.

    Raises:
        SettingsError: they are more than ``max_usd``, and the operator has not agreed to that.
    """
    usd = volumes * metrics * USD_PER_METRIC
    if usd > max_usd and not assumes_yes:
        raise SettingsError(
            f"reading the history of {volumes:,} volumes costs {format_usd(usd)}, more than"
            f" {format_usd(max_usd)}: CloudWatch bills {metrics} metrics for each",
            fix="add --yes to read it, or name some of the volumes; a shorter --last costs the same",
        )
    return usd


def read_histories(
    context: CommandContext,
    selection: VolumeSelection,
    start_s: int,
    end_s: int,
    *,
    period_s: int,
    metrics: Sequence[str],
    add: Callable[[Volume, MetricHistory], None],
) -> None:
    """Read the histories and ``add`` each at once: all datapoints of a fleet are never held."""
    by_id = {volume.volume_id: volume for volume in selection.volumes}
    client = build_client(context.session, "cloudwatch", context.services.calls)
    reader = HistoryReader(client, period_s=period_s, workers=WORKERS, metrics=metrics)
    done = 0
    for batch in reader.read(list(by_id), start_s, end_s):
        for volume_id, history in batch.histories.items():
            add(by_id[volume_id], history)
        selection.unread |= {volume_id: failure.problem for volume_id, failure in batch.unread.items()}
        messages = (f"cloudwatch:GetMetricData returned: {message}" for message in batch.messages)
        selection.failures += [text for text in messages if text not in selection.failures]
        done += len(batch.histories) + len(batch.unread)
        context.progress.report(done, len(by_id))


def read_instance_limits(
    context: CommandContext, volumes: Sequence[Volume], failures: list[str]
) -> Mapping[str, InstanceLimits]:
    """What each instance allows its volumes; what is not known limits nothing, and is said."""
    ec2 = context.services.ec2
    instances = ec2.instance_states(sorted({volume.instance_id for volume in volumes if volume.instance_id}))
    ebs = ec2.ebs_limits(sorted(set(instances.types.values())))
    failures += dict.fromkeys(
        failure.problem for failure in (*instances.unread.values(), *ebs.unread.values())
    )
    return {
        instance_id: ebs.limits[instance_type]
        for instance_id, instance_type in instances.types.items()
        if instance_type in ebs.limits
    }
