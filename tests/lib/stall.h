/* SPDX-License-Identifier: MIT */
/*
 * Pages whose next touch takes until the test wants it to: a copy that is under way for sure. Of
 * files that are mapped, on kernels that let a program say when such a page may be mapped (5.14).
 */
#ifndef TEST_STALL_H
#define TEST_STALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Can that be had here? */
bool stall_possible(void);

/* Where this process has mapped what process @pid has mapped at @addr, of a file that both map.
 * Return: NULL: nowhere */
void *stall_mapped_here(pid_t pid, uint64_t addr);

/* Whole pages that are in their file. Whoever of this process touches one, but in a system call,
 * waits. Return: for the functions below, -1: it cannot be done */
int stall_begin(void *at, size_t bytes);
/* Return: does somebody wait, within that time? */
bool stall_wait(int stall, unsigned int ms);
/* All go on. */
void stall_end(int stall);

#endif
