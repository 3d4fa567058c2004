/* SPDX-License-Identifier: MIT */
#include "memory/region.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

size_t av_page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* By number: callers hold queue pair locks, and the library's versions are cancellation points. */

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

int av_proc_open(const char *path)
{
	return (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
}

int av_vma_open_own(void)
{
	return av_proc_open("/proc/self/maps");
}

size_t av_pagemap_read(uint64_t addr, uint64_t *entry, size_t pages)
{
	int fd = av_proc_open("/proc/self/pagemap");
	off_t at = (off_t)(addr / av_page_bytes() * sizeof(*entry));
	long n = fd < 0 ? -1 : syscall(SYS_pread64, fd, entry, pages * sizeof(*entry), at);

	if (fd >= 0)
		syscall(SYS_close, fd);
	return n > 0 ? (size_t)n / sizeof(*entry) : 0;
}

/* The number that the text begins with; it then begins behind the byte that ends it. */
static uint64_t take_number(const char **p, unsigned int base)
{
	uint64_t n = 0;

	for (; **p && !strchr(" -:", **p); ++*p)
		n = n * base + (uint64_t)(**p <= '9' ? **p - '0' : **p - 'a' + 10);
	*p += **p != '\0';
	return n;
}

/* "BEGIN-END rwxp OFFSET DEVICE INODE  NAME": proc_pid_maps(5). */
static struct av_vma parse_vma(const char *p)
{
	struct av_vma vma = {0};
	unsigned int major;

	vma.begin = take_number(&p, 16);
	vma.end = take_number(&p, 16);
	for (; *p && *p != ' '; p++) {
		vma.readable |= *p == 'r';
		vma.writable |= *p == 'w';
		vma.executable |= *p == 'x';
		vma.shared |= *p == 's';
	}
	p += *p == ' ';
	vma.offset = take_number(&p, 16);
	major = (unsigned int)take_number(&p, 16);
	vma.dev = makedev(major, (unsigned int)take_number(&p, 16));
	vma.inode = take_number(&p, 10);
	vma.anonymous = !vma.shared && !vma.inode;
	return vma;
}

bool av_proc_line(struct av_proc_text *t, char *line, size_t size)
{
	size_t used = 0;

	for (;;) {
		if (t->next == t->end) {
			long n = syscall(SYS_pread64, t->fd, t->text, sizeof(t->text), t->at);

			t->failed = n < 0;
			if (n <= 0)
				return false;
			t->at += n;
			t->next = 0;
			t->end = (size_t)n;
		}
		if (t->text[t->next++] == '\n')
			break;
		if (used < size - 1)
			line[used++] = t->text[t->next - 1];
	}
	line[used] = '\0';
	return true;
}

/* For older kernels. */
static bool read_next_vma(int maps, uint64_t addr, struct av_vma *vma)
{
	struct av_proc_text text = {.fd = maps};
	char line[128]; /* enough for all but the name */

	while (av_proc_line(&text, line, sizeof(line))) {
		*vma = parse_vma(line);
		if (vma->end > addr)
			return true;
	}
	return false;
}

bool av_vma_next(int maps, uint64_t addr, struct av_vma *vma)
{
	struct procmap_question q = {
		.size = sizeof(q), .flags = PROCMAP_COVERING_OR_NEXT, .addr = addr};

	if (ioctl(maps, PROCMAP_QUESTION, &q))
		return errno != ENOENT && read_next_vma(maps, addr, vma);
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

int av_mapped_check(uint64_t addr, uint64_t bytes, bool writable)
{
	uint64_t at = addr, last = addr + bytes;
	int maps AV_CLOSED = av_vma_open_own();
	struct av_vma vma;

	if (maps < 0)
		return EFAULT;
	while (at != last && av_vma_next(maps, at, &vma) && vma.begin <= at && vma.readable &&
	       (vma.writable || !writable))
		at = vma.end - at < last - at ? vma.end : last;
	return at == last ? 0 : EFAULT;
}

/* Does the kernel know the advice? Then it follows it for this thread's stack. */
static bool can_populate(int advice)
{
	size_t page = av_page_bytes();
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
