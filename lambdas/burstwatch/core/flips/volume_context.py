"""What affects a bucket besides its balance."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from burstwatch.core.assessment.host_stall import Stall
from burstwatch.core.ebs.instance_bottleneck import InstanceLimits
from burstwatch.core.ebs.modification import Modification
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.flips.recommendation import Recommendation
from burstwatch.core.flips.reconciliation.observed_state import ObservedState
from burstwatch.core.ledger.flip_state import Hold
from burstwatch.core.policy.windows import WindowState


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeContext:
    """What affects a bucket besides its balance; most of it exists for volumes only.

    ``observed`` is what AWS shows of a flipped volume. ``modification_in_progress`` is its modification that
    has not ended, whether the watchdog or a person requested it. ``windows`` is None if it belongs to none.
    ``silencing_hold`` is a hold on a resource that is never changed: it stops the alerts. ``stall`` is what
    its host reports. ``unavailable`` has the types that do not exist where it is, each with
    the reason. ``instance`` is what the instance of a volume allows, None if it was not read. ``advice`` is
    what people can do about a resource that the watchdog never changes. ``witness`` is what else its alert
    shows, as JSON. A volume that is not watched (``is_watched``) is flipped back, and not flipped.
    """

    observed: ObservedState | None = None
    modification_in_progress: Modification | None = None
    windows: WindowState | None = None
    hold: Hold | None = None
    silencing_hold: Hold | None = None
    stall: Stall | None = None
    unavailable: Mapping[VolumeType, str] = field(default_factory=dict)
    instance: InstanceLimits | None = None
    advice: Recommendation | None = None
    witness: Mapping[str, Any] = field(default_factory=dict)
    is_watched: bool = True
