"""What a page shows: its console blocks, the commands in them, and the output below each."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path

ELIDED = "…"
"""In a line: anything may stand there. A line of its own: any number of lines."""

OUTPUT_REQUESTED = "?"
"""The whole output of a command, until it is rewritten: for the author of a page."""

_FENCE = re.compile(r"(?P<indent> *)```console")
_DIRECTIVE = re.compile(r" *<!-- lab: (?P<words>.+?) -->")
_PLACES = re.compile(r"sqlite:\S+?/(?=ledger-)")
_PASSING = (
    (re.compile(r"(?<=sqlite:)\S+?/(?=ledger-)"), f"{ELIDED}/"),
    (re.compile(r"http://127\.0\.0\.1:\d+"), ELIDED),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), ELIDED),
    (re.compile(r"[0-9.]+ s, [0-9.]+ [kMG]B/s$"), f"{ELIDED} s, {ELIDED}"),
)
"""What differs from run to run; ``--rewrite`` leaves it out."""


@dataclass
class Command:
    """A command as it is pasted, from ``line`` of its page on, and the output that the page shows below it.

    ``asides`` are the lab's stage directions since the command before: what a reader does not see.
    """

    text: str
    line: int
    indent: str
    directives: list[str]
    expected_output: list[str] = field(default_factory=list)
    output_from_line: int = 0

    def __str__(self) -> str:
        return self.text.splitlines()[0]


@dataclass
class Page:
    """A page and its commands, in their order."""

    path: Path
    lines: list[str]
    commands: list[Command]

    @classmethod
    def read(cls, path: Path) -> "Page":
        lines = path.read_text().splitlines()
        return cls(path, lines, list(_commands(lines)))

    def rewrite(self, outputs: dict[int, list[str]]) -> bool:
        """Put what each command, by its place, really said in place of what was shown; was that a change?"""
        lines = list(self.lines)
        for place in sorted(outputs, reverse=True):
            command = self.commands[place]
            reported = updated_output(command.expected_output, outputs[place])
            reported = [f"{command.indent}{line}".rstrip() for line in reported]
            lines[command.output_from_line : command.output_from_line + len(command.expected_output)] = (
                reported
            )
        if lines != self.lines:
            self.path.write_text("\n".join(lines) + "\n")
        return lines != self.lines


def _commands(lines: list[str]) -> Iterator[Command]:
    indent, command, asides = None, None, []
    for number, line in enumerate(lines):
        if indent is None:
            asides += [result["words"]] if (result := _DIRECTIVE.fullmatch(line)) else []
            indent = result["indent"] if (result := _FENCE.fullmatch(line)) else None
        elif line == f"{indent}```":
            indent = None
            if command is not None:
                yield command
            command = None
        else:
            inside = line.removeprefix(indent)
            if inside.startswith("$ "):
                if command is not None:
                    yield command
                command = Command(inside[2:], number + 1, indent, asides)
                asides = []
            elif command is not None and not command.expected_output and _is_continued(command.text):
                command.text += f"\n{inside}"
            elif command is not None:
                command.expected_output.append(inside.rstrip())
            if command is not None and not command.expected_output:
                command.output_from_line = number + 1


_TOKEN = re.compile(r"\\\n|\\.|\$\(|(?<!\S)#[^\n]*|\bdo\b|\bdone\b|['\"(){}]", re.DOTALL)
_ENDS = {"'": "'", '"': '"', "$(": ")", "(": ")", "{": "}", "do": "done"}


def _is_continued(text: str) -> bool:
    """Whether a shell would wait for another line: something is open, or the line ends in a backslash."""
    open_: list[str] = []
    for item in _TOKEN.finditer(text):
        token, inside = item[0], open_[-1] if open_ else ""
        if inside == "'" and token != "'":
            continue
        if inside == '"' and token not in ('"', "$("):
            continue
        if token == _ENDS.get(inside):
            open_.pop()
        elif token in _ENDS:
            open_.append(token)
    return bool(open_) or text.endswith("\\")


def matches_page(documented: list[str], output: list[str]) -> bool:
    """Whether the output is what the page shows, but for what it leaves out.

    Which policy and which ledger are in force stands above all that burstctl says; a page need not repeat it.
    """
    pattern = "\n".join(_pattern(line) for line in documented)
    pattern = pattern.replace(f"{_ANY_LINES}\n", f"(?:{_ANY_LINES}\n)?")
    pattern = pattern.replace(f"\n{_ANY_LINES}", f"(?:\n{_ANY_LINES})?")
    return any(re.fullmatch(pattern, "\n".join(lines)) for lines in (output, without_locations(output)))


_ANY_LINES = r"[\s\S]*?"


def _pattern(line: str) -> str:
    if line == ELIDED:
        return _ANY_LINES
    return ".+?".join(re.escape(part) for part in line.split(ELIDED))


def without_locations(output: list[str]) -> list[str]:
    """The output without the lines at its top that say where policy and ledger are."""
    place = 0
    while place < len(output) and output[place].startswith(("policy:", "ledger:", "  ")):
        place += 1
    return output[place:]


def updated_output(documented: list[str], output: list[str]) -> list[str]:
    """What the page should show of this output: as much as it showed before, the same parts left out."""
    if matches_page(documented, output):
        return documented
    reported = (
        output
        if any(line.startswith(("policy:", "ledger:")) for line in documented)
        else without_locations(output)
    )
    reported = [_keep_elided(line, documented) for line in reported]
    if OUTPUT_REQUESTED in documented or ELIDED not in documented:
        return reported
    return _with_same_elisions(documented, reported)


def _keep_elided(line: str, documented: list[str]) -> str:
    """As it was shown, if it may still be; else without what differs from run to run."""
    for old in documented:
        if old not in (ELIDED, OUTPUT_REQUESTED) and ELIDED in old and re.fullmatch(_pattern(old), line):
            return old
    for passing, instead in _PASSING:
        line = passing.sub(instead, line)
    return line


def _with_same_elisions(documented: list[str], reported: list[str]) -> list[str]:
    """The parts between elisions, each from the line most like its first to the line most like its last."""
    parts = [part.split("\n") if part else [] for part in _split(documented)]
    elided, after = [], 0
    for number, part in enumerate(parts):
        if number:
            elided.append(ELIDED)
        if not part:
            continue
        first = 0 if number == 0 else _closest_match(part[0], reported, after)
        last = len(reported) - 1 if number == len(parts) - 1 else _closest_match(part[-1], reported, first)
        elided += reported[first : last + 1]
        after = last + 1
    return elided


def _split(documented: list[str]) -> list[str]:
    return ["\n".join(part) for part in _parts(documented)]


def _parts(documented: list[str]) -> Iterator[list[str]]:
    part: list[str] = []
    for line in documented:
        if line == ELIDED:
            yield part
            part = []
        else:
            part.append(line)
    yield part


def _closest_match(line: str, reported: list[str], after: int) -> int:
    similarities = [SequenceMatcher(None, line, item).ratio() for item in reported[after:]]
    return after + similarities.index(max(similarities)) if similarities else max(0, len(reported) - 1)
