"""Every command on every page does what the page shows; ``--rewrite`` writes the output again."""

import re
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from burstwatch.core.alerts.alert import AlertKind
from support.paths import ROOT
from support.runbooks.external_commands import commands_run_elsewhere, without_comment
from support.runbooks.fake_programs import FAKE_PROGRAMS
from support.runbooks.page_environment import page_environment
from support.runbooks.page_parser import OUTPUT_REQUESTED, Command, Page, matches_page
from support.runbooks.page_setups import LAB_SETTINGS, PAGE_SETUPS, a_calm_fleet

pytestmark = pytest.mark.usefixtures("synthesized_stack")


PAGES = [
    *sorted((ROOT / "runbooks").glob("*.md")),
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "ddprobe" / "ddprobe.md",
]
HOME = "/home/anna"
PASSED = {0, 3, 4}
"""Done; and done with a volume that needs attention, or one that was refused: pages are about those."""

NOT_RUN = {
    "burstctl aws-check": "waits for hours; test_burstctl_aws_check_facts.py lets them go by",
    "burstctl aws-check --only ratio-refusal --only zone-filter": "waits too; the same test tries both",
    "burstctl top": "needs a terminal; test_burstctl_top.py has one",
    "make demo": "takes minutes; tests/e2e plays its first half hour",
    "make test": "is what runs this",
}
"""Commands that no test runs, and why."""

NO_PRESSURE = "no test: this kernel does not account for pressure"

PROGRAMS_NOT_RUN = {
    "apt-get",
    "burstlab",
    "dnf",
    "git",
    "iotop",
    "kubectl",
    "make",
    "mount",
    "pip",
    "rpm",
    "swapon",
    "umount",
    "uvx",
}
"""Programs that change a host, or need more than a lab: a page's line with one is run by another test."""

NEEDS = {
    "tests/e2e/test_deployed.py": "the real cdk, before a local AWS",
    "tests/install/conftest.py": "pip, in an empty environment",
    "tests/install/test_install.py": "uv, in an empty environment",
    "tests/probe/test_probe_packages.py": "a clean root, where there may be one",
    "tests/probe/test_probe_disk.py": "a real disk that is throttled, where there may be one",
    "tests/runbooks/test_checkout_commands.py": "make, in a checkout that is set up",
    "tests/runbooks/test_real_disk_commands.py": "a real disk that is throttled, where there may be one",
}
"""With what other tests run commands of pages."""


def page_id(page: Path) -> str:
    """What a page and its scene are called; two are called README."""
    if page.parent.name == "runbooks":
        return "index" if page.stem == "README" else page.stem
    return str(page.relative_to(ROOT).with_suffix(""))


@cache
def commands_of_other_tests() -> dict[tuple[Path, int], str]:
    return {(path, line): test for path, line, test in commands_run_elsewhere()}


def skip_reason(page: Page, command: Command) -> str | None:
    """Why a command is not run here; None if it is."""
    if test := commands_of_other_tests().get((page.path, command.line)):
        return f"{test}: {NEEDS[test]}"
    text = without_comment(command.text)
    if text in NOT_RUN:
        return f"no test: {text} {NOT_RUN[text]}"
    if "/proc/pressure" in command.text and not Path("/proc/pressure/io").exists():
        return NO_PRESSURE
    return None


def programs(command: Command) -> list[str]:
    """What it calls, as far as it is seen from outside."""
    called = r"(?:^|&&|\|\||[;|\n]|\$\(|\bdo\b)\s*(?:\w+=\S+ |sudo )*([\w./-]+)"
    return [Path(word).name for word in re.findall(called, command.text)]


def fake_program_in(command: Command) -> str | None:
    """The program in it that another one stands in for."""
    return next((name for name in programs(command) if name in FAKE_PROGRAMS), None)


@dataclass
class PageRun:
    """A page being played: its stage and its terminal, set up again where the page says so."""

    path: Path
    monkeypatch: Any

    def __enter__(self):
        self._ending = ExitStack()
        try:
            self.set_up()
        except BaseException:
            self._ending.close()
            raise
        return self

    def __exit__(self, *error):
        self._ending.close()

    def set_up(self, name: str | None = None) -> None:
        self._ending.close()
        self._home = self._ending.enter_context(TemporaryDirectory(prefix=""))
        name = name or page_id(self.path)
        stage = page_environment(Path(self._home), self.monkeypatch, **LAB_SETTINGS.get(name, {}))
        self.stage = self._ending.enter_context(stage)
        PAGE_SETUPS.get(name, a_calm_fleet)(self.stage)
        self.terminal = self._ending.enter_context(self.stage.terminal())

    def paste(self, text: str) -> tuple[int, str]:
        """Exit code and what is seen; the desk's home, another each time, is called as pages call it."""
        code, output = self.terminal.run(text)
        return code, output.replace(self._home, HOME)

    def apply_directive(self, aside: str) -> None:
        """A stage direction, which only the page's source shows."""
        if aside == "reset":
            self.set_up()
        elif result := re.fullmatch(r"scene (\w+)", aside):
            self.set_up(result[1])
        elif result := re.fullmatch(r"(\d+) min later", aside):
            self.stage.advance_minutes(int(result[1]))
            self.stage.watch(acts=True)
        else:
            raise AssertionError(f"{aside!r} is not a direction; use reset, scene NAME, or 30 min later")


@pytest.mark.parametrize("path", PAGES, ids=page_id)
def test_every_command_does_what_the_page_shows(path, monkeypatch, request):
    page = Page.read(path)
    with PageRun(path, monkeypatch) as performance:
        if page_id(path) in set(AlertKind):
            assert path.stem in performance.stage.alert_kinds()
        outputs = run_page(page, performance)
    if request.config.getoption("--rewrite"):
        page.rewrite(outputs)
        return
    for place, text in outputs.items():
        command = page.commands[place]
        reported = "\n".join(text)
        assert matches_page(command.expected_output, text), (
            f"{path.name}:{command.line}: $ {command}\nsays now:\n{reported}\n"
            "pytest tests/runbooks --rewrite shows it: read the difference before you commit it"
        )


@pytest.mark.parametrize("kind", [AlertKind.DRAINING, AlertKind.EXHAUSTED])
def test_a_page_shows_its_alert_as_a_terminal_does(kind, monkeypatch, request):
    path = ROOT / "runbooks" / f"{kind}.md"
    with PageRun(path, monkeypatch) as performance:
        alert = first_alert(performance.stage.alerts)
    before, expected, after = re.fullmatch(r"(?s)(.*?```text\n)(.*?)(```\n.*)", path.read_text()).groups()
    if request.config.getoption("--rewrite"):
        path.write_text(f"{before}{alert}{after}")
        return
    assert expected == alert


def first_alert(lines: list[str]) -> str:
    """The first alert of a pass: a line that begins with its level, and those below it."""
    first = next(number for number, line in enumerate(lines) if re.match(r"[A-Z]{3,}: ", line))
    below = takewhile(lambda line: line.startswith("  "), lines[first + 1 :])
    return "".join(f"{line}\n" for line in (lines[first], *below))


def run_page(page: Page, performance: PageRun) -> dict[int, list[str]]:
    """Paste one command after the other; what those said that the page shows an output of."""
    outputs = {}
    for place, command in enumerate(page.commands):
        for aside in command.directives:
            performance.apply_directive(aside)
        if skip_reason(page, command):
            check_syntax(performance.terminal, command)
            continue
        forbidden = PROGRAMS_NOT_RUN.intersection(programs(command))
        assert not forbidden, (
            f"{page.path.name}:{command.line}: {forbidden} is not run here: see external_commands.py"
        )
        code, text = performance.paste(command.text)
        assert code in PASSED or command.expected_output, (
            f"{page.path.name}:{command.line}: $ {command.text}\n{text}exit code {code}"
        )
        if command.expected_output:
            outputs[place] = [line.rstrip() for line in text.rstrip("\n").splitlines()]
    return outputs


def check_syntax(terminal, command: Command) -> None:
    (terminal.folder / "unrun.sh").write_text(f"{command.text}\n")
    code, text = terminal.run("bash -n unrun.sh")
    assert code == 0, f"{command.text}: {text}"


def test_how_many_commands_there_are():
    """``pytest -s`` prints it, for the documents."""
    counted: Counter[str] = Counter()
    compared = 0
    for page in map(Page.read, PAGES):
        for command in page.commands:
            why = skip_reason(page, command)
            program = fake_program_in(command)
            location = f"here, with a {program} that stands in for the real one" if program else "here"
            counted[why or location] += 1
            compared += bool(command.expected_output and not (why or "").startswith("no test"))
    skipped_reasons = {who for who in counted if who.startswith("no test")}
    run = sum(times for who, times in counted.items() if who not in skipped_reasons)
    of_all = f"{counted.total()} commands on {len(PAGES)} pages: {run} are run"
    lines = [
        f"  {times} by {who}" if ":" in who else f"  {times} {who}" for who, times in sorted(counted.items())
    ]
    print(f"\n{of_all}, {compared} have their output compared", *lines, sep="\n")  # noqa: T201 - what it is for
    assert len(skipped_reasons - {NO_PRESSURE}) == len(NOT_RUN)


def test_no_page_still_requests_an_output():
    prompting = [
        f"{path.name}:{c.line}"
        for path in PAGES
        for c in Page.read(path).commands
        if OUTPUT_REQUESTED in c.expected_output
    ]
    assert prompting == []
