/* SPDX-License-Identifier: MIT */
/*
 * The shared heap and the kernel: what it refuses of private memory is refused, what is sparse
 * stays so, pages that something else writes to stay where they are, and what it says of memory.
 */
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include "heap_fixture.h"
#include "lib/proc_status.h"
#include "lib/ring.h"

#define MIB    (1ul << 20)
#define SPARES 2u
#define SPARSE (6ul << 30)

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

static bool refuses(size_t bytes)
{
	void *volatile p = malloc(bytes);
	bool ret = !p && errno == ENOMEM;

	free(p);
	return ret;
}

/* --- limits ---------------------------------------------------------------------- */

static void more_than_there_is_row(void)
{
	FILE *f = fopen("/proc/sys/vm/overcommit_memory", "re");
	int policy = f ? fgetc(f) : '1';
	struct sysinfo info;
	size_t bytes;

	row("more than there is");
	if (f)
		fclose(f);
	if (policy != '0' || sysinfo(&info))
		return;
	bytes = (info.totalram + info.totalswap) * info.mem_unit + 256 * MIB;
	EXPECT(refuses(bytes), "malloc() of %zu MiB", bytes / MIB);
	EXPECT(mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
			       MAP_FAILED &&
		       errno == ENOMEM,
	       "mmap() of %zu MiB", bytes / MIB);
}

static void data_limit_row(void)
{
	struct rlimit before, few;
	void *volatile p = malloc(MIB);

	row("RLIMIT_DATA");
	getrlimit(RLIMIT_DATA, &before);
	few = (struct rlimit){(status_kb("VmData:") << 10) + 64 * MIB, before.rlim_max};
	EXPECT(setrlimit(RLIMIT_DATA, &few) == 0, "setrlimit: errno %d", errno);
	EXPECT(refuses(128 * MIB), "malloc()");
	EXPECT(!calloc(128, MIB) && errno == ENOMEM, "calloc()");
	EXPECT(!realloc(p, 128 * MIB) && errno == ENOMEM, "realloc()");
	EXPECT(!refuses(32 * MIB), "less than the limit");
	setrlimit(RLIMIT_DATA, &before);
	free(p);
}

/* Blocks that were given back are no burden. */
static void address_space_row(void)
{
	struct rlimit before, few;
	void *volatile p[SPARES];
	uint8_t *q;

	row("RLIMIT_AS");
	getrlimit(RLIMIT_AS, &before);
	for (int by_malloc = 0; by_malloc < 2; by_malloc++) {
		for (size_t i = 0; i < SPARES; i++)
			p[i] = malloc(8 * MIB);
		few = (struct rlimit){pages_vm_size() + 4 * MIB, before.rlim_max};
		for (size_t i = 0; i < SPARES; i++)
			free(p[i]);
		EXPECT(setrlimit(RLIMIT_AS, &few) == 0, "setrlimit: errno %d", errno);
		if (by_malloc) {
			EXPECT(!refuses(12 * MIB), "malloc: errno %d", errno);
		} else {
			q = mmap(NULL, 12 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			EXPECT(q != MAP_FAILED, "mmap: errno %d", errno);
			munmap(q, 12 * MIB);
		}
		setrlimit(RLIMIT_AS, &before);
	}
}

/* --- mremap ---------------------------------------------------------------------- */

static void refused_remaps_row(void)
{
	uint8_t *p = map_private(BYTES);
	const struct {
		const char *what;
		uint8_t *at;
		size_t had, bytes;
		int flags;
		uint8_t *wanted;
		int error;
	} rows[] = {
		{"no old length", p, 0, BYTES, MREMAP_MAYMOVE, NULL, EINVAL},
		{"no new length", p, BYTES, 0, MREMAP_MAYMOVE, NULL, EINVAL},
		{"not a page", p + 1, PAGE, BYTES, MREMAP_MAYMOVE, NULL, EINVAL},
		{"unknown flags", p, BYTES, BYTES, 0x100, NULL, EINVAL},
		{"unknown flags, smaller", p, BYTES, PAGE, 0x100, NULL, EINVAL},
		{"fixed, may not move", p, BYTES, BYTES, MREMAP_FIXED, p + 2 * BYTES, EINVAL},
		{"leaving, may not move", p, BYTES, BYTES, MREMAP_DONTUNMAP, NULL, EINVAL},
		{"leaving and growing", p, BYTES, 2 * BYTES, MREMAP_MAYMOVE | MREMAP_DONTUNMAP,
		 NULL, EINVAL},
		{"over itself", p, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, p + PAGE, EINVAL},
		{"to no page", p, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, p + 2 * BYTES + 1,
		 EINVAL},
		{"more than is mapped", p, 64 * BYTES, 128 * BYTES, MREMAP_MAYMOVE, NULL, EFAULT},
	};

	fill(p, BYTES, 40);
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		void *q;

		row("mremap: %s", rows[i].what);
		q = mremap(rows[i].at, rows[i].had, rows[i].bytes, rows[i].flags, rows[i].wanted);
		EXPECT(q == MAP_FAILED && errno == rows[i].error, "%p, errno %d", q, errno);
		expect_filled(p, BYTES, 40);
	}
	munmap(p, BYTES);
}

/* Memory that may not be read now has its bytes and its rights elsewhere. */
static void hidden_remap_row(void)
{
	uint8_t *p = map_private(BYTES), *q;

	row("mremap: memory without rights");
	fill(p, BYTES, 41);
	mprotect(p, BYTES, PROT_NONE);
	q = mremap(p, BYTES, 64 * BYTES, MREMAP_MAYMOVE);
	if (!EXPECT(q != MAP_FAILED, "errno %d", errno))
		return;
	EXPECT(madvise(q, PAGE, MADV_POPULATE_WRITE) != 0, "it may be written");
	mprotect(q, 64 * BYTES, PROT_READ);
	expect_filled(q, BYTES, 41);
	munmap(q, 64 * BYTES);
}

/* --- sparse blocks --------------------------------------------------------------- */

static void expect_few(size_t before_kb, const char *who)
{
	size_t kb = status_kb("VmRSS:");

	EXPECT(kb < before_kb + (64 << 10), "%s: %zu KiB more", who, kb - before_kb);
}

static void sparse_row(void)
{
	uint8_t *p = mmap(NULL, SPARSE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t before = status_kb("VmRSS:");
	uint8_t *q;
	pid_t child;
	int status;

	row("a sparse block");
	if (p == MAP_FAILED) {
		printf("left out: mmap: errno %d\n", errno);
		return;
	}
	for (size_t at = 0; at < SPARSE; at += SPARSE / 16)
		fill(p + at, PAGE, 42);
	q = mremap(p, SPARSE, SPARSE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP);
	EXPECT(q != MAP_FAILED && q != p, "mremap: errno %d", errno);
	munmap(p, SPARSE);
	expect_few(before, "moved");
	child = fork();
	if (child == 0)
		_exit(same(q + SPARSE / 2, PAGE, 42) != PAGE || q[PAGE] != 0 ||
		      status_kb("VmRSS:") > before + (64 << 10));
	expect_few(before, "forked");
	waitpid(child, &status, 0);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child: %#x", status);
	for (size_t at = 0; at < SPARSE; at += SPARSE / 16)
		expect_filled(q + at, PAGE, 42);
	munmap(q, SPARSE);
}

/* --- what the program makes of it ------------------------------------------------ */

/* Bits: the bytes are others; not as @letters say. */
static int looks_wrong(const uint8_t *p, uint8_t seed, const char *letters)
{
	return (same(p, BYTES, seed) != BYTES) | !pages_flag(p, letters) << 1;
}

static void expect_after_fork(const uint8_t *p, uint8_t seed, const char *letters)
{
	pid_t child = fork();
	int status;

	if (child == 0)
		_exit(looks_wrong(p, seed, letters));
	waitpid(child, &status, 0);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child: %#x", status);
	EXPECT(!looks_wrong(p, seed, letters), "the parent: %#x", looks_wrong(p, seed, letters));
}

static void kept_row(const char *name, int advice, int prot, const char *letters)
{
	uint8_t *p = map_private(BYTES);
	struct ibv_mr *mr = reg(p, BYTES);

	row("%s, then a fork", name);
	fill(p, BYTES, 55);
	EXPECT((advice ? madvise(p, BYTES, advice) : mprotect(p, BYTES, prot)) == 0, "errno %d",
	       errno);
	expect_after_fork(p, 55, letters);
	expect_reached(p, mr);
	dereg(mr);
	munmap(p, BYTES);
}

static void not_copied_row(void)
{
	uint8_t *p = map_private(BYTES), *other = map_private(BYTES);
	struct ibv_mr *mr = reg(p, BYTES);
	int status;
	pid_t child;

	row("MADV_DONTFORK");
	fill(p, BYTES, 56);
	fill(other, BYTES, 57);
	EXPECT(madvise(p, BYTES, MADV_DONTFORK) == 0, "errno %d", errno);
	EXPECT(!pages_private(other), "another block is private");
	expect_reached(p, mr);
	fill(p, BYTES, 56);
	child = fork();
	if (child == 0)
		_exit(pages_mapped(p) | (same(other, BYTES, 57) != BYTES) << 1);
	waitpid(child, &status, 0);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child: %#x", status);
	expect_filled(p, BYTES, 56);
	dereg(mr);
	munmap(p, BYTES);
	munmap(other, BYTES);
}

static void removed_row(void)
{
	uint8_t *p = map_private(BYTES);

	row("MADV_REMOVE");
	fill(p, BYTES, 58);
	EXPECT(madvise(p, BYTES, MADV_REMOVE) == -1 && errno == EINVAL, "errno %d", errno);
	expect_filled(p, BYTES, 58);
	munmap(p, BYTES);
}

static void locked_row(void)
{
	uint8_t *p = map_private(BYTES);

	row("mlock, then a fork");
	fill(p, BYTES, 59);
	if (mlock(p, BYTES) == 0) {
		expect_after_fork(p, 59, "rd");
		EXPECT(!pages_private(p) && pages_flag(p, "lo"), "lost");
	} else {
		printf("left out: mlock: errno %d\n", errno);
	}
	munmap(p, BYTES);
}

/* --- what the kernel makes of it, and says ---------------------------------------- */

static size_t mapping_kb(const uint8_t *p, const char *name)
{
	char kb[64] = "";

	EXPECT(pages_line(p, name, kb, sizeof(kb)), "no %s", name);
	return strtoul(kb, NULL, 10);
}

/* As debuggers and checkpoints read it: the bytes, and what pagemap says of the page. */
static void expect_read_by_others(const uint8_t *p, uint8_t seed, bool shared)
{
	int mem = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t entry = 0, at = (uintptr_t)p;
	uint8_t bytes[PAGE];

	EXPECT(pread(mem, bytes, PAGE, (off_t)at) == (ssize_t)PAGE, "errno %d", errno);
	expect_filled(bytes, PAGE, seed);
	EXPECT(pread(pagemap, &entry, 8, (off_t)(at / PAGE * 8)) == 8, "errno %d", errno);
	EXPECT(entry >> 63 && (entry >> 61 & 1) == shared, "pagemap: %lx", (unsigned long)entry);
	close(mem);
	close(pagemap);
}

/* As of shared memory until a fork; what is there is counted as of private memory. */
static void readers_row(void)
{
	const size_t kb = BYTES >> 10;
	uint8_t *p = map_private(BYTES);
	size_t rss = mapping_kb(p, "Rss:"), shmem = status_kb("RssShmem:");

	row("readers of smaps, status, mem and pagemap");
	fill(p, BYTES / 2, 60);
	EXPECT(mapping_kb(p, "Rss:") == rss + kb / 2, "not what was written");
	fill(p, BYTES, 60);
	EXPECT(mapping_kb(p, "Rss:") == rss + kb, "not all");
	EXPECT(mapping_kb(p, "Anonymous:") == 0 && pages_flag(p, "sh"), "private");
	EXPECT(status_kb("RssShmem:") >= shmem + kb, "not in RssShmem");
	EXPECT(status_kb("VmRSS:") ==
		       status_kb("RssAnon:") + status_kb("RssFile:") + status_kb("RssShmem:"),
	       "another sum");
	expect_read_by_others(p, 60, true);
	expect_after_fork(p, 60, "wr");
	expect_read_by_others(p, 60, false);
	EXPECT(mapping_kb(p, "Anonymous:") == mapping_kb(p, "Rss:") && !pages_flag(p, "sh"),
	       "shared after a fork");
	munmap(p, BYTES);
}

/* Where the machine has swap, the pages leave. */
static void paged_out_row(void)
{
	uint8_t *p = map_private(BYTES);
	struct ibv_mr *mr = reg(p, BYTES);

	row("MADV_PAGEOUT");
	fill(p, BYTES, 61);
	EXPECT(madvise(p, BYTES, MADV_PAGEOUT) == 0, "errno %d", errno);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)p, mr->rkey, BYTES, IBV_WC_SUCCESS);
	EXPECT(madvise(p, BYTES, MADV_PAGEOUT) == 0, "errno %d", errno);
	expect_after_fork(p, 61, "wr");
	expect_reached(p, mr);
	dereg(mr);
	munmap(p, BYTES);
}

/* Where the system gives shared memory no huge pages by advice, the program makes them itself. */
static void huge_row(void)
{
	uint8_t *p = map_private(2 * HUGE_BYTES);
	int ret = -1;

	row("MADV_HUGEPAGE and MADV_COLLAPSE");
	EXPECT(madvise(p, 2 * HUGE_BYTES, MADV_HUGEPAGE) == 0, "errno %d", errno);
	EXPECT(pages_flag(p, "hg") && !pages_private(p), "without a word");
	fill(p, BYTES, 62);
	if (!pages_huge_possible()) {
		printf("left out: no huge pages of shared memory here\n");
	} else {
		for (int i = 0; i < 8 && ret; i++) /* it fails while a page is being used */
			ret = madvise(p, HUGE_BYTES, MADV_COLLAPSE);
		EXPECT(ret == 0 && pages_huge(p, HUGE_BYTES) == 1, "errno %d", errno);
	}
	expect_after_fork(p, 62, "wr");
	munmap(p, 2 * HUGE_BYTES);
}

/* --- an io_uring's pages --------------------------------------------------------- */

static bool child_sees(const uint8_t *p, uint8_t seed, int go)
{
	char c;

	return read(go, &c, 1) == 1 && same(p, PAGE, seed) == PAGE &&
	       same(p + 2 * PAGE, BYTES - 2 * PAGE, (uint8_t)(seed + 1)) == BYTES - 2 * PAGE;
}

static void ring_row(void)
{
	uint8_t *p = map_private(BYTES), bytes[PAGE];
	struct ibv_mr *mr;
	int go[2], status;
	pid_t child;

	row("io_uring: fork");
	fill(p, PAGE, 50);
	fill(p + 2 * PAGE, BYTES - 2 * PAGE, 51);
	if (!ring_open(p, BYTES)) {
		printf("left out: io_uring is not allowed here (errno %d)\n", errno);
		munmap(p, BYTES);
		return;
	}
	mprotect(p + PAGE, PAGE, PROT_NONE);
	mr = reg(p + 2 * PAGE, BYTES - 2 * PAGE);
	NEED(pipe(go) == 0);
	child = fork();
	if (child == 0)
		_exit(!child_sees(p, 50, go[0]));
	fill(bytes, PAGE, 60);
	ring_writes(p, bytes, PAGE);
	expect_filled(p, PAGE, 60);
	EXPECT(write(go[1], "", 1) == 1, "write");
	waitpid(child, &status, 0);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child: %#x", status);
	EXPECT(!pages_private(p), "it has moved");
	expect_filled(p + 2 * PAGE, BYTES - 2 * PAGE, 51);
	expect_reached(p + 2 * PAGE, mr);
	dereg(mr);
	ring_close();
	munmap(p, BYTES);
	close(go[0]);
	close(go[1]);
}

static void run(void)
{
	more_than_there_is_row();
	data_limit_row();
	address_space_row();
	refused_remaps_row();
	hidden_remap_row();
	sparse_row();
	kept_row("MADV_DONTDUMP", MADV_DONTDUMP, 0, "dd");
	kept_row("code", 0, PROT_READ | PROT_WRITE | PROT_EXEC, "ex");
	not_copied_row();
	removed_row();
	locked_row();
	readers_row();
	paged_out_row();
	huge_row();
	ring_row();
}

int main(int argc, char **argv)
{
	return heap_test(argc, argv, run);
}
