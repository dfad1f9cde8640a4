#!/usr/bin/env zsh
# SPDX-License-Identifier: MIT
# Completion in a real zsh: keys are typed into an interactive shell on a terminal of its own.
zmodload zsh/zpty || exit 77
PATH=$ACRE_BUILD:$PATH
typeset -g seen
failed=0

# An empty folder: when a word is complete, the second tab lists files, and there are none.
empty=$(mktemp -d) || exit 1
zpty shell zsh -f -i
zpty -w shell "cd $empty; LISTMAX=10000; TERM=dumb; PS1='ready> '; fpath=($ACRE_SOURCE/tools/completion \$fpath)"
zpty -w shell "autoload -Uz compinit; compinit -u -D; unsetopt zle_bracketed_paste; print set'tled'"

# read_until PART: what the shell prints, until PART is in it; a minute is for ever
read_until() {
    local piece
    integer rounds=0
    seen=
    while [[ $seen != *"$1"* ]]; do
        if zpty -r -t shell piece; then
            seen+=${piece//[[:cntrl:]]/}
        else
            (( ++rounds > 1200 )) && return 1
            sleep 0.05
        fi
    done
}

# offers TYPED PART: typing and two tabs show PART
offers() {
    zpty -w -n shell "$1"$'\t\t'
    if read_until "$2"; then
        print "ok   $1 offers $2"
    else
        print "FAIL $1 does not offer $2: $seen"
        failed=1
    fi
    zpty -w -n shell $'\C-u'"print next'd'"$'\n'
    read_until nextd
}

read_until settled
offers 'acre wh' 'acre why'
offers 'acre help co' 'conf'
offers 'acre replay x --min' '--min-capacity'
offers 'acre replay x --policy t' 'torch'
offers 'acre --back' '--backend'
offers 'acre --backend ./lib.so dev' 'devices'
zpty -d shell
rmdir "$empty"
exit $failed
