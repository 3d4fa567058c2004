/* SPDX-License-Identifier: MIT */
#include "net/backlog.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "net/astray.h"

#define OWNERS	   16
#define BYTES_MOST (2u << 20)
#define LONGEST_NS (10000ull * 1000000) /* its sender has said it again by then, or given up */

struct waiting {
	STAILQ_ENTRY(waiting) entry;
	uint64_t until_ns;
	struct av_cut cut; /* of @bytes */
	uint8_t bytes[];
};

STAILQ_HEAD(line, waiting);

static struct {
	uint32_t owner; /* 0: nobody's */
	struct line line;
} lines[OWNERS];
static _Atomic size_t waiting_bytes;
static void (*_Atomic wake)(void);

void av_backlog_wake_by(void (*f)(void))
{
	atomic_store(&wake, f);
}

bool av_backlog_waits(void)
{
	return atomic_load_explicit(&waiting_bytes, memory_order_relaxed) > 0;
}

/* Return: OWNERS: there is none */
static unsigned int line_of(uint32_t owner)
{
	unsigned int i = 0;

	while (i < OWNERS && lines[i].owner != owner)
		i++;
	return i;
}

static size_t size_of(const struct waiting *w)
{
	return sizeof(*w) + w->cut.count;
}

static void append(uint32_t owner, const struct av_cut *cut)
{
	size_t bytes = sizeof(struct waiting) + cut->count;
	unsigned int i = line_of(owner);
	void (*f)(void) = atomic_load(&wake);
	struct waiting *w;

	if (i == OWNERS)
		i = line_of(0);
	if (i == OWNERS || atomic_load(&waiting_bytes) + bytes > BYTES_MOST)
		return;
	w = malloc(bytes);
	if (!w)
		return;
	w->until_ns = av_now_ns() + LONGEST_NS;
	w->cut = *cut;
	w->cut.bytes = w->bytes;
	memcpy(w->bytes, cut->bytes, cut->count);
	if (lines[i].owner == 0)
		STAILQ_INIT(&lines[i].line);
	lines[i].owner = owner;
	STAILQ_INSERT_TAIL(&lines[i].line, w, entry);
	if (atomic_fetch_add(&waiting_bytes, bytes) == 0)
		f();
}

/* The first one goes. An empty line is nobody's. */
static void remove_first(unsigned int i)
{
	struct waiting *w = STAILQ_FIRST(&lines[i].line);

	STAILQ_REMOVE_HEAD(&lines[i].line, entry);
	if (STAILQ_EMPTY(&lines[i].line))
		lines[i].owner = 0;
	atomic_fetch_sub(&waiting_bytes, size_of(w));
	free(w);
}

void av_backlog_pass(const struct av_own_fd *own, uint32_t owner, const struct av_cut *cut)
{
	if (line_of(owner) < OWNERS || av_astray_pass(own, owner, cut) == -EAGAIN)
		append(owner, cut);
}

static void move_up(unsigned int i, const struct av_own_fd *own, uint64_t now_ns)
{
	while (lines[i].owner) {
		const struct waiting *w = STAILQ_FIRST(&lines[i].line);

		if (now_ns < w->until_ns && av_astray_pass(own, lines[i].owner, &w->cut) == -EAGAIN)
			return;
		remove_first(i);
	}
}

void av_backlog_again(const struct av_own_fd *own)
{
	uint64_t now_ns = av_now_ns();

	for (unsigned int i = 0; i < OWNERS; i++)
		move_up(i, own, now_ns);
}

void av_backlog_drop(void)
{
	for (unsigned int i = 0; i < OWNERS; i++)
		while (lines[i].owner)
			remove_first(i);
}

/* It may be half changed: it is left behind. */
void av_backlog_forked(void)
{
	memset(lines, 0, sizeof(lines));
	atomic_store(&waiting_bytes, 0);
}
