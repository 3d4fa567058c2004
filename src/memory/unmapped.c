/* SPDX-License-Identifier: MIT */
#include "memory/key.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/lock.h"
#include "base/thread.h"
#include "memory/odp.h"
#include "observe/flight.h"
#include "registry/directory.h"

#define NOT_TOLD UINT32_MAX /* as a thread: its call cannot be revoked any more */

static_assert(sizeof(struct iovec) == 2 * sizeof(uint64_t), "@remote and @bytes of a pin");
static_assert(offsetof(struct av_pin, bytes) == offsetof(struct av_pin, remote) + sizeof(uint64_t),
	      "adjacent");

/* --- the peer --------------------------------------------------------------------- */

/* Asked for once in each thread of each process: a child of fork() has another identity. */
static uint32_t this_thread(void)
{
	static _Thread_local uint32_t process AV_TLS_FAST, tid AV_TLS_FAST;

	if (av_unlikely(process != av_lock_self)) {
		process = av_lock_self;
		tid = (uint32_t)gettid();
	}
	return tid;
}

static bool is_revoked(struct av_pin *pin)
{
	return atomic_load(&pin->revoked) == (uint32_t)atomic_load(&pin->word);
}

const struct iovec *av_revoke_begin(struct av_pin *pin, uint64_t remote, uint64_t bytes)
{
	atomic_store_explicit(&pin->remote, remote, memory_order_relaxed);
	atomic_store_explicit(&pin->bytes, bytes, memory_order_relaxed);
	atomic_store(&pin->tid,
		     this_thread()); /* a full barrier before the revocation is looked at */
	return is_revoked(pin) ? NULL : (const struct iovec *)(const void *)&pin->remote;
}

bool av_revoke_end(struct av_pin *pin)
{
	bool ret = is_revoked(pin);

	atomic_store_explicit(&pin->tid, 0, memory_order_release);
	return ret;
}

bool av_revoke_begin_many(struct av_pin *const *pins, size_t count)
{
	bool ret = true;

	for (size_t i = 0; i < count; i++)
		atomic_store(&pins[i]->tid, NOT_TOLD); /* as above */
	for (size_t i = 0; i < count; i++)
		ret = !is_revoked(pins[i]) && ret;
	return ret;
}

bool av_revoke_end_many(struct av_pin *const *pins, size_t count)
{
	bool ret = false;

	for (size_t i = 0; i < count; i++)
		ret = av_revoke_end(pins[i]) || ret;
	return ret;
}

/* --- the owner -------------------------------------------------------------------- */

/* The letter behind the last parenthesis of /proc/TID/stat: proc_pid_stat(5). */
static bool is_stopped(uint32_t tid)
{
	char path[32], line[512];
	const char *state;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/stat", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);
	if (fd >= 0)
		close(fd);
	line[n > 0 ? n : 0] = '\0';
	state = strrchr(line, ')');
	return state && state[1] == ' ' && (state[2] == 'T' || state[2] == 't');
}

/* Is the pin's user in a system call that its owner has not emptied before? */
static bool may_copy(struct av_pin *pin, uint64_t word)
{
	uint32_t tid = atomic_load(&pin->tid);

	return tid && (tid == NOT_TOLD || !is_stopped(tid)) && atomic_load(&pin->word) == word &&
	       av_dir_proc_alive((uint32_t)(word >> 32));
}

static bool revoke_pin(struct av_pin *pin, uint64_t word)
{
	const struct timespec nap = {.tv_nsec = 50000};
	uint64_t until = 0;

	atomic_store(&pin->revoked, (uint32_t)word); /* a barrier before the thread is looked at */
	/*
	 * If the pin has been put, and another key's user set one here, then that one's call copies
	 * nothing, and is done again: av_vm_call().
	 */
	atomic_store(&pin->bytes, 0);
	while (may_copy(pin, word)) {
		if (av_timed_out(&until))
			return false;
		nanosleep(&nap, NULL);
	}
	return true;
}

bool av_revoke(struct av_seg *seg, uint32_t key)
{
	AV_UNCANCELLED;
	bool ret = true;

	for (uint32_t i = 0; i < AV_PINS; i++) {
		struct av_pin *pin = &seg->head->pin[i];
		uint64_t word = atomic_load(&pin->word);

		if (word && (uint32_t)word == key)
			ret = revoke_pin(pin, word) && ret;
	}
	return ret;
}

void av_revoke_forget(struct av_seg *seg, uint32_t key)
{
	for (uint32_t i = 0; i < AV_PINS; i++) {
		uint32_t revoked = key;

		atomic_compare_exchange_strong(&seg->head->pin[i].revoked, &revoked, 0);
	}
}

/*
 * A tree of four levels, for 9 + 9 + 9 + 8 bits of the page number. An entry holds two moments:
 * when all of its pages were last unmapped at once, and when any of them was. So a large unmapping
 * is quick to record, and a large region quick to check. A node takes 12 KiB; a leaf 2 KiB for 1
 * MiB.
 */

#define INNER_BITS 9
#define LEAF_BITS  8
#define LEVELS	   3 /* above the leaves */
#define PAGES	   (1ull << (LEVELS * INNER_BITS + LEAF_BITS))
#define INNER	   (1u << INNER_BITS)
#define LEAF	   (1u << LEAF_BITS)

struct entry {
	_Atomic uint64_t child; /* offset of the node below, or 0 */
	_Atomic uint64_t all;	/* moment when all pages below were last unmapped at once */
	_Atomic uint64_t any;	/* moment when any of them was last unmapped */
};

struct inner {
	struct entry entry[INNER];
};

struct leaf {
	_Atomic uint64_t page[LEAF];
};

/* The pages of a range that the tree covers. Return: false if there are none. */
static bool run_of(uint64_t addr, uint64_t len, struct av_page_run *r)
{
	if (!av_page_run_of(addr, len, r))
		return false;
	if (r->last >= PAGES)
		r->last = PAGES - 1;
	return r->first <= r->last;
}

/* log2 of the pages below an entry of a node; the root has level 0. */
static unsigned int entry_bits(unsigned int level)
{
	return LEAF_BITS + (LEVELS - 1 - level) * INNER_BITS;
}

/* The part of a run from @page on that lies within one entry. */
static struct av_page_run clip_page_run(struct av_page_run r, uint64_t page, unsigned int bits)
{
	uint64_t end = page | ((1ull << bits) - 1);

	return (struct av_page_run){page, end < r.last ? end : r.last};
}

static uint64_t node_bytes(unsigned int level)
{
	return level < LEVELS ? sizeof(struct inner) : sizeof(struct leaf);
}

static void *get_unmap_child(const struct av_seg *seg, struct entry *e, unsigned int level)
{
	return av_node_at(seg, atomic_load_explicit(&e->child, memory_order_acquire),
			  node_bytes(level + 1));
}

/* --- recording ------------------------------------------------------------------- */

static void *child_make(struct av_seg *seg, struct entry *e, unsigned int level)
{
	void *child = get_unmap_child(seg, e, level);

	if (child)
		return child;
	av_node_publish(seg, &e->child, node_bytes(level + 1));
	return get_unmap_child(seg, e, level);
}

static void record(struct av_seg *seg, void *node, unsigned int level, struct av_page_run r,
		   uint64_t moment)
{
	struct leaf *leaf = node;
	struct inner *inner = node;

	for (uint64_t page = r.first; level == LEVELS && page <= r.last; page++)
		atomic_store_explicit(&leaf->page[page % LEAF], moment, memory_order_relaxed);
	for (uint64_t page = r.first; level < LEVELS && page <= r.last;) {
		unsigned int bits = entry_bits(level);
		struct entry *e = &inner->entry[(page >> bits) % INNER];
		struct av_page_run part = clip_page_run(r, page, bits);
		bool whole = part.last - part.first + 1 == 1ull << bits;
		void *child = whole ? NULL : child_make(seg, e, level);

		if (whole)
			atomic_store(&e->all, moment);
		else if (child)
			record(seg, child, level + 1, part, moment);
		atomic_store(&e->any, moment);
		page = part.last + 1;
	}
}

void av_unmapped_record(struct av_seg *seg, uint64_t addr, uint64_t len)
{
	uint64_t moment = atomic_load(&seg->head->odp_seq);
	struct av_page_run r;
	void *root;

	if (!run_of(addr, len, &r))
		return;
	root = av_node_at(seg, atomic_load(&seg->head->unmapped_root), sizeof(struct inner));
	if (!root) {
		av_node_publish(seg, &seg->head->unmapped_root, sizeof(struct inner));
		root = av_node_at(seg, atomic_load(&seg->head->unmapped_root),
				  sizeof(struct inner));
	}
	if (root)
		record(seg, root, 0, r, moment);
}

/* --- looking up ------------------------------------------------------------------ */

static bool since(const struct av_seg *seg, void *node, unsigned int level, struct av_page_run r,
		  uint64_t moment)
{
	struct leaf *leaf = node;
	struct inner *inner = node;

	for (uint64_t page = r.first; level == LEVELS && page <= r.last; page++)
		if (atomic_load_explicit(&leaf->page[page % LEAF], memory_order_relaxed) > moment)
			return true;
	for (uint64_t page = r.first; level < LEVELS && page <= r.last;) {
		unsigned int bits = entry_bits(level);
		struct entry *e = &inner->entry[(page >> bits) % INNER];
		struct av_page_run part = clip_page_run(r, page, bits);
		void *child;

		page = part.last + 1;
		if (atomic_load_explicit(&e->any, memory_order_acquire) <= moment)
			continue;
		if (atomic_load_explicit(&e->all, memory_order_relaxed) > moment)
			return true;
		child = get_unmap_child(seg, e, level);
		if (child && since(seg, child, level + 1, part, moment))
			return true;
	}
	return false;
}

bool av_unmapped_since(const struct av_seg *seg, uint64_t addr, uint64_t len, uint64_t moment)
{
	void *root = av_node_at(
		seg, atomic_load_explicit(&seg->head->unmapped_root, memory_order_acquire),
		sizeof(struct inner));
	struct av_page_run r;

	return root && run_of(addr, len, &r) && since(seg, root, 0, r, moment);
}

bool av_still_mapped_check(const struct av_seg *seg, struct av_key *k, uint64_t addr, uint64_t len)
{
	uint64_t intact = atomic_load_explicit(&k->intact, memory_order_relaxed), now;

	av_odp_settle(seg);
	now = av_unmapped_now(seg);
	if (av_unmapped_since(seg, k->addr, k->length, intact)) {
		if (!av_unmapped_since(seg, addr, len, intact))
			return true;
		av_log(AV_LOG_INFO,
		       "access to %#" PRIx64 " + %" PRIu64
		       " of process %d refused: memory there has been unmapped since its region "
		       "was registered",
		       addr, len, (int)seg->pid);
		return false;
	}
	while (intact < now && !atomic_compare_exchange_weak(&k->intact, &intact, now))
		;
	return true;
}
