/* SPDX-License-Identifier: MIT */
/*
 * A signal's handler calls fork() or _Fork() while its thread registers and deregisters memory of
 * the shared heap. Nobody waits for a lock that the interrupted call holds, and the child has
 * memory of its own. Not in the midst of malloc(), whose lock fork() wants itself (HOST.md).
 */
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "heap_fixture.h"
#include "lib/peer_memory.h"
#include "lib/sanitized.h"

#define FORKS	  50u
#define PERIOD_US 2000

static uint8_t *memory;
static volatile sig_atomic_t forks, wrong;
static _Thread_local volatile sig_atomic_t allocating;

#if !SANITIZED /* whose own may not be replaced */
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t count, size_t n);
void *__libc_realloc(void *p, size_t n);
void __libc_free(void *p);

#define FOR_ALL __attribute__((visibility("default"))) /* the libraries, too */
#define ALLOCATING(call)      \
	do {                  \
		void *got;    \
		allocating++; \
		got = call;   \
		allocating--; \
		return got;   \
	} while (0)

FOR_ALL void *malloc(size_t n)
{
	ALLOCATING(__libc_malloc(n));
}

FOR_ALL void *calloc(size_t count, size_t n)
{
	ALLOCATING(__libc_calloc(count, n));
}

FOR_ALL void *realloc(void *p, size_t n)
{
	ALLOCATING(__libc_realloc(p, n));
}

FOR_ALL void free(void *p)
{
	allocating++;
	__libc_free(p);
	allocating--;
}
#endif

static void on_tick(int sig)
{
	int status = -1;
	pid_t child;

	if (forks >= (int)FORKS || allocating)
		return;
	child = SANITIZED || forks % 2 ? fork() : _Fork(); /* with a sanitizer it is not hooked */
	if (child == 0) {
		memset(memory, 0xee, BYTES);
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || status)
		wrong++;
	forks++;
}

static void tick(suseconds_t period_us)
{
	const struct itimerval every = {{0, period_us}, {0, period_us}};

	setitimer(ITIMER_PROF, &every, NULL);
}

/* On memory that no fork has made private yet. */
static void one_turn(void)
{
	uint8_t *p = map_private(BYTES);

	fill(p, BYTES, 6);
	dereg(reg(p, BYTES));
	dereg(reg(memory, BYTES));
	expect_filled(p, BYTES, 6);
	peer_memory_unmap(p, BYTES);
}

static void run(void)
{
	struct sigaction act = {.sa_handler = on_tick, .sa_flags = SA_RESTART}, before;
	uint64_t until = now_ms() + PATIENCE;

	row("a handler that forks, %u times", FORKS);
	memory = map_private(BYTES);
	fill(memory, BYTES, 5);
	sigaction(SIGPROF, &act, &before);
	tick(PERIOD_US);
	while (forks < (int)FORKS && now_ms() < until)
		one_turn();
	tick(0);
	sigaction(SIGPROF, &before, NULL);
	EXPECT(forks > 0 && wrong == 0, "%d forks, %d went wrong", (int)forks, (int)wrong);
	expect_filled(memory, BYTES, 5);
	peer_memory_unmap(memory, BYTES);
}

int main(int argc, char **argv)
{
	return heap_test(argc, argv, run);
}
