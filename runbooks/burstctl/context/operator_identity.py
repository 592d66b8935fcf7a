"""The operator's name, as it stands in the ledger behind what they did."""

import getpass
import os
from typing import Final

from burstwatch.core.ledger.flip_state import OTHERS, WATCHDOG
from burstwatch.core.text import printable
from burstwatch.wiring.bootstrap import Identity

LONGEST: Final = 64
_LONGEST_USER: Final = 32
_TAKEN: Final = (WATCHDOG, OTHERS)


def name_operator(identity: Identity | None) -> str:
    """``anna (role/ops)``: the user here, and whom AWS takes them for where that is known."""
    user = printable(_user(), _LONGEST_USER)
    if user.lower() in _TAKEN:
        user = f"user {user}"
    tail = _tail(identity.arn) if identity else ""
    return printable(f"{user} ({tail})" if tail else user, LONGEST)


def _user() -> str:
    try:
        return getpass.getuser().strip() or "somebody"
    except (OSError, KeyError):  # a user id without a name, as containers have it
        return f"uid {os.getuid()}"


def _tail(arn: str) -> str:
    """``user/anna`` or ``role/ops`` of an ARN; a role's session is left out."""
    resource = arn.rpartition(":")[2]
    kind, _, rest = resource.partition("/")
    if kind == "assumed-role":
        return f"role/{rest.partition('/')[0]}"
    return resource
