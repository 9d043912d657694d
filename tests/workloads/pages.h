/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef WTLOAD_PAGES_H
#define WTLOAD_PAGES_H

#include <stdio.h>

/* How many blocks of each type WiredTiger has written to collections and to indexes. */
void pages_print_json(FILE *out);

#endif
