"""The Terraform module: its syntax, and that it passes on what the template takes."""

import re
import shlex

import hcl2
import pytest

from infra.config import StageConfig
from infra.plain_parameters import parameters_of
from support.paths import ROOT
from support.synthesized_stacks import full_stack

MODULE = ROOT / "integrations" / "terraform"
OWN_VARIABLES = {"files", "stack_name", "tags"}
RENAMED = {"AssetsBucket": "bucket", "AssetsPrefix": "prefix"}


def read(path):
    return unquoted(hcl2.loads(path.read_text()))


def unquoted(value):
    """The parser leaves the quotes around a string, and marks each block with a key of its own."""
    match value:
        case dict():
            return {unquoted(key): unquoted(item) for key, item in value.items() if key != "__is_block__"}
        case list():
            return [unquoted(item) for item in value]
        case str() if value.startswith('"') and value.endswith('"'):
            return shlex.split(value)[0]
    return value


def blocks(name, kind):
    return {key: body for block in read(MODULE / name)[kind] for key, body in block.items()}


def variable_of(parameter):
    return RENAMED.get(parameter, re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", parameter).lower())


@pytest.mark.parametrize("path", sorted(MODULE.rglob("*.tf")), ids=lambda path: str(path.relative_to(MODULE)))
def test_every_file_is_terraform(path):
    assert read(path)


def test_a_file_that_is_not_terraform_is_refused(tmp_path):
    (tmp_path / "wrong.tf").write_text('variable "a" {\n  default = \n}\n')
    with pytest.raises(Exception, match="Unexpected token"):
        read(tmp_path / "wrong.tf")


def test_its_variables_are_the_parameters_of_the_template():
    variables = blocks("variables.tf", "variable")
    parameters = {variable_of(parameter.name): parameter for parameter in parameters_of(StageConfig())}
    assert set(variables) == set(parameters) | OWN_VARIABLES
    for name, parameter in parameters.items():
        variable = variables[name]
        assert variable.get("default") == parameter.default
        if parameter.name not in RENAMED:
            assert variable["description"] == parameter.description


def test_it_passes_every_parameter_on():
    [stack] = [body["this"] for name, body in resources() if name == "aws_cloudformation_stack"]
    wanted = {parameter.name: variable_of(parameter.name) for parameter in parameters_of(StageConfig())}
    passed = {name: re.search(r"var\.(\w+)", value)[1] for name, value in stack["parameters"].items()}
    assert passed == wanted


def resources():
    return [(kind, body) for block in read(MODULE / "main.tf")["resource"] for kind, body in block.items()]


def test_its_outputs_are_outputs_of_the_stack():
    outputs = full_stack().template["Outputs"]
    for body in blocks("outputs.tf", "output").values():
        for name in re.findall(r'outputs\["(\w+)"\]', body["value"]):
            assert name in outputs


def test_its_page_lists_every_variable_and_output():
    page = (MODULE / "README.md").read_text()
    for file, kind in (("variables.tf", "variable"), ("outputs.tf", "output")):
        for name, body in blocks(file, kind).items():
            [row] = [line for line in page.splitlines() if line.startswith(f"| `{name}` |")]
            assert body["description"] in row


@pytest.mark.parametrize("example", ["basic", "complete"])
def test_an_example_sets_only_what_there_is(example):
    [module] = read(MODULE / "examples" / example / "main.tf")["module"]
    assert set(module["burstwatch"]) - {"source"} <= set(blocks("variables.tf", "variable"))
