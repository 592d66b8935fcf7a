from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypedDict

from burstwatch.core.policy.policy import Policy
from documents.shared import Count, Instant

_typed_dict: Any = TypedDict  # mypy knows it with literal keys only


def _policy_document() -> Any:
    """The type that follows the settings of the policy, each of which is text."""
    sections = Policy().to_mapping()
    windows, version, resources = (sections.pop(name) for name in ("windows", "version", "resources"))
    assert windows == {}
    section_types = {
        name: _typed_dict(f"{name}_settings", dict.fromkeys(settings, str))
        for name, settings in sections.items()
    }
    keys = {
        "schema": Literal["burstwatch.policy/v1"],
        "version": Literal[version],
        **section_types,
        "resources": _typed_dict(
            "resources_settings",
            {
                kind: _typed_dict(f"{kind}_settings", dict.fromkeys(settings, str))
                for kind, settings in resources.items()
            },
        ),
        "windows": Annotated[
            dict[str, dict[str, str]], Field(description="Each named window with its settings.")
        ],
    }
    return _typed_dict("PolicyDocument", keys)


PolicyDocument = _policy_document()
PolicyDocument.__doc__ = """A policy, every default spelled out.

burstctl policy show --json. Each setting is text, as in the file.
"""


class PolicyCheckDocument(TypedDict):
    """The faults of a policy.

    burstctl policy check --json.
    """

    schema: Literal["burstwatch.policy-check/v1"]
    policy: str
    faults: list[str]


class ActivePolicyDocument(TypedDict):
    parameter: str
    version: Count
    modified_at: Instant
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    pushed: bool
    by: str | None
    outdated: bool


class SettingChangeDocument(TypedDict):
    setting: str
    before: str | None
    after: str | None


class PolicyPushDocument(TypedDict):
    """A policy put in force, or taken back.

    burstctl policy push --json.
    """

    schema: Literal["burstwatch.policy-push/v1"]
    stack: str
    region: str
    in_force: ActivePolicyDocument | None
    policy: str
    changes: list[SettingChangeDocument] | None
    size_bytes: Count | None
    most_bytes: Count
    dry_run: bool
    pushed: bool
    withdrawn: bool
    version: Count | None
