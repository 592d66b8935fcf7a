"""Code lines by part, without comments, docstrings and blanks: `code_lines.py [REVISION] [--depth 2]`."""

import argparse
import ast
import io
import subprocess
import tokenize
from collections import Counter

NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def main() -> None:
    """Print a line for each folder, and the sum."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("revision", nargs="?", default="HEAD")
    parser.add_argument(
        "--depth", type=int, default=1, help="how many folders a part is named by (default 1)"
    )
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    for path in git("ls-tree", "-r", "--name-only", options.revision).splitlines():
        if path.endswith(".py"):
            part = "/".join(path.split("/")[:-1][: options.depth]) or "."
            counts[part] += count_lines(git("show", f"{options.revision}:{path}"))
    for part, count in [*sorted(counts.items()), ("all", counts.total())]:
        print(f"{count:8,} {part}")


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout  # noqa: S607


def count_lines(source: str) -> int:
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1) if token.string else ())
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            lines -= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return len(lines)


if __name__ == "__main__":
    main()
