/* SPDX-License-Identifier: MIT */
#include "observe/pcapng.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
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

/* How every file begins. The magic tells readers our byte order. */
struct prologue {
	struct {
		uint32_t type, bytes, magic;
		uint16_t major, minor;
		uint32_t length[2];
		uint32_t bytes_again;
	} section;
	struct {
		uint32_t type, bytes;
		uint16_t link_type, reserved;
		uint32_t snaplen; /* 0: no limit */
		struct {
			uint16_t code, length;
		} name;
		char name_text[8];
		struct {
			uint16_t code, length;
			uint8_t value, padding[3];
		} resolution;
		struct {
			uint16_t code, length;
		} end;
		uint32_t bytes_again;
	} interface;
};

static const struct prologue prologue = {
	.section = {SECTION_HEADER,
		    sizeof(prologue.section),
		    BYTE_ORDER_MAGIC,
		    1,
		    0,
		    {UINT32_MAX, UINT32_MAX}, /* section length: unknown */
		    sizeof(prologue.section)},
	.interface = {.type = INTERFACE_DESCRIPTION,
		      .bytes = sizeof(prologue.interface),
		      .link_type = LINKTYPE_ETHERNET,
		      .name = {OPTION_IF_NAME, sizeof(prologue.interface.name_text)},
		      .name_text = {'a', 'n', 'y', 'v', 'e', 'r', 'b', 's'},
		      .resolution = {OPTION_IF_TSRESOL, 1, NANOSECONDS, {0}},
		      .end = {OPTION_END, 0},
		      .bytes_again = sizeof(prologue.interface)},
};
_Static_assert(sizeof(prologue.section) == 28 && sizeof(prologue.interface) == 44,
	       "no padding but pcapng's");

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

static uint8_t *put_comment(uint8_t *to, const char *text)
{
	const uint16_t option[2] = {OPTION_COMMENT, (uint16_t)strnlen(text, AV_PCAPNG_COMMENT_MAX)};

	to = put_padded_bytes(to, option, sizeof(option));
	return put_padded_bytes(to, text, option[1]);
}

static uint8_t *put_direction(uint8_t *to, enum av_pcapng_direction direction)
{
	const uint16_t option[2] = {OPTION_EPB_FLAGS, sizeof(uint32_t)};

	to = put_padded_bytes(to, option, sizeof(option));
	return put32(to, direction);
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
	uint32_t bytes;

	if (frame->comment)
		at = put_comment(at, frame->comment);
	if (frame->direction)
		at = put_direction(at, frame->direction);
	if (frame->comment || frame->direction)
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
	struct prologue found;
	ssize_t n;

	if (anew && ftruncate(fd, 0))
		return -errno;
	n = pread(fd, &found, sizeof(found), 0);
	if (n == 0)
		return av_pcapng_append(fd, (const uint8_t *)&prologue, sizeof(prologue));
	if (n < 0)
		return -errno;
	return n == sizeof(found) && memcmp(&found, &prologue, sizeof(found)) == 0 ? 0 : -EBADMSG;
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
