/* SPDX-License-Identifier: MIT */
/*
 * Reads /proc/PID/maps piece by piece. System calls go by number: callers hold execution rights,
 * and the library's versions are cancellation points.
 */
#include "memory/vma.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* In <linux/fs.h> since 6.11. */
struct procmap_question {
	uint64_t size, flags, addr;
	uint64_t begin, end, rights, page_size, offset, inode;
	uint32_t dev_major, dev_minor, name_size, build_id_size;
	uint64_t name_addr, build_id_addr;
};
#define PROCMAP_QUESTION	 _IOWR('f', 17, struct procmap_question)
#define PROCMAP_COVERING_OR_NEXT 0x10
#define PROCMAP_READABLE	 0x01
#define PROCMAP_WRITABLE	 0x02
#define PROCMAP_SHARED		 0x08

int av_vma_open_own(void)
{
	return (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
}

bool av_vma_next(int maps, uint64_t addr, struct av_vma *vma)
{
	struct procmap_question q = {
		.size = sizeof(q), .flags = PROCMAP_COVERING_OR_NEXT, .addr = addr};

	if (ioctl(maps, PROCMAP_QUESTION, &q))
		return errno != ENOENT && av_vma_next_text(maps, addr, vma);
	*vma = (struct av_vma){
		.begin = q.begin,
		.end = q.end,
		.anonymous = !q.inode && !(q.rights & PROCMAP_SHARED),
		.readable = q.rights & PROCMAP_READABLE,
		.writable = q.rights & PROCMAP_WRITABLE,
		.shared = q.rights & PROCMAP_SHARED,
		.inode = q.inode,
		.offset = q.offset,
	};
	return true;
}

/* State of the text parser. A line reads "BEGIN-END rwxp OFFSET DEVICE INODE  NAME". */
struct scan {
	enum { BEGIN, END, RIGHTS, OFFSET, DEVICE, INODE, NAME } field;
	uint64_t value[NAME]; /* the numeric fields */
	bool readable, writable, shared;
};

static uint64_t digit(char c)
{
	return (uint64_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
}

/* Process one character. Return: true when everything needed of a line is known. */
static bool scan_take(struct scan *s, char c)
{
	bool ends = c == ' ' || c == '\n' || (c == '-' && s->field == BEGIN);

	if (s->field == NAME)
		return false;
	if (ends)
		return ++s->field == NAME;
	switch (s->field) {
	case RIGHTS:
		s->shared |= c == 's';
		s->readable |= c == 'r';
		s->writable |= c == 'w';
		break;
	case INODE:
		s->value[INODE] = s->value[INODE] * 10 + digit(c);
		break;
	default:
		s->value[s->field] = s->value[s->field] << 4 | digit(c);
		break;
	}
	return false;
}

static struct av_vma vma_of(const struct scan *s)
{
	return (struct av_vma){
		.begin = s->value[BEGIN],
		.end = s->value[END],
		.anonymous = !s->shared && !s->value[INODE],
		.readable = s->readable,
		.writable = s->writable,
		.shared = s->shared,
		.inode = s->value[INODE],
		.offset = s->value[OFFSET],
	};
}

bool av_vma_next_text(int maps, uint64_t addr, struct av_vma *vma)
{
	struct scan s = {0};
	char text[1024];
	off_t at = 0;
	long n;

	while ((n = syscall(SYS_pread64, maps, text, sizeof(text), at)) > 0) {
		for (long i = 0; i < n; i++) {
			if (scan_take(&s, text[i]) && s.value[END] > addr) {
				*vma = vma_of(&s);
				return true;
			}
			if (text[i] == '\n')
				s = (struct scan){0};
		}
		at += n;
	}
	return false;
}
