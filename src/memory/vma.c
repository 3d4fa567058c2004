/* SPDX-License-Identifier: MIT */
/* By number: callers hold execution rights, and the library's versions are cancellation points. */
#include "memory/vma.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

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
#define PROCMAP_EXECUTABLE	 0x04
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
		.executable = q.rights & PROCMAP_EXECUTABLE,
		.shared = q.rights & PROCMAP_SHARED,
		.inode = q.inode,
		.dev = makedev(q.dev_major, q.dev_minor),
		.offset = q.offset,
	};
	return true;
}

int av_vma_rights_of(int maps, uint64_t addr, uint64_t bytes)
{
	uint64_t end = addr + bytes;
	struct av_vma vma;
	int ret = -1;

	for (uint64_t at = addr; at < end; at = vma.end) {
		if (!av_vma_next(maps, at, &vma) || vma.begin > at ||
		    (at > addr && av_vma_rights(&vma) != ret))
			return -1;
		ret = av_vma_rights(&vma);
	}
	return ret;
}

/* State of the text parser. A line reads "BEGIN-END rwxp OFFSET DEVICE INODE  NAME". */
struct scan {
	enum { BEGIN, END, RIGHTS, OFFSET, DEVICE, INODE, NAME } field;
	uint64_t value[NAME]; /* the numeric fields */
	unsigned int major;   /* of the device, whose number behind the colon is the value */
	bool readable, writable, executable, shared;
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
		s->executable |= c == 'x';
		break;
	case DEVICE:
		if (c == ':') {
			s->major = (unsigned int)s->value[DEVICE];
			s->value[DEVICE] = 0;
			break;
		}
		s->value[DEVICE] = s->value[DEVICE] << 4 | digit(c);
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
		.executable = s->executable,
		.shared = s->shared,
		.inode = s->value[INODE],
		.dev = makedev(s->major, (unsigned int)s->value[DEVICE]),
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

int av_mapped_check(uint64_t addr, uint64_t bytes, bool writable)
{
	uint64_t at = addr, last = addr + bytes;
	int maps = av_vma_open_own();
	struct av_vma vma;

	if (maps < 0)
		return EFAULT;
	while (at != last && av_vma_next(maps, at, &vma) && vma.begin <= at && vma.readable &&
	       (vma.writable || !writable))
		at = vma.end - at < last - at ? vma.end : last;
	close(maps);
	return at == last ? 0 : EFAULT;
}

/* Does the kernel know the advice? Then it follows it for this thread's stack. */
static bool can_populate(int advice)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);

	return madvise((void *)(here & ~(page - 1)), page, advice) == 0;
}

int av_mapped_populate(uint64_t begin, uint64_t bytes, bool writable)
{
	int advice = writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ, err = 0;

	do
		err = madvise((void *)(uintptr_t)begin, bytes, advice) ? errno : 0;
	while (err == EINTR || err == EAGAIN);
	if (err == 0)
		return 0;
	if (err == EFAULT || err == EHWPOISON || av_mapped_check(begin, bytes, writable))
		return EFAULT;
	if (err == ENOMEM)
		return ENOMEM;
	return err == EINVAL && can_populate(advice) ? EFAULT : EINVAL;
}
