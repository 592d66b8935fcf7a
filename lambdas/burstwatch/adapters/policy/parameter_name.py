"""Names of the parameters of a deployed policy: apart, so that functions without a policy import no YAML."""

from typing import Final

_PUSHED_SUFFIX: Final = "-pushed"


def pushed_parameter_name(policy_parameter: str) -> str:
    """The parameter of the pushed policy that belongs to this deployed one."""
    return f"{policy_parameter}{_PUSHED_SUFFIX}"
