/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef WTLOAD_CHECK_H
#define WTLOAD_CHECK_H

#include "options.h"

/* Opens the database, compares all it holds, prints a line; the exit status. */
int check_database(const struct options *opt);

#endif
