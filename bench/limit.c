/* SPDX-License-Identifier: MIT */
/*
 * limit CORE CORE [SIZE]...: what this machine allows two processes at most, without any library.
 * One line for each figure: name, size, value. Without sizes only line_lat is measured, in 50 ms.
 *
 *     line_lat 8       one-way time of a cache line between two cores, microseconds; two cores only
 *     memcpy_bw SIZE   into memory that both map, 10^9 bytes/s
 *     vm_lat SIZE      process_vm_writev() into the other's private memory, microseconds
 *     vm_bw SIZE       the same, 10^9 bytes/s
 */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/expect.h"
#include "measure.h"

#define LINE_BATCH   500
#define LINE_BATCHES 201 /* odd: the median is one of them */
#define LINE_TURNS   (2ull * LINE_BATCH * LINE_BATCHES)
#define BYTES_TOTAL  (400ul << 20) /* moved per figure */
#define LEAST	     20
#define MOST	     20000
#define BYTES_MAX    (8ul << 20)

struct line {
	_Alignas(128) _Atomic uint64_t ping;
	_Alignas(128) _Atomic uint64_t ready; /* the other process has its memory in place */
	uint64_t private_at;		      /* address of the private memory */
};

static struct line *line;

static void pin(const char *core)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)atoi(core), &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		DIE("core %s", core);
}

static void *memory(size_t bytes, int flags)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		DIE("no memory");
	madvise(at, bytes, MADV_NOHUGEPAGE);
	memset(at, 1, bytes);
	return at;
}

/* Odd values are this process's turns, even ones the other's. */
static void other(const char *core)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pin(core);
	line->private_at = (uintptr_t)memory(BYTES_MAX, MAP_PRIVATE);
	atomic_store(&line->ready, 1);
	for (uint64_t turn = 1; turn < LINE_TURNS; turn += 2) {
		while (atomic_load_explicit(&line->ping, memory_order_acquire) != turn)
			;
		atomic_store_explicit(&line->ping, turn + 1, memory_order_release);
	}
	for (;;)
		pause();
}

/* The median of the batches: who loses its core for a while disturbs few of them. */
static double line_us(void)
{
	static double us[LINE_BATCHES];
	uint64_t turn = 1;

	for (int b = 0; b < LINE_BATCHES; b++) {
		uint64_t begin = now_ns();

		for (int i = 0; i < LINE_BATCH; i++, turn += 2) {
			atomic_store_explicit(&line->ping, turn, memory_order_release);
			while (atomic_load_explicit(&line->ping, memory_order_acquire) != turn + 1)
				;
		}
		us[b] = us_each(begin, 2 * LINE_BATCH);
	}
	return median_of(us, LINE_BATCHES);
}

static long rounds(size_t size)
{
	long n = (long)(BYTES_TOTAL / size);

	return n < LEAST ? LEAST : n > MOST ? MOST : n;
}

static double copy_us(void *to, const void *from, size_t size)
{
	long n = rounds(size);
	uint64_t begin = now_ns();

	for (long i = 0; i < n; i++) {
		memcpy(to, from, size);
		__asm__ volatile("" ::: "memory");
	}
	return (double)(now_ns() - begin) / (double)n / 1000;
}

static double vm_us(pid_t pid, void *from, size_t size)
{
	struct iovec local = {from, size}, remote = {(void *)(uintptr_t)line->private_at, size};
	long n = rounds(size);
	uint64_t begin = now_ns();

	for (long i = 0; i < n; i++)
		if (process_vm_writev(pid, &local, 1, &remote, 1, 0) != (ssize_t)size)
			DIE("process_vm_writev");
	return (double)(now_ns() - begin) / (double)n / 1000;
}

static void sizes(pid_t pid, char **list)
{
	uint8_t *from = memory(BYTES_MAX, MAP_PRIVATE), *to = memory(BYTES_MAX, MAP_SHARED);

	for (; *list; list++) {
		size_t size = strtoul(*list, NULL, 10);
		double copy, vm;

		if (size == 0 || size > BYTES_MAX)
			DIE("size %s", *list);
		copy = copy_us(to, from, size);
		vm = vm_us(pid, from, size);
		printf("memcpy_bw %zu %.6f\n", size, (double)size / copy / 1000);
		printf("vm_lat %zu %.6f\n", size, vm);
		printf("vm_bw %zu %.6f\n", size, (double)size / vm / 1000);
	}
}

int main(int argc, char **argv)
{
	pid_t pid;

	if (argc < 3)
		DIE("usage: limit CORE CORE [SIZE]...");
	line = memory(sizeof(*line), MAP_SHARED);
	memset(line, 0, sizeof(*line));
	pid = fork();
	if (pid == 0)
		other(argv[2]);
	if (pid < 0)
		DIE("no second process");
	pin(argv[1]);
	while (!atomic_load(&line->ready))
		sched_yield();
	if (strcmp(argv[1], argv[2]))
		printf("line_lat 8 %.6f\n", line_us());
	if (argc > 3)
		sizes(pid, argv + 3);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return 0;
}
