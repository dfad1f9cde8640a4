#!/bin/sh
# SPDX-License-Identifier: MIT
# vectors.sh PROGRAM   replays ../shared/vectors (ACRE_SHARED overrides ../shared).
folder=${ACRE_SHARED:-$(dirname "$0")/../../../shared}/vectors
set -- "$1" "$folder"/*.vec.gz
[ -e "$2" ] || { echo "skipped: there is no $folder"; exit 77; }
exec "$@"
