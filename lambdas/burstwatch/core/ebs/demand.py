"""What a volume served recently, which is the least that its load may need."""

from dataclasses import dataclass
from math import isfinite
from typing import Final

THROTTLED_SHARE: Final = 0.9
"""A throttled volume that served this share of its ceiling was held back by that ceiling.

AWS designs gp2 to deliver at least 90 % of its performance, 99 % of the time (EBS user guide, "Amazon
EBS-optimized instances"). Only gp3 asks for this: it serves 3,000 IOPS anyway, and more are bought only for a
demand that was observed.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The highest rates that were served recently; None if they were not measured.

    ``peak_iops`` is that of the busiest of the last five minutes. ``is_throttled`` says that the volume was
    at its ceiling at the time, or at its baseline because it was exhausted. ``is_future`` says that the
    demand that matters is still to come, as before a window.

    Raises:
        ValueError: a peak is negative or not finite.
    """

    peak_iops: float | None = None
    peak_throughput_mib_s: float | None = None
    is_throttled: bool = False
    is_future: bool = False

    def __post_init__(self) -> None:
        for peak in (self.peak_iops, self.peak_throughput_mib_s):
            if peak is not None and not (isfinite(peak) and peak >= 0):
                raise ValueError(f"a peak of {peak} cannot be; give 0 or more, or None if not measured")
