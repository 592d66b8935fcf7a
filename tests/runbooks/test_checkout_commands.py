"""The pages' lines that want a checkout: what sets it up, and what else is made in it."""

from support.runbooks.external_commands import page_command


def test_what_sets_it_up_puts_its_commands_on_the_path(checkout):
    line = page_command("README.md", "make setup && export")
    assert page_command("docs/deploying.md", "make setup && export").text == line.text

    code, text = checkout.paste(f"{line.text} && command -v burstctl burstlab cdk", within_s=120)

    assert code == 0, text
    folder = checkout.folder / ".venv" / "bin"
    assert text[-3:] == [str(folder / name) for name in ("burstctl", "burstlab", "cdk")]
