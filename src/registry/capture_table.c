/* SPDX-License-Identifier: MIT */
#include "registry/capture_table.h"

#include <string.h>

#define ALIVE_NS 100000000u /* how long an owner found alive counts as alive */

/* When this process last found the owner of a capture alive, and which capture that was. */
static struct {
	_Atomic uint64_t when_ns;
	_Atomic uint32_t stamp;
} alive[AV_CAPTURES];

static struct av_dir_capture *at_number(unsigned int number)
{
	return &av_dir->capture[number - 1];
}

static bool owner_lives(unsigned int number, uint32_t stamp)
{
	const struct av_dir_capture *c = at_number(number);
	uint64_t now = av_now_coarse_ns();

	if (c->proc == av_lock_self)
		return true;
	if (atomic_load(&alive[number - 1].stamp) == stamp &&
	    now - atomic_load(&alive[number - 1].when_ns) < ALIVE_NS)
		return true;
	if (!av_dir_proc_alive(c->proc))
		return false;
	atomic_store(&alive[number - 1].when_ns, now);
	atomic_store(&alive[number - 1].stamp, stamp);
	return true;
}

/* Context: within a change. */
static int find_free_capture(void)
{
	for (unsigned int number = 1; number <= AV_CAPTURES; number++) {
		const struct av_dir_capture *c = at_number(number);

		if (!atomic_load(&c->stamp) || !av_dir_proc_alive(c->proc))
			return (int)number;
	}
	return -ENOSPC;
}

static void init_capture_row(struct av_dir_capture *c, const struct av_capture_spec *spec)
{
	atomic_store(&c->stamp, 0); /* of an owner that died */
	c->proc = av_lock_self;
	c->spec = *spec;
	/* Who took frames of an earlier capture may still give them back, to these counts. */
	atomic_fetch_and(&c->taken, ~AV_CAPTURE_CLOSED);
	atomic_store(&c->before, atomic_load(&c->taken));
	atomic_store(&c->settled, atomic_load(&c->taken)); /* those who took the rest died */
	atomic_store(&c->lost, 0);
	atomic_store(&c->err, 0);
	/* Differs from all that processes may remember, even from earlier directories. */
	atomic_store(&c->stamp, (uint32_t)av_now_ns() | 1);
}

int av_capture_begin(const struct av_capture_spec *spec)
{
	int number = av_dir_change_begin();

	if (number)
		return number;
	number = find_free_capture();
	if (number > 0) {
		av_dir_will_use(&av_dir->capture_end, (uint32_t)number - 1);
		init_capture_row(at_number((unsigned int)number), spec);
	}
	av_dir_change_end();
	return number;
}

void av_capture_end(unsigned int number)
{
	atomic_store(&at_number(number)->stamp, 0);
}

static bool concerns(const struct av_dir_capture *c, uint32_t proc, const char *device)
{
	return (c->spec.everybody || c->proc == proc) &&
	       (!device || !c->spec.device[0] ||
		strncmp(c->spec.device, device, sizeof(c->spec.device)) == 0);
}

/* The count at which the capture ends. It goes on from the earlier captures of its row. */
static uint64_t end_of(const struct av_dir_capture *c)
{
	uint64_t before = atomic_load(&c->before), room = AV_CAPTURE_CLOSED - before;

	return before + (c->spec.limit < room ? c->spec.limit : room);
}

static bool is_capture_done(const struct av_dir_capture *c)
{
	return atomic_load(&c->err) || atomic_load(&c->taken) >= end_of(c);
}

unsigned int av_capture_find(uint32_t proc, const char *device, unsigned int *at)
{
	uint32_t end = av_dir_rows(&av_dir->capture_end, AV_CAPTURES);

	while (*at < end) {
		unsigned int number = ++*at;
		const struct av_dir_capture *c = at_number(number);
		uint32_t stamp = atomic_load(&c->stamp);

		if (stamp && concerns(c, proc, device) && !is_capture_done(c) &&
		    owner_lives(number, stamp))
			return number;
	}
	return 0;
}

uint32_t av_capture_stamp(unsigned int number)
{
	return atomic_load(&at_number(number)->stamp);
}

bool av_capture_is_mine(unsigned int number, uint32_t stamp)
{
	return av_capture_stamp(number) == stamp && at_number(number)->proc == av_lock_self;
}

bool av_capture_spec(unsigned int number, uint32_t stamp, struct av_capture_spec *spec)
{
	*spec = at_number(number)->spec;
	spec->path[sizeof(spec->path) - 1] = '\0';
	atomic_thread_fence(memory_order_acquire);
	return atomic_load(&at_number(number)->stamp) == stamp;
}

uint64_t av_capture_take(unsigned int number, uint32_t stamp, uint64_t frames)
{
	struct av_dir_capture *c = at_number(number);
	uint64_t taken = atomic_load(&c->taken), end, n;

	do {
		end = end_of(c);
		n = taken >= end ? 0 : end - taken; /* a closed count is beyond any end */
		n = n < frames ? n : frames;
	} while (n && !atomic_compare_exchange_weak(&c->taken, &taken, taken + n));
	if (n == 0 || atomic_load(&c->stamp) == stamp)
		return n;
	atomic_fetch_sub(&c->taken, n); /* taken from another capture */
	return 0;
}

void av_capture_written(unsigned int number, uint64_t frames)
{
	atomic_fetch_add(&at_number(number)->settled, frames);
}

void av_capture_untake(unsigned int number, uint64_t frames)
{
	struct av_dir_capture *c = at_number(number);

	atomic_fetch_add(&c->lost, frames);
	atomic_fetch_sub(&c->taken, frames);
}

void av_capture_close(unsigned int number)
{
	atomic_fetch_or(&at_number(number)->taken, AV_CAPTURE_CLOSED);
}

void av_capture_stop(unsigned int number, int err)
{
	atomic_store(&at_number(number)->err, err);
}

void av_capture_lost(unsigned int number, uint64_t frames)
{
	atomic_fetch_add(&at_number(number)->lost, frames);
}

struct av_capture_state av_capture_state(unsigned int number)
{
	const struct av_dir_capture *c = at_number(number);
	uint64_t settled = atomic_load(&c->settled),
		 taken = atomic_load(&c->taken) & ~AV_CAPTURE_CLOSED;

	return (struct av_capture_state){
		.frames = taken - atomic_load(&c->before),
		.settled = settled >= taken,
		.lost = atomic_load(&c->lost),
		.err = atomic_load(&c->err),
		.over = is_capture_done(c),
	};
}
