"""The one file that ships, and the modules that it is joined from."""

import subprocess
import sys
from pathlib import Path

import join_modules
import pytest

MODULES = sorted(join_modules.SOURCE.rglob("*.py"))


def a_package(folder: Path, modules: dict[str, str]) -> Path:
    package = folder / "some_package"
    for name, text in {"__init__": '"""The program.\n\nAnd what it does.\n"""\n', **modules}.items():
        path = package / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return package


def test_the_file_that_ships_is_what_the_modules_give():
    command = [sys.executable, join_modules.__file__, "--check"]
    assert subprocess.run(command, capture_output=True, text=True, check=False).stderr == ""


def test_a_file_that_was_edited_by_hand_is_reported_and_written_again(tmp_path, monkeypatch, capsys):
    program = tmp_path / "ddprobe.py"
    program.write_text(join_modules.PROGRAM.read_text(encoding="utf-8") + "# edited\n", encoding="utf-8")
    monkeypatch.setattr(join_modules, "PROGRAM", program)
    assert join_modules.main(["--check"]) == 1
    assert "run `make ddprobe`" in capsys.readouterr().err
    assert join_modules.main([]) == 0
    assert join_modules.main(["--check"]) == 0
    assert program.read_bytes() == join_modules.PROGRAM.read_bytes()


def test_every_module_is_joined_and_small():
    text = join_modules.PROGRAM.read_text(encoding="utf-8")
    for path in MODULES:
        source = path.read_text(encoding="utf-8")
        assert source.count("\n") < 400, path
        assert source.rpartition("\n\n")[2].strip('".\n') in text, path


def test_modules_become_one_file_in_the_order_of_their_imports(tmp_path):
    modules = {
        "values/a": """\
'''First.'''

import os

from some_package.values.b import NAME

PATH = os.path.join("/", NAME)
""",
        "values/b": """\
'''Second.'''

from typing import Final

# why it is so
NAME: Final = "b"
""",
        "work": """\
'''The work.'''

import errno
import os


def run() -> int:
    import json

    return errno.EIO
""",
    }
    package = a_package(tmp_path, modules)
    text = join_modules.join(package, ("values", "work"))
    assert text.startswith(
        join_modules.HEADER.partition("{")[0] + "The program.\n\nAnd what it does.\n" + '"""'
    )
    imports, _, sections = text.partition(f"# {'-' * 64} ")
    assert "import errno\nimport os\n\nTYPE_CHECKING" in imports
    assert "if TYPE_CHECKING:\n    from typing import Final\n" in imports
    assert (
        sections
        == """\
values/b
# Second.


# why it is so
NAME: Final = "b"


# {rule} values/a
# First.


PATH = os.path.join("/", NAME)


# {rule} work
# The work.


def run() -> int:
    import json

    return errno.EIO
""".replace("{rule}", "-" * 64)
    )


@pytest.mark.parametrize(
    ("module", "fault"),
    [
        ('"""B."""\n\n\ndef f() -> None: ...\n', "f is defined by two modules"),
        ('"""B."""\n\nfrom some_package.a import f as g\n', "a name cannot change"),
        ('"""B."""\n\n\ndef g() -> None:\n    from some_package.a import f\n', "below the top"),
    ],
)
def test_what_would_mean_something_else_in_one_file_is_refused(tmp_path, module, fault):
    package = a_package(tmp_path, {"a": '"""A."""\n\n\ndef f() -> None: ...\n', "b": module})
    with pytest.raises(ValueError, match=fault):
        join_modules.join(package, ("a", "b"))
