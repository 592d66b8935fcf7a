"""The published schemas: every document that burstctl prints is held against the one that it names."""

import json
from functools import cache

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from referencing import Registry, Resource

from support.paths import ROOT

SCHEMAS = ROOT / "docs" / "schemas"
SUFFIX = ".schema.json"
HOW_TO_ADD = (
    "no schema is published for {name}: add its type to documents/, and make schemas writes {file}"
    " (docs/schemas/README.md says how)"
)


@cache
def registry():
    """Every file by its name, as they refer to each other."""
    files = {path.name: json.loads(path.read_text()) for path in SCHEMAS.glob(f"*{SUFFIX}")}
    return Registry().with_resources(
        [(name, Resource.from_contents(contents)) for name, contents in files.items()]
    )


def schema_file(name):
    """``report.v1.schema.json`` of ``burstwatch.report/v1``."""
    return name.removeprefix("burstwatch.").replace("/", ".") + SUFFIX


@cache
def schema_validator(name):
    file = schema_file(name)
    if not (SCHEMAS / file).is_file():
        raise AssertionError(HOW_TO_ADD.format(name=name, file=file))
    return Draft202012Validator({"$ref": file}, registry=registry())


def check_document(document):
    """The document, which is as the schema that it names says.

    Raises:
        AssertionError: it is not, or names none, or none is published.
    """
    assert isinstance(document, dict), "what --json prints is an object"
    assert "schema" in document, f"what --json prints names its schema; these are its keys: {list(document)}"
    assert isinstance(document["schema"], str), "a schema is named by a text"
    fault = best_match(schema_validator(document["schema"]).iter_errors(document))
    assert fault is None, f"{document['schema']}, {fault.json_path}: {fault.message}"
    return document


def check_output(out):
    """Every document in what was written: one object, or one on each line."""
    try:
        documents = [json.loads(out)]
    except ValueError:
        documents = [json.loads(line) for line in out.splitlines()]
    for document in documents:
        check_document(document)
