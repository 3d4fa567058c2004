/* SPDX-License-Identifier: MIT */
#include "hardship/stopwatch.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/expect.h"

#define SAMPLES	 8192u /* the last eight seconds and more */
#define NAP_US	 1000u
#define WORK	 20000u /* additions: some microseconds of a core */
#define MS_IN_NS 1000000ul
#define PRINTED	 5u /* steps that are too long */

struct sample {
	_Atomic uint64_t end_ns, late_ns;
};

static struct sample samples[SAMPLES];
static _Atomic uint64_t due_ns; /* when the sample under way should end */
static atomic_bool stopping;
static pthread_t control;

static struct stopwatch_report seen;
static const char *current;
static uint64_t begin_ns, begin_waited_ns;
static int waits[2]; /* files that say how long this process and its partner have waited */

/* --- the control -------------------------------------------------------------------- */

static void compute(void)
{
	for (volatile uint32_t i = 0; i < WORK; i++)
		;
}

static void *control_main(void *arg)
{
	for (uint64_t n = 0; !atomic_load(&stopping); n++) {
		struct sample *s = &samples[n % SAMPLES];
		uint64_t due = now_ns() + NAP_US * 1000, end;

		atomic_store(&due_ns, due);
		usleep(NAP_US);
		compute();
		end = now_ns();
		atomic_store(&s->late_ns, end > due ? end - due : 0);
		atomic_store(&s->end_ns, end);
	}
	return NULL;
}

/* How late the control was since @begin, the sample under way included. */
static uint64_t control_late_since(uint64_t begin)
{
	uint64_t now = now_ns(), due = atomic_load(&due_ns), worst = now > due ? now - due : 0;

	for (unsigned int i = 0; i < SAMPLES; i++)
		if (atomic_load(&samples[i].end_ns) >= begin &&
		    atomic_load(&samples[i].late_ns) > worst)
			worst = atomic_load(&samples[i].late_ns);
	return worst;
}

/* --- waiting for a core --------------------------------------------------------------- */

/* Of a process' first thread. Return: -1: this kernel does not count it */
static int open_wait(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/schedstat", (int)pid);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* The file has nanoseconds on a core, and nanoseconds that it waited for one. */
static uint64_t wait_ns(int fd)
{
	char text[128] = "", *end;
	ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return 0;
	(void)strtoull(text, &end, 10);
	return strtoull(end, NULL, 10);
}

static uint64_t waited_ns(void)
{
	return wait_ns(waits[0]) + wait_ns(waits[1]);
}

void stopwatch_start(pid_t partner)
{
	waits[0] = open_wait(getpid());
	waits[1] = open_wait(partner);
	seen = (struct stopwatch_report){0};
	NEED(pthread_create(&control, NULL, control_main, NULL) == 0);
}

struct stopwatch_report stopwatch_stop(void)
{
	atomic_store(&stopping, true);
	pthread_join(control, NULL);
	atomic_store(&stopping, false);
	for (int i = 0; i < 2; i++)
		if (waits[i] >= 0)
			close(waits[i]);
	seen.control_ns = control_late_since(0);
	return seen;
}

/* --- steps -------------------------------------------------------------------------- */

void step_begin(const char *name)
{
	current = name;
	begin_waited_ns = waited_ns();
	begin_ns = now_ns();
}

static void judge(uint64_t took)
{
	uint64_t late = control_late_since(begin_ns), waited = waited_ns() - begin_waited_ns;

	if (late >= CONTROL_LIMIT_MS * MS_IN_NS || took - waited <= STEP_LIMIT_MS * MS_IN_NS ||
	    waited > took)
		seen.excused++;
	else if (seen.too_long++ < PRINTED)
		printf("  %s took %lu ms, of which %lu for want of a core; the control was late by "
		       "%lu ms at most\n",
		       current, took / MS_IN_NS, waited / MS_IN_NS, late / MS_IN_NS);
}

void step_end(void)
{
	uint64_t took = now_ns() - begin_ns;

	seen.steps++;
	if (took > STEP_LIMIT_MS * MS_IN_NS)
		judge(took);
	if (took <= seen.longest_ns)
		return;
	seen.longest_ns = took;
	seen.control_then_ns = control_late_since(begin_ns);
	snprintf(seen.longest, sizeof(seen.longest), "%s", current);
}
