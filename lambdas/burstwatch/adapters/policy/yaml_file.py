"""A policy as YAML text: every scalar is read as text, and every fault has its line."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from burstwatch.core.parsing import Fault
from burstwatch.core.policy.policy import Policy, PolicyError
from burstwatch.core.text import sanitise

MAX_BYTES: Final = 8 * 1024
"""The size of an advanced parameter of SSM Parameter Store, in which the deployed stack keeps the policy.

Source: the Systems Manager user guide, "Managing parameter tiers".
"""

_MAX_DEPTH: Final = 8
"""A policy has three levels; a deeply nested document could exhaust the stack of the parser."""
_MAX_SETTINGS: Final = 1_000
"""A limit for YAML aliases, with which a short document can expand to an enormous one."""

_MAX_FAULTS: Final = 50
"""More faults than this are usually one mistake, and no one reads them all."""
_MAX_PATH_CHARS: Final = 120  # a key of the file is text from outside
_VISIBLE_TAB: Final = "→"
_MAX_MESSAGE_CHARS: Final = 600  # a fault may quote a long value: its beginning and its end are kept


def read_policy(path: Path, *, advice: str = "give another path") -> Policy:
    """Read a policy file; ``advice`` says what to do if there is no such file.

    Raises:
        PolicyError: it cannot be read, is not YAML, or contains an invalid policy; with every fault.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise _single_fault_error(f"{path}: cannot be read: {error.strerror}; {advice}") from error
    return parse_policy(text, source=str(path))


def parse_policy(document: bytes, *, source: str) -> Policy:
    """Parse a policy document; ``source`` names it in messages.

    Raises:
        PolicyError: the document is invalid; the error has every fault, with its line if it has one.
    """
    if len(document) > MAX_BYTES:
        raise _single_fault_error(f"{source}: {len(document)} bytes, at most {MAX_BYTES}; shorten it")
    try:
        root = yaml.compose(document.decode(), Loader=yaml.BaseLoader)
    except UnicodeDecodeError as error:
        raise _single_fault_error(f"{source}: not UTF-8 at byte {error.start}; save it as UTF-8") from error
    except yaml.YAMLError as error:
        raise PolicyError((_syntax_fault(error, source),)) from error
    except RecursionError:
        raise _single_fault_error(
            f"{source}: nested too deeply to be read; a policy has three levels"
        ) from None
    if root is not None and not isinstance(root, yaml.MappingNode):
        raise _single_fault_error(f"{source}: must be a mapping such as 'version: 1', not {_node_kind(root)}")
    faults: list[Fault] = []
    lines: dict[str, int] = {}
    mapping = _to_mapping(root, "", lines, faults) if root is not None else {}
    if len(lines) > _MAX_SETTINGS:
        raise _single_fault_error(
            f"{source}: more than {_MAX_SETTINGS:,} settings, with what aliases repeat; leave some out"
        )
    try:
        policy = Policy.from_mapping(mapping)
    except PolicyError as error:
        faults += error.faults
        policy = Policy()
    if faults:
        raise PolicyError(tuple(_locate_faults(faults, lines, source)))
    return policy


def _syntax_fault(error: yaml.YAMLError, source: str) -> Fault:
    """The fault of a text that is not YAML: its line, and an excerpt with a caret below the place."""
    mark = getattr(error, "problem_mark", None)
    if not isinstance(error, yaml.MarkedYAMLError) or not isinstance(mark, yaml.Mark):
        return Fault("", f"{source}: not YAML: {_shorten(str(error))}; fix the syntax")
    problem = " ".join(part for part in (error.context, error.problem) if part)
    advice = "indent with spaces, not tabs" if r"'\t'" in problem else "fix the syntax"
    message = f"not YAML: {_shorten(problem)} in column {mark.column + 1}; {advice}"
    snippet = (mark.get_snippet(indent=0) or "").replace("\t", _VISIBLE_TAB).split("\n")
    # one column for each character, or the caret would not be below the place
    lines = ["".join(char if char.isprintable() else "?" for char in line) for line in snippet]
    return Fault("", f"{source}:{mark.line + 1}: {message}", "\n".join(lines))


def _single_fault_error(message: str) -> PolicyError:
    return PolicyError((Fault("", message),))


def _shorten(text: str) -> str:
    """Truncate a message in the middle: the text of the document is first, the advice is last."""
    safe_text = sanitise(text, len(text) + 1)
    half = _MAX_MESSAGE_CHARS // 2
    return safe_text if len(safe_text) <= _MAX_MESSAGE_CHARS else f"{safe_text[:half]} … {safe_text[-half:]}"


def _to_mapping(
    node: yaml.MappingNode, path: str, lines: dict[str, int], faults: list[Fault]
) -> dict[str, Any]:
    """The keys and values of a mapping node as text."""
    mapping: dict[str, Any] = {}
    for key_node, value_node in node.value:
        if len(lines) > _MAX_SETTINGS:
            break
        key = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else f"<{_node_kind(key_node)}>"
        key_path = f"{path}{key}"
        if key in mapping:
            line = key_node.start_mark.line + 1
            faults.append(Fault(key_path, f"given twice, again at line {line}; keep one"))
        lines.setdefault(key_path, key_node.start_mark.line + 1)
        if isinstance(value_node, yaml.MappingNode) and key_path.count(".") < _MAX_DEPTH:
            mapping[key] = _to_mapping(value_node, f"{key_path}.", lines, faults)
        else:
            mapping[key] = _to_text(value_node)
    return mapping


def _to_text(node: yaml.Node) -> str:
    """A scalar as it is written, a list of scalars with commas between them, or the name of another kind."""
    if isinstance(node, yaml.ScalarNode):
        return str(node.value)
    if isinstance(node, yaml.SequenceNode) and all(isinstance(item, yaml.ScalarNode) for item in node.value):
        return ", ".join(str(item.value) for item in node.value)
    return f"a {_node_kind(node)}"


def _node_kind(node: yaml.Node) -> str:
    return type(node).__name__.removesuffix("Node").lower()


def _locate_faults(faults: list[Fault], lines: dict[str, int], source: str) -> Iterator[Fault]:
    """Each fault with its line, in their order; beyond ``_MAX_FAULTS``, only the number of the others."""
    for fault in sorted(faults, key=lambda fault: _line_of(fault, lines))[:_MAX_FAULTS]:
        line = _line_of(fault, lines)
        yield _with_location(fault, f"{source}:{line}" if line else source)
    if (omitted_count := len(faults) - _MAX_FAULTS) > 0:
        yield Fault(source, f"{omitted_count} more faults; fix these first")


def _line_of(fault: Fault, lines: dict[str, int]) -> int:
    """The line of the setting, or of the section that lacks it; 0 if the document has neither."""
    path = fault.path
    while path and path not in lines:
        path = path.rpartition(".")[0]
    return lines.get(path, 0)


def _with_location(fault: Fault, location: str) -> Fault:
    path = sanitise(fault.path, _MAX_PATH_CHARS)
    return Fault(f"{location}: {path}" if path else location, _shorten(fault.message))
