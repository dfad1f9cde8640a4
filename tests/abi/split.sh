#!/bin/sh
# SPDX-License-Identifier: MIT
# A program that links libacre alone loads no tools. When memory runs out, and the option asks for
# a snapshot, the library finds libacre_tools beside it and writes one.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/oom.c" <<'END'
#include <acre/cache.h>
#include <acre/sim.h>
#include <stdio.h>
#include <string.h>
static int has_tools(void)
{
    char line[512];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        found |= strstr(line, "libacre_tools") != NULL;
    if (maps)
        fclose(maps);
    return found;
}
int main(int count, char **arguments)
{
    char conf[300];
    acre_cache_config config = {.struct_size = sizeof config, .conf = conf, .limit_bytes = 1 << 22};
    acre_device *device;
    acre_cache *cache;
    void *block;
    snprintf(conf, sizeof conf, "snapshot_on_oom:%s", count > 1 ? arguments[1] : "");
    if (acre_device_get(ACRE_DEVICE_PRIVATE, 0, &device) != ACRE_OK ||
        acre_cache_create(device, &config, &cache) != ACRE_OK || has_tools())
        return 1;
    if (acre_cache_alloc(cache, 1 << 24, NULL, &block) == ACRE_OK || !has_tools())
        return 2;
    acre_cache_destroy(cache);
    return 0;
}
END
"$CC" -Wall -Werror -I"$ACRE_SOURCE/include" "$folder/oom.c" -L"$ACRE_BUILD" -lacre \
    -o "$folder/oom"
if readelf -d "$folder/oom" | grep -q 'NEEDED.*libacre_tools'; then
    echo "the program needs libacre_tools"
    exit 1
fi
LD_LIBRARY_PATH="$ACRE_BUILD" "$folder/oom" "$folder/oom.json"
"$ACRE_BUILD/acre" why "$folder/oom.json" >/dev/null || [ $? -le 1 ]
grep -q '"segments"' "$folder/oom.json"
echo "libacre.so $(wc -c <"$ACRE_BUILD/libacre.so") bytes, libacre_tools.so" \
    "$(wc -c <"$ACRE_BUILD/libacre_tools.so") bytes"
