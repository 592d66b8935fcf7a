"""Write docs/schemas: JSON Schema, draft 2020-12, of every document; `make schemas` runs this."""

import json
import re
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any, Final, get_args, get_origin

from pydantic import ConfigDict, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from documents import shared
from documents.advice import AdviceDocument
from documents.alert import AlertDocument
from documents.alert_delivery import AlertTestDocument
from documents.aws_check import AwsCheckCleanUpDocument, AwsCheckDocument, AwsCheckPlanDocument
from documents.backtest import BacktestDocument
from documents.doctor import DoctorDocument
from documents.experiment import ExperimentDocument, ExperimentPlanDocument
from documents.explanation import ExplanationDocument
from documents.history import HistoryDocument
from documents.hold import HoldsDocument, ReleaseDocument
from documents.init import InitDocument
from documents.limits import LimitsDocument
from documents.plan import PlansDocument, WindowChangeDocument, WindowsDocument
from documents.plot import PlotDocument
from documents.policy import PolicyCheckDocument, PolicyDocument, PolicyPushDocument
from documents.probe import ReadingDocument, StallDocument
from documents.report import PageDocument, ReportDocument, ReportsDocument
from documents.runbook import RunbookDocument, RunbooksDocument
from documents.simulation import SimulationDocument

DOCUMENTS: tuple[Any, ...] = (
    AdviceDocument,
    AlertDocument,
    AlertTestDocument,
    AwsCheckCleanUpDocument,
    AwsCheckDocument,
    AwsCheckPlanDocument,
    BacktestDocument,
    DoctorDocument,
    ExperimentDocument,
    ExperimentPlanDocument,
    ExplanationDocument,
    HistoryDocument,
    HoldsDocument,
    InitDocument,
    LimitsDocument,
    PageDocument,
    PlansDocument,
    PlotDocument,
    PolicyCheckDocument,
    PolicyDocument,
    PolicyPushDocument,
    ReadingDocument,
    ReleaseDocument,
    ReportDocument,
    ReportsDocument,
    SimulationDocument,
    RunbookDocument,
    RunbooksDocument,
    StallDocument,
    WindowChangeDocument,
    WindowsDocument,
)
FOLDER: Final = Path(__file__).parents[1] / "docs" / "schemas"
_COMMON: Final = "common.schema.json"
_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_CONFIG: Final = ConfigDict(extra="forbid", use_attribute_docstrings=True)
_LOCAL_REFERENCE: Final = re.compile(r"#/\$defs/(\w+)")


class _Generator(GenerateJsonSchema):
    """Without a title for each key, which would repeat its name."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic passes it
        return False


def build_schemas() -> dict[str, str]:
    """The text of each schema by the name of its file; what ``shared`` names is in the common one."""
    schemas: dict[str, dict[str, Any]] = {}
    common: dict[str, Any] = {}
    for document in DOCUMENTS:
        # in a list, because pydantic takes no configuration for a TypedDict by itself
        generated = TypeAdapter(GenericAlias(list, document), config=_CONFIG).json_schema(
            schema_generator=_Generator, union_format="primitive_type_array"
        )
        parts = {name: _describe(part) for name, part in generated["$defs"].items()}
        schema = generated["items"]
        if "$ref" in schema:
            schema = parts[document.__name__]
            title, _, description = schema["description"].partition("\n\n")
            schema = {"title": title.removesuffix("."), **schema, "description": description}
        local = _local_definitions(schema, parts)
        schemas[_file_name(document)] = schema | ({"$defs": local} if local else {})
        common |= {_definition(name): part for name, part in parts.items() if hasattr(shared, name)}
    schemas[_COMMON] = {
        "title": "What the schemas of burstwatch share",
        "$defs": dict(sorted(common.items())),
    }
    return {name: _to_text(schema) for name, schema in schemas.items()}


def _describe(part: dict[str, Any]) -> dict[str, Any]:
    """Without the name of the class, and with its docstring on one line to a paragraph."""
    described = {key: value for key, value in part.items() if key != "title"}
    if "description" in part:
        paragraphs = part["description"].replace("``", "").split("\n\n")
        described["description"] = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    return described


def _local_definitions(schema: dict[str, Any], parts: dict[str, Any]) -> dict[str, Any]:
    """What this schema needs and no other file defines, at any depth."""
    local: dict[str, Any] = {}
    pending = [schema]
    while pending:
        for name in _LOCAL_REFERENCE.findall(json.dumps(pending.pop())):
            if _reference(name).startswith("#") and _definition(name) not in local:
                local[_definition(name)] = parts[name]
                pending.append(parts[name])
    return dict(sorted(local.items()))


def _to_text(schema: dict[str, Any]) -> str:
    text = json.dumps({"$schema": _DIALECT, **schema}, indent=2)
    return _LOCAL_REFERENCE.sub(lambda match: _reference(match[1]), text) + "\n"


def _reference(name: str) -> str:
    """Where the schema of a class is: a file of its own, the common file, or the file that uses it."""
    if name in _FILES_BY_CLASS:
        return _FILES_BY_CLASS[name]
    return f"{_COMMON if hasattr(shared, name) else ''}#/$defs/{_definition(name)}"


def _definition(name: str) -> str:
    """``standing_flip`` for ``StandingFlipDocument``."""
    return re.sub("(?<!^)(?=[A-Z])", "_", name.removesuffix("Document")).lower()


def _file_name(document: Any) -> str:
    """``report.v1.schema.json`` for what names its schema ``burstwatch.report/v1``."""
    types = get_args(get_args(document)[0]) if get_origin(document) is Annotated else (document,)
    [name] = get_args(types[0].__annotations__["schema"])
    return f"{name.removeprefix('burstwatch.').replace('/', '.')}.schema.json"


_FILES_BY_CLASS: Final = {
    document.__name__: _file_name(document) for document in DOCUMENTS if get_origin(document) is None
}

if __name__ == "__main__":
    for name, text in build_schemas().items():
        (FOLDER / name).write_text(text)
