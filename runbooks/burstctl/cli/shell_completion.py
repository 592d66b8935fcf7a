"""The completion scripts for shells, and the completions themselves.

Each script hands over the line up to the cursor, and takes a line for each thing on offer: kind, value, help.

click finds what to offer. Its own scripts are not enough: after ``--option=`` they offer nothing in bash and
fish. In zsh they replace ``--to=g`` by ``gp3``, and in fish they show neither the help nor our order.
"""

import os
from typing import Any, Final

from click.shell_completion import CompletionItem, ShellComplete, add_completion_class, split_arg_string

from burstwatch.core.text import sanitise

_LINE_ENV: Final = "BURSTCTL_LINE"
_MAX_HELP_LENGTH: Final = 200  # a shell shows one line for each completion

_BASH: Final = r"""
_burstctl() {
    local kind value help line=${COMP_LINE:0:COMP_POINT} begun=${COMP_WORDS[COMP_CWORD]} option=
    local word=${line##*[[:space:]]}
    [[ $word == --*=* ]] && option=${word%%=*}=
    [[ $begun == [=:] ]] && begun=
    local before=${word%"$begun"}  # where bash divides words, at = and :, it takes the last part only
    COMPREPLY=()
    while IFS=$'\t' read -r kind value help; do
        case $kind in
            plain) value=$option$value COMPREPLY+=("${value#"$before"}") ;;
            file) compopt -o default ;;
            dir) compopt -o dirnames ;;
        esac
    done < <(BURSTCTL_LINE=$line _BURSTCTL_COMPLETE=bash_complete "$1" 2>/dev/null)
}
complete -o nosort -F _burstctl burstctl
"""

_ZSH: Final = r"""
#compdef burstctl
_burstctl() {
    local kind value help files= line="${(j: :)words[1,CURRENT-1]} $PREFIX"
    local -a offered
    while IFS=$'\t' read -r kind value help; do
        case $kind in
            plain) offered+=("${value//:/\\:}${help:+:$help}") ;;
            file) files=any ;;
            dir) files=directories ;;
        esac
    done < <(BURSTCTL_LINE=$line _BURSTCTL_COMPLETE=zsh_complete ${~words[1]} 2>/dev/null)
    compset -P '--*='
    case $files in
        any) _files ;;
        directories) _files -/ ;;
    esac
    (( $#offered )) && _describe -V burstctl offered
}
if [[ $funcstack[1] == _burstctl ]]; then
    _burstctl "$@"
else
    compdef _burstctl burstctl
fi
"""

_FISH: Final = r"""
function __burstctl_offers
    set -l begun (commandline -ct)
    set -l before (string match -r -- '^--[^=]+=' $begun)
    set -l after (string replace -r -- '^--[^=]+=' '' $begun)
    set -l line (commandline -cp | string collect)
    for offer in (env BURSTCTL_LINE=$line _BURSTCTL_COMPLETE=fish_complete burstctl 2>/dev/null)
        set -l part (string split \t -- $offer)
        switch $part[1]
            case plain
                printf '%s%s\t%s\n' "$before" $part[2] "$part[3]"
            case file
                for found in (__fish_complete_path "$after")
                    printf '%s%s\n' "$before" $found
                end
            case dir
                for found in (__fish_complete_directories "$after" '')
                    printf '%s%s\n' "$before" $found
                end
        end
    end
end
complete --command burstctl --no-files --keep-order --arguments '(__burstctl_offers)'
"""


SCRIPTS: Final = {"bash": _BASH.lstrip("\n"), "zsh": _ZSH.lstrip("\n"), "fish": _FISH.lstrip("\n")}
"""By shell: bash shows no help, the others do."""


class _Completion(ShellComplete):
    """The completions for any shell. After ``--option=``, a value has no prefix: the script adds it."""

    name = "burstctl"
    source_template = "# burstctl completion bash, zsh or fish prints the script for that shell\n"

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ.get(_LINE_ENV, "")
        arguments = split_arg_string(line)
        incomplete = arguments.pop() if arguments and not line[-1].isspace() else ""
        return arguments[1:], incomplete

    def format_completion(self, item: CompletionItem[Any]) -> str:
        return "\t".join([item.type, str(item.value), sanitise(item.help or "", _MAX_HELP_LENGTH)])


def register() -> None:
    """Have click answer so whichever shell asks."""
    for shell in SCRIPTS:
        add_completion_class(_Completion, shell)
