"""Adds the runbook pages to the wheel; everything else about the build is in pyproject.toml."""

from pathlib import Path
from shutil import copyfile

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithPages(build_py):
    """Copies runbooks/*.md beside the command that shows them; an editable install reads the checkout."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        folder = Path(self.build_lib) / "burstctl" / "runbook" / "pages"
        folder.mkdir(parents=True, exist_ok=True)
        for page in sorted(Path("runbooks").glob("*.md")):
            copyfile(page, folder / page.name)


setup(cmdclass={"build_py": BuildWithPages})
