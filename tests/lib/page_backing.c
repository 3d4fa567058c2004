/* SPDX-License-Identifier: MIT */
#include "lib/page_backing.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/expect.h"

#define PAGE	       4096ul
#define PFN_MASK       ((1ull << 55) - 1)
#define PRESENT	       (1ull << 63)
#define COLLAPSE       25 /* MADV_COLLAPSE */
#define COLLAPSE_TIMES 8

static uint64_t pagemap(const void *addr)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t entry = 0;

	if (fd < 0)
		return 0;
	if (pread(fd, &entry, sizeof(entry), (off_t)((uintptr_t)addr / PAGE * sizeof(entry))) !=
	    sizeof(entry))
		entry = 0;
	close(fd);
	return entry;
}

bool pages_physical(void)
{
	static int here;

	here = 1; /* the page is present */
	return (pagemap(&here) & PRESENT) && (pagemap(&here) & PFN_MASK);
}

bool pages_huge_possible(void)
{
	char path[] = "/dev/shm/anyverbs-test-XXXXXX";
	int fd = mkstemp(path), ret = -1;
	uint8_t *p, *at;

	if (fd < 0)
		return false;
	unlink(path);
	NEED(ftruncate(fd, 4 * HUGE_BYTES) == 0);
	p = mmap(NULL, 4 * HUGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	at = (uint8_t *)(((uintptr_t)p + HUGE_BYTES - 1) & ~(HUGE_BYTES - 1));
	if (p != MAP_FAILED && at != p)
		at = mmap(at, HUGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
	for (int i = 0; p != MAP_FAILED && at != MAP_FAILED && ret && i < COLLAPSE_TIMES; i++) {
		at[0] = 1;
		ret = madvise(at, HUGE_BYTES, COLLAPSE);
	}
	if (p != MAP_FAILED)
		munmap(p, 4 * HUGE_BYTES);
	close(fd);
	return ret == 0;
}

/* Sum of a field in smaps: of the mapping that contains @addr, or of all if NULL. */
static size_t smaps(const void *addr, const char *field, bool *private)
{
	FILE *f = fopen("/proc/self/smaps", "re");
	char line[512], perms[8];
	unsigned long begin, end, kb;
	size_t sum = 0, length = strlen(field);
	bool here = false;

	if (!f)
		DIE("/proc/self/smaps");
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx %7s", &begin, &end, perms) == 3) {
			here = !addr || ((uintptr_t)addr >= begin && (uintptr_t)addr < end);
			if (here && private)
				*private = perms[3] == 'p';
		} else if (here && !strncmp(line, field, length) &&
			   sscanf(line + length, ": %lu", &kb) == 1) {
			sum += kb << 10;
		}
	}
	fclose(f);
	return sum;
}

static bool contiguous(const uint8_t *at)
{
	uint64_t first = pagemap(at);

	for (size_t off = 0; off < HUGE_BYTES; off += PAGE) {
		uint64_t entry = pagemap(at + off);

		if (!(entry & PRESENT) || (entry & PFN_MASK) != (first & PFN_MASK) + off / PAGE)
			return false;
	}
	return true;
}

size_t pages_huge(const void *addr, size_t bytes)
{
	const volatile uint8_t *at = addr;
	size_t count = 0;

	for (size_t off = 0; off < bytes; off += PAGE)
		(void)at[off];
	if (!pages_physical())
		return (smaps(addr, "ShmemPmdMapped", NULL) + smaps(addr, "AnonHugePages", NULL)) /
		       HUGE_BYTES;
	for (size_t off = 0; bytes - off >= HUGE_BYTES; off += HUGE_BYTES)
		count += contiguous((const uint8_t *)addr + off);
	return count;
}

size_t pages_mapped_huge(void)
{
	return smaps(NULL, "ShmemPmdMapped", NULL);
}

bool pages_private(const void *addr)
{
	bool private = false;

	(void)smaps(addr, "Size", &private);
	return private;
}

bool pages_mapped(const void *addr)
{
	return smaps(addr, "Size", NULL) > 0;
}

size_t pages_vm_size(void)
{
	return smaps(NULL, "Size", NULL);
}

size_t pages_in_pool(void)
{
	FILE *f = fopen("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "re");
	unsigned long n = 0;

	if (f && fscanf(f, "%lu", &n) != 1)
		n = 0;
	if (f)
		fclose(f);
	return n;
}

size_t pages_offset(const void *addr)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512];
	unsigned long begin, end, offset, found = 0;

	if (!f)
		DIE("/proc/self/maps");
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx %*s %lx", &begin, &end, &offset) == 3 &&
		    begin == (uintptr_t)addr)
			found = offset;
	fclose(f);
	return found;
}

bool pages_line(const void *addr, const char *name, char *rest, size_t room)
{
	FILE *f = fopen("/proc/self/smaps", "re");
	char line[512];
	unsigned long begin, end;
	bool inside = false, found = false;

	while (f && !found && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &begin, &end) == 2)
			inside = (uintptr_t)addr >= begin && (uintptr_t)addr < end;
		else if (inside && !strncmp(line, name, strlen(name)))
			found = snprintf(rest, room, "%s", line + strlen(name)) > 0;
	}
	if (f)
		fclose(f);
	return found;
}

bool pages_flag(const void *addr, const char *letters)
{
	char flags[256] = "", word[8];

	snprintf(word, sizeof(word), " %s ", letters);
	return pages_line(addr, "VmFlags:", flags, sizeof(flags)) && strstr(flags, word);
}
