from burstwatch.adapters.aws.flip_request import FlipRequest
from burstwatch.core.ledger.flip_state import Direction, FlipCause

REQUESTED_AT_S = 1_795_197_635
"""2026-11-20T18:00:35Z"""


def a_request(number=1, **changes):
    facts = {
        "volume_id": f"vol-{number:017x}",
        "direction": Direction.FLIP,
        "cause": FlipCause.DRAINING,
        "because": "dry in 11 min",
        "requested_at_s": REQUESTED_AT_S,
    }
    return FlipRequest(**(facts | changes))
