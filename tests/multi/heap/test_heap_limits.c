/* SPDX-License-Identifier: MIT */
/*
 * fork() with regions on the shared heap where making it private is hard: without address space,
 * mappings or descriptors, and behind a context that was closed while memory is locked.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "heap_fixture.h"
#include "lib/few_descriptors.h"
#include "lib/peer_memory.h"
#include "lib/sandbox.h"

#define MANY	     (4096 * PAGE)
#define SIDE_BY_SIDE 3

static bool no_more; /* descriptors at a fork */

/* Fork. The child sees @p as filled by @seed, whatever the parent stores, and changes it. */
static void fork_and_check(uint8_t *p, size_t bytes, uint8_t seed)
{
	int go[2], done[2], status = 0;
	struct rlimit before;
	pid_t child;
	char c = 0;

	if (pipe(go) || pipe(done))
		DIE("pipe");
	if (no_more)
		before = few_descriptors(0);
	child = fork();
	if (no_more)
		setrlimit(RLIMIT_NOFILE, &before);
	if (child == 0) {
		bool right = read(go[0], &c, 1) == 1 && same(p, bytes, seed) == bytes;

		memset(p, 0xee, bytes);
		right = write(done[1], &c, 1) == 1 && right;
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
	waitpid(child, &status, 0);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child's memory: %#x", status);
	close(go[1]);
	close(done[0]);
}

static void no_address_space_row(void)
{
	uint8_t *p = map_private(MANY);
	struct rlimit before, none;
	struct ibv_mr *mr;

	row("fork without address space");
	fill(p, MANY, 3);
	mr = reg(p, MANY);
	getrlimit(RLIMIT_AS, &before);
	none = (struct rlimit){pages_vm_size(), before.rlim_max};
	EXPECT(setrlimit(RLIMIT_AS, &none) == 0, "setrlimit");
	fork_and_check(p, MANY, 3);
	setrlimit(RLIMIT_AS, &before);
	expect_reached(p, mr);
	dereg(mr);
	peer_memory_unmap(p, MANY);
}

static void no_descriptors_row(void)
{
	uint8_t *p = map_private(BYTES);
	struct ibv_mr *mr = reg(p, BYTES);

	row("fork without descriptors");
	fill(p, BYTES, 5);
	no_more = true;
	fork_and_check(p, BYTES, 5);
	no_more = false;
	expect_reached(p, mr);
	dereg(mr);
	peer_memory_unmap(p, BYTES);
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

/* Blocks that the kernel sees as one mapping. Return: the first that has another right behind */
static uint8_t *map_side_by_side(uint8_t *block[SIDE_BY_SIDE])
{
	uint8_t *first = NULL;

	for (size_t i = 0; i < SIDE_BY_SIDE; i++) {
		block[i] = map_private(MANY / 2);
		for (size_t k = 0; k < i; k++)
			if (block[k] == block[i] + MANY / 2 || block[i] == block[k] + MANY / 2)
				first = block[k] < block[i] ? block[k] : block[i];
	}
	NEED(first);
	return first;
}

static void no_mappings_row(void)
{
	uint8_t *block[SIDE_BY_SIDE], *p = map_side_by_side(block), *range;
	struct ibv_mr *mr;
	size_t bytes;

	row("fork without room for mappings, of blocks side by side");
	fill(p, MANY, 4);
	mr = reg(p, MANY);
	bytes = use_all_mappings(&range);
	if (bytes) {
		fork_and_check(p, MANY, 4);
		munmap(range, bytes);
		expect_reached(p, mr);
	} else {
		printf("left out: this system allows more mappings than the test makes\n");
	}
	dereg(mr);
	for (size_t i = 0; i < SIDE_BY_SIDE; i++)
		peer_memory_unmap(block[i], MANY / 2);
}

/* A sanitizer has its own mlock(), which does nothing. */
static void lock(uint8_t *page)
{
	if (syscall(SYS_mlock, page, PAGE))
		DIE("mlock: errno %d", errno);
}

/* A region of a context of its own, which is closed while other memory is locked. */
static void register_and_close(uint8_t *p, uint8_t *locked)
{
	struct ibv_context *other = node_open_device();
	struct ibv_pd *pd = ibv_alloc_pd(other);
	struct ibv_mr *mr = pd ? ibv_reg_mr(pd, p, BYTES, PROBE_ALL) : NULL;

	NEED(mr);
	lock(locked);
	dereg(mr);
	EXPECT(ibv_dealloc_pd(pd) == 0 && ibv_close_device(other) == 0, "errno %d", errno);
}

static void closed_rows(void)
{
	uint8_t *p = map_private(BYTES), *locked = map_private(PAGE);
	unsigned int before;

	row("a context that is closed while memory is locked: fork");
	ibv_close_device(node_open_device()); /* which closes what is idle, too */
	before = open_descriptors();
	fill(p, BYTES, 35);
	register_and_close(p, locked);
	fork_and_check(p, BYTES, 35);
	expect_shared(p, true);
	row("closed while memory is locked: discarding");
	EXPECT(madvise(p, BYTES, MADV_DONTNEED) == 0 && p[0] == 0 && p[BYTES - 1] == 0,
	       "other bytes are there again");
	fill(p, BYTES, 35);
	row("closed while memory is locked: registration");
	dereg(reg(p, BYTES));
	fork_and_check(p, BYTES, 35);
	row("closed while memory was locked: fork");
	syscall(SYS_munlock, locked, PAGE);
	fork_and_check(p, BYTES, 35);
	expect_shared(p, false);
	EXPECT(open_descriptors() == before, "%u descriptors instead of %u", open_descriptors(),
	       before);
	peer_memory_unmap(locked, PAGE);
	peer_memory_unmap(p, BYTES);
}

static void run(void)
{
	if (!TEST_SANITIZED) { /* the sanitizers' own memory needs room */
		no_address_space_row();
		no_mappings_row();
	}
	no_descriptors_row();
	closed_rows();
}

int main(int argc, char **argv)
{
	return heap_test(argc, argv, run);
}
