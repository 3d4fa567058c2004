/* SPDX-License-Identifier: MIT */
/* A bitwise model of the atomic operations, to compare the device's results with. */
#ifndef TEST_ATOMIC_MODEL_H
#define TEST_ATOMIC_MODEL_H

#include <stdbool.h>

#include "memory/translate.h"

/*
 * Apply the operation to an operand in memory. Return: true if a value is stored, even an unchanged
 * one.
 */
bool model_atomic(const struct av_atomic *atomic, void *operand);

/*
 * Random operands for an operation with given .bytes and .how, chosen to hit edge cases often.
 * @old: the value in memory. Every run gives the same sequence.
 */
void model_random(struct av_atomic *atomic, struct av_operand *old);

#endif
