/* SPDX-License-Identifier: MIT */
#include "lib/capture_reader.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/expect.h"

#define PACKET_BLOCK 6u
#define FRAME_AT     28u
#define COMMENT	     1u
#define FLAGS	     2u

void capture_load(struct capture_reader *r, const char *path, size_t from)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		DIE("no capture file");
	r->at = 0;
	r->bytes = (size_t)st.st_size - from;
	r->file = malloc(r->bytes + 1);
	if (!r->file || pread(fd, r->file, r->bytes, (off_t)from) != (ssize_t)r->bytes)
		DIE("reading the capture file");
	close(fd);
}

void capture_unload(struct capture_reader *r)
{
	free(r->file);
}

static uint32_t word_at(const struct capture_reader *r, size_t at)
{
	uint32_t word;

	memcpy(&word, r->file + at, sizeof(word));
	return word;
}

static void read_options(const struct capture_reader *r, size_t at, size_t end, struct captured *c)
{
	while (at + 4 <= end) {
		uint32_t code = word_at(r, at) & 0xffff, bytes = word_at(r, at) >> 16;

		if (code == COMMENT)
			c->commented = true;
		else if (code == FLAGS && at + 8 <= end)
			c->direction = word_at(r, at + 4) & 3;
		at += 4 + ((bytes + 3) & ~3u);
	}
}

bool capture_next(struct capture_reader *r, struct captured *c)
{
	size_t at = r->at, bytes;

	if (at == r->bytes)
		return false;
	bytes = at + 32 <= r->bytes ? word_at(r, at + 4) : 0;
	if (!EXPECT(bytes >= 32 && at + bytes <= r->bytes && word_at(r, at) == PACKET_BLOCK &&
			    word_at(r, at + bytes - 4) == bytes &&
			    word_at(r, at + 20) <= bytes - 32,
		    "no whole block at %zu", at))
		return false;
	*c = (struct captured){.frame = r->file + at + FRAME_AT,
			       .captured = word_at(r, at + 20),
			       .length = word_at(r, at + 24),
			       .time_ns =
				       (uint64_t)word_at(r, at + 12) << 32 | word_at(r, at + 16)};
	read_options(r, at + FRAME_AT + ((c->captured + 3) & ~3u), at + bytes - 4, c);
	r->at += bytes;
	return true;
}
