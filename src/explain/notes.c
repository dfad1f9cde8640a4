/* SPDX-License-Identifier: MIT */
#include "explain/notes.h"

#include "base/heap.h"

#include <stdarg.h>
#include <stdio.h>

void *notes_take(struct notes *notes, size_t bytes)
{
    struct explain_note *note = heap_zalloc(sizeof *note + bytes);

    if (!note)
        return NULL;
    note->next = notes->first;
    notes->first = note;
    return note->bytes;
}

char *notes_text(struct notes *notes, const char *format, ...)
{
    va_list args, again;

    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    char *text = length < 0 ? NULL : notes_take(notes, (size_t)length + 1);
    if (text)
        vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    va_end(args);
    return text;
}

void notes_fini(struct notes *notes)
{
    while (notes->first) {
        struct explain_note *note = notes->first;
        notes->first = note->next;
        heap_free(note);
    }
}
