/* SPDX-License-Identifier: MIT */
/* The page of a view.
 *
 * The template, made at build time of what is in view/, is cut at its marks:
 *
 *     ... <title>@TITLE@</title> <style>...</style> ... @DATA@ <script>...</script>
 *
 * Data is a list of pieces, each a script element of a type that no browser
 * runs: "meta", JSON, then arrays of numbers (view/pack.h), compressed with zlib
 * where that makes them smaller, in base64. view/decode.js decodes a piece when
 * it is first needed. What comes from a file stands in pieces only, and the
 * title, escaped.
 */
#ifndef SRC_VIEW_PAGE_H
#define SRC_VIEW_PAGE_H

#include "view/view.h"

/* Errors: ACRE_ERR_IO, ACRE_ERR_HOST_MEMORY. */
acre_status page_write(const acre_view *view, const char *path);

/* The template, made by cmake/page.cmake; it ends with a zero. */
extern const char page_template[];

#endif
