/* SPDX-License-Identifier: MIT */
/*
 * The shared heap: memory that is born shared, in a program with two threads. Regions on it are
 * reached by other processes without its moving, and the program notices no difference, whatever it
 * does with its memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "heap_fixture.h"

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24 /* Linux 5.18 */
#endif

#define LARGE (200ul << 10)

/* --- the file behind it ---------------------------------------------------------- */

/* Its descriptor in this process, or -1. */
static int heap_fd(void)
{
	char path[64], name[64];

	for (int fd = 0; fd < 4096; fd++) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, name, sizeof(name) - 1);
		name[n < 0 ? 0 : n] = '\0';
		if (strstr(name, "memfd:anyverbs-heap"))
			return fd;
	}
	return -1;
}

/* Bytes of memory in it. */
static uint64_t heap_bytes(void)
{
	struct stat st = {.st_blocks = 0};

	EXPECT(fstat(heap_fd(), &st) == 0, "the heap has no file");
	return (uint64_t)st.st_blocks * 512;
}

/* Files of shared heaps that a process has mapped: its own, and those of its peers that it has had
 * to do with. */
static unsigned int heaps_mapped(pid_t pid)
{
	char path[64], line[512];
	unsigned long seen[8], inode;
	unsigned int count = 0, i;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f) && count < COUNT_OF(seen)) {
		if (!strstr(line, "memfd:anyverbs-heap") ||
		    sscanf(line, "%*s %*s %*s %*s %lu", &inode) != 1)
			continue;
		for (i = 0; i < count && seen[i] != inode; i++)
			;
		if (i == count)
			seen[count++] = inode;
	}
	if (f)
		fclose(f);
	return count;
}

/* --- regions --------------------------------------------------------------------- */

static void region_row(void)
{
	uint8_t *p = map_private(BYTES);
	struct ibv_mr *mr, *part;

	row("a region of a program with threads");
	fill(p, BYTES, 1);
	mr = reg(p, BYTES);
	expect_shared(p, true);
	expect_reached(p, mr);
	EXPECT(heaps_mapped(b.pid) == 2, "the peer has %u heaps mapped", heaps_mapped(b.pid));
	fill(p, BYTES, 2);
	part = reg(p + 100, PAGE);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)p + 100, part->rkey, PAGE,
		     IBV_WC_SUCCESS);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)p + 99, part->rkey, PAGE,
		     IBV_WC_REM_ACCESS_ERR);
	dereg(part);
	dereg(mr);
	expect_shared(p, true);
	expect_filled(p, BYTES, 2);
	munmap(p, BYTES);
}

/* Less than a page, and beside what is no region. */
static void small_row(void)
{
	uint8_t *p = map_private(BYTES);
	struct ibv_mr *mr = reg(p + 100, 200);

	row("a region of a part of a page");
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_WRITE, (uintptr_t)p + 100, mr->rkey, 200,
		     IBV_WC_SUCCESS);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_WRITE, (uintptr_t)p + 200, mr->rkey, 101,
		     IBV_WC_REM_ACCESS_ERR);
	dereg(mr);
	munmap(p, BYTES);
}

/* --- allocating ------------------------------------------------------------------ */

static void *by_malloc(size_t bytes)
{
	return malloc(bytes);
}

static void *by_calloc(size_t bytes)
{
	return calloc(bytes / 8, 8);
}

static void *by_realloc(size_t bytes)
{
	return realloc(NULL, bytes);
}

static void *by_reallocarray(size_t bytes)
{
	return reallocarray(NULL, bytes / 8, 8);
}

static void *by_memalign(size_t bytes)
{
	return memalign(1 << 16, bytes);
}

static void *by_aligned_alloc(size_t bytes)
{
	return aligned_alloc(1 << 16, bytes);
}

static void *by_posix_memalign(size_t bytes)
{
	void *p;

	return posix_memalign(&p, 1 << 16, bytes) ? NULL : p;
}

static void *by_valloc(size_t bytes)
{
	return valloc(bytes);
}

static void *by_pvalloc(size_t bytes)
{
	return pvalloc(bytes);
}

static const struct way {
	const char *name;
	void *(*take)(size_t bytes);
	size_t align;
	bool zeros;
} ways[] = {
	{"malloc", by_malloc, 16, false},
	{"calloc", by_calloc, 16, true},
	{"realloc", by_realloc, 16, false},
	{"reallocarray", by_reallocarray, 16, false},
	{"memalign", by_memalign, 1 << 16, false},
	{"aligned_alloc", by_aligned_alloc, 1 << 16, false},
	{"posix_memalign", by_posix_memalign, 1 << 16, false},
	{"valloc", by_valloc, PAGE, false},
	{"pvalloc", by_pvalloc, PAGE, false},
};

static void way_row(const struct way *w, size_t bytes, bool shared)
{
	row("%s of %zu bytes", w->name, bytes);
	for (int i = 0; i < 3; i++) { /* of which the first one may have left something */
		uint8_t *p = w->take(bytes);

		if (!EXPECT(p, "errno %d", errno))
			return;
		expect_shared(p, shared);
		EXPECT((uintptr_t)p % w->align == 0, "at %p", (void *)p);
		EXPECT(malloc_usable_size(p) >= bytes, "%zu may be used", malloc_usable_size(p));
		EXPECT(!w->zeros || (p[0] == 0 && !memcmp(p, p + 1, bytes - 1)), "not zeros");
		memset(p, 0xa5, malloc_usable_size(p));
		free(p);
	}
}

static void realloc_row(void)
{
	static const size_t sizes[] = {100,	  LARGE,   LARGE + 1, 4 * LARGE, 2 * LARGE,
				       LARGE + 5, 5000000, 50,	      LARGE};
	uint8_t *p = malloc(10);
	size_t had = 10;

	row("realloc() to and fro");
	fill(p, had, 3);
	for (size_t i = 0; i < COUNT_OF(sizes); i++) {
		p = realloc(p, sizes[i]);
		expect_filled(p, had < sizes[i] ? had : sizes[i], 3);
		had = sizes[i];
		fill(p, had, 3);
		if (had >= LARGE)
			expect_shared(p, true);
	}
	free(p);
}

/* What calloc() gave and nobody wrote is zeros where realloc() takes it, too. */
static void realloc_zeros_row(void)
{
	uint8_t *used = malloc(8 * LARGE), *p = calloc(4 * LARGE, 1), *behind = malloc(3 * LARGE);

	row("realloc() of zeros, where a block is kept that was used");
	fill(used, 8 * LARGE, 3);
	expect_shared(behind, true);
	free(used);
	p = realloc(p, 8 * LARGE);
	EXPECT(p[0] == 0 && !memcmp(p, p + 1, 4 * LARGE - 1), "not zeros");
	free(p);
	free(behind);
}

/* The C library's allocator does not know of them. */
static void counted_row(void)
{
	struct mallinfo2 before = mallinfo2(), now;
	void *volatile large = malloc(LARGE); /* or no compiler would allocate it */

	row("mallinfo2()");
	now = mallinfo2();
	EXPECT(now.hblks == before.hblks && now.hblkhd == before.hblkhd, "%zu bytes more",
	       now.hblkhd - before.hblkhd);
	EXPECT(now.arena > 0 && now.uordblks < before.uordblks + LARGE, "its own are others");
	free(large);
}

static void too_much_row(void)
{
	volatile size_t much = SIZE_MAX / 2, some = 1ul << 33; /* the product of two is 0 */

	row("more than there is");
	EXPECT(!by_malloc(much) && errno == ENOMEM, "malloc: errno %d", errno);
	EXPECT(!calloc(some, some) && errno == ENOMEM, "calloc: errno %d", errno);
	EXPECT(!reallocarray(NULL, some, some) && errno == ENOMEM, "reallocarray: errno %d", errno);
	EXPECT(mmap(NULL, much, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
		       MAP_FAILED,
	       "mmap");
}

/* So much that the address of its end wraps: an error, and the block is as it was. */
static void endless_row(void)
{
	static const size_t lengths[] = {SIZE_MAX, SIZE_MAX - PAGE, SIZE_MAX - BYTES,
					 SIZE_MAX - BYTES / 2};
	void *(*volatile resize)(void *p, size_t bytes) = realloc; /* @p stays, says no compiler */
	uint8_t *p = malloc(BYTES);

	row("realloc() to almost all of the address space");
	fill(p, BYTES, 9);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		errno = 0;
		EXPECT(!resize(p, lengths[i]) && errno == ENOMEM, "%zx bytes", lengths[i]);
	}
	expect_filled(p, BYTES, 9);
	free(p);
}

/* What is not like malloc()'s memory stays the kernel's. */
static void foreign_row(void)
{
	uint8_t *reserved = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *code = mmap(NULL, BYTES, PROT_READ | PROT_WRITE | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *fixed = mmap(reserved, BYTES, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	row("memory of other kinds");
	EXPECT(reserved != MAP_FAILED && fixed == reserved, "mmap: errno %d", errno);
	expect_shared(fixed, false);
	if (code != MAP_FAILED)
		expect_shared(code, false);
	munmap(fixed, BYTES);
	munmap(code, BYTES);
}

/* --- what the program does with it ----------------------------------------------- */

static void fork_row(bool again)
{
	uint8_t *p = map_private(BYTES), *q;
	struct ibv_mr *mr;
	int status, go[2];
	pid_t child;
	char c = 0;

	row("fork%s", again ? ", once more" : "");
	fill(p, BYTES, 8);
	mr = reg(p, BYTES);
	NEED(pipe(go) == 0);
	child = fork();
	if (child == 0) {
		while (read(go[0], &c, 1) != 1) /* the parent has written by now */
			;
		status = same(p, BYTES, 8) == BYTES ? 0 : 1;
		fill(p, BYTES, 9);
		free(malloc(LARGE));
		_exit(status);
	}
	expect_shared(p, false);
	fill(p, BYTES, 10);
	EXPECT(write(go[1], &c, 1) == 1, "write");
	waitpid(child, &status, 0);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0,
	       "the child sees what its parent wrote");
	expect_filled(p, BYTES, 10);
	expect_reached(p, mr);
	EXPECT(madvise(p, PAGE, MADV_DONTNEED) == 0 && p[0] == 0 && p[PAGE] != 0, "discarding");
	dereg(mr);
	q = map_private(BYTES);
	expect_shared(q, true); /* what comes later */
	close(go[0]);
	close(go[1]);
	munmap(p, BYTES);
	munmap(q, BYTES);
}

static bool zero_soon(const uint8_t *p, size_t bytes)
{
	uint64_t until = now_ms() + PATIENCE;

	while (p[0] || memcmp(p, p + 1, bytes - 1))
		if (now_ms() > until)
			return false;
	return true;
}

static void discard_row(int advice, bool by_number)
{
	uint8_t *p = map_private(BYTES);
	struct ibv_mr *mr;
	long ret;

	row("madvise(%d)%s", advice, by_number ? ", by number" : "");
	fill(p, BYTES, 12);
	mr = reg(p, BYTES);
	ret = by_number ? syscall(SYS_madvise, p + PAGE, BYTES - PAGE, advice)
			: madvise(p + PAGE, BYTES - PAGE, advice);
	EXPECT(ret == 0, "errno %d", errno);
	if (advice == MADV_DONTNEED)
		EXPECT(by_number ? zero_soon(p + PAGE, BYTES - PAGE)
				 : p[PAGE] == 0 && !p[BYTES - 1],
		       "not zeros");
	expect_filled(p, PAGE, 12);
	fill(p, BYTES, 13);
	expect_reached(p, mr);
	dereg(mr);
	munmap(p, BYTES);
}

static void discard_alone_row(int advice)
{
	uint8_t *p = map_private(BYTES);

	row("madvise(%d), without a region", advice);
	fill(p, BYTES, 14);
	if (madvise(p, BYTES, advice))
		EXPECT(advice == MADV_DONTNEED_LOCKED && errno == EINVAL, "errno %d", errno);
	else
		EXPECT(p[0] == 0 && p[BYTES - 1] == 0, "not zeros");
	munmap(p, BYTES);
}

static void unmap(uint8_t *p, size_t bytes, bool by_number)
{
	EXPECT((by_number ? (int)syscall(SYS_munmap, p, bytes) : munmap(p, bytes)) == 0, "errno %d",
	       errno);
	EXPECT(!pages_mapped(p), "it is still there");
}

static void unmap_row(bool by_number)
{
	uint64_t before = heap_bytes();
	uint8_t *p = map_private(BYTES);
	struct ibv_mr *mr;

	row("unmapping a part%s", by_number ? ", by number" : "");
	fill(p, BYTES, 15);
	mr = reg(p, BYTES);
	unmap(p + 4 * PAGE, 2 * PAGE, by_number);
	EXPECT(heap_bytes() <= before + BYTES - 2 * PAGE, "its memory is still there");
	dereg(mr);
	expect_filled(p, 4 * PAGE, 15);
	munmap(p, BYTES);
	EXPECT(heap_bytes() <= before, "%lu bytes are left",
	       (unsigned long)(heap_bytes() - before));
}

/* A block of its own: READs that are in time for what was unmapped bring pages in there. */
static void unmap_reached_row(bool by_number)
{
	uint8_t *p = map_private(BYTES);
	struct ibv_mr *mr = reg(p, BYTES);

	row("a peer reads what is unmapped%s", by_number ? ", by number" : "");
	unmap(p + 4 * PAGE, 2 * PAGE, by_number);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)p, mr->rkey, PAGE, IBV_WC_SUCCESS);
	expect_refused(p + 4 * PAGE, mr, PAGE);
	dereg(mr);
	munmap(p, BYTES);
}

static void remap_row(const char *name, size_t from, size_t to, int flags, bool moves)
{
	uint8_t *p = map_private(from), *wanted = NULL, *q;
	size_t less = from < to ? from : to;

	row("mremap: %s", name);
	fill(p, from, 16);
	if (flags & MREMAP_FIXED)
		wanted = map_private(to);
	q = mremap(p, from, to, flags, wanted);
	if (!EXPECT(q != MAP_FAILED, "errno %d", errno))
		return;
	EXPECT(!wanted || q == wanted, "elsewhere");
	EXPECT(moves || q == p, "moved");
	expect_filled(q, less, 16);
	EXPECT(to <= from || (q[from] == 0 && q[to - 1] == 0), "what is new is not zeros");
	fill(q, to, 17);
	if (flags & MREMAP_DONTUNMAP)
		EXPECT(p[0] == 0 && p[from - 1] == 0 && munmap(p, from) == 0, "what is left");
	else if (q != p)
		EXPECT(!pages_mapped(p), "it is in two places");
	expect_filled(q, to, 17);
	munmap(q, to);
}

/* What grew behind a region is a mapping of its own, since only the region is watched. */
static void remap_grown_row(const char *name, bool forks, int flags)
{
	uint8_t *p = map_private(BYTES), *q;
	struct ibv_mr *mr;
	pid_t child;

	row("mremap: %s", name);
	fill(p, BYTES, 19);
	mr = reg(p, BYTES);
	p = mremap(p, BYTES, 2 * BYTES, MREMAP_MAYMOVE);
	EXPECT(p != MAP_FAILED, "growing: errno %d", errno);
	fill(p, 2 * BYTES, 20);
	child = forks ? fork() : -1;
	if (child == 0)
		_exit(0);
	if (forks)
		waitpid(child, NULL, 0);
	dereg(mr);
	q = mremap(p, 2 * BYTES, 3 * BYTES, flags,
		   flags & MREMAP_FIXED ? map_private(3 * BYTES) : NULL);
	if (!EXPECT(q != MAP_FAILED, "errno %d", errno))
		return;
	expect_filled(q, 2 * BYTES, 20);
	EXPECT(q[2 * BYTES] == 0 && q[3 * BYTES - 1] == 0, "what is new is not zeros");
	munmap(q, 3 * BYTES);
}

static void remap_rows(void)
{
	uint8_t *p = map_private(BYTES), *behind;

	remap_row("shrinking", BYTES, 3 * PAGE, 0, false);
	remap_row("growing", BYTES, 64 * BYTES, MREMAP_MAYMOVE, true);
	remap_row("moving", BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, true);
	remap_row("moving and growing", BYTES, 2 * BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, true);
	remap_row("leaving the mapping", BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, true);
	remap_grown_row("growing, and moving", false, MREMAP_MAYMOVE | MREMAP_FIXED);
	remap_grown_row("growing, and again behind a fork", true, MREMAP_MAYMOVE);
	row("mremap: no room to grow");
	behind = mmap(p + BYTES, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	EXPECT(mremap(p, BYTES, BYTES + PAGE, 0) == MAP_FAILED && errno == ENOMEM, "errno %d",
	       errno);
	munmap(behind, PAGE);
	munmap(p, BYTES);
}

static void protect_row(void)
{
	uint8_t *p = map_private(BYTES);
	pid_t child;
	int status;

	row("protecting a part, and a fork");
	fill(p, BYTES, 18);
	EXPECT(mprotect(p + 2 * PAGE, PAGE, PROT_READ) == 0, "errno %d", errno);
	child = fork();
	if (child == 0) {
		signal(SIGSEGV, SIG_DFL);
		p[PAGE] = 0;
		p[2 * PAGE] = 0;
		_exit(0);
	}
	waitpid(child, &status, 0);
	EXPECT(WIFSIGNALED(status), "it can be written");
	expect_filled(p, BYTES, 18);
	munmap(p, BYTES);
}

/* What the program puts in its place is not touched, whatever becomes of the rest. */
static void over_row(void)
{
	uint8_t *p = map_private(BYTES);

	row("something else in its place");
	fill(p, BYTES, 19);
	EXPECT(mmap(p + PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		    -1, 0) == p + PAGE,
	       "errno %d", errno);
	EXPECT(p[PAGE] == 0, "not zeros");
	expect_shared(p + PAGE, false);
	p[PAGE] = 5;
	munmap(p, PAGE);
	munmap(p + 2 * PAGE, BYTES - 2 * PAGE);
	for (int i = 0; i < 100; i++) {
		uint8_t *q = map_private(PAGE);

		EXPECT(q != p + PAGE, "given away");
		munmap(q, PAGE);
	}
	EXPECT(p[PAGE] == 5, "something else is there");
	munmap(p + PAGE, PAGE);
}

static void leak_row(void)
{
	uint64_t before = 0;

	row("again and again");
	for (int i = 0; i < 3000; i++) {
		uint8_t *p = malloc(LARGE + (size_t)i * 97 % LARGE), *q = map_private(BYTES);

		memset(p, 1, LARGE);
		memset(q, 1, BYTES);
		free(p);
		munmap(q, BYTES);
		if (i == 100)
			before = heap_bytes();
	}
	EXPECT(heap_bytes() <= before + 32 * LARGE, "%lu bytes more than before",
	       (unsigned long)(heap_bytes() - before));
}

/* Programs close what they do not know. The last row: there is no shared heap afterwards. */
static void closed_row(void)
{
	char path[] = "/tmp/anyverbs-test-XXXXXX";
	int fd = heap_fd(), file = mkstemp(path), status;
	uint8_t *p = map_private(BYTES), *q;
	struct stat st;
	pid_t child;

	row("another file has the number of its descriptor");
	fill(p, BYTES, 20);
	if (fd < 0 || file < 0 || unlink(path) || write(file, "mine", 4) != 4 || dup2(file, fd) < 0)
		DIE("errno %d", errno);
	q = map_private(BYTES);
	fill(q, BYTES, 21);
	expect_shared(q, false);
	child = fork();
	if (child == 0) {
		fill(p, BYTES, 22);
		_exit(0);
	}
	waitpid(child, &status, 0);
	expect_filled(p, BYTES, 20);
	munmap(p, BYTES);
	munmap(q, BYTES);
	EXPECT(fstat(file, &st) == 0 && st.st_size == 4, "the file has changed");
	close(fd);
	close(file);
}

static void program_rows(void)
{
	fork_row(false);
	fork_row(true);
	discard_row(MADV_DONTNEED, false);
	discard_row(MADV_DONTNEED, true);
	discard_row(MADV_FREE, false);
	discard_alone_row(MADV_DONTNEED);
	discard_alone_row(MADV_DONTNEED_LOCKED);
	for (int by_number = 0; by_number < 2; by_number++) {
		unmap_row(by_number);
		unmap_reached_row(by_number);
	}
	remap_rows();
	protect_row();
	over_row();
	leak_row();
	closed_row();
}

static void *sit(void *go_on)
{
	pthread_mutex_lock(go_on);
	pthread_mutex_unlock(go_on);
	return NULL;
}

static void run(void)
{
	pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
	pthread_t thread;

	pthread_mutex_lock(&held);
	NEED(pthread_create(&thread, NULL, sit, &held) == 0);
	region_row();
	small_row();
	for (size_t i = 0; i < COUNT_OF(ways); i++) {
		way_row(&ways[i], 1000, false);
		way_row(&ways[i], LARGE, true);
		way_row(&ways[i], 10 * HUGE_BYTES + 8, true);
	}
	realloc_row();
	realloc_zeros_row();
	counted_row();
	too_much_row();
	endless_row();
	foreign_row();
	program_rows();
	pthread_mutex_unlock(&held);
	pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
	return heap_test(argc, argv, run);
}
