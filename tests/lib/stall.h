/* SPDX-License-Identifier: MIT */
/*
 * Pages whose next touch blocks until the test releases it: a way to keep a copy under way. Works
 * for mapped files, on kernels that let a program handle minor faults (Linux 5.14).
 */
#ifndef TEST_STALL_H
#define TEST_STALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Is this possible here? */
bool stall_possible(void);

/*
 * Where this process has mapped what process @pid has mapped at @addr, a file that both map.
 * Return: NULL: nowhere.
 */
void *stall_mapped_here(pid_t pid, uint64_t addr);

/*
 * Block threads of this process that touch these whole pages outside system calls. The pages must
 * exist in their file. Return: a handle for the functions below; -1: not possible.
 */
int stall_begin(void *at, size_t bytes);
/* Return: true if somebody is blocked within @ms. */
bool stall_wait(int stall, unsigned int ms);
/* Release everybody. */
void stall_end(int stall);

#endif
