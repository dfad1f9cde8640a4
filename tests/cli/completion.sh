#!/bin/bash
# SPDX-License-Identifier: MIT
# Completion offers every command, and every option that the help of a command names.
set -u
PATH=$ACRE_BUILD:$PATH
failed=0
. "$ACRE_SOURCE/tools/completion/acre.bash"

# complete_line WORD...: what is offered for the last word
complete_line() {
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    _acre
}

# expect_offer WANTED: the offers hold it
expect_offer() {
    case " ${COMPREPLY[*]} " in
    *" $1 "*) ;;
    *) echo "not offered: $1 in: ${COMPREPLY[*]}"; failed=1 ;;
    esac
}

complete_line acre ""
for word in demo replay view advise why diff convert plan devices run bench help --version; do
    expect_offer "$word"
done
complete_line acre wh
[ "${COMPREPLY[*]}" = why ] || { echo "wh gave ${COMPREPLY[*]}"; failed=1; }
for command in replay view advise why diff convert plan run; do
    for option in $(acre $command --help | grep -oE '^  --[a-z-]+' | tr -d ' '); do
        complete_line acre $command --
        expect_offer "$option"
    done
done
complete_line acre help c
expect_offer conf
complete_line acre replay x --policy t
expect_offer torch
complete_line acre --backend ./libmine.so dev
expect_offer devices
if command -v zsh >/dev/null; then
    zsh -f "$ACRE_SOURCE/tests/cli/completion.zsh" || failed=1
else
    echo "zsh is not installed: its completion was not tried"
fi
exit $failed
