/* SPDX-License-Identifier: MIT */
/* A stranger's program: built against an installed Acre, it must find header
 * and library of one version. */
#include <acre/acre.h>

#include <stdio.h>
#include <string.h>

int main(void)
{
    char version[32];

    snprintf(version, sizeof version, "%d.%d.%d", ACRE_VERSION_MAJOR, ACRE_VERSION_MINOR,
             ACRE_VERSION_PATCH);
    if (strcmp(version, acre_version()) != 0) {
        fprintf(stderr, "header %s, library %s\n", version, acre_version());
        return 1;
    }
    return 0;
}
