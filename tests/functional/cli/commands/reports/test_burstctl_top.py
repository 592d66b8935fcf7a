"""burstctl top on a pseudo-terminal: its frames, its keys, and the terminal as it was."""

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

import pytest

from burstlab.fake_aws.faults import Fault
from burstlab.model.file_system import LabFileSystem
from burstwatch.core.text import display_width
from support.cli.cli_session import add_calm, add_critical, add_exhausted, count_modify_calls
from support.paths import ROOT

WITHIN_S = 60
ALTERNATE_SCREEN, ORDINARY_SCREEN, SHOW_CURSOR = "\x1b[?1049h", "\x1b[?1049l", "\x1b[?25h"
FRAME_START = "\x1b[H"
COLOURS = re.compile(r"\x1b\[(?:[0-9;]*;)?[34][0-7][;m]")


class Terminal:
    """A terminal with burstctl on it: everything that it was sent so far is ``text``."""

    def __init__(self, cli, *arguments, columns=80, lines=24, **environment):
        self._own_end, self._other_end = pty.openpty()
        self.resize(columns, lines)
        self.attributes = termios.tcgetattr(self._other_end)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), self._other_end)
        environment = {"TERM": "xterm-256color", "PAGER": "cat", **environment}
        # in a session of its own, a pager reads its keys from this terminal
        options = {"env": environment, "text": False, "start_new_session": True, **streams}
        self._running = cli.start_subprocess("top", *arguments, **options)

    def __enter__(self):
        self.process = self._running.__enter__()
        return self

    def __exit__(self, *error):
        self._running.__exit__(*error)
        os.close(self._own_end)
        os.close(self._other_end)

    @property
    def frame(self):
        """The last frame that is here as a whole, without styles: a read may end in the middle of one."""
        _, *frames = self.text.rsplit(FRAME_START, 2)
        frames = [
            re.sub(r"\x1b(\[[0-9;?]*([A-Za-z]|\Z)|\Z)", "", frame).replace("\r", "") for frame in frames
        ]
        if frames and not self._is_whole(frames[-1]):
            frames.pop()
        return frames[-1] if frames else ""

    def _is_whole(self, frame):
        """A frame fills the terminal, the last line too."""
        lines = frame.split("\n")
        return len(lines) >= self._lines and display_width(lines[self._lines - 1]) >= self._columns

    def resize(self, columns, lines):
        """Frames of the former size are not looked at any more."""
        self.text = ""
        self._columns, self._lines = columns, lines
        fcntl.ioctl(self._own_end, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def wait_for(self, pattern, *, in_frame=True):
        """Until the last frame, or the text since the keys were pressed, has this."""
        ends_at_s = time.monotonic() + WITHIN_S
        while not re.search(pattern, self.frame if in_frame else self.text):
            self._receive(ends_at_s, f"{pattern!r} was not shown, but:\n{self.frame}")

    def press(self, keys):
        """Press keys; after Enter at a question, only what comes then is looked at."""
        self.text = "" if "\n" in keys else self.text
        os.write(self._own_end, keys.encode())

    def wait_for_end(self):
        ends_at_s = time.monotonic() + WITHIN_S
        while self.process.poll() is None:
            self._receive(ends_at_s, f"it does not end:\n{self.frame}", can_be_silent=True)
        while select.select([self._own_end], [], [], 0)[0]:
            self.text += self._decoder.decode(os.read(self._own_end, 65_536))
        return self.process.returncode

    def is_restored(self):
        is_ordinary = self.text.rfind(ORDINARY_SCREEN) > self.text.rfind(ALTERNATE_SCREEN)
        is_cursor_visible = self.text.rfind(SHOW_CURSOR) > self.text.rfind("\x1b[?25l")
        return is_ordinary and is_cursor_visible and termios.tcgetattr(self._other_end) == self.attributes

    def _receive(self, ends_at_s, message, *, can_be_silent=False):
        assert time.monotonic() < ends_at_s, message
        if select.select([self._own_end], [], [], 0.05)[0]:
            self.text += self._decoder.decode(os.read(self._own_end, 65_536))
        else:
            assert can_be_silent or self.process.poll() is None, f"it has ended:\n{self.text}"


def test_it_shows_the_fleet_explains_the_selected_and_quits(cli, lab):
    add_exhausted(lab)
    critical = add_critical(lab, tags={"role": "ci"})
    add_calm(lab)
    with Terminal(cli) as terminal:
        terminal.wait_for(r"> exhausted  etcd-1 .*0\.0 %.*now")
        assert "1 exhausted  1 critical  1 ok" in terminal.frame
        assert COLOURS.search(terminal.text)
        assert re.search(r"critical   ci-7 .* 33\.0 %  [▁▂▃▅▆▇·]+ +in 10 min \(18:10\)", terminal.frame)

        terminal.press("j")
        terminal.wait_for(rf"> critical(?s:.*){critical}  ci-7  100 GiB")
        terminal.press("\r")
        terminal.wait_for(r"Press Enter to return to the list", in_frame=False)
        explained = terminal.text.rpartition(ORDINARY_SCREEN)[2]
        assert f"$ burstctl explain {critical}\x1b" in explained
        assert "33.0 %" in explained
        terminal.press("\n")
        terminal.wait_for(r"> critical   ci-7")
        terminal.press("q")

        assert terminal.wait_for_end() == 0
        assert terminal.is_restored()
    assert not cli.ledger_path.parent.exists()


def test_an_explanation_that_is_longer_than_the_screen_opens_in_the_pager(cli, lab):
    critical = add_critical(lab)
    with Terminal(cli, PAGER="less") as terminal:
        terminal.wait_for(r"> critical")
        terminal.press("\r")
        terminal.wait_for(rf"burstctl explain {critical}(?s:.*)\n:", in_frame=False)
        assert f"{critical} (ci-7)" in terminal.text
        assert "Quota" not in terminal.text
        assert "Press Enter" not in terminal.text
        terminal.press("q")
        terminal.wait_for(r"Press Enter to return to the list", in_frame=False)
        terminal.press("\n")
        terminal.wait_for(r"> critical")


def test_the_plan_of_a_volume_changes_nothing_and_others_have_none(cli, lab):
    volume = add_critical(lab)
    lab.fleet.file_systems.add(LabFileSystem(size_gib=58, balance_pct=50, load="steady:400@256%0"))
    with Terminal(cli, "--kind", "ebs,efs") as terminal:
        terminal.wait_for(r"ci-7(?s:.*)fs-")
        terminal.press("/ci-7\r")
        terminal.wait_for(r"\[/ci-7\]")
        terminal.press("p")
        terminal.wait_for(r"Press Enter", in_frame=False)
        assert f"$ burstctl flip {volume} --dry-run" in terminal.text
        terminal.press("\n")
        terminal.wait_for(r"\[/ci-7\]")
        terminal.press("\x1b")
        terminal.wait_for(r"2 resources")
        terminal.press("\t\tp")
        terminal.wait_for(r"flip changes volumes only")
    assert lab.fleet.modifications(volume) == []


def test_a_hold_needs_a_duration_a_reason_and_a_yes(cli, lab):
    volume = add_critical(lab)
    with Terminal(cli, "--ledger", f"sqlite:{cli.ledger_path}") as terminal:
        terminal.wait_for(r"> critical")
        for answer in ("n", "y"):
            terminal.press("h")
            terminal.wait_for(r"For how long", in_frame=False)
            terminal.press("soon\n")
            terminal.wait_for(r"'soon' is not a valid duration(?s:.*)For how long", in_frame=False)
            terminal.press("2h\n")
            terminal.wait_for(r"Why", in_frame=False)
            terminal.press("restore test\n")
            terminal.wait_for(rf"Hold {volume} for 2h\? \[y/N\]", in_frame=False)
            terminal.press(f"{answer}\n")
            terminal.wait_for(r"Press Enter", in_frame=False)
            assert ("nothing was done" in terminal.text) == (answer == "n")
            terminal.press("\n")
            terminal.wait_for(r"> critical")
        terminal.wait_for(r"held")
    with cli.open_ledger() as ledger:
        [hold] = ledger.holds(0)
    assert (hold.volume_id, hold.reason, hold.until_s - hold.placed_at_s) == (volume, "restore test", 7200)
    assert count_modify_calls(lab) == 0


def test_a_hold_that_no_watchdog_would_read_is_refused_before_the_questions(cli, lab):
    add_critical(lab)
    with Terminal(cli) as terminal:
        terminal.wait_for(r"> critical")
        terminal.press("h")
        terminal.wait_for(r"Press Enter to return", in_frame=False)
        text = " ".join(terminal.text.rpartition(ORDINARY_SCREEN)[2].split())
        assert "nothing was held: no stack and no ledger in us-east-1." in text
        assert "For how long" not in text
        terminal.press("\n")
        terminal.wait_for(r"> critical")
    assert not cli.ledger_path.parent.exists()


def test_where_reads_and_pays_for_what_it_selects_only(cli, lab):
    add_critical(lab, tags={"team": "ci"})
    for number in range(3):
        add_calm(lab, f"db-{number}", tags={"team": "db"})
    with Terminal(cli) as terminal:
        terminal.wait_for(r"4 resources")
        price_of_all = read_price(terminal)
    with Terminal(cli, "--where", "tag:team=ci") as terminal:
        terminal.wait_for(r"> critical   ci-7(?s:.*)")
        assert "1 resource " in terminal.frame
        assert 0 < read_price(terminal) < price_of_all
    with Terminal(cli, "--where", "tag:nope=x") as terminal:
        terminal.wait_for(r"nothing with burst credits matches tag:nope=x")
        assert read_price(terminal) == 0


def read_price(terminal):
    """Of an hour, in dollars."""
    terminal.wait_for(r"\$[0-9.]+ an hour")
    return float(re.search(r"\$([0-9.]+) an hour", terminal.frame)[1])


def test_a_wide_name_that_the_terminal_cannot_show_shifts_no_column(cli, lab):
    add_critical(lab, "数据库-1")
    add_calm(lab, "ci-8")
    with Terminal(cli, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0") as terminal:
        terminal.wait_for(r"critical   \?{6}-1")
        rows = [line for line in terminal.frame.split("\n") if " %  " in line]
        assert len({row.index(" %  ") for row in rows}) == 1


def test_keys_work_while_aws_does_not_answer(cli, lab):
    lab.faults.add(Fault(action="DescribeVolumes", kind="timeout"))
    with Terminal(cli) as terminal:
        terminal.wait_for(r"reading for \d+ s")
        terminal.press("?")
        terminal.wait_for(r"burstctl explain of the selected resource")
        terminal.press("qq")

        assert terminal.wait_for_end() == 0
        assert terminal.is_restored()


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("\x03", 0),
        (signal.SIGINT, 130),
        (signal.SIGTERM, 130),
        (signal.SIGHUP, 130),
    ],
)
def test_however_it_ends_the_terminal_is_as_it_was(cli, lab, end, code):
    add_calm(lab)
    with Terminal(cli) as terminal:
        terminal.wait_for(r"> ok")
        assert termios.tcgetattr(terminal._other_end) != terminal.attributes
        if isinstance(end, str):
            terminal.press(end)
        else:
            terminal.process.send_signal(end)

        assert terminal.wait_for_end() == code
        assert terminal.is_restored()
        assert "Traceback" not in terminal.text


def test_an_error_of_its_own_leaves_the_terminal_as_it_was(cli, lab):
    (cli.directory / "sitecustomize.py").write_text(
        "import burstctl.top.frame\n"
        "def fail(*_, **__):\n    raise KeyError('row')\n"
        "burstctl.top.frame.render_frame = fail\n"
    )
    roots = [str(cli.directory), *(str(ROOT / root) for root in ("lambdas", "runbooks"))]
    with Terminal(cli, PYTHONPATH=os.pathsep.join(roots)) as terminal:
        assert terminal.wait_for_end() == 1
        assert terminal.is_restored()
        assert "unexpected KeyError: 'row'" in terminal.text.rpartition(ORDINARY_SCREEN)[2]


def test_a_policy_that_is_wrong_is_refused_on_the_ordinary_screen(cli, lab):
    (cli.directory / "policy.yaml").write_text("version: 1\nlevels: 3\n")
    with Terminal(cli) as terminal:
        assert terminal.wait_for_end() == 2
        assert terminal.is_restored()
        assert "the policy is rejected:" in terminal.text.rpartition(ORDINARY_SCREEN)[2]


def test_a_read_that_fails_is_marked_and_exits_1(cli, lab):
    lab.faults.add(Fault(action="DescribeVolumes", code="UnauthorizedOperation", status=403))
    with Terminal(cli, "--kind", "ebs") as terminal:
        terminal.wait_for(r"! .*DescribeVolumes")
        terminal.press("q")

        assert terminal.wait_for_end() == 1


def test_without_colours_and_on_narrow_terminals_it_has_the_same_words(cli, lab):
    volume = add_exhausted(lab)
    with Terminal(cli, columns=40, NO_COLOR="1") as terminal:
        for columns in (40, 60, 80, 120):
            terminal.resize(columns, 24)
            terminal.wait_for(r"> .*etcd-1 +0\.0 % .* now")
            assert re.search(rf"exhausted(?s:.*){volume}", terminal.frame)
            assert max(map(len, terminal.frame.split("\n"))) <= columns
            assert not COLOURS.search(terminal.text)


def test_a_long_and_hostile_name_leaves_the_balance_and_the_time_whole(cli, lab):
    add_critical(lab, "\u202eprod\n\u2028\t" + "数据库" * 80)
    with Terminal(cli, columns=40) as terminal:
        terminal.wait_for(r"> .*prod.*… +33\.0 %  in 10 min")
        assert max(map(display_width, terminal.frame.split("\n"))) <= 40
        assert not set("\u202e\u2028\t") & set(terminal.text)


def test_five_lines_are_enough_for_the_most_urgent_and_the_keys(cli, lab):
    for number in range(5):
        add_critical(lab, f"ci-{number}")
    with Terminal(cli, columns=40, lines=5) as terminal:
        terminal.wait_for(r"read .*\n> ci-\d +33\.0 %  in 10 min +(\n  ci-\d.*){2}\n\? help  q quit *$")
        terminal.press("q")
        assert terminal.wait_for_end() == 0


def test_an_empty_fleet_has_its_reason_on_a_narrow_terminal(cli, lab):
    with Terminal(cli, columns=40) as terminal:
        terminal.wait_for(r"nothing has burst credits here")
        terminal.press("\rp")
        terminal.press("q")
        assert terminal.wait_for_end() == 0


def test_without_a_terminal_it_names_what_works(cli, lab):
    result = cli.run("top")

    assert result.code == 2
    assert result.err == (
        "error: top needs a terminal for its keys and its output.\n"
        "  fix: run burstctl assess once, or burstctl watch for a line for each look\n"
    )
    assert lab.faults.call_counts() == {}


def test_a_terminal_that_is_dumb_is_refused(cli, lab):
    with Terminal(cli, TERM="dumb") as terminal:
        assert terminal.wait_for_end() == 2
        assert "fix: run burstctl assess once" in terminal.text
        assert "\x1b" not in terminal.text


def test_json_is_refused_with_the_commands_that_have_it(cli):
    result = cli.run("top", "--json")

    assert result.code == 2
    assert "fix: use burstctl assess --json, or watch --json" in result.err
