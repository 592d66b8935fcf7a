"""A limit between a process and its storage, and which of several applies now and next."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf
from typing import Final


class LimitKind(StrEnum):
    """Public: ``kind`` in the document."""

    INSTANCE_IO_CREDITS = "instance-io-credits"
    INSTANCE_THROUGHPUT_CREDITS = "instance-throughput-credits"
    CLASS_IO_CREDITS = "class-io-credits"
    CLASS_THROUGHPUT_CREDITS = "class-throughput-credits"
    VOLUME_CREDITS = "volume-credits"
    STORAGE_CREDITS = "storage-credits"
    INSTANCE_IOPS = "instance-iops"
    INSTANCE_THROUGHPUT = "instance-throughput"
    CLASS_IOPS = "class-iops"
    CLASS_THROUGHPUT = "class-throughput"
    VOLUME_IOPS = "volume-iops"
    VOLUME_THROUGHPUT = "volume-throughput"
    STORAGE_IOPS = "storage-iops"
    STORAGE_THROUGHPUT = "storage-throughput"
    FILE_SYSTEM_CREDITS = "file-system-credits"
    FILE_SYSTEM_THROUGHPUT = "file-system-throughput"
    FILE_SYSTEM_IO = "file-system-io"
    HOST = "host"

    @property
    def is_credits(self) -> bool:
        return self.value.endswith("credits")

    @property
    def is_of_volume(self) -> bool:
        return self.value.startswith("volume") or self is LimitKind.HOST

    @property
    def owner(self) -> str:
        """``instance``, ``volume``, ``file system``, and of a database ``class`` or ``storage``; ``host``."""
        owner = self.value.partition("-")[0]
        return "file system" if owner == "file" else owner


class LimitState(StrEnum):
    """Public: whether a limit applies. The most important first."""

    NOW = "now"
    NEXT = "next"
    UNKNOWN = "unknown"
    NO = "no"
    NEVER = "never"


_STATE_ORDER: Final = tuple(LimitState)


_KIND_ORDER: Final = tuple(LimitKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One limit, in ``unit`` (IOPS, MiB/s, or % of the I/O of a file system), and how near the load is to it.

    Of credits, ``limit`` is the baseline, which applies once they are used up. ``balance_pct`` and its age
    are those of CloudWatch's newest datapoint; if that is at the exhausted level, it ``is_empty``. Both times
    are in seconds from now; ``time_to_empty_s`` is None if the credits are not draining. ``use`` is the
    highest load of the newest five minutes. Each is None if it is not known. ``evidence`` are sentences
    without their full stops.
    """

    kind: LimitKind
    resource_id: str
    state: LimitState
    unit: str = ""
    limit: float | None = None
    use: float | None = None
    credits: str = ""
    balance_pct: float | None = None
    is_empty: bool = False
    datapoint_age_s: float | None = None
    time_to_empty_s: float | None = None
    soonest_empty_s: float | None = None
    evidence: tuple[str, ...] = ()

    @property
    def headroom(self) -> float | None:
        """What is left of the limit; 0 above it."""
        return None if self.limit is None or self.use is None else max(0.0, self.limit - self.use)

    @property
    def use_share(self) -> float | None:
        """The used share of the limit, from 0 on."""
        return None if not self.limit or self.use is None else self.use / self.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Every limit, the most important first; ``now`` are those that apply, ``next_limit`` the next one.

    The next limit is the bucket that is empty first. If none drains and nothing applies, it is the limit that
    the load would reach first if all of it grew by the same factor.
    """

    limits: Sequence[Limit]

    @property
    def now(self) -> list[Limit]:
        return [limit for limit in self.limits if limit.state is LimitState.NOW]

    @property
    def next_limit(self) -> Limit | None:
        return next((limit for limit in self.limits if limit.state is LimitState.NEXT), None)

    @property
    def unknown(self) -> list[Limit]:
        return [limit for limit in self.limits if limit.state is LimitState.UNKNOWN]


def decide(limits: Iterable[Limit]) -> Answer:
    """Name the next limit among these, and put them in order."""
    ordered = list(limits)
    upcoming = _choose_next(ordered)
    marked = [replace(limit, state=LimitState.NEXT) if limit is upcoming else limit for limit in ordered]
    return Answer(limits=sorted(marked, key=_urgency))


def _choose_next(limits: Sequence[Limit]) -> Limit | None:
    open_limits = [limit for limit in limits if limit.state is LimitState.NO]
    draining = [limit for limit in open_limits if limit.time_to_empty_s is not None]
    if draining:
        return min(draining, key=lambda limit: limit.time_to_empty_s or 0.0)
    used = [limit for limit in open_limits if not limit.kind.is_credits and limit.use_share]
    if not used or any(limit.state is LimitState.NOW for limit in limits):
        return None
    return max(used, key=lambda limit: limit.use_share or 0.0)


def _urgency(limit: Limit) -> tuple[int, int, float, float, str]:
    time_to_empty_s = inf if limit.time_to_empty_s is None else limit.time_to_empty_s
    return (
        _STATE_ORDER.index(limit.state),
        _KIND_ORDER.index(limit.kind) if limit.state is LimitState.NOW else 0,
        time_to_empty_s,
        -(limit.use_share or 0.0),
        f"{_KIND_ORDER.index(limit.kind)}{limit.resource_id}",
    )
