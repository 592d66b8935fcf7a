"""The function behind EventBridge: EBS's events and the reports of hosts are hints to look early."""

import time
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any, Final

from burstwatch.core.stall import FRESH_S, Stall, StallError
from burstwatch.core.words import format_duration, printable
from burstwatch.handlers.footing import Footing, account_of, in_time, stand, time_left
from burstwatch.handlers.telling import count_up, tell
from burstwatch.handlers.timing import EventError, Timing
from burstwatch.observability import Field, Instruments, Metric, instrumented
from burstwatch.shell import Shell
from burstwatch.watchdog import hear, look_at

PROBE_SOURCE: Final = "burstwatch.ddprobe"
EBS_SOURCE: Final = "aws.ec2"
_STALL: Final = "stall"
_EBS: Final = "EBS Volume Notification"
_VOLUME: Final = ":volume/"
_LONGEST_SHOWN: Final = 80


@instrumented
def handler(event: Any, context: Any, say: Instruments) -> dict[str, Any]:
    """As EventBridge calls it."""
    return run(event, stand(account_of(context)), say, wall_s=time.time(), time_left_s=time_left(context))


def run(
    event: Any,
    footing: Footing,
    say: Instruments,
    *,
    wall_s: float,
    time_left_s: Callable[[], float] = lambda: inf,
) -> dict[str, Any]:
    """One event: what it says of the volume is asked of AWS, never believed.

    Raises:
        EventError: the event is none of ours.
        PassError: a mistake of ours kept volumes from being judged.
    """
    if not isinstance(event, Mapping):
        raise EventError("the event is no object")
    kind = (event.get("source"), event.get("detail-type"))
    is_of_probe = event.get("source") == PROBE_SOURCE
    if not is_of_probe and kind != (EBS_SOURCE, _EBS):
        raise EventError(f"no event of EBS, and none of ddprobe: {printable(repr(kind), _LONGEST_SHOWN)}")
    timing = Timing.of(event, footing.settings.clock, wall_s)
    shell = in_time(footing.asking(timing.now_s, say), time_left_s)
    if is_of_probe:
        return _hear(event, shell, say, timing)
    volume_ids = _volumes_of(event.get("resources"))
    detail = event.get("detail")
    said = detail.get("event") if isinstance(detail, Mapping) else None
    say.info(f"EBS says {printable(str(said), _LONGEST_SHOWN)}", {Field.VOLUME_ID: ", ".join(volume_ids)})
    return tell(look_at(shell, frozenset(volume_ids), now_s=timing.now_s), say)


def _hear(event: Mapping[str, Any], shell: Shell, say: Instruments, timing: Timing) -> dict[str, Any]:
    """A host's report; one that cannot be used is dropped and counted, as any host may send anything."""
    try:
        stall = _stall_of(event, timing.now_s)
    except StallError as error:
        say.measure(Metric.PROBE_EVENTS_DROPPED, 1)
        say.warn(f"a report of a host that cannot be used: {error}")
        return {"looked_at": 0}
    heard = hear(shell, [stall], now_s=timing.now_s)
    count_up({Metric.PROBE_EVENTS_DROPPED: heard.too_many + len(heard.refused)}, say)
    for why in heard.refused:
        say.warn(f"a report of a host that is not believed: {why}")
    return tell(heard.report, say)


def _stall_of(event: Mapping[str, Any], now_s: float) -> Stall:
    """What the host reports.

    Raises:
        StallError: it is no report, or one that says nothing about now.
    """
    if (said := event.get("detail-type")) != _STALL:
        raise StallError(f"detail-type is {printable(repr(said), _LONGEST_SHOWN)}, not {_STALL!r}")
    detail = event.get("detail")
    stall = Stall.from_detail(detail if isinstance(detail, Mapping) else {}, now_s=now_s)
    if not stall.is_fresh(now_s):
        age, most = format_duration(now_s - stall.seen_at_s), format_duration(FRESH_S)
        raise StallError(f"{stall.volume_id} stood still {age} ago; after {most} that says nothing any more")
    return stall


def _volumes_of(resources: Any) -> Sequence[str]:
    """The ids in the ARNs of volumes that the event names."""
    if not isinstance(resources, Sequence) or isinstance(resources, str):
        return []
    arns = (arn for arn in resources if isinstance(arn, str) and _VOLUME in arn)
    return list(dict.fromkeys(arn.rpartition(_VOLUME)[2] for arn in arns))
