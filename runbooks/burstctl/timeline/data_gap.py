"""Why a picture has no balance for a while."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from burstwatch.core.assessment.assess import UnknownReason


class DataGapReason(StrEnum):
    """Why there is no balance; ``gap`` is the reason that nothing explains."""

    NOT_CREATED = "not_created"
    NOT_RUNNING = "not_running"
    FLIPPED = "flipped"
    OTHER_TYPE = "other_type"
    NEVER_EMPTIES = "cannot_run_dry"
    DETACHED = "detached"
    INSTANCE_STOPPED = "instance_stopped"
    DETAILED_MONITORING = "detailed_monitoring"
    NO_SUCH_BUCKET = "no_such_bucket"
    GAP = "gap"


GAP_LABELS: Final[Mapping[DataGapReason, tuple[str, ...]]] = {
    DataGapReason.NOT_CREATED: ("not created yet", "none yet"),
    DataGapReason.NOT_RUNNING: ("not running", "stopped"),
    DataGapReason.FLIPPED: ("flipped: no balance", "flipped"),
    DataGapReason.OTHER_TYPE: ("no burst credits", "none"),
    DataGapReason.NEVER_EMPTIES: ("never runs out", "never empty"),
    DataGapReason.DETACHED: ("detached",),
    DataGapReason.INSTANCE_STOPPED: ("instance is stopped", "stopped"),
    DataGapReason.DETAILED_MONITORING: ("detailed monitoring",),
    DataGapReason.NO_SUCH_BUCKET: ("no burst bucket", "none"),
    DataGapReason.GAP: ("no datapoint", "gap"),
}
"""Each reason in words, and shorter for narrow places."""

CURRENT_REASONS: Final = {
    UnknownReason.DETACHED: DataGapReason.DETACHED,
    UnknownReason.INSTANCE_STOPPED: DataGapReason.INSTANCE_STOPPED,
    UnknownReason.NOT_BURSTABLE_TYPE: DataGapReason.OTHER_TYPE,
    UnknownReason.NEVER_EMPTY: DataGapReason.NEVER_EMPTIES,
    UnknownReason.DETAILED_MONITORING: DataGapReason.DETAILED_MONITORING,
    UnknownReason.NO_SUCH_BUCKET: DataGapReason.NO_SUCH_BUCKET,
}
"""What an assessment says about a balance that is missing now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataGap:
    """A stretch without any balance; never to be drawn as if there were one."""

    start_s: float
    end_s: float
    reason: DataGapReason
