/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef WTLOAD_REPORT_H
#define WTLOAD_REPORT_H

#include "driver.h"

void report(const struct catalog *catalog, const struct results *results);

#endif
