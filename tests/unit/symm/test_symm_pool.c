/* SPDX-License-Identifier: MIT */
/* A cache that serves symmetric memory: S80. */
#include "symm/symm.h"

#include "tests/support/t.h"

#include <acre/cache.h>

static acre_group *alone(const char *name)
{
    acre_group *group;
    acre_group_config config = {.struct_size = sizeof config, .world_size = 1, .name = name};

    REQUIRE_OK(acre_group_create(&config, &group));
    return group;
}

TEST(S80_a_cache_on_symmetric_memory)
{
    acre_group *group = alone("one");
    acre_backend *backend;
    acre_device *device;
    acre_cache *cache;
    char *a, *b;
    acre_symm *first, *second;
    acre_symm_info info = {.struct_size = sizeof info};

    REQUIRE_OK(acre_symm_backend_create("symm", &backend));
    REQUIRE_OK(acre_backend_device(backend, 0, &device));
    REQUIRE_OK(acre_cache_create(device, NULL, &cache));
    REQUIRE_OK(acre_cache_alloc(cache, 4096, NULL, (void **)&a));
    REQUIRE_OK(acre_cache_alloc(cache, 4096, NULL, (void **)&b));
    EXPECT(acre_symm_contains(a) && acre_symm_contains(b));
    REQUIRE_OK(acre_symm_rendezvous(a, "one", &first));
    REQUIRE_OK(acre_symm_rendezvous(b, "one", &second));
    REQUIRE_OK(acre_symm_info_get(second, &info));
    EXPECT_PTR_EQ(first->team, second->team);
    EXPECT_EQ((size_t)(b - a), info.offset - first->offset);
    memset(b, 1, 4096);
    acre_symm_release(first);
    acre_symm_release(second);
    REQUIRE_OK(acre_cache_free(cache, a));
    REQUIRE_OK(acre_cache_free(cache, b));
    acre_cache_destroy(cache);
    acre_backend_unregister(backend);
    acre_group_destroy(group);
}

T_MAIN()
