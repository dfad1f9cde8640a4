/* SPDX-License-Identifier: MIT */
/* Snapshots of other people, where they are at hand: all open. */
#include "format/snapshot/snapshot.h"
#include "tests/support/t.h"

#include <dirent.h>

TEST(every_shared_snapshot_opens)
{
    const char *folder = t_shared("snapshots");
    struct dirent *item;
    int count = 0;

    if (!folder)
        T_SKIP("no snapshots at hand");
    char path[4096], base[2048];
    snprintf(base, sizeof base, "%s", folder);
    DIR *files = opendir(base);
    REQUIRE(files);
    while ((item = readdir(files))) {
        struct snapshot *snapshot;
        if (!strstr(item->d_name, ".pickle.gz"))
            continue;
        snprintf(path, sizeof path, "%s/%s", base, item->d_name);
        REQUIRE_OK(snapshot_read(path, &snapshot));
        EXPECT_GT(snapshot->segment_count, 0);
        EXPECT_EQ(snapshot_check(snapshot) == ACRE_OK, !strstr(item->d_name, "mosaic"));
        snapshot_destroy(snapshot);
        count++;
    }
    closedir(files);
    EXPECT_GT(count, 0);
}

T_MAIN()
