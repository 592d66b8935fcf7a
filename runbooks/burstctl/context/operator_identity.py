"""The operator's name, as the ledger records it with their actions."""

import getpass
import os
from typing import Final

from burstwatch.core.ledger.flip_state import EXTERNAL, WATCHDOG
from burstwatch.core.text import sanitise
from burstwatch.wiring.bootstrap import CallerIdentity

# a name is part of one line of the history; 32 is the longest Linux user name
MAX_NAME_LENGTH: Final = 64
_MAX_USER_LENGTH: Final = 32
_RESERVED_NAMES: Final = (WATCHDOG, EXTERNAL)


def name_operator(identity: CallerIdentity | None) -> str:
    """``anna (role/ops)``: the local user, and the AWS identity if it is known."""
    user = sanitise(_user_name(), _MAX_USER_LENGTH)
    if user.lower() in _RESERVED_NAMES:
        user = f"user {user}"
    tail = _arn_tail(identity.arn) if identity else ""
    return sanitise(f"{user} ({tail})" if tail else user, MAX_NAME_LENGTH)


def _user_name() -> str:
    try:
        return getpass.getuser().strip() or "somebody"
    except (OSError, KeyError):  # a user id without a name, as containers have it
        return f"uid {os.getuid()}"


def _arn_tail(arn: str) -> str:
    """``user/anna`` or ``role/ops`` of an ARN; a role's session is left out."""
    resource = arn.rpartition(":")[2]
    kind, _, rest = resource.partition("/")
    if kind == "assumed-role":
        return f"role/{rest.partition('/')[0]}"
    return resource
