"""A policy as YAML text: every scalar read as text, every fault with its line."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from burstwatch.core.policy.parsing import PolicyFault
from burstwatch.core.policy.policy import Policy, PolicyError
from burstwatch.core.text import printable

MOST_BYTES: Final = 8 * 1024
"""As much as a parameter of SSM Parameter Store holds; the deployed stack keeps the policy there."""

_DEEPEST: Final = 8
_MOST_SETTINGS: Final = 1_000
"""Aliases make more of a short document than anybody can have written."""

_MOST_FAULTS: Final = 50
_LONGEST_PATH: Final = 120
_LONGEST_MESSAGE: Final = 600


def read_policy(path: Path) -> Policy:
    """Read a policy file.

    Raises:
        PolicyError: the file cannot be read, is no YAML, or holds a wrong policy; with every fault at once.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise _one_fault(
            f"{path}: cannot be read: {error.strerror}; give --policy FILE another path"
        ) from error
    return parse_policy(text, source=str(path))


def parse_policy(document: bytes, *, source: str) -> Policy:
    """Parse a policy document; ``source`` names it in messages.

    Raises:
        PolicyError: with every fault found, each with its line where it has one.
    """
    if len(document) > MOST_BYTES:
        raise _one_fault(f"{source}: {len(document)} bytes, at most {MOST_BYTES}; shorten it")
    try:
        root = yaml.compose(document.decode(), Loader=yaml.BaseLoader)
    except UnicodeDecodeError as error:
        raise _one_fault(f"{source}: not UTF-8 at byte {error.start}; save it as UTF-8") from error
    except yaml.YAMLError as error:
        raise _one_fault(f"{source}: not YAML: {_short(str(error))}; mend the syntax") from error
    except RecursionError:
        raise _one_fault(f"{source}: nested too deeply to be read; a policy has three levels") from None
    if root is not None and not isinstance(root, yaml.MappingNode):
        raise _one_fault(f"{source}: must be a mapping such as 'version: 1', not {_kind(root)}")
    faults: list[PolicyFault] = []
    lines: dict[str, int] = {}
    mapping = _to_mapping(root, "", lines, faults) if root is not None else {}
    if len(lines) > _MOST_SETTINGS:
        raise _one_fault(
            f"{source}: more than {_MOST_SETTINGS:,} settings, with what aliases repeat; leave some out"
        )
    try:
        policy = Policy.from_mapping(mapping)
    except PolicyError as error:
        faults += error.faults
        policy = Policy()
    if faults:
        raise PolicyError(tuple(_told(faults, lines, source)))
    return policy


def render_policy(policy: Policy) -> str:
    """The policy as YAML, every default spelled out."""
    return yaml.safe_dump(_unquote(policy.to_mapping()), sort_keys=False, allow_unicode=True)


def _unquote(value: Any) -> Any:
    """Numbers as numbers, so that the YAML reads without quotes; they come back as the same text."""
    if isinstance(value, dict):
        return {key: _unquote(inner) for key, inner in value.items()}
    return int(value) if value.isascii() and value.isdigit() else value


def _one_fault(message: str) -> PolicyError:
    return PolicyError((PolicyFault(path="", message=message),))


def _short(text: str) -> str:
    """What stands in a document is shown safely, and at both ends: the advice stands behind it."""
    shown = printable(text, len(text) + 1)
    half = _LONGEST_MESSAGE // 2
    return shown if len(shown) <= _LONGEST_MESSAGE else f"{shown[:half]} … {shown[-half:]}"


def _to_mapping(
    node: yaml.MappingNode, path: str, lines: dict[str, int], faults: list[PolicyFault]
) -> dict[str, Any]:
    """Keys and text scalars of a mapping node; other nodes become the text that names their kind."""
    found: dict[str, Any] = {}
    for key_node, value_node in node.value:
        if len(lines) > _MOST_SETTINGS:
            break
        key = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else f"<{_kind(key_node)}>"
        here = f"{path}{key}"
        if key in found:
            line = key_node.start_mark.line + 1
            faults.append(PolicyFault(path=here, message=f"given twice, again at line {line}; keep one"))
        lines.setdefault(here, key_node.start_mark.line + 1)
        if isinstance(value_node, yaml.MappingNode) and here.count(".") < _DEEPEST:
            found[key] = _to_mapping(value_node, f"{here}.", lines, faults)
        else:
            found[key] = (
                value_node.value if isinstance(value_node, yaml.ScalarNode) else f"a {_kind(value_node)}"
            )
    return found


def _kind(node: yaml.Node) -> str:
    return type(node).__name__.removesuffix("Node").lower()


def _told(faults: list[PolicyFault], lines: dict[str, int], source: str) -> Iterator[PolicyFault]:
    """Each fault with its line; only the number of those that nobody would read to the end."""
    for fault in faults[:_MOST_FAULTS]:
        yield _with_line(fault, lines, source)
    if (more := len(faults) - _MOST_FAULTS) > 0:
        yield PolicyFault(path=source, message=f"{more} more faults; mend these first")


def _with_line(fault: PolicyFault, lines: dict[str, int], source: str) -> PolicyFault:
    path = fault.path
    while path and path not in lines:
        path = path.rpartition(".")[0]
    if not path:
        return _placed(fault, source)
    return _placed(fault, f"{source}:{lines[path]}")


def _placed(fault: PolicyFault, place: str) -> PolicyFault:
    path = printable(fault.path, _LONGEST_PATH)
    return PolicyFault(path=f"{place}: {path}" if path else place, message=_short(fault.message))
