#!/bin/sh
# SPDX-License-Identifier: MIT
# The manual page formats without a warning, has a section for each command and names each
# variable of the environment that is read.
set -eu
page=$ACRE_SOURCE/man/acre.1
for command in $("$ACRE_BUILD/acre" --help | sed -n 's/^  \([a-z]*\) .*/\1/p'); do
    grep -q "^\.SS acre $command" "$page" ||
        { echo "man/acre.1 says nothing about \"acre $command\""; exit 1; }
done
for command in $(sed -n 's/^\.SS acre \([a-z]*\).*/\1/p' "$page"); do
    "$ACRE_BUILD/acre" --help | grep -q "^  $command " ||
        { echo "man/acre.1 describes \"acre $command\", which does not exist"; exit 1; }
done
for variable in $(cd "$ACRE_SOURCE" &&
    grep -rhoE '"(ACRE|OPENREG)_[A-Z_]+"' src cli python pytorch/csrc pytorch/torch_acre |
    grep -vE 'ACRE_(ERR|EVENT|HANDLE)_' | tr -d '"' | sort -u); do
    grep -qw "$variable" "$page" || { echo "man/acre.1 does not name $variable"; exit 1; }
done
if command -v mandoc >/dev/null 2>&1; then
    mandoc -T lint -W warning "$page"
elif command -v man >/dev/null 2>&1 && command -v groff >/dev/null 2>&1; then
    said=$(LC_ALL=C.UTF-8 MANROFFSEQ='' MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" \
        2>&1 >/dev/null)
    [ -z "$said" ] || { echo "$said"; exit 1; }
else
    echo "skipped: neither mandoc nor man with groff is installed"
    exit 77
fi
