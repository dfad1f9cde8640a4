# SPDX-License-Identifier: MIT
# Completion of acre for bash. Commands and options come from the help texts of the
# program itself, so that this file never lags behind it.

_acre_commands() {
    "$1" --help 2>/dev/null | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p'
}

_acre_options() {
    "$1" "$2" --help 2>/dev/null | grep -oE '(^| )-(-[a-z][a-z-]*|[a-z])( |$)' | tr -d ' ' | sort -u
}

_acre() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    local program=${COMP_WORDS[0]} command=${COMP_WORDS[1]} first=1

    COMPREPLY=()
    # acre --backend LIBRARY COMMAND
    if [ "$command" = --backend ]; then
        first=3 command=${COMP_WORDS[3]}
    fi
    if [ "$COMP_CWORD" -eq "$first" ]; then
        mapfile -t COMPREPLY < <(compgen -W \
            "$(_acre_commands "$program") help --help --version --backend" -- "$word")
    elif [ "$command" = help ]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_acre_commands "$program") conf environment" \
            -- "$word")
    elif [ "$before" = --policy ]; then
        mapfile -t COMPREPLY < <(compgen -W "torch acre plan" -- "$word")
    elif [ "${word#-}" != "$word" ]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_acre_options "$program" "$command") --help" \
            -- "$word")
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
    fi
}

complete -o filenames -o bashdefault -F _acre acre
