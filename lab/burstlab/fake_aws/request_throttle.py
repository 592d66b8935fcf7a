"""EC2's request limits: a bucket of tokens for each action, shared by everybody in the account and region.

Source of the numbers: the EC2 API reference, "Request throttling for the Amazon EC2 API".
"""

from collections import Counter
from collections.abc import Callable
from threading import Lock
from typing import Final, NamedTuple

from burstlab.fake_aws.protocols import Call


class RateLimit(NamedTuple):
    """A token bucket: the burst of calls, and the sustained calls per second."""

    max_tokens: float
    refill_per_s: float


READ_LIMIT: Final = RateLimit(100, 20)
MUTATION_LIMIT: Final = RateLimit(50, 5)


class RequestThrottle:
    """The buckets of one account in one region; without ``is_on`` every call is let through."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self.is_on = False
        self.rejected_calls: Counter[str] = Counter()
        self._now_s = now_s
        self._lock = Lock()
        self._neighbour_calls_per_s: dict[str, float] = {}
        self._tokens: dict[str, tuple[float, float]] = {}

    def add_neighbour(self, action: str, calls_per_s: float) -> None:
        """Somebody else in the account calls this action so often from now on; turns the limits on."""
        if calls_per_s < 0:
            raise ValueError(f"a neighbour makes {calls_per_s} calls a second: give 0 or more")
        with self._lock:
            self._refill(action)
            self._neighbour_calls_per_s[action] = calls_per_s
            self.is_on = True

    def try_acquire(self, call: Call) -> bool:
        """Take a token for this call; False if the bucket is empty."""
        if not self.is_on or call.service != "ec2":
            return True
        with self._lock:
            tokens = self._refill(call.action)
            if tokens < 1:
                self.rejected_calls[call.action] += 1
                return False
            self._tokens[call.action] = (tokens - 1, self._now_s())
            return True

    def _refill(self, action: str) -> float:
        """The tokens there are now, after what came in and what the neighbour took."""
        limit, now_s = READ_LIMIT if action.startswith("Describe") else MUTATION_LIMIT, self._now_s()
        tokens, at_s = self._tokens.get(action, (limit.max_tokens, now_s))
        gained = (limit.refill_per_s - self._neighbour_calls_per_s.get(action, 0.0)) * (now_s - at_s)
        tokens = min(limit.max_tokens, max(0.0, tokens + gained))
        self._tokens[action] = (tokens, now_s)
        return tokens
