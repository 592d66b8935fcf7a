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
