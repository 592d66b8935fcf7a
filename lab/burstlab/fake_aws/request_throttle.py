"""EC2's request limits: a bucket of tokens for each action, shared by everybody in the account and region.

Source of the numbers: the EC2 API reference, "Request throttling for the Amazon EC2 API".
"""

from collections import Counter
from collections.abc import Callable
from threading import Lock
from typing import Final, NamedTuple

from burstlab.fake_aws.protocols import Call


class Limit(NamedTuple):
    """So many calls at once, and so many a second for good."""

    most: float
    per_s: float


READS: Final = Limit(100, 20)
CHANGES: Final = Limit(50, 5)


class Throttle:
    """The buckets of one account in one region; without ``is_on`` every call is let through."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self.is_on = False
        self.refused: Counter[str] = Counter()
        self._now_s = now_s
        self._lock = Lock()
        self._others_per_s: dict[str, float] = {}
        self._tokens: dict[str, tuple[float, float]] = {}

    def add_neighbour(self, action: str, calls_per_s: float) -> None:
        """Somebody else in the account calls this action so often from now on; turns the limits on."""
        if calls_per_s < 0:
            raise ValueError(f"a neighbour makes {calls_per_s} calls a second: give 0 or more")
        with self._lock:
            self._refill(action)
            self._others_per_s[action] = calls_per_s
            self.is_on = True

    def admits(self, call: Call) -> bool:
        """Take a token for this call; False if there is none."""
        if not self.is_on or call.service != "ec2":
            return True
        with self._lock:
            tokens = self._refill(call.action)
            if tokens < 1:
                self.refused[call.action] += 1
                return False
            self._tokens[call.action] = (tokens - 1, self._now_s())
            return True

    def _refill(self, action: str) -> float:
        """The tokens there are now, after what came in and what the neighbour took."""
        limit, now_s = READS if action.startswith("Describe") else CHANGES, self._now_s()
        tokens, at_s = self._tokens.get(action, (limit.most, now_s))
        gained = (limit.per_s - self._others_per_s.get(action, 0.0)) * (now_s - at_s)
        tokens = min(limit.most, max(0.0, tokens + gained))
        self._tokens[action] = (tokens, now_s)
        return tokens
