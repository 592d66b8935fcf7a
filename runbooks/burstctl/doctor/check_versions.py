"""Versions: what runs here, whether it matches the tested versions, and what is deployed."""

import json
import platform
import re
from collections.abc import Iterator, Sequence
from importlib import metadata
from typing import Final

from burstctl.doctor.context import DoctorContext
from burstctl.doctor.finding import Finding, ok, skipped, warning
from burstwatch.adapters.policy.deployments import find_deployments

_PACKAGE: Final = "burstwatch"
_PIN_PATTERN: Final = re.compile(r"([A-Za-z0-9._-]+)==([^;\s]+)")
_REINSTALL_FIX: Final = "install burstwatch again, in an environment of its own"


def check_versions(_context: DoctorContext) -> Iterator[Finding]:
    """burstctl, its Python, and the packages that it depends on."""
    try:
        own_version, requirements = metadata.version(_PACKAGE), metadata.requires(_PACKAGE) or []
    except metadata.PackageNotFoundError:
        summary = (
            f"Python {platform.python_version()}; burstctl is not installed as a package,"
            " so its version is unknown"
        )
        yield skipped(summary, fix=_REINSTALL_FIX)
        return
    yield ok(f"burstctl {own_version}, Python {platform.python_version()}")
    yield from judge_pins(
        parse_pins(requirements), {name: _installed_version(name) for name, _ in parse_pins(requirements)}
    )


def parse_pins(requirements: Sequence[str]) -> list[tuple[str, str]]:
    """The exact versions that burstctl itself requires, without those of its extras."""
    matches = (
        _PIN_PATTERN.fullmatch(requirement.partition(";")[0].strip())
        for requirement in requirements
        if "extra" not in requirement
    )
    return [(pin[1], pin[2]) for pin in matches if pin]


def judge_pins(pins: Sequence[tuple[str, str]], installed: dict[str, str | None]) -> Iterator[Finding]:
    """Another version works as a rule, and was not tested."""
    for name, pinned in pins:
        version = installed[name]
        if version != pinned:
            summary = f"{version or 'missing'}, and {pinned} is what was tested"
            yield warning(summary, subject=name, fix=_REINSTALL_FIX)
    same = [f"{name} {pinned}" for name, pinned in pins if installed[name] == pinned]
    if same:
        yield ok(f"as pinned: {', '.join(same)}")


def check_deployed_version(context: DoctorContext) -> Iterator[Finding]:
    """Whether the deployed functions have the version of this burstctl, if the stack states its version."""
    stack = context.stack
    assert stack is not None, "checked only if a stack is deployed"
    records = find_deployments(context.client("ssm"))
    record = json.loads(next(entry.text for entry in records if entry.name == stack.name))
    yield judge_deployed(stack.name, record.get("version"), _installed_version(_PACKAGE))


def judge_deployed(name: str, deployed: object, own_version: str | None) -> Finding:
    """The same version on both sides, or one of them should be brought up to the other."""
    if not isinstance(deployed, str):
        return skipped(f"stack {name} does not record its version")
    if own_version is None or deployed == own_version:
        return ok(f"stack {name} is of version {deployed}")
    summary = f"stack {name} is of version {deployed}, this burstctl of {own_version}"
    fix = "deploy the newer one, or use the burstctl that was deployed"
    return warning(summary, fix=fix, commands=("cdk deploy",))


def _installed_version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
