"""Joins the templates of one stack with and without its options into a single template with conditions.

Where they differ, the joined one has a ``Condition`` or an ``Fn::If``. So the stack itself is written once,
in Python, without conditions of CloudFormation's.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Final

NO_VALUE: Final = {"Ref": "AWS::NoValue"}
_MISSING: Final = object()
_ATOM: Final = re.compile(r',?"[\w.:/-]*"|,?\s*[\w-]+(?:\.\w+)*|.', re.DOTALL)
"""How the text of a JSON document is compared: by words, each with the comma or the space before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """The template, or a part of it, as it is if ``condition`` is false."""

    condition: str
    value: Any
    members: frozenset[str] = frozenset()
    """The conditions of which this one is the disjunction: if it is false, then so are they."""

    def with_value(self, value: Any) -> "Variant":
        """The same condition, for a part of the template."""
        return Variant(condition=self.condition, value=value, members=self.members)


class MergeError(Exception):
    """Two options change the same place in different ways; names the place and the conditions."""


def merge_templates(base: dict[str, Any], variants: Sequence[Variant]) -> dict[str, Any]:
    """Resources, outputs and conditions of one template for all variants.

    ``base`` is the template with all of them. Resources and outputs get a ``Condition``, what is below them
    an ``Fn::If``.

    Raises:
        MergeError: the result would depend on more than which options are on.
    """
    merged: dict[str, Any] = {
        key: value for key, value in base.items() if key not in {"Resources", "Outputs"}
    }
    conditions: dict[str, Any] = {}
    for section in ("Resources", "Outputs"):
        merged[section] = {
            name: _merge_entry(name, body, _below(variants, section, name), conditions)
            for name, body in base[section].items()
        }
        for variant in variants:
            if unexpected := variant.value[section].keys() - base[section].keys():
                raise MergeError(
                    f"without {variant.condition} there is more: {', '.join(sorted(unexpected))}"
                )
    return {**merged, "Conditions": conditions}


def _below(variants: Sequence[Variant], *keys: str) -> list[Variant]:
    """The part of each variant at this place."""
    parts = []
    for variant in variants:
        value = variant.value
        for key in keys:
            value = value.get(key, _MISSING) if isinstance(value, dict) else _MISSING
        parts.append(variant.with_value(value))
    return parts


def _merge_entry(
    name: str, body: dict[str, Any], variants: Sequence[Variant], conditions: dict[str, Any]
) -> dict[str, Any]:
    """A resource or an output, on the condition that every option which it needs is on."""
    needed = [variant.condition for variant in _without_explained(variants) if variant.value is _MISSING]
    present = [variant for variant in variants if variant.value is not _MISSING]
    merged = {
        # what a resource waits for may be missing: CloudFormation ignores it then
        key: value if key == "DependsOn" else _merge(value, _below(present, key), f"{name}.{key}")
        for key, value in body.items()
    }
    if not needed:
        return merged
    name_of_all = "And".join(needed)
    if len(needed) > 1:
        conditions[name_of_all] = {"Fn::And": [{"Condition": condition} for condition in needed]}
    return {"Condition": name_of_all, **merged}


def _without_explained(variants: Sequence[Variant]) -> list[Variant]:
    """Leaves out a disjunction where one of its members alone has the same effect."""
    values = {variant.condition: variant.value for variant in variants}
    return [
        variant
        for variant in variants
        if not any(values.get(member) == variant.value for member in variant.members)
    ]


def _merge(base: Any, variants: Sequence[Variant], place: str) -> Any:
    differing = [variant for variant in variants if variant.value != base]
    if not differing:
        return base
    others = [variant.value for variant in differing if variant.value is not _MISSING]
    if isinstance(base, dict) and not _is_function(base) and _are_all(others, dict):
        return _merge_optional(differing, place, lambda values: _merge_mapping(base, values, place))
    if isinstance(base, list) and _are_all(others, list):
        return _merge_optional(differing, place, lambda values: _merge_list(base, values, place))
    if _is_join(base) and all(map(_is_text, others)):
        return _merge_optional(differing, place, lambda values: _merge_text(base, values, place))
    return _choose(base, differing, place)


def _are_all(values: Sequence[Any], kind: type) -> bool:
    return all(isinstance(value, kind) and not _is_function(value) for value in values)


def _merge_optional(variants: Sequence[Variant], place: str, merge: Callable[[list[Variant]], Any]) -> Any:
    """Merges what is there in each variant, and makes it conditional on the variants in which it is not."""
    merged = merge([variant for variant in variants if variant.value is not _MISSING])
    missing = [variant for variant in _without_explained(variants) if variant.value is _MISSING]
    return _choose(merged, missing, place) if missing else merged


def _choose(base: Any, variants: Sequence[Variant], place: str) -> Any:
    """``base`` if all conditions hold; otherwise the value of the one that does not."""
    unexplained = _without_explained(variants)
    values = [variant.value for variant in unexplained]
    if any(value != values[0] for value in values):
        names = ", ".join(variant.condition for variant in unexplained)
        raise MergeError(f"{place} depends on several options at once: {names}")
    chosen = NO_VALUE if base is _MISSING else base
    for variant in reversed(unexplained):
        otherwise = NO_VALUE if variant.value is _MISSING else variant.value
        chosen = {"Fn::If": [variant.condition, chosen, otherwise]}
    return chosen


def _merge_mapping(base: dict[str, Any], variants: Sequence[Variant], place: str) -> dict[str, Any]:
    keys = dict.fromkeys([*base, *(key for variant in variants for key in variant.value)])
    return {key: _merge(base.get(key, _MISSING), _below(variants, key), f"{place}.{key}") for key in keys}


def _merge_list(base: list[Any], variants: Sequence[Variant], place: str) -> list[Any]:
    """An element is the same in two variants if it has the same name or, without a name, the same content."""
    lists = [base, *(variant.value for variant in variants)]
    shared = {
        name for elements in lists for name, count in Counter(map(_name, elements)).items() if count > 1
    }
    merged = _merge_mapping(
        _by_identity(base, shared),
        [variant.with_value(_by_identity(variant.value, shared)) for variant in variants],
        place,
    )
    return list(merged.values())


def _name(element: Any) -> str | None:
    """What a statement or a tag is called."""
    names = (element.get(key) for key in ("Sid", "Key")) if isinstance(element, dict) else ()
    return next((name for name in names if isinstance(name, str)), None)


def _by_identity(elements: Sequence[Any], shared_names: set[str | None]) -> dict[str, Any]:
    """The elements by their name, or by their content if they have none of their own."""
    identities = [
        _content(element) if (name := _name(element)) is None or name in shared_names else name
        for element in elements
    ]
    return {
        f"{identity} {identities[:index].count(identity)}": element
        for index, (identity, element) in enumerate(zip(identities, elements, strict=True))
    }


def _content(element: Any) -> str:
    return json.dumps(element, sort_keys=True)


def _is_function(value: Any) -> bool:
    """Whether CloudFormation computes it."""
    return isinstance(value, dict) and len(value) == 1 and next(iter(value)).startswith(("Fn::", "Ref"))


def _is_join(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"Fn::Join"} and value["Fn::Join"][0] == ""


def _is_text(value: Any) -> bool:
    return isinstance(value, str) or _is_join(value)


# -- text with references in it, such as the JSON of a dashboard


@dataclass(frozen=True, slots=True)
class _Edit:
    """Without ``condition``, these atoms of the text are others."""

    start: int
    end: int
    replacement: list[Any]
    condition: str


def _merge_text(base: Any, variants: Sequence[Variant], place: str) -> Any:
    atoms = list(_atoms(base))
    edits: list[_Edit] = []
    for variant in sorted(variants, key=lambda variant: len(variant.members)):
        covered = {
            index
            for edit in edits
            if edit.condition in variant.members
            for index in range(edit.start, edit.end)
        }
        edits += [
            edit for edit in _edits(atoms, variant) if not covered.issuperset(range(edit.start, edit.end))
        ]
    edits.sort(key=lambda edit: (edit.start, edit.end))
    pieces: list[Any] = []
    position = 0
    for edit in edits:
        if edit.start < position:
            raise MergeError(f"{place}: {edit.condition} changes the same words as another option")
        text, otherwise = _join(atoms[edit.start : edit.end]), _join(edit.replacement)
        pieces += [*atoms[position : edit.start], {"Fn::If": [edit.condition, text, otherwise]}]
        position = edit.end
    return _join([*pieces, *atoms[position:]])


def _atoms(text: Any) -> Iterator[Any]:
    """The words of a text, and the references between them."""
    for piece in text["Fn::Join"][1] if _is_join(text) else [text]:
        if isinstance(piece, str):
            yield from filter(None, _ATOM.findall(piece))
        else:
            yield piece


def _edits(atoms: Sequence[Any], variant: Variant) -> Iterator[_Edit]:
    others = list(_atoms(variant.value))
    matcher = SequenceMatcher(None, [*map(_content, atoms)], [*map(_content, others)], autojunk=False)
    for tag, start, end, other_start, other_end in matcher.get_opcodes():
        if tag != "equal":
            yield _Edit(start, end, others[other_start:other_end], variant.condition)


def _join(pieces: Sequence[Any]) -> Any:
    """The pieces as one text; adjacent strings are put together."""
    joined: list[Any] = []
    for piece in pieces:
        if isinstance(piece, str) and joined and isinstance(joined[-1], str):
            joined[-1] += piece
        else:
            joined.append(piece)
    if len(joined) > 1:
        return {"Fn::Join": ["", joined]}
    return joined[0] if joined else ""
