/* SPDX-License-Identifier: MIT */
#include "observe/pcapng.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "observe/flight.h"

#define SECTION_HEADER	      0x0a0d0d0au
#define BYTE_ORDER_MAGIC      0x1a2b3c4du
#define INTERFACE_DESCRIPTION 1u
#define ENHANCED_PACKET	      6u
#define LINKTYPE_ETHERNET     1u
#define OPTION_END	      0u
#define OPTION_COMMENT	      1u
#define OPTION_IF_NAME	      2u
#define OPTION_EPB_FLAGS      2u
#define OPTION_IF_TSRESOL     9u
#define NANOSECONDS	      9u /* timestamps count 10^-9 s */

/* Two numbers of 16 bits, the first one first: this code is for little endian machines. */
#define PAIR(first, second) ((uint32_t)(first) | (uint32_t)(second) << 16)
#define TEXT(a, b, c, d)    (PAIR(a, c) | PAIR(b, d) << 8)
#define SECTION_BYTES	    28u
#define INTERFACE_BYTES	    44u

/* How every file begins. The magic tells readers our byte order. */
static const uint32_t prologue[] = {
	SECTION_HEADER,
	SECTION_BYTES,
	BYTE_ORDER_MAGIC,
	PAIR(1, 0), /* version */
	UINT32_MAX, /* length of the section: unknown */
	UINT32_MAX,
	SECTION_BYTES,
	INTERFACE_DESCRIPTION,
	INTERFACE_BYTES,
	LINKTYPE_ETHERNET,
	0, /* no limit of frames' lengths */
	PAIR(OPTION_IF_NAME, 8),
	TEXT('a', 'n', 'y', 'v'),
	TEXT('e', 'r', 'b', 's'),
	PAIR(OPTION_IF_TSRESOL, 1),
	NANOSECONDS,
	OPTION_END,
	INTERFACE_BYTES,
};
_Static_assert(sizeof(prologue) == SECTION_BYTES + INTERFACE_BYTES, "lengths");

/* --- blocks ---------------------------------------------------------------------- */

/* Pad with zeros from @end to a multiple of four bytes after @from. Return: the new end. */
static uint8_t *pad(const uint8_t *from, uint8_t *end)
{
	while ((end - from) & 3)
		*end++ = 0;
	return end;
}

static uint8_t *put_padded_bytes(uint8_t *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
	return pad(to, to + bytes);
}

static uint8_t *put32(uint8_t *to, uint32_t value)
{
	return put_padded_bytes(to, &value, sizeof(value));
}

static uint8_t *put_option(uint8_t *to, uint16_t code, const void *value, size_t bytes)
{
	return put_padded_bytes(put32(to, PAIR(code, bytes)), value, bytes);
}

size_t av_pcapng_block(uint8_t *block, const struct av_pcapng_frame *frame)
{
	const uint32_t head[] = {
		0, /* interface number */
		(uint32_t)(frame->time_ns >> 32),
		(uint32_t)frame->time_ns,
		frame->captured,
		frame->length,
	};
	uint8_t *data = block + AV_PCAPNG_DATA_AT, *at = pad(data, data + frame->captured);
	uint32_t bytes, direction = frame->direction;

	if (frame->comment)
		at = put_option(at, OPTION_COMMENT, frame->comment,
				strnlen(frame->comment, AV_PCAPNG_COMMENT_MAX));
	if (direction)
		at = put_option(at, OPTION_EPB_FLAGS, &direction, sizeof(direction));
	if (frame->comment || direction)
		at = put32(at, OPTION_END);
	bytes = (uint32_t)(at - block) + 4;
	put32(block, ENHANCED_PACKET);
	put32(block + 4, bytes);
	put_padded_bytes(block + 8, head, sizeof(head));
	put32(at, bytes);
	return bytes;
}

/* --- files ----------------------------------------------------------------------- */

/* Write the prologue to a new file, or check that an existing one has it. Return: 0 or -errno. */
static int ensure_pcapng_prologue(int fd, bool anew)
{
	uint32_t found[AV_ARRAY_SIZE(prologue)];
	ssize_t n;

	if (anew && ftruncate(fd, 0))
		return -errno;
	n = pread(fd, found, sizeof(found), 0);
	if (n == 0)
		return av_pcapng_append(fd, (const uint8_t *)prologue, sizeof(prologue));
	if (n < 0)
		return -errno;
	return n == sizeof(found) && memcmp(found, prologue, sizeof(found)) == 0 ? 0 : -EBADMSG;
}

int av_pcapng_open(const char *path, bool anew)
{
	/* Non-blocking, so that a FIFO cannot hold us up before fstat() unmasks it. */
	int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
	struct stat st;
	int ret;

	if (fd < 0)
		return -errno;
	ret = fstat(fd, &st) || !S_ISREG(st.st_mode) ? -EINVAL : 0;
	if (ret == 0 && flock(fd, LOCK_EX))
		ret = -errno;
	if (ret == 0)
		ret = ensure_pcapng_prologue(fd, anew);
	if (ret == 0) {
		(void)flock(fd, LOCK_UN);
		return fd;
	}
	close(fd);
	return ret;
}

/* Remove the last @bytes from the file, unless somebody has appended since. */
static void cut_off(int fd, off_t bytes)
{
	off_t end = lseek(fd, 0, SEEK_CUR);
	struct stat st;

	if (end >= bytes && fstat(fd, &st) == 0 && st.st_size == end)
		(void)!ftruncate(fd, end - bytes);
}

int av_pcapng_append(int fd, const uint8_t *blocks, size_t bytes)
{
	ssize_t done = av_write_quietly(fd, blocks, bytes);

	if (done == (ssize_t)bytes)
		return 0;
	if (done < 0)
		return -errno;
	cut_off(fd, done);
	return -ENOSPC;
}
