/* SPDX-License-Identifier: MIT */
/* What only this tree can see: the tables that Acre filled. */
#include "tests/conform/backend_suite.h"

#include "backend/backend.h"
#include "backend/ops_map.h"
#include "backend/table.h"

void suite_inside(void)
{
}

void suite_table_inside(acre_backend *backend, struct suite_table *out)
{
    *out = (struct suite_table){&backend->ops, backend->self, backend->flags};
}

TEST(groups_have_the_names_that_messages_have)
{
#define SAME(group, text)                                                      \
    EXPECT_STR_EQ(suite_group_name(ACRE_CAP_##group), table_group_name(ACRE_CAP_##group));
    OPS_GROUP_MAP(SAME)
#undef SAME
}

TEST(absent_groups_name_themselves)
{
    struct suite s = suite_begin(0);
    const acre_backend_ops *ops = s.device->ops;
    void *self = s.device->self, *out = NULL;
    int number;
    uint8_t handle[64] = {0};
    acre_capture_info capture = {.struct_size = sizeof capture};
    acre_pointer_info pointer = {.struct_size = sizeof pointer};
    bool can;

#define ABSENT(group, call)                                                    \
    if (!device_has(s.device, ACRE_CAP_##group)) {                             \
        EXPECT_EQ(call, ACRE_ERR_UNSUPPORTED);                                 \
        EXPECT_HAS(acre_last_error(), table_group_name(ACRE_CAP_##group));     \
    }
    ABSENT(STREAMS, ops->stream_create(self, 0, 0, 0, &out))
    ABSENT(COPY, ops->copy(self, &number, &number, 1, ACRE_COPY_HOST_TO_HOST))
    ABSENT(LAUNCH, ops->launch_host(self, 0, NULL, NULL, NULL))
    ABSENT(VALUES, ops->write_value32(self, 0, NULL, &number, 1))
    ABSENT(VIRTUAL, ops->reserve(self, 0, 1 << 21, &out))
    ABSENT(SHARE_FD, ops->export_fd(self, 0, &number, &number))
    ABSENT(MULTICAST, ops->multicast_release(self, &number))
    ABSENT(CAPTURE, ops->capture_info(self, 0, NULL, &capture))
    ABSENT(HOST_MEMORY, ops->host_alloc(self, 4096, &out))
    ABSENT(POINTERS, ops->pointer_info(self, &number, &pointer))
    ABSENT(PEERS, ops->peer_query(self, 0, 0, &can))
    ABSENT(ACCESS, ops->access_open(self, &number))
    ABSENT(IPC, ops->ipc_export(self, 0, &number, handle))
    ABSENT(CURRENT, ops->set_current(self, 0))
    ABSENT(VIRTUAL, acre_virtual_reserve(s.device, 1 << 21, &out))
    ABSENT(CAPTURE, acre_capture_begin(s.device, NULL))
#undef ABSENT
    EXPECT_PTR_EQ(out, NULL);
    suite_end(&s);
}
