/* SPDX-License-Identifier: MIT */
#include "view/page.h"

#include "base/check.h"
#include "view/pieces.h"

#include <acre/output.h>

#include <stdio.h>
#include <string.h>

static void put_escaped(FILE *file, const char *text)
{
    for (; *text; text++) {
        if (*text == '<' || *text == '>' || *text == '&' || *text == '"' || *text == '\'')
            fprintf(file, "&#%d;", *text);
        else
            putc(*text, file);
    }
}

/* Writes the template up to a mark and returns what is behind the mark. */
static const char *put_until(FILE *file, const char *at, const char *mark)
{
    const char *found = strstr(at, mark);

    CHECK(found);
    fwrite(at, 1, (size_t)(found - at), file);
    return found + strlen(mark);
}

static acre_status put_page(const acre_view *view, FILE *file)
{
    const char *at = put_until(file, page_template, "@TITLE@");

    put_escaped(file, view->title);
    at = put_until(file, at, "@DATA@");
    acre_status status = pieces_write(view, file);
    fputs(at, file);
    return status;
}

acre_status page_write(const acre_view *view, const char *path)
{
    acre_output *output;
    acre_status status = acre_output_open(path, &output);

    if (status != ACRE_OK)
        return status;
    status = put_page(view, acre_output_stream(output));
    if (status == ACRE_OK)
        return acre_output_finish(output);
    acre_output_abandon(output);
    return status;
}
