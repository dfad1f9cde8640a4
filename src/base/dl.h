/* SPDX-License-Identifier: MIT */
/* Vendor libraries found at run time.
 *
 * A library is looked for under several names; its entry points go into a
 * struct of function pointers by a table. A missing optional one stays NULL, a
 * missing required one fails the whole.
 */
#ifndef SRC_BASE_DL_H
#define SRC_BASE_DL_H

#include <acre/base.h>

#include <stdbool.h>

struct dl_symbol {
    const char *name;
    const char *other;  /* tried next, or NULL                         */
    size_t offset;      /* of the function pointer in the target       */
    bool is_optional;
};

/* Opens the first of names (ends with NULL) that loads, resolves the symbols into
 * target and gives the library.
 *
 * Errors: ACRE_ERR_UNSUPPORTED; the text says what failed for each name, or
 * which symbol is missing where. Then nothing stays open and every pointer of
 * the table is NULL in target.
 */
acre_status dl_open(const char *const *names, const struct dl_symbol *symbols,
                    size_t symbol_count, void *target, void **out_library);
void dl_close(void *library); /* NULL is fine */

#endif
