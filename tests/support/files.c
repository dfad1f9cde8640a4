/* SPDX-License-Identifier: MIT */
#include "tests/support/files.h"

#include "tests/support/t.h"

#include <acre/base.h>

#include <unistd.h>

static char folder[64];

static void remove_folder(void)
{
    char command[128];

    snprintf(command, sizeof command, "rm -r '%s'", folder);
    if (system(command) != 0)
        perror(command);
}

const char *files_path(const char *name)
{
    static char paths[8][256];
    static int next;

    if (!folder[0]) {
        strcpy(folder, "/tmp/acre-test-XXXXXX");
        if (!mkdtemp(folder)) {
            perror("mkdtemp");
            exit(1);
        }
        atexit(remove_folder);
    }
    char *path = paths[next++ % 8];
    snprintf(path, sizeof *paths, "%s/%s", folder, name);
    return path;
}

const char *files_write(const char *name, const void *bytes, size_t count)
{
    const char *path = files_path(name);
    FILE *file = fopen(path, "wb");

    if (!file || fwrite(bytes, 1, count, file) != count || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
    return path;
}

const char *files_gzip(const char *name, const void *bytes, size_t count)
{
    char command[700];
    const char *plain = files_write("plain", bytes, count), *path = files_path(name);

    snprintf(command, sizeof command, "gzip -c '%s' > '%s'", plain, path);
    return system(command) == 0 ? path : NULL;
}

size_t files_read(const char *path, const unsigned char **out)
{
    static unsigned char buffer[1 << 20];
    FILE *file = fopen(path, "rb");
    size_t count = file ? fread(buffer, 1, sizeof buffer, file) : 0;

    if (file)
        fclose(file);
    *out = buffer;
    return count;
}
