/* SPDX-License-Identifier: MIT */
/* Reads what a capture wrote (observe/pcapng.h), and expects whole blocks. */
#ifndef TEST_CAPTURE_READER_H
#define TEST_CAPTURE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CAPTURE_PROLOGUE 72 /* bytes of the two blocks that a file begins with */

struct capture_reader {
	uint8_t *file;
	size_t bytes, at;
};

struct captured {
	const uint8_t *frame;
	uint32_t captured, length;
	uint64_t time_ns;
	bool commented;
	uint32_t direction; /* 0: none; 1: it came; 2: it was sent */
};

/* Read the file's bytes from @from on. */
void capture_load(struct capture_reader *r, const char *path, size_t from);
void capture_unload(struct capture_reader *r);

/* The next frame; false: there is none. @c: its bytes stay in @r */
bool capture_next(struct capture_reader *r, struct captured *c);

#endif
