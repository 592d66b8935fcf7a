"""What CloudFormation makes of a template with parameters and conditions, as far as ours use them."""

from collections.abc import Mapping
from typing import Any

_ABSENT = object()


def resolve_template(template: Mapping[str, Any], parameters: Mapping[str, str]) -> dict[str, Any]:
    """Resources and outputs as they are deployed with these parameters; references to resources stay."""
    values = {
        name: str(parameters.get(name, body.get("Default")))
        for name, body in template.get("Parameters", {}).items()
    }
    resolver = _Resolver(values, template.get("Conditions", {}))
    sections = {section: resolver.section(template[section]) for section in ("Resources", "Outputs")}
    for resource in sections["Resources"].values():
        present = [name for name in resource.pop("DependsOn", []) if name in sections["Resources"]]
        if present:
            resource["DependsOn"] = present
    return sections


class _Resolver:
    def __init__(self, parameters: Mapping[str, str], conditions: Mapping[str, Any]) -> None:
        self._parameters, self._conditions = parameters, conditions

    def section(self, entries: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: self.resolve(
                {key: value for key, value in body.items() if key not in {"Condition", "Metadata"}}
            )
            for name, body in entries.items()
            if "Condition" not in body or self._holds({"Condition": body["Condition"]})
        }

    def resolve(self, value: Any) -> Any:  # noqa: PLR0911 - one for each function of CloudFormation's
        if isinstance(value, dict) and "Fn::If" in value:
            name, then, otherwise = value["Fn::If"]
            return self.resolve(then if self._holds({"Condition": name}) else otherwise)
        if value == {"Ref": "AWS::NoValue"}:
            return _ABSENT
        match value:
            case {"Ref": name} if name in self._parameters:
                return self._parameters[name]
            case {"Fn::Join": ["", list(pieces)]}:
                return _join([self.resolve(piece) for piece in pieces])
            case dict():
                items = {key: self.resolve(item) for key, item in value.items()}
                return {key: item for key, item in items.items() if item is not _ABSENT}
            case list():
                return [item for item in map(self.resolve, value) if item is not _ABSENT]
            case _:
                return value

    def _holds(self, condition: Any) -> bool:
        match condition:
            case {"Condition": name}:
                return self._holds(self._conditions[name])
            case {"Fn::Equals": [left, right]}:
                return self.resolve(left) == self.resolve(right)
            case {"Fn::Not": [other]}:
                return not self._holds(other)
            case {"Fn::And": others}:
                return all(map(self._holds, others))
            case {"Fn::Or": others}:
                return any(map(self._holds, others))
        raise AssertionError(f"{condition} is not a condition")


def _join(pieces: list[Any]) -> Any:
    flat = [
        part
        for piece in pieces
        for part in (piece["Fn::Join"][1] if isinstance(piece, dict) and "Fn::Join" in piece else [piece])
    ]
    joined: list[Any] = []
    for piece in flat:
        if isinstance(piece, str) and joined and isinstance(joined[-1], str):
            joined[-1] += piece
        elif piece != "":
            joined.append(piece)
    if len(joined) == 1 and isinstance(joined[0], str):
        return joined[0]
    return {"Fn::Join": ["", joined]} if joined else ""
