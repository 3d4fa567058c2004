/* SPDX-License-Identifier: MIT */
/*
 * What fork() costs a process that has opened a device and written memory, on the shared heap and
 * in private memory. On the heap, pages are copied for the child beforehand; of private memory, as
 * they are written next. So the program writes all of it once more: both have copied then.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ends.h"
#include "lib/expect.h"
#include "lib/spawn.h"
#include "measure.h"

#define ROLE "--forks"
#define PAGE 4096ul
#define MOST 2.0

static const struct shape {
	const char *name;
	size_t bytes, step; /* a page is written every @step bytes */
} shape[] = {
	{"64MiB", 64ul << 20, PAGE},
	{"1GiB", 1ul << 30, PAGE},
	{"4GiB/64", 4ul << 30, 64 * PAGE},
};
#define SHAPES (sizeof(shape) / sizeof(shape[0]))

struct took {
	double fork, all; /* us, of this thread's CPU time: fork(); and with writing all once */
};

/* --- the process that forks -------------------------------------------------------- */

static void write_pages(uint8_t *at, size_t bytes, size_t step, int value)
{
	for (size_t i = 0; i < bytes; i += step)
		memset(at + i, value, PAGE);
}

/* The child lives until the parent has written. */
static struct took fork_once(uint8_t *at, size_t bytes, size_t step)
{
	uint64_t begin, forked, end;
	int ends[2];
	pid_t child;
	char c;

	if (pipe(ends))
		DIE("pipe: errno %d", errno);
	begin = cpu_ns();
	child = fork();
	if (child == 0) {
		close(ends[1]);
		_exit(read(ends[0], &c, 1) != 0);
	}
	forked = cpu_ns();
	write_pages(at, bytes, step, 2);
	end = cpu_ns();
	close(ends[0]);
	close(ends[1]);
	if (child < 0 || waitpid(child, NULL, 0) != child)
		DIE("fork: errno %d", errno);
	return (struct took){(double)(forked - begin) / 1000, (double)(end - begin) / 1000};
}

static void be_forker(int sock)
{
	struct shape s;
	struct end e;

	end_open(&e);
	while (spawn_receive_any(sock, &s, sizeof(s)) == sizeof(s)) {
		size_t bytes = bench_bytes(s.bytes, 2 * s.step);
		uint8_t *at = bench_map(bytes, PROT_READ | PROT_WRITE, MAP_NORESERVE);
		struct took took;

		write_pages(at, bytes, s.step, 1);
		took = fork_once(at, bytes, s.step);
		munmap(at, bytes);
		spawn_send(sock, &took, sizeof(took));
	}
	end_close(&e);
}

/* --- the parent -------------------------------------------------------------------- */

static struct took ask(const struct spawned *p, const struct shape *s)
{
	struct took took;

	spawn_send(p->sock, s, sizeof(*s));
	spawn_receive(p->sock, &took, sizeof(took));
	return took;
}

static void measure(const struct spawned *without, const struct spawned *with,
		    const struct shape *s)
{
	struct series forked[2] = {0}, all[2] = {0}, ratio = {0};

	for (int i = 0; i < BENCH_RUNS; i++) {
		struct took plain = ask(without, s), heap = ask(with, s);

		series_add(&forked[0], plain.fork);
		series_add(&forked[1], heap.fork);
		series_add(&all[0], plain.all);
		series_add(&all[1], heap.all);
		series_add(&ratio, heap.fork / plain.all);
	}
	series_print(&forked[0], "fork_private_us", s->name);
	series_print(&all[0], "fork_private_written_us", s->name);
	series_print(&forked[1], "fork_heap_us", s->name);
	series_print(&all[1], "fork_heap_written_us", s->name);
	series_print_most(&ratio, "fork_heap/private_written", s->name, MOST);
}

int main(int argc, char **argv)
{
	int sock = spawn_role(argc, argv, ROLE);
	struct spawned without, with;

	time_limit(600);
	if (sock >= 0) {
		be_forker(sock);
		return 0;
	}
	if (unsetenv("LD_PRELOAD"))
		DIE("no memory");
	spawn_self(&without, ROLE);
	if (setenv("LD_PRELOAD", HEAP_LIBRARY, 1))
		DIE("no memory");
	spawn_self(&with, ROLE);
	for (size_t i = 0; i < SHAPES; i++)
		measure(&without, &with, &shape[i]);
	close(without.sock);
	close(with.sock);
	spawn_wait(&without);
	spawn_wait(&with);
	return failures() ? 1 : 0;
}
