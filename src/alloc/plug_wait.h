/* SPDX-License-Identifier: MIT */
/* Memory that streams use besides its own, on its way back to a plug-in without a hook for that:
 * the streams are waited for, which must not be while one of them is captured.
 */
#ifndef SRC_ALLOC_PLUG_WAIT_H
#define SRC_ALLOC_PLUG_WAIT_H

#include "alloc/pluggable.h"

/* Waits for the streams that were recorded; nobody else looks at a leaving record.
 * Errors: ACRE_ERR_STATE (a stream is captured), what the device says. */
acre_status plug_wait(const struct plug *plug, const struct plug_record *record);

/* Notes that what is live at an address is to be freed later: its deleter could not, and nobody
 * comes again. False: nothing is live there. */
bool plug_put_off(struct plug *plug, const void *pointer);
/* Frees these by the deleter, which puts off again what still cannot go. Cheap when there are
 * none; no lock is held. */
void plug_retry(struct plug *plug);

#endif
