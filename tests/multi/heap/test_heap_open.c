/* SPDX-License-Identifier: MIT */
/*
 * The shared heap begins with the process's first device: what was allocated before stays the C
 * library's and is given back to it, what comes later is born shared. ANYVERBS_SHARED_HEAP changes
 * when, and a child of fork() has a heap of its own from its first device on.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#include "lib/expect.h"
#include "lib/page_backing.h"
#include "lib/sandbox.h"

#define PAGE  4096ul
#define LARGE (200ul << 10)

static struct ibv_context *open_first(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;

	ibv_free_device_list(list);
	NEED(ctx);
	return ctx;
}

/* Is there a block or a file of the heap in this process? The library itself is a file, too. */
static bool heap_mapped(void)
{
	char line[512];
	FILE *f = fopen("/proc/self/maps", "re");
	bool found = false;

	while (f && fgets(line, sizeof(line), f))
		found |= strstr(line, "memfd:anyverbs-heap") != NULL;
	if (f)
		fclose(f);
	return found;
}

static bool is_shared(const void *p)
{
	return !pages_private(p);
}

/* --- ways to memory -------------------------------------------------------------- */

static void *by_malloc(size_t bytes)
{
	return malloc(bytes);
}

static void *by_calloc(size_t bytes)
{
	return calloc(1, bytes);
}

static void *by_realloc(size_t bytes)
{
	return realloc(malloc(100), bytes);
}

static void *by_posix_memalign(size_t bytes)
{
	void *p;

	return posix_memalign(&p, PAGE, bytes) ? NULL : p;
}

static void *by_valloc(size_t bytes)
{
	return valloc(bytes);
}

static void *by_mmap(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static void *by_number(size_t bytes)
{
	return (void *)syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static const struct way {
	const char *name;
	void *(*take)(size_t bytes);
	size_t least; /* from how many bytes on it is shared */
	bool mapping;
} ways[] = {
	{"malloc", by_malloc, 64ul << 10, false},
	{"calloc", by_calloc, 64ul << 10, false},
	{"realloc", by_realloc, 64ul << 10, false},
	{"valloc", by_valloc, PAGE, false},
	{"posix_memalign", by_posix_memalign, PAGE, false},
	{"mmap", by_mmap, 1, true},
	{"mmap by number", by_number, 1, true},
};

static void give_back(const struct way *w, void *p, size_t bytes)
{
	if (w->mapping)
		EXPECT(munmap(p, bytes) == 0, "munmap");
	else
		free(p);
}

static uint8_t *take(const struct way *w, size_t bytes)
{
	uint8_t *p = w->take(bytes);

	NEED(p);
	memset(p, 0x5a, bytes);
	return p;
}

static size_t same(const uint8_t *p, size_t bytes)
{
	size_t n = 0;

	while (n < bytes && p[n] == 0x5a)
		n++;
	return n;
}

/* --- rows ------------------------------------------------------------------------ */

static void before_rows(uint8_t *early[COUNT_OF(ways)])
{
	row("no device is open");
	for (size_t i = 0; i < COUNT_OF(ways); i++) {
		early[i] = take(&ways[i], LARGE);
		EXPECT(!is_shared(early[i]), "%s: shared", ways[i].name);
	}
	EXPECT(!heap_mapped(), "there is a heap");
}

static void after_rows(void)
{
	for (const struct way *w = ways; w < ways + COUNT_OF(ways); w++) {
		uint8_t *p = take(w, LARGE), *least = take(w, w->least);

		row("a device is open: %s", w->name);
		EXPECT(is_shared(p), "private");
		EXPECT(is_shared(least), "private: the least");
		give_back(w, p, LARGE);
		give_back(w, least, w->least);
	}
}

static void small_row(void)
{
	void *p = malloc(PAGE), *q = memalign(64, PAGE);

	row("a device is open: less than is large");
	EXPECT(!is_shared(p) && !is_shared(q), "shared");
	free(p);
	free(q);
}

/* What is the C library's stays there, whatever it is asked for. */
static void early_block_row(const struct way *w, uint8_t *p)
{
	row("allocated before: %s", w->name);
	EXPECT(malloc_usable_size(p) >= LARGE, "usable: %zu", malloc_usable_size(p));
	p = realloc(p, 4 * LARGE);
	EXPECT(p && !is_shared(p) && same(p, LARGE) == LARGE, "larger");
	p = realloc(p, LARGE / 2);
	EXPECT(p && !is_shared(p) && same(p, LARGE / 2) == LARGE / 2, "smaller");
	free(p);
}

static void early_mapping_row(const struct way *w, uint8_t *p)
{
	row("allocated before: %s", w->name);
	p = mremap(p, LARGE, 4 * LARGE, MREMAP_MAYMOVE);
	EXPECT(p != MAP_FAILED && !is_shared(p) && same(p, LARGE) == LARGE, "larger");
	EXPECT(madvise(p, LARGE, MADV_DONTNEED) == 0 && p[0] == 0, "discarded");
	EXPECT(mprotect(p, PAGE, PROT_NONE) == 0, "protected");
	EXPECT(munmap(p, 4 * LARGE) == 0 && !pages_mapped(p), "unmapped");
}

static void page_block_row(void)
{
	uint8_t *p = by_posix_memalign(PAGE);

	row("a block of a page");
	memset(p, 0x5a, PAGE);
	EXPECT(malloc_usable_size(p) == PAGE, "usable: %zu", malloc_usable_size(p));
	p = realloc(p, 2 * PAGE);
	EXPECT(p && same(p, PAGE) == PAGE, "larger");
	p = realloc(p, LARGE);
	EXPECT(p && is_shared(p) && same(p, PAGE) == PAGE, "large");
	free(p);
}

/* --- fork ------------------------------------------------------------------------ */

static int in_child(uint8_t *inherited)
{
	struct ibv_context *ctx;
	uint8_t *p = malloc(LARGE);

	EXPECT(p && !is_shared(p), "before its device: shared");
	free(p);
	ctx = open_first();
	p = malloc(LARGE);
	EXPECT(p && is_shared(p), "after its device: private");
	EXPECT(!is_shared(inherited) && same(inherited, LARGE) == LARGE, "its parent's block");
	memset(inherited, 1, LARGE);
	inherited = realloc(inherited, 2 * LARGE);
	EXPECT(inherited && is_shared(inherited), "its parent's block, larger: private");
	EXPECT(inherited[LARGE - 1] == 1, "its parent's block, larger: other bytes");
	free(inherited);
	free(p);
	ibv_close_device(ctx);
	return summary();
}

static void fork_row(void)
{
	uint8_t *p = take(&ways[0], LARGE), *q;
	int status = -1;
	pid_t pid;

	row("a child that opens a device");
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(in_child(p));
	EXPECT(waitpid(pid, &status, 0) == pid && status == 0, "the child's status is %x", status);
	EXPECT(same(p, LARGE) == LARGE, "the child has written here");
	q = malloc(LARGE);
	EXPECT(q && is_shared(q), "the parent has no heap any more");
	free(q);
	free(p);
}

/* --- modes ----------------------------------------------------------------------- */

/* In a program of its own: "BEFORE AFTER", whether memory is shared. */
static int mode_main(const char *want)
{
	uint8_t *p = malloc(LARGE), *q;

	row("%s", getenv("ANYVERBS_SHARED_HEAP"));
	EXPECT(p && is_shared(p) == (want[0] == '1'), "before a device");
	ibv_close_device(open_first());
	q = malloc(LARGE);
	EXPECT(q && is_shared(q) == (want[1] == '1'), "after it");
	free(q);
	free(p);
	return summary();
}

static void mode_row(const char *mode, const char *want)
{
	int status = -1;
	pid_t pid = fork();

	row("ANYVERBS_SHARED_HEAP=%s", mode);
	if (pid == 0) {
		setenv("ANYVERBS_SHARED_HEAP", mode, 1);
		execl("/proc/self/exe", "test_heap_open", "test_heap_open", want, NULL);
		_exit(126);
	}
	EXPECT(waitpid(pid, &status, 0) == pid && status == 0, "the status is %x", status);
}

int main(int argc, char **argv)
{
	uint8_t *early[COUNT_OF(ways)];
	struct ibv_context *ctx;

	time_limit(120);
	if (argc > 1)
		return mode_main(argv[1]);
	sandbox_enter();
	before_rows(early);
	mode_row("open", "01");
	mode_row("always", "11");
	mode_row("never", "00");
	ctx = open_first();
	after_rows();
	small_row();
	for (size_t i = 0; i < COUNT_OF(ways); i++)
		(ways[i].mapping ? early_mapping_row : early_block_row)(&ways[i], early[i]);
	page_block_row();
	fork_row();
	ibv_close_device(ctx);
	after_rows();
	return sandbox_end();
}
