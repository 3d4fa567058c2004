/* SPDX-License-Identifier: MIT */
/* An io_uring that writes to memory of this process: to the pages it has pinned, not to addresses.
 */
#ifndef TEST_RING_H
#define TEST_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One at a time, with this fixed buffer. Return: false: this system does not allow any */
bool ring_open(uint8_t *buffer, size_t bytes);
void ring_close(void);

/* Have it write the bytes of @from into its buffer, which is at @buffer still. */
void ring_writes(uint8_t *buffer, const uint8_t *from, size_t bytes);

#endif
