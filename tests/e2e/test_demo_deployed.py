import sys
from io import StringIO
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from burstlab.demo.command import demo, run_demo
from burstlab.demo.live_view import _render, open_view, print_introduction, print_summary

HOURS = 0.4
"""Until 16:24: a critical volume is moved at once, and the first of a window's at 16:20."""


def test_the_demo_runs_on_the_deployed_stack(tmp_path):
    """The start of the story; that of the functions, from end to end, is in test_deployed.py."""
    lines = Console(file=StringIO(), width=80)
    boards = Console(file=StringIO(), width=80, force_terminal=True, color_system=None)
    picture, steps = tmp_path / "demo.png", []
    print_introduction(lines, hours=HOURS, seconds=0, is_deployed=True)
    with open_view(lines) as show:

        def show_both(stage):
            show(stage)
            boards.print(_render(stage))

        stage = run_demo(hours=HOURS, seconds=0, picture=picture, show=show_both, log=steps.append)
    print_summary(lines, stage)
    text, screen_text = lines.file.getvalue(), boards.file.getvalue()
    assert [step.partition(":")[0] for step in steps[:2]] == ["cdk bootstrap", "cdk deploy"]
    assert "16:01  FLIPPED: etcd-0 is on its way to gp3" in text
    assert "16:20  FLIPPED: orders-db is on its way to gp3" in text
    assert "in Slack, as it arrives" in screen_text
    assert "FLIPPED: etcd-0" in screen_text
    assert max(map(len, (text + screen_text).splitlines())) <= 80
    assert stage.api_calls["ModifyVolume"] == 2
    assert {"DescribeFileSystems", "DescribeDBInstances"} <= stage.api_calls.keys()
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("missing", ["the local AWS", "the CDK's command"])
def test_the_demo_names_what_to_install(tmp_path, monkeypatch, missing):
    if missing == "the CDK's command":
        (tmp_path / "local-aws").symlink_to(Path(sys.prefix) / "local-aws")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    result = CliRunner().invoke(demo, ["--deployed", "--picture", str(tmp_path / "demo.png")])
    assert result.exit_code == 1
    assert f"{missing} is not installed" in result.output
    assert "run `make setup`" in result.output
