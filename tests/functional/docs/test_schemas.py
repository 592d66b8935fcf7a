"""docs/schemas: each document that programs read has one, strict enough to catch what would break them.

``support.cli.cli_session`` checks every output of every command in all tests against them.
"""

import json
import re
import subprocess
import sys
from copy import deepcopy

import ddprobe
import pytest
from jsonschema import Draft202012Validator

from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.flips.outcome import OutcomeStatus
from burstwatch.core.flips.refusal import Guard
from burstwatch.core.ledger.flip_state import Direction, FlipCause, FlipStatus
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.core.policy.policy import Mode
from burstwatch.core.watch.decide import Action
from documents.generate import build_schemas
from support.builders.alerts import (
    a_digest,
    a_policy_rejection,
    an_event_digest,
    event_alerts_of_every_kind,
    numbered_alert,
)
from support.cli.cli_session import add_critical
from support.cli.schema_check import (
    SCHEMAS,
    check_document,
    check_output,
    registry,
    schema_file,
    schema_validator,
)
from support.paths import ROOT
from support.probe.sample_readings import a_reading

FILES = sorted(SCHEMAS.glob("*.schema.json"))
NAMED = re.compile(r'"(burstwatch\.[a-z_-]+/v\d+)"')
INTERNAL_SCHEMAS = {
    "burstwatch.aws-check-run/v1": "what a run of aws-check has created, to go on or clean up after a crash",
    "burstwatch.deployment/v1": "the card of a stack in Parameter Store",
    "burstwatch.experiment-journal/v1": "where an experiment goes on after a crash",
    "burstwatch.flip_request/v1": "a message from one function to another",
}
"""What no program but ours reads."""
ALERTS = [
    numbered_alert(1),
    a_digest(),
    an_event_digest(),
    a_policy_rejection("no"),
    *event_alerts_of_every_kind(),
]


def names_in_the_code():
    sources = [
        path for folder in ("lambdas", "runbooks", "ddprobe") for path in (ROOT / folder).rglob("*.py")
    ]
    return {name for path in sources for name in NAMED.findall(path.read_text())} - INTERNAL_SCHEMAS.keys()


# -- the files


@pytest.mark.parametrize("name", sorted(names_in_the_code()))
def test_each_schema_that_the_code_names_is_published(name):
    assert (SCHEMAS / schema_file(name)).is_file(), (
        f"docs/schemas/README.md says how {schema_file(name)} is added"
    )


def test_every_published_file_has_a_writer():
    assert {path.name for path in FILES} == {
        "common.schema.json",
        *(schema_file(name) for name in names_in_the_code()),
    }


def test_each_file_matches_the_types_of_the_documents():
    assert {path.name: path.read_text() for path in FILES} == build_schemas(), (
        "make schemas writes docs/schemas again"
    )


def test_what_runs_imports_neither_the_types_nor_what_generates_schemas():
    code = (
        "import importlib, pkgutil, sys, burstctl, burstwatch\n"
        "for package in (burstctl, burstwatch):\n"
        "    for module in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "        importlib.import_module(module.name)\n"
        "assert not {'documents', 'pydantic'} & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_each_file_is_a_schema_that_names_its_document_and_refers_to_what_exists(path):
    contents = json.loads(path.read_text())
    Draft202012Validator.check_schema(contents)

    assert contents["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert contents["title"]
    assert contents.get("description") or path.name == "common.schema.json"
    resolver = registry().resolver(path.name)
    for reference in references_in(contents):
        resolver.lookup(reference)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_key_of_burstwatch_may_vanish_and_no_new_one_is_unnoticed(path):
    for part in parts_of(json.loads(path.read_text())):
        if part.get("type") == "object" and "properties" in part:
            assert part["additionalProperties"] is False
            assert set(part["properties"]) == set(part["required"])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_readme_lists_each_file(path):
    assert f"`{path.name}`" in (SCHEMAS / "README.md").read_text()


def parts_of(schema):
    if isinstance(schema, dict):
        yield schema
        for value in schema.values():
            yield from parts_of(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from parts_of(value)


def references_in(schema):
    return [part["$ref"] for part in parts_of(schema) if isinstance(part.get("$ref"), str)]


# -- the words


@pytest.mark.parametrize(
    ("file", "name", "allowed"),
    [
        ("common", "level", Level),
        ("common", "unknown_reason", UnknownReason),
        ("common", "mode", Mode),
        ("common", "action", Action),
        ("common", "outcome_status", OutcomeStatus),
        ("common", "guard", Guard),
        ("common", "flip_status", FlipStatus),
        ("common", "direction", Direction),
        ("common", "flip_cause", FlipCause),
        ("common", "volume_type", VolumeType),
        ("alert.v1", "alert_kind", AlertKind),
        ("history.v1", "entry_kind", EntryKind),
    ],
)
def test_words_are_those_of_the_code(file, name, allowed):
    definitions = json.loads((SCHEMAS / f"{file}.schema.json").read_text())["$defs"]
    assert definitions[name]["enum"] == list(map(str, allowed))


# -- what is not written by a command


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.kind)
def test_alerts_are_as_published(alert):
    check_document(json.loads(json.dumps(alert.to_document())))


def test_the_event_of_a_probe_is_as_published():
    check_document(json.loads(ddprobe.event_detail(a_reading(), "i-0123456789abcdef0")))


@pytest.mark.parametrize(
    "arguments", [("run", "--level", "lite"), ("run", "--level", "classic"), ("passive",)]
)
def test_readings_of_a_probe_are_as_published(tmp_path, shm_dir, arguments):
    command = [sys.executable, "-IS", ddprobe.__file__, arguments[0], "--run-dir", shm_dir, *arguments[1:]]
    result = subprocess.run(
        [*command, "--json", "-", tmp_path], capture_output=True, text=True, timeout=120, check=False
    )
    [line] = [line for line in result.stdout.splitlines() if line.startswith("{")]
    reading = json.loads(line)

    assert check_document(reading)["schema"] == "burstwatch.reading/v1"
    check_document(reading | {"dstate": probe_tasks(), "nvme": {"volume_queue_length": 0}})


def probe_tasks():
    """Of every field of what ddprobe saw a value, so that a new one is missed here."""
    some = {"int": 1, "float": 0.5, "bool": False, "str": "", "list": a_reading()["dstate"]["top"]}
    kinds = ddprobe.Tasks.__annotations__.items()
    return {name: some[re.match(r"\w+", getattr(kind, "__name__", str(kind)))[0]] for name, kind in kinds}


# -- the check itself


OPEN_OBJECTS = ("by_level", "api_calls")


def places_in(document, path=()):
    """The path to every key that a schema fixes."""
    pairs = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in pairs:
        if isinstance(document, dict):
            yield (*path, key)
        if isinstance(value, dict | list) and key not in OPEN_OBJECTS:
            yield from places_in(value, (*path, key))


def change_at_path(document, path, change):
    copied = deepcopy(document)
    part = copied
    for key in path[:-1]:
        part = part[key]
    change(part, path[-1])
    return copied


def test_a_report_in_which_any_key_vanished_is_found(reported):
    for path in places_in(reported):
        with pytest.raises(AssertionError):
            check_document(change_at_path(reported, path, lambda part, key: part.pop(key)))


def test_a_report_in_which_any_value_is_of_another_type_is_found(reported):
    def retype(part, key):
        part[key] = [part[key]] if not isinstance(part[key], list) else {"0": "x"}

    for path in places_in(reported):
        with pytest.raises(AssertionError):
            check_document(change_at_path(reported, path, retype))


def test_a_report_with_a_key_more_is_found(reported):
    with pytest.raises(AssertionError, match="mood"):
        check_document(reported | {"mood": "good"})


def test_a_document_without_a_schema_names_how_to_get_one():
    with pytest.raises(AssertionError, match=r"no schema is published for burstwatch\.new/v1: add its type"):
        check_document({"schema": "burstwatch.new/v1"})
    with pytest.raises(AssertionError, match="names its schema"):
        check_document({"volumes": []})
    with pytest.raises(AssertionError, match="is an object"):
        check_output("[1, 2]")


def test_each_line_of_a_watch_is_held_against_its_schema(cli, lab, monkeypatch):
    add_critical(lab)
    checked = []
    monkeypatch.setattr("support.cli.cli_session.check_output", checked.append)
    out = cli.run("watch", "--passes", "1", "--json").out

    assert checked == [out]
    assert schema_validator("burstwatch.report/v1").is_valid(json.loads(out))
    with pytest.raises(AssertionError):
        check_output(out + out.replace('"volumes"', '"disks"', 1))
