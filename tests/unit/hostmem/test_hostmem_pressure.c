/* SPDX-License-Identifier: MIT */
/* Whether memory is short. */
#include "tests/unit/hostmem/heap_make.h"

#include "hostmem/pressure.h"

#include <unistd.h>

TEST(pressure_is_told_from_the_kernels_figures)
{
    uint64_t used, limit;
    char folder[] = "/tmp/acre-pressure-XXXXXX", path[128];

    EXPECT(!pressure_of(100, 1000, 0, 0));
    EXPECT(pressure_of(10, 1000, 0, 0));
    EXPECT(pressure_of(500, 1000, 950, 1000));
    EXPECT(!pressure_of(500, 1000, 900, 1000));
    REQUIRE(mkdtemp(folder));
    static const char *const files[][2] = {
        {"memory.max", "4096000\n"}, {"memory.current", "81920\n"}, {"cgroup", "1:x:/a\n0::/\n"}};
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i][0]);
        FILE *file = fopen(path, "w");
        REQUIRE(file);
        fputs(files[i][1], file);
        fclose(file);
    }
    pressure_group(folder, path, &used, &limit);
    EXPECT_EQ(used, 81920);
    EXPECT_EQ(limit, 4096000);
    pressure_group(folder, "/nowhere", &used, &limit);
    EXPECT_EQ(limit, 0);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i][0]);
        unlink(path);
    }
    rmdir(folder);
}
T_MAIN()
