/* SPDX-License-Identifier: MIT */
/* A model of the atomic operations that works bit by bit, to compare the device's with. */
#ifndef TEST_ATOMIC_MODEL_H
#define TEST_ATOMIC_MODEL_H

#include <stdbool.h>

#include "memory/atomic_op.h"

/* Do it to an operand as it lies in memory. Return: is it stored, though perhaps the same? */
bool model_atomic(const struct av_atomic *atomic, void *operand);

/* Random operands of an operation, .bytes and .swapped given, that often meet each other's edges.
 * @old: what is in memory. The same in each run. */
void model_random(struct av_atomic *atomic, struct av_operand *old);

#endif
