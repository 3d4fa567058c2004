/* SPDX-License-Identifier: MIT */
/*
 * What is adopted, and when adoption pays. The adoptions are an array, searched from end to end.
 * They are few, because the time to spend on them is limited.
 */
#include "memory/adopt.h"

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "base/fork.h"
#include "base/map.h"
#include "base/setting.h"
#include "base/signals.h"
#include "base/uncancelled.h"
#include "segment/alloc.h"
#include "memory/adopt_born.h"
#include "memory/adopt_pages.h"
#include "memory/adopted.h"
#include "memory/key.h"
#include "memory/linger.h"
#include "memory/odp_track.h"
#include "memory/page_move.h"
#include "memory/special.h"

/*
 * Moving a page both ways costs less than 2 us (docs/ADOPTION.md). Programs that register and
 * deregister the same memory all the time must not pay that each time.
 */
#define NS_PER_PAGE   2000u
#define ALLOWANCE_NS  150000000u
#define ALLOWANCE_DIV 32u

/* The entry of the same index in memory/adopted.h shows it while its pages are in the segment. */
struct adoption {
	struct av_adopt_pages pages; /* the first region's whole pages */
	uint32_t id;		     /* in keys */
	uint32_t refs;		     /* regions; 0: free, unless @out */
	bool out;		     /* the pages are in the segment, */
	bool holds;		     /* of which this is a user, since its context is closed */
	void *copy;		     /* of the pages, for a child: while fork() runs */
};

static struct {
	pthread_mutex_t mutex;
	struct adoption list[AV_ADOPTIONS];
	uint32_t used; /* entries that have ever been used */
	uint64_t spent_ns, since_ns;
} adopted = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* The program's handlers wait meanwhile: one that calls fork() needs the mutex, too. */
static void lock(sigset_t *signals)
{
	sigset_t others;

	av_signals_of_others(&others);
	pthread_sigmask(SIG_BLOCK, &others, signals);
	pthread_mutex_lock(&adopted.mutex);
}

static void unlock(const sigset_t *signals)
{
	pthread_mutex_unlock(&adopted.mutex);
	pthread_sigmask(SIG_SETMASK, signals, NULL);
}

/* --- entries; the mutex is held -------------------------------------------------- */

static struct adoption *free_entry(void)
{
	for (uint32_t i = 0; i < AV_ADOPTIONS; i++)
		if (adopted.list[i].refs == 0 && !adopted.list[i].out) {
			if (i >= adopted.used)
				adopted.used = i + 1;
			return &adopted.list[i];
		}
	return NULL;
}

static bool overlaps(const struct adoption *a, uint64_t addr, uint64_t len)
{
	return a->out && addr < a->pages.begin + a->pages.bytes && a->pages.begin < addr + len;
}

/* An adoption whose pages overlap the range. */
static struct adoption *find_overlapping(uint64_t addr, uint64_t len)
{
	for (uint32_t i = 0; i < adopted.used; i++) {
		struct adoption *a = &adopted.list[i];

		if (overlaps(a, addr, len))
			return a;
	}
	return NULL;
}

static struct adoption *by_id(const struct av_seg *seg, uint32_t id)
{
	for (uint32_t i = 0; i < adopted.used; i++)
		if (adopted.list[i].refs && adopted.list[i].id == id &&
		    adopted.list[i].pages.seg == seg)
			return &adopted.list[i];
	return NULL;
}

static void show(struct adoption *a)
{
	const struct av_adopted_piece piece = {
		.begin = a->pages.begin,
		.end = a->pages.begin + a->pages.bytes,
		.file = a->pages.seg->file,
		.at = a->pages.at,
	};

	av_adopted_show((uint32_t)(a - adopted.list), &piece);
	a->out = true;
}

static void hide(struct adoption *a)
{
	av_adopted_hide((uint32_t)(a - adopted.list));
	a->out = false;
}

static void hold(struct adoption *a)
{
	av_seg_hold(a->pages.seg);
	a->holds = true;
}

static void let_go(struct adoption *a)
{
	if (a->holds)
		av_seg_put(a->pages.seg);
	a->holds = false;
}

/* --- when ------------------------------------------------------------------------ */

static bool never(void)
{
	static struct av_setting setting = {.variable = "ANYVERBS_ADOPT", .value = "never"};
	/* Guarded memory must not reach children, but private memory that moves back would. */
	static struct av_setting fork = {.variable = "ANYVERBS_FORK", .value = "dontfork"};

	return av_setting_is(&setting) || av_setting_is(&fork);
}

static bool always(void)
{
	static struct av_setting setting = {.variable = "ANYVERBS_ADOPT", .value = "always"};

	return av_setting_is(&setting);
}

static bool affordable(uint64_t bytes, uint64_t now)
{
	uint64_t cost = bytes / AV_PAGE_BYTES * NS_PER_PAGE;

	if (adopted.since_ns == 0)
		adopted.since_ns = now;
	return adopted.spent_ns + cost <= ALLOWANCE_NS + (now - adopted.since_ns) / ALLOWANCE_DIV;
}

/* --- in and out ------------------------------------------------------------------ */

/* Create the descriptor that peers read. Return: the value for keys, or 0. */
static uint32_t describe(const struct av_adopt_pages *p)
{
	uint64_t offset = av_seg_alloc(p->seg, sizeof(struct av_adopted));
	struct av_adopted *d = offset ? av_seg_at(p->seg, offset, sizeof(*d)) : NULL;

	if (!d)
		return 0;
	d->addr = p->begin;
	d->bytes = p->bytes;
	atomic_store(&d->at, p->at);
	return (uint32_t)(offset >> AV_ADOPTED_SHIFT);
}

static void undescribe(struct adoption *a)
{
	av_linger_free_descriptor(a->pages.seg, a->id);
	a->id = 0;
}

/* NULL: no region is on the pages. */
static struct av_adopted *descriptor(const struct adoption *a)
{
	return a->id ? av_seg_at(a->pages.seg, (uint64_t)a->id << AV_ADOPTED_SHIFT,
				 sizeof(struct av_adopted))
		     : NULL;
}

/*
 * Peers then reach the memory in the owner's process again. Keys keep naming the descriptor.
 * Context: pages are moving.
 */
static void move_back(struct adoption *a)
{
	struct av_adopted *d = descriptor(a);

	if (d)
		atomic_store(&d->at, 0);
	if (av_adopt_move_out(&a->pages))
		hide(a); /* else some, or all, stay: for want of memory */
	av_page_move_end();
	if (!a->out)
		let_go(a);
}

/* Return: false: nothing has changed, since a stopped peer may be copying from or to the pages. */
static bool give_back(struct adoption *a)
{
	if (!av_page_move_begin(a->pages.begin, a->pages.begin + a->pages.bytes))
		return false;
	move_back(a);
	return true;
}

static uint8_t reason_against(uint64_t begin, uint64_t bytes)
{
	if (av_adopt_written_by_others())
		return AV_KEY_PINNED;
	if (av_adopt_locked() || av_special(begin, begin + bytes))
		return AV_KEY_SPECIAL;
	return av_odp_claim(begin, bytes) ? 0 : AV_KEY_SPECIAL;
}

static uint32_t take(struct av_seg *seg, uint64_t begin, uint64_t bytes, uint8_t *why)
{
	struct adoption *a = free_entry();
	struct av_adopt_pages pages = {.seg = seg, .begin = begin, .bytes = bytes};
	uint8_t reason;

	if (!a || !av_adopt_suitable(&pages) || !av_adopt_single_threaded())
		return 0;
	reason = reason_against(begin, bytes);
	*why |= reason;
	if (reason || !av_adopt_place(&pages))
		return 0;
	if (!av_page_move_begin(begin, begin + bytes)) {
		av_pages_free(seg->pages, pages.at);
		return 0;
	}
	a->pages = pages;
	show(a); /* before the move: then a discard in a signal handler finds moved pages */
	if (!av_adopt_move_in(&pages)) {
		move_back(a);
		return 0;
	}
	av_page_move_end();
	a->id = describe(&pages);
	a->refs = 1;
	if (a->id)
		return a->id;
	a->refs = 0;
	(void)give_back(a); /* else they stay, until others can have them */
	return 0;
}

/* A region on pages that had to stay in the segment when their last one ended. */
static uint32_t begin_again(struct adoption *a, const struct av_seg *seg, uint64_t begin,
			    uint64_t bytes)
{
	if (a->pages.seg != seg || !av_range_within(begin, bytes, a->pages.begin, a->pages.bytes) ||
	    !av_adopt_in_place(&a->pages, begin, bytes))
		return 0;
	a->id = describe(&a->pages);
	a->refs = a->id != 0;
	return a->id;
}

/* Peers look for its bytes in the pages, also on those of which it covers only a part. */
static uint32_t add_region(struct adoption *a, const struct av_seg *seg, uint64_t begin,
			   uint64_t bytes)
{
	uint64_t first = begin - AV_PAGE_BYTES, last = begin + bytes + AV_PAGE_BYTES;

	if (a->pages.seg != seg || !av_range_within(begin, bytes, a->pages.begin, a->pages.bytes))
		return 0;
	first = first > a->pages.begin ? first : a->pages.begin;
	last = last < a->pages.begin + a->pages.bytes ? last : a->pages.begin + a->pages.bytes;
	if (first >= last || !av_adopt_in_place(&a->pages, first, last - first))
		return 0;
	a->refs++;
	return a->id;
}

/*
 * Pages that had to stay in the segment without a region move out, if they need not stay any more.
 * The program may have unmapped them long ago. Return: is no adoption in the way?
 */
static bool make_way(uint64_t begin, uint64_t bytes)
{
	struct adoption *a;

	while ((a = find_overlapping(begin, bytes)))
		if (a->refs || av_adopt_must_stay() || !give_back(a) || a->out)
			return false;
	return true;
}

static uint32_t adopt(struct av_seg *seg, uint64_t begin, uint64_t bytes, uint8_t *why)
{
	struct adoption *a = find_overlapping(begin, bytes);
	uint64_t now = av_now_ns();
	uint32_t id = 0;

	if (a)
		id = a->refs ? add_region(a, seg, begin, bytes) : begin_again(a, seg, begin, bytes);
	if (id || (!always() && !affordable(bytes, now)))
		return id;
	if (make_way(begin, bytes))
		id = take(seg, begin, bytes, why);
	adopted.spent_ns += av_now_ns() - now;
	return id;
}

/* --- fork ------------------------------------------------------------------------ */

static bool any_out(void)
{
	for (uint32_t i = 0; i < adopted.used; i++)
		if (adopted.list[i].out)
			return true;
	return false;
}

/*
 * The pages move out, so that the kernel copies them for the child. Those that have to stay are
 * copied here: a stopped peer's WRITE is to arrive in the parent's memory, and nowhere else.
 */
static void before_fork(void)
{
	int saved = errno;
	bool stay = any_out() && av_adopt_must_stay();

	for (uint32_t i = 0; i < adopted.used; i++) {
		struct adoption *a = &adopted.list[i];

		stay = stay || (a->out && !give_back(a));
		if (a->out)
			a->copy = av_adopt_copy(&a->pages);
	}
	errno = saved;
}

static void after_fork_in_parent(void)
{
	int saved = errno;

	for (uint32_t i = 0; i < adopted.used; i++) {
		struct adoption *a = &adopted.list[i];

		if (a->copy)
			av_munmap(a->copy, a->pages.bytes);
		a->copy = NULL;
	}
	errno = saved;
}

/* In the child nothing is adopted, and the regions and segments are the parent's. */
static void after_fork_in_child(void)
{
	int saved = errno;

	for (uint32_t i = 0; i < adopted.used; i++) {
		struct adoption *a = &adopted.list[i];

		if (a->out) {
			av_adopt_leave_in_child(&a->pages, a->copy);
			hide(a);
		}
		a->copy = NULL;
		a->refs = 0;
		a->holds = false;
	}
	errno = saved;
}

static const struct av_fork_handlers fork_handlers = {.mutex = &adopted.mutex,
						      .prepare = before_fork,
						      .parent = after_fork_in_parent,
						      .child = after_fork_in_child};

/* --- regions --------------------------------------------------------------------- */

uint32_t av_adopt(struct av_seg *seg, uint64_t addr, uint64_t length, uint8_t *why)
{
	uint64_t begin = av_round_up(addr, AV_PAGE_BYTES),
		 end = (addr + length) & ~(uint64_t)(AV_PAGE_BYTES - 1);
	int saved = errno;
	sigset_t signals;
	uint32_t id;

	if (never() || length == 0 || sysconf(_SC_PAGESIZE) != AV_PAGE_BYTES)
		return 0;
	id = av_adopt_born(seg, addr, length);
	if (id || length < AV_PAGE_BYTES || begin >= end)
		return id;
	(void)av_fork_register(AV_FORK_ADOPTED, &fork_handlers);
	lock(&signals);
	id = adopt(seg, begin, end - begin, why);
	unlock(&signals);
	errno = saved;
	return id;
}

/* Nobody is to store to the program's pages any more, neither its regions nor a stopped peer. */
static void move_out(struct adoption *a)
{
	if (av_adopt_must_stay() || !give_back(a) || a->out)
		av_linger_wait(a->pages.seg, a->pages.at);
}

static void end(struct adoption *a)
{
	uint64_t begin = av_now_ns();

	if (a->out && (a->refs == 1 || av_linger_has_pages(a->pages.seg, a->pages.at)))
		move_out(a);
	a->refs--;
	if (a->refs == 0 && a->id)
		undescribe(a);
	adopted.spent_ns += av_now_ns() - begin;
}

void av_adopt_end(struct av_seg *seg, uint32_t id)
{
	struct adoption *a;
	int saved = errno;
	sigset_t signals;

	if (!id || av_adopt_born_end(seg, id))
		return;
	lock(&signals);
	a = by_id(seg, id);
	if (a)
		end(a);
	unlock(&signals);
	errno = saved;
}

bool av_adopt_replaceable(struct av_seg *seg, const struct av_key *k, uint64_t *at)
{
	const struct adoption *a;
	sigset_t signals;
	bool ret;

	lock(&signals);
	a = by_id(seg, k->adopted);
	ret = a && (!a->out || !av_adopt_must_stay());
	*at = ret && a->out ? a->pages.at : 0;
	unlock(&signals);
	return ret;
}

void av_adopt_leave(uint64_t addr, uint64_t bytes)
{
	AV_UNCANCELLED;
	int saved = errno;
	sigset_t signals;
	bool stay;

	av_adopt_born_leave(addr, bytes);
	/* No lock for memory that is not adopted: it may be an allocator's, which is called with
	 * this one held. */
	if (!av_adopted_overlaps(addr, bytes))
		return;
	lock(&signals);
	stay = av_adopt_must_stay();
	for (uint32_t i = 0; i < adopted.used && !stay; i++) {
		struct adoption *a = &adopted.list[i];

		if (overlaps(a, addr, bytes))
			(void)give_back(a);
	}
	unlock(&signals);
	errno = saved;
}

void av_adopt_close(struct av_seg *seg)
{
	int saved = errno;
	sigset_t signals;

	av_adopt_born_close(seg);
	lock(&signals);
	for (uint32_t i = 0; i < adopted.used; i++) {
		struct adoption *a = &adopted.list[i];

		if (a->pages.seg != seg)
			continue;
		if (a->out && (av_adopt_must_stay() || !give_back(a) || a->out))
			hold(a);
		a->id = a->refs = 0;
	}
	unlock(&signals);
	errno = saved;
}
