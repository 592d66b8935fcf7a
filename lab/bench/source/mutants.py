"""Which small faults in the core its own tests would not notice.

    .venv/bin/python lab/bench/source/mutants.py                  # the whole core; hours
    .venv/bin/python lab/bench/source/mutants.py flips.guards     # one module, or a package: flips

Runs mutmut in a folder below `build/`, with a few more kinds of fault and without faults in words, which
transcripts and pages state, and shows each fault that survives. A module is tried with the tests of its
package. The whole core is tried with all tests of the core and the scenarios, and goes on where it was ended.
Any survivor ends it with 1. A line whose faults may survive says why: `# pragma: no mutate - reason`.

mutmut changes functions only. Constants and defaults are listed in `tests/unit/core/limits.txt`; properties
and other decorated functions have tables of boundaries in the tests of their modules.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path

import libcst as cst
from click.testing import CliRunner
from mutmut.mutation import mutators

ROOT = Path(__file__).resolve().parents[3]
CORE = ROOT / "lambdas" / "burstwatch" / "core"
TESTS = ROOT / "tests" / "unit" / "core"
OTHER_CALL = {"min": "max", "max": "min", "any": "all", "all": "any"}


def main() -> int:
    """Run mutmut, and show what survives; the exit status."""
    module = sys.argv[1] if len(sys.argv) > 1 else ""
    path = CORE / module.replace(".", "/")
    if not path.is_dir() and not path.with_suffix(".py").is_file():
        sys.exit(f"{module}: the core has no such module; name one such as flips.guards, or a package: flips")
    folder = ROOT / "build" / "mutants" / (module or "core")
    if module:
        shutil.rmtree(folder, ignore_errors=True)
    prepare(folder, module)
    from mutmut.__main__ import cli  # reads its settings as it is imported

    mutators.mutation_operators[:] = OPERATORS
    cli.main(["run", "--max-children", str(os.cpu_count())], standalone_mode=False)
    verdicts = [line.strip().split(": ") for line in CliRunner().invoke(cli, ["results"]).output.splitlines()]
    survivors = [name for name, verdict in verdicts if verdict != "timeout"]
    for name in survivors:
        cli.main(["show", name], standalone_mode=False)
    print(f"{len(survivors)} faults survive")
    return 1 if survivors else 0


def prepare(folder: Path, module: str) -> None:
    """Enter a folder with links to the sources and the tests, as mutmut expects them, and its settings."""
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    for name, source in (("src", "lambdas"), ("tests", "tests"), ("pyproject.toml", "pyproject.toml")):
        Path(name).unlink(missing_ok=True)
        Path(name).symlink_to(ROOT / source)
    package = TESTS / module.partition(".")[0]
    tests = [package if module and package.is_dir() else TESTS, ROOT / "tests" / "scenarios"]
    settings = {
        "source_paths": "src/burstwatch",
        "only_mutate": f"src/burstwatch/core/{module.replace('.', '/')}*",
        "pytest_add_cli_args_test_selection": [
            *(str(tests_path.relative_to(ROOT)) for tests_path in tests),
            "--ignore=tests/unit/core/test_core_purity.py",  # mutmut adds an import to each module
        ],
        "pytest_add_cli_args": ["-psame_examples", "-pno:cacheprovider"],
    }
    parser = ConfigParser()
    parser["mutmut"] = {
        key: "\n".join(["", *value]) if isinstance(value, list) else value for key, value in settings.items()
    }
    with Path("setup.cfg").open("w") as file:
        parser.write(file)


def swap_call(node: cst.Call) -> Iterator[cst.Call]:
    """The least for the most, and one for all."""
    if isinstance(node.func, cst.Name) and node.func.value in OTHER_CALL:
        yield node.with_changes(func=cst.Name(OTHER_CALL[node.func.value]))


def lower_number(node: cst.Integer | cst.Float) -> Iterator[cst.BaseExpression]:
    """One less; mutmut has one more."""
    yield cst.parse_expression(f"({node.evaluated_value - 1!r})")


def fix_condition(node: cst.If | cst.CompIf) -> Iterator[cst.CSTNode]:
    """A condition that always holds, and one that never does."""
    for value in ("True", "False"):
        yield node.with_changes(test=cst.Name(value))


def skip_loop(node: cst.While) -> Iterator[cst.While]:
    yield node.with_changes(test=cst.Name("False"))


def return_nothing(node: cst.Return) -> Iterator[cst.Return]:
    if node.value is not None and not (isinstance(node.value, cst.Name) and node.value.value == "None"):
        yield node.with_changes(value=cst.Name("None"))


def leave_out(node: cst.Expr | cst.Raise | cst.Del | cst.AugAssign) -> Iterator[cst.Pass]:
    """A statement left out, unless it is a docstring or a yield."""
    if not (isinstance(node, cst.Expr) and isinstance(node.value, (cst.BaseString, cst.Yield))):
        yield cst.Pass()


OPERATORS = [
    *(entry for entry in mutators.mutation_operators if entry[1] is not mutators.operator_string),
    (cst.Call, swap_call),
    ((cst.Integer, cst.Float), lower_number),
    ((cst.If, cst.CompIf), fix_condition),
    (cst.While, skip_loop),
    (cst.Return, return_nothing),
    ((cst.Expr, cst.Raise, cst.Del, cst.AugAssign), leave_out),
]

if __name__ == "__main__":
    sys.exit(main())
