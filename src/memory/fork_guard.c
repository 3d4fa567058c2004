/* SPDX-License-Identifier: MIT */
/*
 * Runs of pages, each with the number of regions that cover it: ascending, without gaps between the
 * lowest and the highest address ever given. Adjacent ones differ in their counts, but for a
 * moment. An array is enough: this mode is for trying programs out.
 */
#include "memory/region.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/text.h"
#include "base/thread.h"

struct run {
	uint64_t begin; /* address of the first page; the run ends where the next begins */
	uint32_t regions;
};

static struct {
	pthread_mutex_t mutex;
	struct run *run; /* the last one's count is 0: it only ends the one before */
	size_t count, room;
} guarded = {.mutex = PTHREAD_MUTEX_INITIALIZER};

struct range {
	uint64_t begin, end; /* of whole pages */
};

static bool wanted(void)
{
	static struct av_setting setting = {.variable = "ANYVERBS_FORK", .value = "dontfork"};

	return av_setting_is(&setting);
}

static bool range_of(uint64_t addr, uint64_t length, struct range *r)
{
	const uint64_t page = av_page_bytes();

	if (length == 0 || av_range_wraps(addr, length) || addr + (length - 1) > UINT64_MAX - page)
		return false;
	r->begin = addr & ~(page - 1);
	r->end = av_round_up(addr + length, page);
	return true;
}

/* Index of the first run that begins at @at or above. */
static size_t find_guard_run(uint64_t at)
{
	size_t low = 0, high = guarded.count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (guarded.run[middle].begin < at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool reserve_guard_runs(size_t more)
{
	size_t room = guarded.room ? guarded.room : 16;
	struct run *run;

	while (room < guarded.count + more)
		room *= 2;
	if (room == guarded.room)
		return true;
	run = realloc(guarded.run, room * sizeof(*run));
	if (!run)
		return false;
	guarded.run = run;
	guarded.room = room;
	return true;
}

/* Make a run begin at @at; there is room for it. Return: its index. */
static size_t split(uint64_t at)
{
	size_t i = find_guard_run(at);

	if (i < guarded.count && guarded.run[i].begin == at)
		return i;
	memmove(&guarded.run[i + 1], &guarded.run[i], (guarded.count - i) * sizeof(*guarded.run));
	guarded.run[i] = (struct run){.begin = at, .regions = i ? guarded.run[i - 1].regions : 0};
	guarded.count++;
	return i;
}

/* Join adjacent runs with equal counts, from the run before @first to the one at @last. */
static void merge_guard_runs(size_t first, size_t last)
{
	size_t to = first ? first - 1 : 0;

	for (size_t i = to; i < guarded.count; i++)
		if (i > last || to == 0 || guarded.run[to - 1].regions != guarded.run[i].regions)
			guarded.run[to++] = guarded.run[i];
	guarded.count = to;
	if (guarded.count == 1) /* only the end is left */
		guarded.count = 0;
}

/* Advise the runs in [from, to) that @regions cover. Return: 0, or the first errno. */
static int advise_guard_runs(size_t from, size_t to, uint32_t regions, int advice)
{
	int err = 0;

	for (size_t i = from; i < to; i++) {
		const struct run *r = &guarded.run[i];

		if (r->regions != regions ||
		    madvise((void *)(uintptr_t)r->begin, guarded.run[i + 1].begin - r->begin,
			    advice) == 0 ||
		    err)
			continue;
		err = errno;
	}
	return err;
}

/* Make runs begin and end at the ends of the range. Return: false without memory. */
static bool split_guard_runs(const struct range *r, size_t *from, size_t *to)
{
	if (!reserve_guard_runs(2)) /* also to unguard: runs may have been joined since */
		return false;
	*from = split(r->begin);
	*to = split(r->end);
	return true;
}

/* Context: the mutex is held; also below. */
static int guard(const struct range *r)
{
	size_t from, to;
	int err;

	if (!split_guard_runs(r, &from, &to))
		return ENOMEM;
	err = advise_guard_runs(from, to, 0, MADV_DONTFORK);
	if (err)
		(void)advise_guard_runs(from, to, 0, MADV_DOFORK);
	for (size_t i = from; err == 0 && i < to; i++)
		guarded.run[i].regions++;
	merge_guard_runs(from, to);
	return err;
}

static int unguard(const struct range *r)
{
	size_t from, to;
	int err;

	if (!split_guard_runs(r, &from, &to))
		return ENOMEM;
	err = advise_guard_runs(from, to, 1, MADV_DOFORK);
	for (size_t i = from; i < to; i++)
		if (guarded.run[i].regions > 0)
			guarded.run[i].regions--;
	merge_guard_runs(from, to);
	return err;
}

/* --- after ibv_fork_init() alone; no mutex ------------------------------------------- */

static _Atomic bool called;

void av_fork_asked(void)
{
	atomic_store(&called, true);
}

static bool asked(void)
{
	static struct av_setting safe[2] = {{.variable = "RDMAV_FORK_SAFE"},
					    {.variable = "IBV_FORK_SAFE"}};

	return atomic_load_explicit(&called, memory_order_relaxed) || av_setting_is(&safe[0]) ||
	       av_setting_is(&safe[1]);
}

/* Is there a hole in the range? MADV_DONTFORK would say so, too; this does nothing else. */
static int could_guard(const struct range *r)
{
	return syscall(SYS_msync, r->begin, r->end - r->begin, MS_ASYNC) ? errno : 0;
}

/* Children have it already, unless the program has seen to that. */
static int could_unguard(const struct range *r)
{
	return madvise((void *)(uintptr_t)r->begin, r->end - r->begin, MADV_DOFORK) ? errno : 0;
}

/* --- */

/* Another thread of the parent may have been changing the array, so it is abandoned. */
static void reset_guards_in_child(void)
{
	pthread_mutex_init(&guarded.mutex, NULL);
	guarded.run = NULL;
	guarded.count = guarded.room = 0;
}

static const struct av_fork_handlers fork_handlers = {.child = reset_guards_in_child};

static int with_mutex(const struct range *r, int (*how)(const struct range *))
{
	int err;

	(void)av_fork_register(AV_FORK_GUARDED_RANGES, &fork_handlers);
	pthread_mutex_lock(&guarded.mutex);
	err = how(r);
	pthread_mutex_unlock(&guarded.mutex);
	return err;
}

/* @how: with ANYVERBS_FORK=dontfork; @alone: after ibv_fork_init() alone */
static int update_fork_guard(uint64_t addr, uint64_t length, int (*how)(const struct range *),
			     int (*alone)(const struct range *))
{
	int saved = errno, err = 0;
	struct range r;

	if (av_likely(!wanted() && !asked()) || !range_of(addr, length, &r))
		return 0;
	err = wanted() ? with_mutex(&r, how) : alone(&r);
	errno = saved;
	return err;
}

int av_fork_guard(uint64_t addr, uint64_t length)
{
	return update_fork_guard(addr, length, guard, could_guard);
}

int av_fork_unguard(uint64_t addr, uint64_t length)
{
	return update_fork_guard(addr, length, unguard, could_unguard);
}
