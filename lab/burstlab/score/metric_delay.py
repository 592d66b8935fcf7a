"""How CloudWatch behaves towards every contender alike: how late a minute appears, and which never do."""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b

from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.minute_history import MINUTE_S
from burstlab.score.ground_truth import START_S


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricDelay:
    """A minute appears ``lag_s`` to ``max_lag_s`` after its end; every ``gap_interval_s`` some never do.

    ``gap_duration_s`` is the length of such a gap; its place in each interval differs by volume.
    """

    lag_s: int = 60
    max_lag_s: int = 120
    gap_interval_s: int = 6 * 3600
    gap_duration_s: int = 2 * MINUTE_S

    def settings(self, *, queued: bool) -> LabSettings:
        """The rules of the lab under which every contender plays."""
        return LabSettings(lag_s=self.lag_s, lag_most_s=self.max_lag_s, queued=queued)

    def add_gaps(self, fleet: LabFleet) -> None:
        """Let the gaps of every volume of a fleet be."""
        if self.gap_interval_s:
            for volume in fleet:
                volume.gaps.extend(self.gaps(volume.volume_id, 16 * 24 * 3600))

    def gaps(self, volume_id: str, seconds: int) -> Iterator[tuple[float, float]]:
        """The minutes of a volume that never appear, as spans of seconds since the epoch."""
        for number in range(seconds // self.gap_interval_s):
            digest = blake2b(f"{volume_id}/{number}".encode(), digest_size=4).digest()
            max_offset_min = (self.gap_interval_s - self.gap_duration_s) // MINUTE_S
            minute = int.from_bytes(digest, "big") % max_offset_min
            start_s = START_S + number * self.gap_interval_s + minute * MINUTE_S
            yield start_s, start_s + self.gap_duration_s
