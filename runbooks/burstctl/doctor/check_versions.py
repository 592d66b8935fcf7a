"""Versions: what runs here, whether it is what was pinned, and what was deployed."""

import json
import platform
import re
from collections.abc import Iterator, Sequence
from importlib import metadata
from typing import Final

from burstctl.doctor.context import Patient
from burstctl.doctor.finding import Finding, ok, skipped, warning
from burstwatch.adapters.policy.deployments import find_deployments

_PACKAGE: Final = "burstwatch"
_PIN: Final = re.compile(r"([A-Za-z0-9._-]+)==([^;\s]+)")
_REMAKE: Final = "make the environment again, as it was tested"


def check_versions(_patient: Patient) -> Iterator[Finding]:
    """burstctl, its Python, and the packages it is pinned to."""
    try:
        own, needs = metadata.version(_PACKAGE), metadata.requires(_PACKAGE) or []
    except metadata.PackageNotFoundError:
        seen = (
            f"Python {platform.python_version()}; burstctl is not installed, only found: no version is known"
        )
        yield skipped(seen, fix="make setup installs it")
        return
    yield ok(f"burstctl {own}, Python {platform.python_version()}")
    yield from judge_pins(pins_of(needs), {name: _version(name) for name, _ in pins_of(needs)})


def pins_of(needs: Sequence[str]) -> list[tuple[str, str]]:
    """The packages that burstctl itself is pinned to, without those of its extras."""
    found = (_PIN.fullmatch(each.partition(";")[0].strip()) for each in needs if "extra" not in each)
    return [(pin[1], pin[2]) for pin in found if pin]


def judge_pins(pins: Sequence[tuple[str, str]], there: dict[str, str | None]) -> Iterator[Finding]:
    """Another version works as a rule, and was not tested."""
    for name, pinned in pins:
        version = there[name]
        if version != pinned:
            seen = f"{version or 'missing'}, and {pinned} is what was tested"
            yield warning(seen, about=name, fix=_REMAKE, commands=("make setup",))
    same = [f"{name} {pinned}" for name, pinned in pins if there[name] == pinned]
    if same:
        yield ok(f"as pinned: {', '.join(same)}")


def check_deployed_version(patient: Patient) -> Iterator[Finding]:
    """Whether the deployed functions are those of this burstctl, where the stack says which they are."""
    stack = patient.stack
    assert stack is not None, "asked only where a stack stands"
    registered = find_deployments(patient.client("ssm"))
    card = json.loads(next(one.text for one in registered if one.name == stack.name))
    yield judge_deployed(stack.name, card.get("version"), _version(_PACKAGE))


def judge_deployed(name: str, deployed: object, own: str | None) -> Finding:
    """The same version on both sides, or one of them should be brought up to the other."""
    if not isinstance(deployed, str):
        return skipped(f"stack {name} does not say which version it is of")
    if own is None or deployed == own:
        return ok(f"stack {name} is of version {deployed}")
    seen = f"stack {name} is of version {deployed}, this burstctl of {own}"
    fix = "deploy the newer one, or use the burstctl that was deployed"
    return warning(seen, fix=fix, commands=("cdk deploy",))


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
