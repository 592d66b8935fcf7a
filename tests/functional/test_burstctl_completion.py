"""burstctl completion: real shells complete its commands, options and words, and AWS is not asked."""

import os
import shutil
import subprocess
import sys

import pytest
from click.shell_completion import BashComplete
from operators_desk import ROOT, OperatorsDesk

from burstctl.main import COMMANDS, burstctl

BASH = shutil.which("bash")
COMPLETE = """
. ./completion
COMP_WORDS=({words}) COMP_CWORD={at}
_burstctl_completion burstctl
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
PROGRAM = """#!{python}
import sys
from burstctl.main import main
sys.exit(main())
"""


@pytest.fixture
def desk(tmp_path, monkeypatch, capsys):
    return OperatorsDesk(tmp_path, monkeypatch, capsys)


@pytest.fixture
def typed(desk):
    """What bash offers after these words, the last of them not yet complete."""
    program = desk.directory / "bin" / "burstctl"
    program.parent.mkdir()
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(0o755)
    (desk.directory / "completion").write_text(desk.run("completion", "bash").out)
    roots = os.pathsep.join(str(ROOT / root) for root in ("lambdas", "runbooks"))
    environment = {
        **os.environ,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "PYTHONPATH": roots,
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
    }

    def ask(*words):
        script = COMPLETE.format(words=" ".join(f"'{word}'" for word in words), at=len(words) - 1)
        ran = subprocess.run(
            [BASH, "-c", script],
            env=environment,
            cwd=desk.directory,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ran.stderr == ""
        return ran.stdout.split()

    return ask


needs_bash = pytest.mark.skipif(BASH is None, reason="bash is not installed")


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("",), list(COMMANDS)),
        (("ass",), ["assess"]),
        (("flip",), ["flip", "flip-back"]),
        (("policy", "p"), ["push"]),
        (("window", ""), ["list", "start", "stop"]),
        (("watch", "--metrics-"), ["--metrics-port", "--metrics-address"]),
        (("flip", "--to", "io"), ["io1", "io2"]),
        (("flip", "vol-0123456789abcdef0", "--override", "cool"), ["cooldown"]),
        (("advise", "--iac", "t"), ["terraform"]),
        (("assess", "--region", "eu-west-"), ["eu-west-1", "eu-west-2", "eu-west-3"]),
        (("assess", "--region", "al"), ["all"]),
        (("flip", "--region", "al"), []),
        (("completion", ""), ["bash", "zsh", "fish"]),
    ],
)
def test_commands_options_and_words_are_offered(words, offered):
    *before, begun = words
    completion = BashComplete(burstctl, {}, "burstctl", "_BURSTCTL_COMPLETE")
    found = [item.value for item in completion.get_completions(before, begun)]
    assert sorted(found) == sorted(offered)


@needs_bash
def test_a_real_bash_completes_what_is_typed(typed):
    assert typed("burstctl", "") == list(COMMANDS)
    assert typed("burstctl", "policy", "p") == ["push"]
    assert typed("burstctl", "flip", "--to", "io") == ["io1", "io2"]


@needs_bash
def test_profiles_are_those_of_the_aws_configuration(desk, typed):
    (desk.directory / ".aws").mkdir()
    (desk.directory / ".aws" / "config").write_text("[profile prod]\n[profile staging]\n")
    assert typed("burstctl", "assess", "--profile", "") == ["prod", "staging"]


def test_to_list_the_commands_none_of_them_is_imported(desk):
    command = (
        "import sys\nfrom burstctl.main import main\ntry:\n    main()\nfinally:\n"
        "    print(sorted(n for n in sys.modules if n.startswith(('burstctl.commands', 'botocore', 'rich'))),"
        " file=sys.stderr)"
    )
    roots = os.pathsep.join(str(ROOT / root) for root in ("lambdas", "runbooks"))
    ran = subprocess.run(
        [sys.executable, "-c", command],
        env={
            **os.environ,
            "PYTHONPATH": roots,
            "_BURSTCTL_COMPLETE": "bash_complete",
            "COMP_WORDS": "burstctl ",
            "COMP_CWORD": "1",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert "plain,assess" in ran.stdout
    assert ran.stderr.strip() == "[]"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_that_it_takes(desk, shell):
    script = desk.run("completion", shell).out

    assert "_BURSTCTL_COMPLETE" in script
    assert "burstctl" in script
    if (program := shutil.which(shell)) is not None:
        file = desk.directory / "script"
        file.write_text(script)
        checked = subprocess.run([program, "-n", file], capture_output=True, timeout=60, check=False)
        assert (checked.returncode, checked.stderr) == (0, b"")


def test_a_shell_that_is_not_known_is_misuse(desk):
    ran = desk.run("completion", "powershell")

    assert ran.code == 2
    assert "'bash', 'zsh', 'fish'" in ran.err
