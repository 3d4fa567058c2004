/* SPDX-License-Identifier: MIT */
/*
 * What is not adopted, and is reached all the same: shared mappings, files, the stack, half of a
 * huge page, and all of a process with locked memory.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "adopt_fixture.h"

static void alone_row(const char *name, uint8_t *p, size_t bytes)
{
	bool private = pages_private(p);
	struct ibv_mr *mr;

	row("left alone: %s", name);
	mr = reg(p, bytes);
	EXPECT(pages_private(p) == private, "adopted");
	expect_reached(p, mr);
	dereg(mr);
}

static void file_row(void)
{
	char path[] = "/tmp/anyverbs-test-XXXXXX";
	int fd = mkstemp(path);
	uint8_t *p;

	if (fd < 0 || unlink(path) || ftruncate(fd, (off_t)BYTES))
		DIE("no file");
	p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	alone_row("a private mapping of a file", p, BYTES);
	EXPECT(madvise(p, BYTES, MADV_DONTNEED) == 0 && p[0] == 0,
	       "it is a mapping of the file still");
	munmap(p, BYTES);
	close(fd);
}

static void stack_row(void)
{
	uint8_t room[8 * PAGE];

	alone_row("the stack", (uint8_t *)(((uintptr_t)room + PAGE - 1) & ~(PAGE - 1)), 6 * PAGE);
}

/* Half of one is enough to lose it. */
static void huge_row(void)
{
	uint8_t *room = map_private(2 * HUGE_BYTES);
	uint8_t *p = (uint8_t *)(((uintptr_t)room + HUGE_BYTES - 1) & ~(HUGE_BYTES - 1));

	if (madvise(p, HUGE_BYTES, MADV_HUGEPAGE) == 0)
		memset(p, 1, HUGE_BYTES);
	alone_row("a huge page, if there is one", p, HUGE_BYTES / 2);
	munmap(room, 2 * HUGE_BYTES);
}

static void locked_row(void)
{
	uint8_t *p = map_private(BYTES), *locked = map_private(PAGE);

	if (syscall(SYS_mlock, locked,
		    PAGE)) /* by number: a sanitizer has its own, which does nothing */
		return;
	alone_row("locked memory in the process", p, BYTES);
	munmap(locked, PAGE);
	munmap(p, BYTES);
}

static void refused_memory_rows(void)
{
	uint8_t *p = map(BYTES, MAP_SHARED | MAP_ANONYMOUS);

	alone_row("a shared mapping", p, BYTES);
	munmap(p, BYTES);
	file_row();
	if (!TEST_SANITIZED) /* whose variables may be elsewhere */
		stack_row();
	huge_row();
	locked_row();
}

static void run(void)
{
	refused_memory_rows();
}

int main(int argc, char **argv)
{
	return adopt_test(argc, argv, run);
}
