/* SPDX-License-Identifier: MIT */
/* The stack that a thread gathered, and what threads have of their own in all. */
#include "cache/observe/pending_stack.h"
#include "tests/support/t.h"

#include <elf.h>
#include <link.h>

static size_t gather_many(void *arg, uint64_t *frames, size_t capacity)
{
    for (size_t i = 0; i < capacity; i++)
        frames[i] = (uintptr_t)arg + i;
    return SIZE_MAX;
}

TEST(a_stack_has_an_owner_and_a_bound)
{
    int owner = 0;
    const acre_context_source source = {gather_many, NULL, (void *)100};

    pending_stack_take(&owner, &source, NULL);
    EXPECT_PTR_EQ(pending_stack.owner, &owner);
    EXPECT_EQ(pending_stack.count, ACRE_STACK_MAX);
    EXPECT_EQ(pending_stack.frames[1], 101);
    pending_stack_end();
    EXPECT_PTR_EQ(pending_stack.owner, NULL);
}

static void *object_take(void *arg)
{
    ++*(int *)arg;
    return arg;
}

static void object_release(void *arg, void *object)
{
    EXPECT_PTR_EQ(arg, object);
    --*(int *)object;
}

TEST(an_object_is_held_until_the_next_one)
{
    int owner = 0, held = 0;
    const acre_context_objects objects = {.take = object_take, .release = object_release,
                                          .arg = &held};

    pending_stack_take(&owner, NULL, &objects);
    EXPECT_EQ(held, 1);
    EXPECT_EQ(pending_stack.count, 0);
    EXPECT_PTR_EQ(pending_stack.object, &held);
    pending_stack_take(&owner, NULL, &objects);
    EXPECT_EQ(held, 1);
    pending_stack_end();
    pending_stack_end();
    EXPECT_EQ(held, 0);
}

/* glibc keeps 1664 bytes for all libraries that are loaded later; beyond them loading
 * fails, as Python's and PyTorch's loading of this library would. */
TEST(what_threads_have_of_their_own_fits_a_library_that_is_loaded_late)
{
    FILE *file = fopen(ACRE_BUILD "/libacre.so", "rb");
    ElfW(Ehdr) header;
    ElfW(Phdr) part;

    if (!file)
        T_SKIP("there is no %s/libacre.so", ACRE_BUILD);
    REQUIRE_EQ(fread(&header, sizeof header, 1, file), 1);
    for (unsigned i = 0; i < header.e_phnum; i++) {
        REQUIRE_EQ(fseek(file, (long)(header.e_phoff + i * sizeof part), SEEK_SET), 0);
        REQUIRE_EQ(fread(&part, sizeof part, 1, file), 1);
        if (part.p_type == PT_TLS)
            EXPECT_LE(part.p_memsz, 1200);
    }
    fclose(file);
}

T_MAIN()
