"""burstctl completion: real shells complete its commands, options and words, and AWS is not asked."""

import os
import shutil
import subprocess
import sys

import pytest
from click.shell_completion import ShellComplete

from burstctl.main import COMMANDS, burstctl
from support.cli.shell_typing import SHELLS
from support.paths import ROOT


@pytest.mark.parametrize(
    ("arguments", "offered"),
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
        (("runbook", "flips"), ["FlipStuck", "FlipsStuck", "FlipsFailed"]),
    ],
)
def test_commands_options_and_words_are_offered(arguments, offered):
    *before, prefix = arguments
    completion = ShellComplete(burstctl, {}, "burstctl", "_BURSTCTL_COMPLETE")
    result = [item.value for item in completion.get_completions(before, prefix)]
    assert sorted(result) == sorted(offered)


def test_a_real_shell_completes_what_is_typed(shell):
    assert shell.type("burstctl flip --to=io").candidates == completion_values(shell, "--to=", ["io1", "io2"])
    assert shell.type("burstctl flip --to=").candidates == completion_values(
        shell, "--to=", ["gp3", "io1", "io2"]
    )
    assert shell.type("burstctl flip --to=g").line == "burstctl flip --to=gp3 "
    assert shell.type("burstctl --ledger sqlite:/l --region=eu-west-1 policy p").line.endswith("policy push ")


def completion_values(shell, option, arguments):
    """What is offered after ``--option=``: to fish that is one word."""
    return [f"{option}{word}" for word in arguments] if shell.name == "fish" else arguments


def test_the_commands_are_offered_in_their_order_with_the_whole_of_what_they_are_for(shell):
    completed = shell.type("burstctl ")

    assert completed.candidates == list(COMMANDS)
    summaries = [entry.summary for entry in COMMANDS.values()]
    visible = [summary for summary in summaries if summary in completed.screen]
    assert visible == ([] if shell.name == "bash" else summaries)


def test_files_are_offered_where_an_option_takes_one(shell):
    (shell.folder / "policies").mkdir()
    (shell.folder / "policies" / "night.yaml").touch()

    assert shell.type("burstctl policy check policies/n").line == "burstctl policy check policies/night.yaml "
    assert shell.type("burstctl --policy=policies/n").line == "burstctl --policy=policies/night.yaml "


def test_profiles_are_those_of_the_aws_configuration(shell):
    (shell.folder / ".aws").mkdir()
    (shell.folder / ".aws" / "config").write_text("[profile prod]\n[profile pro:staging]\n")

    assert shell.type("burstctl assess --profile pr").candidates == ["prod", "pro:staging"]
    assert shell.type("burstctl assess --profile=pro:").line.replace("\\", "").endswith("=pro:staging ")


def test_to_list_the_commands_none_of_them_is_imported(cli):
    command = (
        "import sys\nfrom burstctl.main import main\ntry:\n    main()\nfinally:\n"
        "    print(sorted(n for n in sys.modules if n.startswith(('burstctl.commands', 'botocore', 'rich'))),"
        " file=sys.stderr)"
    )
    roots = os.pathsep.join(str(ROOT / root) for root in ("lambdas", "runbooks"))
    result = subprocess.run(
        [sys.executable, "-c", command],
        env={
            **os.environ,
            "PYTHONPATH": roots,
            "_BURSTCTL_COMPLETE": "bash_complete",
            "BURSTCTL_LINE": "burstctl ",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert "plain\tassess\t" in result.stdout
    assert result.stderr.strip() == "[]"


@pytest.mark.parametrize("name", SHELLS)
def test_each_shell_gets_a_script_that_it_takes(cli, name):
    script = cli.run("completion", name).out

    assert "_BURSTCTL_COMPLETE" in script
    if (program := shutil.which(name)) is not None:
        file = cli.directory / "script"
        file.write_text(script)
        checked = subprocess.run([program, "-n", file], capture_output=True, timeout=60, check=False)
        assert (checked.returncode, checked.stderr) == (0, b"")


def test_a_shell_that_is_not_known_is_a_usage_error(cli):
    result = cli.run("completion", "powershell")

    assert result.code == 2
    assert "'bash', 'zsh', 'fish'" in result.err
