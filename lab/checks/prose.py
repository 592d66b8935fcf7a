"""Check the words of pages, strings, docstrings, comments and names against ``words.toml``: ``make prose``.

A finding is a sentence that is too long, or a word that is not the usual one. An exception is a row of
``words.toml`` with its reason.
"""

import argparse
import json
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any, Final

from passages import (
    LEXERS,
    NAMES,
    Passage,
    passages_of_page,
    passages_of_python,
    passages_of_tokens,
)

ROOT: Final = Path(__file__).resolve().parents[2]
WORD_FILE: Final = Path(__file__).with_name("words.toml")

CLEAN_FILES: Final = ROOT / "build" / "prose.json"
"""The hashes of files that had no findings: those are not read again."""

NOT_READ: Final = ("ddprobe/ddprobe.py", "lab/checks/words.toml")
"""What a script writes from files that are read themselves, and the words that are not usual."""

_READERS: Final = {
    ".md": passages_of_page,
    ".py": passages_of_python,
    **dict.fromkeys(LEXERS, passages_of_tokens),
}
"""What reads a file, by the end of its path."""

LONGEST_SENTENCE: Final = 30
"""Words. A longer sentence has to be read twice, and some are read at night."""

_SENTENCE_END = re.compile(r"(?<=[.!?])[)*\"'”]*\s+|\s·\s|\n\n+")
_ABBREVIATION = re.compile(r"\b(e\.g|i\.e|vs|cf|etc)\.", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]\S*|[$%]\S+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A word or phrase that is not usual, and what to write instead."""

    pattern: re.Pattern[str]
    instead: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A place that breaks a rule."""

    passage: Passage
    problem: str

    def __str__(self) -> str:
        return f"{self.passage.path}:{self.passage.line}: {self.problem}"


class WordList:
    """The rules of a word list, and the exceptions from them."""

    def __init__(self, document: dict[str, Any]) -> None:
        """Compile the rules.

        Raises:
            ValueError: If an exception has no reason.
        """
        self._text = [
            Rule(pattern=re.compile(rf"\b(?:{row['find']})\b", re.IGNORECASE), instead=row["instead"])
            for row in document.get("text", ())
        ]
        self._any_text = re.compile("|".join(rule.pattern.pattern for rule in self._text), re.IGNORECASE)
        self._name_parts: dict[str, dict[str, str]] = {}
        self._whole_names: dict[str, dict[str, str]] = {}
        for row in document.get("name", ()):
            table = self._whole_names if row.get("whole") else self._name_parts
            table.update(dict.fromkeys(row["find"].split(), row))
        self._exceptions = document.get("exception", [])
        for row in self._exceptions:
            if not row.get("reason", "").strip():
                raise ValueError(f"the exception for {row['path']} ({row['contains']!r}) has no reason")

    def check(self, passage: Passage) -> Iterator[Finding]:
        """Yield what is wrong with one passage, unless an exception allows it."""
        for problem in self._problems(passage):
            if not self._is_excused(passage):
                yield Finding(passage=passage, problem=problem)

    def _problems(self, passage: Passage) -> Iterator[str]:
        if passage.group == NAMES:
            yield from self._name_problems(passage.text)
            return
        yield from long_sentences(passage.text)
        if self._any_text.search(passage.text):
            for rule in self._text:
                for match in rule.pattern.finditer(passage.text):
                    yield f'"{match[0]}": {rule.instead}'

    def _name_problems(self, name: str) -> Iterator[str]:
        rows = [self._name_parts[part] for part in name.split("_") if part in self._name_parts]
        if whole := self._whole_names.get(name.strip("_")):
            rows.append(whole)
        for row in rows:
            if not any(phrase in name for phrase in row.get("unless", "").split()):
                yield f'name "{name}": {row["instead"]}'

    def _is_excused(self, passage: Passage) -> bool:
        return any(
            row["contains"] in passage.text and PurePosixPath(passage.path).match(row["path"])
            for row in self._exceptions
        )


def long_sentences(text: str) -> Iterator[str]:
    """Yield a problem for each sentence of more than ``LONGEST_SENTENCE`` words."""
    if len(text.split()) <= LONGEST_SENTENCE:
        return
    for sentence in _SENTENCE_END.split(_ABBREVIATION.sub(r"\1", text)):
        count = len(_WORD.findall(sentence))
        if count > LONGEST_SENTENCE:
            yield f'a sentence of {count} words: "{" ".join(sentence.split())[:60]}…"'


def tracked_files() -> list[str]:
    """Return the files of the repository that are read, as paths below its root."""
    patterns = [f"*{end}" for end in _READERS]
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603 - no input
    return [path for path in listed.stdout.splitlines() if path not in NOT_READ and (ROOT / path).is_file()]


@cache
def word_list() -> WordList:
    """Return the word list of the repository, read once in each process."""
    return WordList(tomllib.loads(WORD_FILE.read_text()))


def check_file(path: str) -> list[Finding]:
    """Return what is wrong with one file."""
    read = next(reader for end, reader in _READERS.items() if path.endswith(end))
    return [
        finding for passage in read(path, (ROOT / path).read_text()) for finding in word_list().check(passage)
    ]


def hashes_of(paths: Iterable[str]) -> dict[str, str]:
    """Return a hash for each file: of its path, its content, and what it is checked with."""
    rules = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.*")))
    return {path: sha256(rules + path.encode() + (ROOT / path).read_bytes()).hexdigest() for path in paths}


def read_clean() -> frozenset[str]:
    """Return the hashes of files without findings, from the last time; none if they cannot be read."""
    try:
        return frozenset(json.loads(CLEAN_FILES.read_text()))
    except (OSError, ValueError):
        return frozenset()


def folder_counts(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield a line for each group and folder with findings."""
    counts = Counter(
        (finding.passage.group, "/".join(finding.passage.path.split("/")[:2])) for finding in findings
    )
    for (group, folder), count in sorted(counts.items()):
        yield f"{count:6}  {group:8}  {folder}"


def main() -> int:
    """Print the findings; 1 if there are any."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--counts", action="store_true", help="print how many findings each folder has")
    parser.add_argument("paths", nargs="*", help="read only these files, named as git does")
    options = parser.parse_args()
    hashes = hashes_of(options.paths or tracked_files())
    clean = read_clean()
    paths = [path for path, hash_ in hashes.items() if hash_ not in clean]
    with ProcessPoolExecutor() as pool:
        results = pool.map(check_file, paths, chunksize=25)
        findings = list(chain.from_iterable(results))
    if not options.paths:
        with_findings = {finding.passage.path for finding in findings}
        CLEAN_FILES.parent.mkdir(exist_ok=True)
        CLEAN_FILES.write_text(json.dumps([hashes[path] for path in hashes if path not in with_findings]))
    lines = list(folder_counts(findings)) if options.counts else [*map(str, findings)]
    print(*lines, sep="\n", end="\n" if lines else "")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
