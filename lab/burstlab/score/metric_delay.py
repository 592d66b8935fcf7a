"""How CloudWatch behaves towards every contender alike: how late a minute appears, and which never do."""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b

from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.minute_history import MINUTE_S
from burstlab.score.ground_truth import START_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """A minute appears ``lag_s`` to ``lag_most_s`` after its end; every ``gap_every_s`` some never do.

    ``gap_s`` is how long such a gap is. Where in each stretch it lies differs by volume.
    """

    lag_s: int = 60
    lag_most_s: int = 120
    gap_every_s: int = 6 * 3600
    gap_s: int = 2 * MINUTE_S

    def settings(self, *, queued: bool) -> LabSettings:
        """The rules of the lab under which every contender plays."""
        return LabSettings(lag_s=self.lag_s, lag_most_s=self.lag_most_s, queued=queued)

    def spoil(self, fleet: LabFleet) -> None:
        """Let the gaps of every volume of a fleet be."""
        if self.gap_every_s:
            for volume in fleet:
                volume.gaps.extend(self.gaps(volume.volume_id, 16 * 24 * 3600))

    def gaps(self, volume_id: str, seconds: int) -> Iterator[tuple[float, float]]:
        """The minutes of a volume that never appear, as spans of seconds since the epoch."""
        for number in range(seconds // self.gap_every_s):
            digest = blake2b(f"{volume_id}/{number}".encode(), digest_size=4).digest()
            room = (self.gap_every_s - self.gap_s) // MINUTE_S
            minute = int.from_bytes(digest, "big") % room
            since_s = START_S + number * self.gap_every_s + minute * MINUTE_S
            yield since_s, since_s + self.gap_s
