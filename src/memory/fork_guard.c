/* SPDX-License-Identifier: MIT */
/* The whole pages of each guarded region, in any order. A list will do: this mode is for tests. */
#include "memory/region.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "base/thread.h"

struct range {
	uint64_t begin, end; /* of whole pages */
};

static struct {
	pthread_mutex_t mutex;
	struct range *range;
	size_t count, room;
} guarded = {.mutex = PTHREAD_MUTEX_INITIALIZER};

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

/* Does a region cover the page at @at? @end: out, up to where that holds. The mutex is held. */
static bool is_covered(uint64_t at, uint64_t *end)
{
	*end = UINT64_MAX;
	for (const struct range *g = guarded.range; g < guarded.range + guarded.count; g++) {
		if (g->begin <= at && at < g->end) {
			*end = g->end;
			return true;
		}
		if (g->begin > at && g->begin < *end)
			*end = g->begin;
	}
	return false;
}

/* Advise what of the range no region covers. Return: 0, or the first errno. */
static int advise_uncovered(const struct range *r, int advice)
{
	int err = 0;

	for (uint64_t at = r->begin, end; at < r->end; at = end) {
		bool covered = is_covered(at, &end);

		end = end < r->end ? end : r->end;
		if (!covered && madvise((void *)(uintptr_t)at, end - at, advice) && !err)
			err = errno;
	}
	return err;
}

static bool reserve_range(void)
{
	size_t room = guarded.room ? 2 * guarded.room : 16;
	struct range *range = guarded.range;

	if (guarded.count < guarded.room)
		return true;
	range = realloc(range, room * sizeof(*range));
	if (!range)
		return false;
	guarded.range = range;
	guarded.room = room;
	return true;
}

static int guard(const struct range *r)
{
	int err;

	if (!reserve_range())
		return ENOMEM;
	err = advise_uncovered(r, MADV_DONTFORK);
	if (err)
		(void)advise_uncovered(r, MADV_DOFORK);
	else
		guarded.range[guarded.count++] = *r;
	return err;
}

static int unguard(const struct range *r)
{
	for (struct range *g = guarded.range; g < guarded.range + guarded.count; g++)
		if (g->begin == r->begin && g->end == r->end) {
			*g = guarded.range[--guarded.count];
			return advise_uncovered(r, MADV_DOFORK);
		}
	return 0; /* a parent's */
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

/* Another thread of the parent may have been changing the list, so it is abandoned. */
static void reset_guards_in_child(void)
{
	pthread_mutex_init(&guarded.mutex, NULL);
	guarded.range = NULL;
	guarded.count = guarded.room = 0;
}

static const struct av_fork_handlers fork_handlers = {.child = reset_guards_in_child};

static int with_mutex(const struct range *r, int (*how)(const struct range *))
{
	(void)av_fork_register(AV_FORK_GUARDED_RANGES, &fork_handlers);
	AV_LOCKED(&guarded.mutex);
	return how(r);
}

/* @how: with ANYVERBS_FORK=dontfork; @alone: after ibv_fork_init() alone */
static int update_fork_guard(uint64_t addr, uint64_t length, int (*how)(const struct range *),
			     int (*alone)(const struct range *))
{
	AV_ERRNO_KEPT;
	struct range r;

	if (av_likely(!wanted() && !asked()) || !range_of(addr, length, &r))
		return 0;
	return wanted() ? with_mutex(&r, how) : alone(&r);
}

int av_fork_guard(uint64_t addr, uint64_t length)
{
	return update_fork_guard(addr, length, guard, could_guard);
}

int av_fork_unguard(uint64_t addr, uint64_t length)
{
	return update_fork_guard(addr, length, unguard, could_unguard);
}
