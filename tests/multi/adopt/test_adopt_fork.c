/* SPDX-License-Identifier: MIT */
/*
 * Adopted memory where moving out is hard: fork() without address space or without room for
 * mappings; a context that is closed while pages have to stay; an io_uring that writes to the
 * pages, whatever becomes of regions and children.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "adopt_fixture.h"
#include "lib/ring.h"
#include "lib/sandbox.h"
#include "lib/userfaultfd.h"
#include "lib/wait.h"

#define MANY (4096 * PAGE)

/* --- a child that has memory of its own ------------------------------------------ */

/* Fork. The child sees @p as filled by @seed, whatever the parent stores, and changes it. */
static void fork_and_check(uint8_t *p, size_t bytes, uint8_t seed, void (*meanwhile)(void))
{
	int go[2], done[2], status = 0;
	pid_t child;
	char c = 0;

	if (pipe(go) || pipe(done))
		DIE("pipe");
	child = fork();
	if (child == 0) {
		bool right = read(go[0], &c, 1) == 1 && same(p, bytes, seed) == bytes;

		memset(p, 0xee, bytes);
		right = write(done[1], &c, 1) == 1 && read(go[0], &c, 1) == 1 && right;
		_exit(!right);
	}
	close(go[0]);
	close(done[1]);
	if (!EXPECT(child > 0, "fork: errno %d", errno))
		return;
	p[PAGE] ^= 0xff;
	EXPECT(write(go[1], &c, 1) == 1 && read(done[0], &c, 1) == 1, "the child is gone");
	p[PAGE] ^= 0xff;
	expect_filled(p, bytes, seed);
	if (meanwhile)
		meanwhile();
	EXPECT(write(go[1], &c, 1) == 1, "write");
	waitpid(child, &status, 0);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child's memory: %#x", status);
	close(go[1]);
	close(done[0]);
}

/* --- limits ---------------------------------------------------------------------- */

static rlim_t mapped_bytes(void)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (!f || fscanf(f, "%lu", &pages) != 1)
		DIE("/proc/self/statm");
	fclose(f);
	return pages * PAGE;
}

static void no_address_space_row(void)
{
	uint8_t *p = map_private(MANY);
	struct rlimit before, none;
	struct ibv_mr *mr;

	row("fork without address space");
	fill(p, MANY, 3);
	mr = reg_adopted(p, MANY);
	getrlimit(RLIMIT_AS, &before);
	none = (struct rlimit){mapped_bytes(), before.rlim_max};
	EXPECT(setrlimit(RLIMIT_AS, &none) == 0, "setrlimit");
	fork_and_check(p, MANY, 3, NULL);
	setrlimit(RLIMIT_AS, &before);
	expect_reached(p, mr);
	dereg(mr);
	munmap(p, MANY);
}

/* As many mappings as can be: every other page of a range has other rights. Return: its bytes */
static size_t use_all_mappings(uint8_t **range)
{
	const size_t bytes = 300000 * PAGE;
	uint8_t *p =
		mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		DIE("mmap: errno %d", errno);
	*range = p;
	for (size_t at = PAGE; at < bytes; at += 2 * PAGE)
		if (mprotect(p + at, PAGE, PROT_READ))
			return bytes;
	munmap(p, bytes);
	return 0;
}

static void no_mappings_row(void)
{
	uint8_t *p = map_private(MANY), *range;
	struct ibv_mr *mr;
	size_t bytes;

	row("fork without room for mappings");
	fill(p, MANY, 4);
	mr = reg_adopted(p, MANY);
	bytes = use_all_mappings(&range);
	if (bytes) {
		fork_and_check(p, MANY, 4, NULL);
		munmap(range, bytes);
		expect_reached(p, mr);
	} else {
		printf("left out: this system allows more mappings than the test makes\n");
	}
	dereg(mr);
	munmap(p, MANY);
}

/* --- a context that is closed while pages have to stay ---------------------------- */

/* A sanitizer has its own mlock(), which does nothing. */
static void lock(uint8_t *page)
{
	if (syscall(SYS_mlock, page, PAGE))
		DIE("mlock: errno %d", errno);
}

/* Adopt it for a context of its own, which is closed while other memory is locked. */
static void adopt_and_close(uint8_t *p, uint8_t *locked)
{
	struct ibv_context *other = node_open_device();
	struct ibv_pd *pd = ibv_alloc_pd(other);
	struct ibv_mr *mr = pd ? ibv_reg_mr(pd, p, BYTES, PROBE_ALL) : NULL;

	if (!mr)
		DIE("no region: errno %d", errno);
	expect_adopted(p, true);
	lock(locked);
	dereg(mr);
	EXPECT(ibv_dealloc_pd(pd) == 0 && ibv_close_device(other) == 0, "errno %d", errno);
	expect_adopted(p, true);
	expect_filled(p, BYTES, 35);
}

static void while_locked(uint8_t *p)
{
	row("closed while memory is locked: fork");
	fork_and_check(p, BYTES, 35, NULL);
	row("closed while memory is locked: discarding");
	EXPECT(madvise(p, BYTES, MADV_DONTNEED) == 0 && p[0] == 0 && p[BYTES - 1] == 0,
	       "other bytes are there again");
	fill(p, BYTES, 35);
	row("closed while memory is locked: another context in its place");
	ibv_close_device(node_open_device());
	fork_and_check(p, BYTES, 35, NULL);
	row("closed while memory is locked: registration");
	dereg(reg(p, BYTES));
	expect_filled(p, BYTES, 35);
	expect_adopted(p, true);
}

static void expect_nothing_left(uint8_t *p, unsigned int descriptors)
{
	expect_adopted(p, false);
	expect_filled(p, BYTES, 35);
	EXPECT(open_descriptors() == descriptors, "%u descriptors instead of %u",
	       open_descriptors(), descriptors);
}

/* As soon as they need not stay, they move out, and nothing is left of the context. */
static void closed_rows(void)
{
	uint8_t *p = map_private(BYTES), *locked = map_private(PAGE);
	unsigned int before;

	row("a context that is closed while memory is locked");
	ibv_close_device(node_open_device()); /* which closes what is idle, too */
	before = open_descriptors();
	fill(p, BYTES, 35);
	adopt_and_close(p, locked);
	while_locked(p);
	syscall(SYS_munlock, locked, PAGE);
	row("closed while memory was locked: fork");
	fork_and_check(p, BYTES, 35, NULL);
	expect_nothing_left(p, before);
	adopt_and_close(p, locked);
	syscall(SYS_munlock, locked, PAGE);
	row("closed while memory was locked: registration");
	dereg(reg_adopted(p, BYTES));
	expect_nothing_left(p, before);
	munmap(locked, PAGE);
	munmap(p, BYTES);
}

/* --- io_uring -------------------------------------------------------------------- */

static uint8_t *fixed; /* the ring's buffer, PAGES pages */

/* Have the ring write bytes of this seed there, and see them. */
static void ring_reads(uint8_t seed)
{
	static uint8_t bytes[BYTES];

	fill(bytes, BYTES, seed);
	ring_writes(fixed, bytes, BYTES);
	expect_filled(fixed, BYTES, seed);
}

static void ring_reads_meanwhile(void)
{
	ring_reads(32);
	fill(fixed, BYTES, 31);
}

/* The ring's pages stay where it writes to. */
static void with_ring(uint8_t *p, struct ibv_mr *mr)
{
	uint8_t *other = map_private(BYTES);

	row("io_uring: deregistration");
	dereg(mr);
	ring_reads(30);
	row("io_uring: registration again");
	mr = reg(p, BYTES);
	expect_adopted(p, true);
	expect_reached(p, mr);
	row("io_uring: fork");
	fill(p, BYTES, 31);
	fork_and_check(p, BYTES, 31, ring_reads_meanwhile);
	ring_reads(33);
	expect_reached(p, mr);
	dereg(mr);
	row("io_uring: other memory is left alone");
	dereg(reg(other, BYTES));
	mr = reg(other, BYTES);
	expect_adopted(other, false);
	expect_reached(other, mr);
	dereg(mr);
	munmap(other, BYTES);
}

static void ring_row(void)
{
	uint8_t *p = map_private(BYTES);
	struct ibv_mr *mr;

	row("io_uring");
	fill(p, BYTES, 29);
	mr = reg_adopted(p, BYTES);
	fixed = p;
	if (!ring_open(p, BYTES)) {
		printf("left out: io_uring is not allowed here (errno %d)\n", errno);
		dereg(mr);
		munmap(p, BYTES);
		return;
	}
	with_ring(p, mr);
	row("io_uring: it is closed");
	ring_close();
	fill(p, BYTES, 34);
	/* The kernel takes a while to release the ring. */
	(void)WAIT_UNTIL((dereg(reg(p, BYTES)), pages_private(p)), PATIENCE);
	expect_adopted(p, false);
	expect_filled(p, BYTES, 34);
	munmap(p, BYTES);
}

static void run(void)
{
	if (!TEST_SANITIZED) { /* the sanitizers' own memory needs room */
		no_address_space_row();
		no_mappings_row();
	}
	closed_rows();
	ring_row();
}

int main(int argc, char **argv)
{
	need_userfaultfd();
	return adopt_test(argc, argv, run);
}
