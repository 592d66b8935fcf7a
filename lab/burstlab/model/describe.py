"""A volume as EC2 describes it: its configuration, its attachment, and its modifications."""

from datetime import UTC, datetime
from typing import Final, NamedTuple

from burstlab.model.modification import BUCKET_TYPES, Modification, VolumeSpec
from burstlab.model.modification_progress import ModificationProgress
from burstlab.model.volume import DEFAULT_IOPS, Attachment, LabVolume
from burstwatch.core.ebs.volume import baseline_iops

GP3_MIN_MIB_S: Final = 125  # Source: EBS user guide, General Purpose SSD; also what a gp3 has by default
TYPES_WITHOUT_IOPS: Final = ("st1", "sc1", "standard")
"""The types for which EC2 returns no Iops."""


class DescribedConfiguration(NamedTuple):
    """What a modification may change, as DescribeVolumes shows it."""

    volume_type: str
    iops: int
    throughput_mib_s: int | None
    multi_attached: bool


class DescribedVolume:
    """The description of a volume at ``at_s``, the moment up to which it was simulated."""

    def __init__(self, definition: LabVolume, *, volume_id: str, number: int, starts_at_s: int) -> None:
        self.volume_id = volume_id
        self.number = number
        self.at_s = starts_at_s
        self.size_gib = definition.size_gib
        self.volume_type = definition.volume_type
        self.iops = definition.iops
        self.throughput_mib_s = definition.throughput_mib_s
        self.shown_iops = definition.shown_iops
        self.tags = dict(definition.tags)
        self.created_at = definition.created_at or datetime.fromtimestamp(starts_at_s, tz=UTC)
        self.managed_by = definition.managed_by
        self.hidden = definition.hidden
        self.multi_attached = definition.multi_attached
        self.zone = definition.zone
        self.outpost_arn = definition.outpost_arn
        self.lacks_gp3 = definition.lacks_gp3
        self.attachments: list[Attachment] = []
        self.broken_status: str | None = None
        self.changes: list[ModificationProgress] = []
        self._open_change: ModificationProgress | None = None
        self._declared_modifications: list[Modification] = []

    @property
    def status(self) -> str:
        return self.broken_status or ("in-use" if self.attachments else "available")

    @property
    def attachment(self) -> Attachment | None:
        """The attachment; of a volume that several instances share, the first."""
        return self.attachments[0] if self.attachments else None

    @property
    def baseline_iops(self) -> int:
        """What the type sustains: by size for gp2, as provisioned otherwise."""
        if self.volume_type == "gp2":
            return baseline_iops(self.size_gib)
        return self.iops or DEFAULT_IOPS[self.volume_type]

    @property
    def spec(self) -> VolumeSpec:
        """What it is; while it is being modified, what it was (but for a size that has grown already)."""
        return VolumeSpec(
            volume_type=self.volume_type,
            size_gib=self.size_gib,
            iops=self.baseline_iops,
            throughput_mib_s=self._gp3_mib_s(),
            multi_attached=self.multi_attached,
        )

    @property
    def change(self) -> ModificationProgress | None:
        """The modification in progress."""
        return self._open_change

    @property
    def modification(self) -> Modification | None:
        """The most recent modification."""
        if self._declared_modifications and self._open_change is None:
            return self._declared_modifications[-1]
        return self.changes[-1].describe_at(self.at_s) if self.changes else None

    @property
    def modifications(self) -> list[Modification]:
        """All of them, oldest first."""
        return [*(change.describe_at(self.at_s) for change in self.changes), *self._declared_modifications]

    def describe_configuration(self) -> DescribedConfiguration:
        """The configuration that DescribeVolumes shows."""
        change = self._open_change
        if change is not None and change.has_reached(change.settings.target_shown_from, self.at_s):
            target = change.target
            return DescribedConfiguration(
                target.volume_type, target.iops, target.throughput_mib_s, target.multi_attached
            )
        rate = self.shown_iops or self.baseline_iops
        return DescribedConfiguration(self.volume_type, rate, self._gp3_mib_s(), self.multi_attached)

    def counted_starts(self, *, with_failed: bool) -> list[datetime]:
        """When the modifications began that a rate rule counts, oldest first."""
        counted = (change for change in self.changes if change.counts_towards_rate)
        return [
            *(
                change.started_at
                for change in counted
                if with_failed or change.state_at(self.at_s) != "failed"
            ),
            *(declared.started_at for declared in self._declared_modifications),
        ]

    def declare(self, modification: Modification | None) -> None:
        """Show this modification, which changes nothing; None takes it back."""
        self._declared_modifications = [] if modification is None else [modification]

    def begin_change(self, change: ModificationProgress) -> None:
        """Begin a modification; the volume must be simulated up to its start."""
        self._declared_modifications = []
        self.changes.append(change)
        self._open_change = change
        self._apply_change()

    def end_change(self, *, will_fail: bool) -> None:
        """Let the modification in progress end at this moment."""
        assert self._open_change is not None
        self._open_change = self.changes[-1] = self._open_change.end_at(self.at_s, will_fail=will_fail)
        self._apply_change()

    def reports_balance(self) -> bool:
        """Whether CloudWatch has a BurstBalance of it."""
        change = self._open_change
        if change is not None and change.has_reached(change.settings.balance_switches, self.at_s):
            return change.target.has_bucket
        return self.volume_type in BUCKET_TYPES

    def _apply_change(self) -> None:
        """Apply the effect of the modification so far."""
        change = self._open_change
        if change is None:
            return
        if change.has_grown(self.at_s):
            self.size_gib = change.target.size_gib
        if self.at_s >= change.ends_at_s:
            self._open_change = None
            if not change.will_fail:
                self._apply_target(change.target)

    def _apply_target(self, target: VolumeSpec) -> None:
        self.volume_type = target.volume_type
        self.iops = None if target.is_gp2 else target.iops
        self.throughput_mib_s = target.throughput_mib_s
        self.multi_attached = target.multi_attached
        self.shown_iops = None

    def _gp3_mib_s(self) -> int | None:
        return (self.throughput_mib_s or GP3_MIN_MIB_S) if self.volume_type == "gp3" else None
