"""What people read in pages, code and settings: paragraphs, strings, docstrings, comments and names."""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.token import Token
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Literal, Name, String, Text

PAGES: Final = "pages"
STRINGS: Final = "strings"
COMMENTS: Final = "comments"
NAMES: Final = "names"

CODE: Final = "X"
"""What a code span, a link's address or a formatted value counts as: one word, which no rule finds."""

LEXERS: Final = {
    ".html": "html+jinja",
    ".js": "javascript",
    ".toml": "toml",
    ".yaml": "yaml",
    ".yml": "yaml",
    "Makefile": "make",
}
"""How Pygments names the languages of files that are neither pages nor Python, by the end of their paths."""

_KINDS: Final = (
    (Comment.Preproc, None),  # the marks of Jinja
    (Comment, COMMENTS),
    (String.Interpol, None),
    (String, STRINGS),
    (Literal.Scalar, STRINGS),
    (Name.Constant, STRINGS),  # the lines of a block in YAML
    (Text, PAGES),
    (Name.Other, NAMES),
)
"""The group of the tokens of a kind; the first row that has it counts."""

_MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable("table")
_PROSE = re.compile(r"[A-Za-z']{2,},? [a-z']{2,}")
_SQL = re.compile(r"\s*(?:SELECT|INSERT|UPDATE|DELETE|CREATE|DROP|PRAGMA|BEGIN|ALTER)\b")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_QUOTED_CODE = re.compile(r"``[^`]+``|`[^`\n]+`")
_COMMENT = re.compile(r"(?:^|(?<=\s))#+\s+(?!noqa|type:|pragma|fmt:|ruff:)")
_MARGIN = re.compile(r"^[ \t]*(?:#+|//)(?:[ \t]+|$)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A piece of text of one group, and where it starts. A name is in lower case, with underscores."""

    path: str
    line: int
    group: str
    text: str


def passages_of_page(path: str, text: str) -> Iterator[Passage]:
    """Yield the paragraphs, headings, list items and table cells of a Markdown page, without its code."""
    line = 1
    for token in _MARKDOWN.parse(text):
        line = token.map[0] + 1 if token.map else line
        if token.type == "inline":
            yield Passage(path=path, line=line, group=PAGES, text=_inline_text(token))


def _inline_text(token: Token) -> str:
    parts = []
    for child in token.children or ():
        if child.type == "text":
            parts.append(child.content)
        elif child.type == "code_inline":
            parts.append(CODE)
        elif child.type == "softbreak":
            parts.append(" ")
    return "".join(parts)


def passages_of_python(path: str, text: str) -> Iterator[Passage]:
    """Yield the strings, docstrings, comments and names of a Python file; no strings of tests."""
    content = _PythonContent(path)
    for node in ast.walk(ast.parse(text)):
        if collect := content.collectors.get(type(node)):
            collect(node)
    for docstring in content.docstrings:
        text_of_docstring = _docstring_text(content.strings[docstring])
        yield Passage(path=path, line=docstring.lineno, group=COMMENTS, text=text_of_docstring)
    for string, value in content.strings.items():
        if string not in content.nested and _is_message(path, value):
            yield Passage(path=path, line=string.lineno, group=STRINGS, text=_QUOTED_CODE.sub(CODE, value))
    yield from _comments(path, text, content.strings)
    for name, line in content.names.items():
        yield _name_passage(path, line, name)


def _name_passage(path: str, line: int, name: str) -> Passage:
    return Passage(path=path, line=line, group=NAMES, text=_CAMEL.sub("_", name).lower())


def _is_message(path: str, value: str) -> bool:
    return not path.startswith("tests/") and bool(_PROSE.search(value)) and not _SQL.match(value)


class _PythonContent:
    """The strings, docstrings and names of a file, as the walk over its syntax tree finds them."""

    def __init__(self, path: str) -> None:
        self.names = dict.fromkeys(path.removesuffix(".py").split("/")[-2:], 1)
        """Where each name is bound first; module and folder count as line 1."""
        self.strings: dict[ast.expr, str] = {}
        self.docstrings: list[ast.expr] = []
        self.nested: set[ast.expr] = set()
        """Docstrings, and the parts of formatted strings: no messages of their own."""
        self.collectors: dict[type[ast.AST], Callable[[Any], None]] = {
            ast.Constant: self._add_constant,
            ast.JoinedStr: self._add_formatted,
            ast.Expr: self._add_docstring,
            ast.Name: lambda node: self._add_target(node, node.id),
            ast.Attribute: lambda node: self._add_target(node, node.attr),
            ast.arg: lambda node: self._add_name(node.arg, node.lineno),
            ast.ClassDef: lambda node: self._add_name(node.name, node.lineno),
            ast.FunctionDef: lambda node: self._add_name(node.name, node.lineno),
            ast.AsyncFunctionDef: lambda node: self._add_name(node.name, node.lineno),
        }

    def _add_constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self.strings[node] = node.value

    def _add_formatted(self, node: ast.JoinedStr) -> None:
        parts = [str(part.value) if isinstance(part, ast.Constant) else CODE for part in node.values]
        self.strings[node] = "".join(parts)
        self.nested.update(node.values)

    def _add_docstring(self, node: ast.Expr) -> None:
        """A string that is a statement documents what is above it."""
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            self.docstrings.append(node.value)
            self.nested.add(node.value)

    def _add_target(self, node: ast.Name | ast.Attribute, name: str) -> None:
        if isinstance(node.ctx, ast.Store):
            self._add_name(name, node.lineno)

    def _add_name(self, name: str, line: int) -> None:
        self.names.setdefault(name, line)


def passages_of_tokens(path: str, text: str) -> Iterator[Passage]:
    """Yield the comments and strings of a file, the texts of HTML and the names of JavaScript.

    Tokens of one group with only white space between them are one passage, such as the lines of a comment.
    """
    language = next(language for end, language in LEXERS.items() if path.endswith(end))
    tokens = get_lexer_by_name(language).get_tokens_unprocessed(text)
    written = ((at, kind, value) for at, kind, value in tokens if value.strip())
    for group, tokens_of_group in groupby(written, key=lambda token: _group_of(token[1])):
        run = list(tokens_of_group)
        if group is NAMES:
            yield from (_name_passage(path, _line_of(text, at), value) for at, _, value in run)
        elif group:
            (start, _, _), (last, _, value) = run[0], run[-1]
            content = _MARGIN.sub("", text[start : last + len(value)])
            if group is not STRINGS or _is_message(path, content):
                yield Passage(path=path, line=_line_of(text, start), group=group, text=_joined(content))


def _group_of(kind: Any) -> str | None:
    return next((group for kinds, group in _KINDS if kind in kinds), None)


def _line_of(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _joined(text: str) -> str:
    """The paragraphs, each on one line."""
    paragraphs = re.split(r"\n\s*\n", _QUOTED_CODE.sub(CODE, text))
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _docstring_text(text: str) -> str:
    """The paragraphs, with list items apart, and without literal blocks."""
    lines = []
    literal_indent: int | None = None
    for line in text.expandtabs().splitlines():
        stripped = line.strip()
        indent = len(line) - len(line.lstrip())
        if literal_indent is not None and (not stripped or indent > literal_indent):
            continue
        literal_indent = indent if stripped.endswith("::") else None
        starts_paragraph = not stripped or stripped.startswith(("- ", "* ", ">>>", "|"))
        lines.append(f"\n\n{stripped}" if starts_paragraph else stripped)
    return _QUOTED_CODE.sub(CODE, "\n".join(lines))


def _comments(path: str, text: str, strings: dict[ast.expr, str]) -> Iterator[Passage]:
    """Comments, with those on adjacent lines as one."""
    block: list[str] = []
    block_end = 0
    for line, comment in _comment_lines(text, strings):
        if block and line != block_end + 1:
            yield _comment_passage(path, block_end, block)
            block = []
        block.append(comment)
        block_end = line
    if block:
        yield _comment_passage(path, block_end, block)


def _comment_passage(path: str, block_end: int, block: list[str]) -> Passage:
    text = _QUOTED_CODE.sub(CODE, " ".join(block))
    return Passage(path=path, line=block_end - len(block) + 1, group=COMMENTS, text=text)


def _comment_lines(text: str, strings: dict[ast.expr, str]) -> Iterator[tuple[int, str]]:
    lines = text.splitlines()
    starts = {
        (number, match.start()): match.end()
        for number, line in enumerate(lines, 1)
        if "#" in line
        for match in _COMMENT.finditer(line)
    }
    if starts:
        for node in strings:
            first, last = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
            inside = [place for place in starts if first <= place < last]
            for place in inside:
                del starts[place]
    commented: set[int] = set()
    for (number, _), end in starts.items():
        if number not in commented:
            commented.add(number)
            yield number, lines[number - 1][end:]
