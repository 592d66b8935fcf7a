"""The pages' lines that want a checkout: what sets it up, and what else is made in it."""

import pytest
from tests.runbooks.a_checkout import Checkout
from tests.runbooks.pasted import the_line


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path / "burstwatch")


def test_what_sets_it_up_puts_its_commands_on_the_path(checkout):
    line = the_line("README.md", "make setup && export")
    assert the_line("docs/deploying.md", "make setup && export").text == line.text

    code, said = checkout.paste(f"{line.text} && command -v burstctl burstlab cdk", within_s=120)

    assert code == 0, said
    folder = checkout.folder / ".venv" / "bin"
    assert said[-3:] == [str(folder / name) for name in ("burstctl", "burstlab", "cdk")]
