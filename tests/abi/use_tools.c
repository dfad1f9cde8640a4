/* SPDX-License-Identifier: MIT */
/* What a stranger compiles against an installed libacre_tools. */
#include <acre/acre.h>

#include <string.h>

int main(void)
{
    acre_snapshot *snapshot;

    /* A failure of one library is told by the other. */
    if (acre_snapshot_open("no/such/file", &snapshot) == ACRE_OK)
        return 1;
    return strstr(acre_last_error(), "no/such/file") == NULL;
}
