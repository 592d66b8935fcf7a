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
