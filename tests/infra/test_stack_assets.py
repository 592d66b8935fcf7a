"""What is deployed: our code as it is, and a layer for the functions' platform with nothing foreign in it."""

import re
import struct

import pytest

from infra import dependencies
from infra.dependencies import REQUIREMENTS_FILE, SERVICES
from support.paths import ROOT
from support.stack.synthesized_stacks import default_stack, synth

MAX_BYTES = 12 * 2**20
AARCH64 = 183
"""The machine of an ELF file, two bytes at offset 18."""

IMPORT = """
import importlib, sys
sys.path[:0] = {folders!r}
module = importlib.import_module({module!r})
assert callable(module.handler)
print(module.__file__)
"""

USE = """
import sys
sys.path[:0] = {folders!r}
from botocore.session import Session
import aws_lambda_powertools.tracing, aws_lambda_powertools.utilities.idempotency, yaml, zoneinfo
import aws_xray_sdk.core
session = Session()
for service in {services!r}:
    session.create_client(service, region_name="us-east-1")
zoneinfo.reset_tzpath([])
zoneinfo.ZoneInfo("Europe/Berlin")
yaml.compose("a: b", Loader=yaml.BaseLoader)
aws_xray_sdk.core.patch(["botocore"])
"""


def test_functions_and_layer_follow_the_architecture_of_the_stage(monkeypatch, tmp_path):
    requests = []
    monkeypatch.setattr(
        dependencies, "build_layer", lambda folder, which: (requests.append(which), folder.mkdir())
    )
    monkeypatch.setattr(dependencies, "LAYER_FOLDER", tmp_path / "layer")
    stack = synth("architecture: x86_64")
    assert requests == ["x86_64"]
    assert stack.only("AWS::Lambda::LayerVersion")["CompatibleArchitectures"] == ["x86_64"]
    for function in stack.of_type("AWS::Lambda::Function").values():
        assert function["Architectures"] == ["x86_64"]
    assert dependencies.PLATFORMS == {"arm64": "manylinux2014_aarch64", "x86_64": "manylinux2014_x86_64"}


def files_of(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def test_our_code_is_deployed_as_it_is(code):
    deployed = {path.relative_to(code) for path in files_of(code)}
    lambdas = ROOT / "lambdas"
    local_files = {
        path.relative_to(lambdas)
        for path in files_of(lambdas)
        if "__pycache__" not in path.parts and not any(part.endswith(".egg-info") for part in path.parts)
    }
    assert deployed == local_files
    assert all((code / path).read_bytes() == (lambdas / path).read_bytes() for path in deployed)


@pytest.mark.parametrize("verb", ["watch", "flip", "settle", "probe", "notify"])
def test_each_handler_imports_from_what_is_deployed_in_a_bare_interpreter(verb, code, layer, bare_python):
    """No site-packages, no environment: what is not in the assets is not there."""
    handler = default_stack().function(verb)["Handler"]
    program = IMPORT.format(
        folders=[str(code), str(layer / "python")], module=handler.removesuffix(".handler")
    )
    completed = bare_python(program)
    assert completed.returncode == 0, completed.stderr
    assert completed.stdout.startswith(str(code))


def test_every_client_and_every_tool_of_the_functions_can_be_made_from_the_layer(layer, bare_python):
    """Handlers import these late, some only when a trace is sampled."""
    program = USE.format(folders=[str(layer / "python")], services=sorted(SERVICES))
    completed = bare_python(program)
    assert completed.returncode == 0, completed.stderr


def test_every_binary_in_the_layer_is_for_the_functions_processor(layer):
    machines = {}
    for path in files_of(layer):
        head = path.read_bytes()[:20]
        if head.startswith(b"\x7fELF"):
            machines[path.name] = struct.unpack_from("<H", head, 18)[0]
        assert not head.startswith((b"MZ", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")), path
        assert path.suffix not in {".pyd", ".dll", ".dylib", ".exe", ".pyc"}, path
    assert machines, "the layer has compiled parts: PyYAML's and wrapt's"
    assert set(machines.values()) == {AARCH64}
    assert all("-314-aarch64-linux-gnu.so" in name for name in machines)


def test_time_zones_are_in_the_layer(layer):
    assert (layer / "python" / "tzdata" / "zoneinfo" / "Europe" / "Berlin").is_file()


def test_the_layer_holds_what_is_pinned_and_nothing_else(layer):
    pinned = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", REQUIREMENTS_FILE.read_text(), re.MULTILINE))
    results = {}
    for folder in (layer / "python").glob("*.dist-info"):
        name, _, version = folder.name.removesuffix(".dist-info").rpartition("-")
        results[name.replace("_", "-").lower()] = version
    assert results == pinned


def test_the_layer_models_every_service_that_is_called_and_no_other(layer):
    services = {path.name for path in (layer / "python" / "botocore" / "data").iterdir() if path.is_dir()}
    assert services == SERVICES
    called = set()
    for path in (ROOT / "lambdas").rglob("*.py"):
        called |= set(re.findall(r'(?:build_client|_client|client)\(\w+, "([a-z0-9]+)"', path.read_text()))
    assert called
    assert called <= SERVICES


def test_the_layer_is_small(layer, code):
    assert sum(path.stat().st_size for path in files_of(layer)) < 16 * 2**20
    assert sum(path.stat().st_size for path in files_of(code)) < 2 * 2**20


def test_everybody_may_read_what_is_in_the_layer(layer):
    assert all(path.stat().st_mode & 0o444 == 0o444 for path in files_of(layer))


def test_nothing_in_the_layer_shows_when_or_where_it_was_built(layer):
    """Else a deploy from another machine would change every function; the rest is hashed in layer.txt."""
    reported = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "__pycache__"}
    assert not reported & {path.name for path in layer.rglob("*")}
