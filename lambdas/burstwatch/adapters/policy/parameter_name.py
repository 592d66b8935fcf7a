"""Names of the parameters of a deployed policy, in a separate module that does not import a YAML parser."""

from typing import Final

_PUSHED_SUFFIX: Final = "-pushed"


def pushed_parameter_name(policy_parameter: str) -> str:
    """The name of the pushed policy's parameter, from that of the deployed policy."""
    return f"{policy_parameter}{_PUSHED_SUFFIX}"
