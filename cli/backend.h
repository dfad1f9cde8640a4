/* SPDX-License-Identifier: MIT */
/* "acre --backend LIBRARY COMMAND": a command on somebody's own device. */
#ifndef CLI_BACKEND_H
#define CLI_BACKEND_H

#include <acre/backend.h>

#include <stdbool.h>

/* Takes the option out of the arguments and loads the library. False, with a sentence on
 * standard error, when it cannot be used or the command has no use for it. */
bool backend_option(int *argc, char ***argv);

/* The backend that was loaded, or NULL. */
acre_backend *backend_loaded(void);

#endif
