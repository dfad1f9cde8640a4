/* SPDX-License-Identifier: MIT */
/* Remedies as "why" and "advise" show them. */
#ifndef CLI_REMEDY_H
#define CLI_REMEDY_H

#include <acre/explain.h>

#include <stdio.h>

/* A numbered list below a heading; nothing when there is none. */
void print_remedies(const acre_remedy *remedies, uint64_t count);
/* The field "remedies" of an object, with the comma before it. */
void print_remedies_json(FILE *file, const acre_remedy *remedies, uint64_t count);

#endif
