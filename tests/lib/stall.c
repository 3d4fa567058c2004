/* SPDX-License-Identifier: MIT */
#include "lib/stall.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PATH 64

static int open_stall(void)
{
	struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_MINOR_SHMEM};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) == 0)
		return fd;
	close(fd);
	return -1;
}

bool stall_possible(void)
{
	int fd = open_stall();

	if (fd < 0)
		return false;
	close(fd);
	return true;
}

struct mapping {
	uint64_t begin, end, offset, inode;
	unsigned int major, minor;
};

static bool is_file_of(const struct mapping *m, const struct mapping *other)
{
	return m->inode && m->inode == other->inode && m->major == other->major &&
	       m->minor == other->minor;
}

/* The next mapping in a maps file. */
static bool next_mapping(FILE *maps, struct mapping *m)
{
	char line[512];

	return fgets(line, sizeof(line), maps) &&
	       sscanf(line, "%lx-%lx %*s %lx %x:%x %lu", &m->begin, &m->end, &m->offset, &m->major,
		      &m->minor, &m->inode) == 6;
}

/* The mapping of process @pid at @addr. */
static bool find_mapping(pid_t pid, uint64_t addr, struct mapping *m)
{
	char path[PATH];
	bool found = false;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "re");
	while (maps && !found && next_mapping(maps, m))
		found = m->begin <= addr && addr < m->end;
	if (maps)
		fclose(maps);
	return found;
}

void *stall_mapped_here(pid_t pid, uint64_t addr)
{
	struct mapping theirs, m;
	void *here = NULL;
	uint64_t at;
	FILE *maps;

	if (!find_mapping(pid, addr, &theirs))
		return NULL;
	at = theirs.offset + (addr - theirs.begin);
	maps = fopen("/proc/self/maps", "re");
	while (maps && !here && next_mapping(maps, &m))
		if (is_file_of(&m, &theirs) && m.offset <= at && at - m.offset < m.end - m.begin)
			here = (void *)(uintptr_t)(m.begin + (at - m.offset));
	if (maps)
		fclose(maps);
	return here;
}

int stall_begin(void *at, size_t bytes)
{
	struct uffdio_register range = {.range = {(uintptr_t)at, bytes},
					.mode = UFFDIO_REGISTER_MODE_MINOR};
	int fd = open_stall();

	if (fd < 0)
		return -1;
	if (ioctl(fd, UFFDIO_REGISTER, &range) == 0 && madvise(at, bytes, MADV_DONTNEED) == 0)
		return fd;
	close(fd);
	return -1;
}

bool stall_wait(int stall, unsigned int ms)
{
	struct pollfd waits = {.fd = stall, .events = POLLIN};

	return poll(&waits, 1, (int)ms) == 1 && waits.revents == POLLIN;
}

void stall_end(int stall)
{
	close(stall);
}
