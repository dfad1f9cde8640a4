/* SPDX-License-Identifier: MIT */
#include "driver/pool.h"

void drv_pool_fini(struct driver *driver)
{
    for (int i = 0; i < driver->unit_count; i++)
        if (driver->units[i].pool)
            driver->library.call.pool_destroy(driver->units[i].pool);
}
