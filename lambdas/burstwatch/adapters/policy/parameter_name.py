"""Names of the parameters of a deployed policy: apart, so that functions without a policy import no YAML."""

from typing import Final

_PUSHED: Final = "-pushed"


def pushed(policy_parameter: str) -> str:
    """The parameter of the pushed policy that belongs to this deployed one."""
    return f"{policy_parameter}{_PUSHED}"
