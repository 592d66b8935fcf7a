"""The Terraform module: its syntax, and that it passes on what the template takes."""

import json
import os
import re
import shlex
import shutil
import subprocess

import hcl2
import pytest

from infra.config import StageConfig
from infra.plain_parameters import parameters_of
from support.paths import ROOT
from support.stack.synthesized_stacks import full_stack

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


LOOKAHEAD = re.compile(r"\(\?!((?:[^()]|\([^()]*\))*)\)")
"""What a pattern of CloudFormation's excludes; those of Terraform have nothing for that."""


def validation_of(parameter):
    """The condition and the message that a variable has for the constraints of its parameter."""
    name, constraints = variable_of(parameter.name), parameter.constraints
    value = f"var.{name}"
    if "AllowedPattern" not in constraints:
        values = constraints["AllowedValues"]
        return f"contains({json.dumps(values)}, {value})", f"be one of {', '.join(map(str, values))}"
    if isinstance(parameter.default, int):
        value = f"tostring({value})"
    pattern = LOOKAHEAD.sub("", constraints["AllowedPattern"])
    condition = f"can(regex({json.dumps(f'^({pattern})$')}, {value}))"
    if excluded := "|".join(LOOKAHEAD.findall(constraints["AllowedPattern"])):
        condition += f" && !can(regex({json.dumps(f'^({excluded})')}, {value}))"
    return condition, constraints["ConstraintDescription"].removeprefix("must ")


def test_its_variables_take_what_the_parameters_take():
    text = (MODULE / "variables.tf").read_text()
    for parameter in parameters_of(StageConfig()):
        if isinstance(parameter.default, bool):
            continue
        name = variable_of(parameter.name)
        condition, expectation = validation_of(parameter)
        [block] = re.findall(rf'^variable "{name}" {{\n(.*?)^}}', text, re.MULTILINE | re.DOTALL)
        assert f"    condition     = {condition}\n" in block
        assert f'    error_message = "{name} must {expectation}."\n' in block


needs_terraform = pytest.mark.skipif(
    shutil.which("terraform") is None, reason="this machine has no terraform"
)


def run_terraform(*arguments, folder):
    """Without configuration, and without asking HashiCorp for a newer version."""
    own = {"TF_CLI_CONFIG_FILE": os.devnull, "CHECKPOINT_DISABLE": "1"}
    return subprocess.run(
        ["terraform", *arguments],
        cwd=folder,
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        check=False,
    )


@needs_terraform
def test_terraform_finds_it_formatted():
    done = run_terraform("fmt", "-check", "-diff", "-recursive", folder=MODULE)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_terraform
@pytest.mark.parametrize(
    ("name", "accepted", "refused"),
    [
        ("bucket", ["our-tools", "a.b-c"], ["a..b", "192.168.0.1", "Ours"]),
        ("prefix", ["", "a/b.c/"], ["/", "tools", "my prefix/"]),
        ("name", ["prod-2"], ["deployments", "2nd"]),
        ("stack_name", ["prod-2"], ["2nd"]),
        ("email1", ["", "a@example.com"], ["a b@example.com"]),
        ("slack_secret", ["", "burstwatch/slack"], ["https://hooks.slack.com/services/T/B/x"]),
        ("lowest_burst_balance", ["0", "0.0", "95"], ["0.5", "96", "-1"]),
        ("log_retention_days", ["30"], ["2"]),
        ("architecture", ["x86_64"], ["amd64"]),
        ("existing_ledger", ["", "burstwatch-Ledger-1ABC"], ["a b"]),
        ("permissions_boundary", ["", "arn:aws:iam::123456789012:policy/team/b"], ["team/b"]),
    ],
)
def test_terraform_refuses_a_wrong_value_in_the_plan(tmp_path, name, accepted, refused):
    """The variables alone need no provider."""
    shutil.copy(MODULE / "variables.tf", tmp_path)
    for value in (*accepted, *refused):
        values = {"bucket": "our-tools", name: value}
        options = [f"-var={key}={item}" for key, item in values.items()]
        done = run_terraform("plan", "-no-color", "-input=false", *options, folder=tmp_path)
        assert (done.returncode == 0) == (value in accepted), (value, done.stdout + done.stderr)
        if value in refused:
            assert f"{name} must " in done.stderr


def test_it_passes_every_parameter_on():
    [stack] = [body["this"] for name, body in resources() if name == "aws_cloudformation_stack"]
    wanted = {parameter.name: variable_of(parameter.name) for parameter in parameters_of(StageConfig())}
    passed = {name: re.search(r"var\.(\w+)", value)[1] for name, value in stack["parameters"].items()}
    assert passed == wanted


def resources():
    return [(kind, body) for block in read(MODULE / "main.tf")["resource"] for kind, body in block.items()]


@pytest.mark.xdist_group("synthesized stacks")  # where the stack is already made
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
