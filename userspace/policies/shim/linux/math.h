/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SHIM_MATH_H
#define SHIM_MATH_H

/* Of what is not negative */
#define DIV_ROUND_CLOSEST(x, divisor) (((x) + (divisor) / 2) / (divisor))

#endif
