import importlib.util
import json
import shutil
import subprocess
import sys
from hashlib import sha256

import pytest

from infra.config import StageConfig
from infra.plain_parameters import parameters_of
from support.cli.init_files import ALERTS_ONLY, write
from support.paths import ROOT
from support.stack.synthesized_stacks import default_stack
from support.stack.template_reader import Synthesized
from support.stack.upload_script import SCRIPT, TOOLS


@pytest.fixture(scope="module")
def alerts_only_stack(tmp_path_factory):
    """The stack of the files that init writes."""
    from support.stack.cdk_app import synthesize  # noqa: PLC0415 - the CDK takes seconds, and few tests want it

    folder = tmp_path_factory.mktemp("init")
    synthesize(write(folder, ALERTS_ONLY), folder / "out")
    [path] = (folder / "out").glob("*.template.json")
    return Synthesized(template=json.loads(path.read_text()), folder=folder / "out")


@pytest.fixture(scope="module")
def plain(plain_files):
    text = (plain_files / "burstwatch.template.json").read_text()
    for kind in ("functions", "layer"):
        [archive] = plain_files.glob(f"burstwatch-{kind}-*.zip")
        text = text.replace(archive.name, f"{kind}.zip")
    return json.loads(text)


@pytest.fixture(scope="module")
def code():
    return default_stack().asset(default_stack().function("watch")["Code"])


@pytest.fixture(scope="module")
def layer():
    return default_stack().asset(default_stack().only("AWS::Lambda::LayerVersion")["Content"])


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory):
    """Runs a program without site-packages and environment; its bytecode is kept outside of the assets."""
    bytecode = tmp_path_factory.mktemp("bytecode")
    command = [sys.executable, "-I", "-S", "-X", f"pycache_prefix={bytecode}", "-c"]

    def run(program):
        return subprocess.run([*command, program], env={}, capture_output=True, text=True, check=False)

    return run


@pytest.fixture(scope="module")
def stack_cost():
    spec = importlib.util.spec_from_file_location(
        "stack_cost", ROOT / "lab" / "bench" / "cost" / "stack_cost.py"
    )
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(__import__("sys").modules, "stack_cost", module)
        spec.loader.exec_module(module)
        yield module


@pytest.fixture(scope="module")
def stack(stack_cost):
    return stack_cost.read_stack()


AWS = """#!/usr/bin/env bash
# what AWS answers, by the operation; every call is written down
echo "$*" >> calls
case $2 in
  get-bucket-location) cat location ;;
  describe-stacks) [ -f stack ] && cat stack || { cat no-stack >&2; exit 254; } ;;
esac
"""


@pytest.fixture
def release(tmp_path):
    """What a release contains, with little in it."""
    folder = tmp_path / "cloudformation"
    folder.mkdir()
    shutil.copy(SCRIPT, folder)
    names = []
    for kind in ("functions", "layer"):
        content = kind.encode()
        names.append(f"burstwatch-{kind}-{sha256(content).hexdigest()[:16]}.zip")
        (folder / names[-1]).write_bytes(content)
    parameters = {parameter.name: parameter.as_template() for parameter in parameters_of(StageConfig())}
    template = {"Parameters": parameters, "Resources": {"Code": names}}
    (folder / "burstwatch.template.json").write_text(json.dumps(template, indent=1) + "\n")
    (folder / "location").write_text("eu-central-1\n")
    (folder / "no-stack").write_text("ValidationError: Stack with id burstwatch does not exist\n")
    return folder


@pytest.fixture
def upload(release, tmp_path):
    """Runs the script with these tools only."""

    def run(*arguments, tools=TOOLS, with_aws=True, code=0, **environment):
        commands = tmp_path / "commands"
        shutil.rmtree(commands, ignore_errors=True)
        commands.mkdir()
        for tool in tools:
            (commands / tool).symlink_to(shutil.which(tool))
        if with_aws:
            (commands / "aws").write_text(AWS)
            (commands / "aws").chmod(0o755)
        done = subprocess.run(
            [shutil.which("bash"), release / SCRIPT.name, *arguments],
            env={"PATH": str(commands), **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return run
