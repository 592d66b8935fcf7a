"""Shells that somebody types in, to see what they complete: what is offered, and what the line becomes."""

import os
import pty
import select
import shutil
import subprocess
import sys
import termios
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from support.paths import ROOT

TIMEOUT_S = 120
WIDTH = 200
PROMPT = "typed here> "
PROGRAM = """#!{python}
import sys
from burstctl.main import main
sys.exit(main())
"""

BASH = """
. ./script
PS1='{prompt}'
spied() {{ _burstctl "$@"; printf '%s\\n' "${{COMPREPLY[@]}}" > offered; }}
complete -o nosort -F spied burstctl
finish() {{ printf '%s' "$READLINE_LINE" > typed; exit; }}
bind 'set bell-style none'
bind 'set enable-bracketed-paste off'
bind -x '"\\C-g": finish'
"""
ZSH = """
fpath=($PWD/functions $fpath)
autoload -U compinit
compinit -u -d $PWD/dump
PS1='{prompt}'
compadd() {{
  local -a offered
  builtin compadd -O offered "$@"
  (( $#offered )) && print -rl -- $offered > offered
  builtin compadd "$@"
}}
complete-and-finish() {{ zle complete-word; print -rn -- "$BUFFER" > typed; exit }}
zle -N complete-and-finish
bindkey '^I' complete-and-finish
"""


@dataclass(frozen=True)
class Completion:
    """After the tab: the line, what was offered for its last word, and all that was on the screen."""

    line: str
    candidates: list[str]
    screen: str


class TypingShell:
    """A shell in ``folder`` that has read the script of ``burstctl completion``."""

    def __init__(self, name: str, folder: Path, script: str, environment: dict[str, str]) -> None:
        self.name, self.folder = name, folder
        self._environment = {
            **os.environ,
            **environment,
            "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(str(ROOT / root) for root in ("lambdas", "runbooks")),
            "HOME": str(folder),
            "ZDOTDIR": str(folder),
            "TERM": "dumb" if name == "bash" else "xterm",
            "LC_ALL": "C.UTF-8",
        }
        program = folder / "bin" / "burstctl"
        program.parent.mkdir()
        program.write_text(PROGRAM.format(python=sys.executable))
        program.chmod(0o755)
        self._install(script)

    def _install(self, script: str) -> None:
        (self.folder / "script").write_text(script)
        if self.name == "bash":
            (self.folder / "rc").write_text(BASH.format(prompt=PROMPT))
        elif self.name == "zsh":  # as its help says: a file of this name, in the path of functions
            (self.folder / "functions").mkdir()
            (self.folder / "functions" / "_burstctl").write_text(script)
            (self.folder / ".zshrc").write_text(ZSH.format(prompt=PROMPT))

    def type(self, line: str) -> Completion:
        """Type the line, and a tab."""
        if self.name == "fish":
            return self._complete_in_fish(line)
        arguments = ["--noprofile", "--rcfile", "rc", "-i"] if self.name == "bash" else ["-d", "-i"]
        keys = f"{line}\t\x07" if self.name == "bash" else f"{line}\t"
        with self._at_a_terminal([self.name, *arguments]) as terminal:
            screen = _read(terminal, until=PROMPT)
            os.write(terminal, keys.encode())
            screen += _read(terminal)
        offered = self.folder / "offered"
        text = offered.read_text().split("\n") if offered.exists() else []
        offered.unlink(missing_ok=True)
        return Completion((self.folder / "typed").read_text(), [item for item in text if item], screen)

    def _complete_in_fish(self, line: str) -> Completion:
        """It prints by itself what it would offer; a line with one offer would become that."""
        result = subprocess.run(
            ["fish", "--no-config", "-c", f"source script; complete -C {quote(line)}"],
            env=self._environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=True,
        )
        offered = [item.split("\t")[0] for item in result.stdout.splitlines()]
        before = line[: line.rfind(" ") + 1]
        return Completion(f"{before}{offered[0]} " if len(offered) == 1 else line, offered, result.stdout)

    @contextmanager
    def _at_a_terminal(self, command: list[str]):
        own_end, shell_end = pty.openpty()
        try:
            termios.tcsetwinsize(shell_end, (60, WIDTH))
            shell = subprocess.Popen(
                ["setsid", "--ctty", *command],
                stdin=shell_end,
                stdout=shell_end,
                stderr=shell_end,
                env=self._environment,
                cwd=self.folder,
            )
        finally:
            os.close(shell_end)
        try:
            yield own_end
            shell.wait(TIMEOUT_S)
        finally:
            shell.kill()
            shell.wait()
            os.close(own_end)


def _read(terminal: int, until: str | None = None) -> str:
    """What is written on the terminal, until there is this, or no writer any more."""
    text = b""
    with suppress(OSError):
        while until is None or until.encode() not in text:
            ready, _, _ = select.select([terminal], [], [], TIMEOUT_S)
            assert ready, f"the shell says nothing more after {text[-200:]!r}"
            text += os.read(terminal, 4096)
    return text.decode(errors="replace")


def is_installed(shell: str) -> bool:
    """Whether there is such a shell, and what a terminal of its own takes."""
    return shutil.which(shell) is not None and shutil.which("setsid") is not None


SHELLS = ("bash", "zsh", "fish")
