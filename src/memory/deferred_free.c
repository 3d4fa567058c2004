/* SPDX-License-Identifier: MIT */
#include "memory/region.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/thread.h"

/* --- revocation: vm.c says how ---------------------------------------------------- */

/* The letter behind the last parenthesis of /proc/TID/stat: proc_pid_stat(5). */
bool av_thread_is_stopped(pid_t tid)
{
	char path[32], line[512];
	const char *state;
	int fd AV_CLOSED = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);
	line[n > 0 ? n : 0] = '\0';
	state = strrchr(line, ')');
	return state && state[1] == ' ' && (state[2] == 'T' || state[2] == 't');
}

/* Is the pin's user in a system call that its owner has not emptied before? */
static bool may_copy(struct av_pin *pin, uint64_t word)
{
	uint32_t tid = atomic_load(&pin->tid);

	return tid && (tid == AV_VM_TOLD_NOTHING || !av_thread_is_stopped((pid_t)tid)) &&
	       atomic_load(&pin->word) == word && av_dir_proc_alive((uint32_t)(word >> 32));
}

static bool revoke_pin(struct av_pin *pin, uint64_t word)
{
	const struct timespec nap = {.tv_nsec = 50000};
	uint64_t until = 0;

	atomic_store(&pin->revoked, (uint32_t)word); /* a barrier before the thread is looked at */
	/* Another key's user at this pin copies nothing then, and tries again: av_vm_call(). */
	atomic_store(&pin->bytes, 0);
	while (may_copy(pin, word)) {
		if (av_timed_out(&until))
			return false;
		nanosleep(&nap, NULL);
	}
	return true;
}

/*
 * Revoke the withdrawn @key, which peers still use. Waits AV_PEER_TIMEOUT_NS at most for each pin's
 * call under way. Return: true: none is in, or begins, a system call on the program's memory
 */
static bool revoke_key(struct av_seg *seg, uint32_t key)
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

/* End the revocation before the key's index is reused: no pin names it any more. */
static void forget_revocation(struct av_seg *seg, uint32_t key)
{
	for (uint32_t i = 0; i < AV_PINS; i++) {
		uint32_t revoked = key;

		atomic_compare_exchange_strong(&seg->head->pin[i].revoked, &revoked, 0);
	}
}

/* One ended region. Several may have led to the same memory. */
struct deferred {
	LIST_ENTRY(deferred) entry;
	struct av_seg *seg;
	uint32_t key;
	uint64_t leads_to;	/* what has to stay: an offset in it, which is a block of pages,
				   a part of the shared heap, the list of a UMR key, or device
				   memory; 0: nothing */
	uint64_t memory, bytes; /* of the segment, to be freed with it; 0: none */
	bool settled;		/* its end is over */
};

static struct {
	pthread_mutex_t mutex;
	LIST_HEAD(, deferred) list;
	_Atomic uint32_t count; /* almost always 0: then nobody takes the mutex */
} all = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* All of it is the parent's. */
static void reset_deferred_in_child(void)
{
	LIST_INIT(&all.list);
	atomic_store(&all.count, 0);
}

static const struct av_fork_handlers fork_handlers = {.mutex = &all.mutex,
						      .child = reset_deferred_in_child};

typedef bool chosen(const struct deferred *l, uint64_t what);

static bool is_key(const struct deferred *l, uint64_t key)
{
	return l->key == key;
}

static bool leads_to(const struct deferred *l, uint64_t offset)
{
	return l->leads_to == offset;
}

static bool is_used_and_leads_to(const struct deferred *l, uint64_t offset)
{
	return l->leads_to == offset && av_pin_is_held(l->seg, l->key);
}

static bool is_deferred_unused(const struct deferred *l, uint64_t unused)
{
	return l->settled && !av_pin_is_held(l->seg, l->key);
}

static bool is_any(const struct deferred *l, uint64_t unused)
{
	return true;
}

/* The mutex is held; also below. */
static struct deferred *find_deferred(const struct av_seg *seg, chosen *is, uint64_t what)
{
	struct deferred *l;

	LIST_FOREACH(l, &all.list, entry)
		if (l->seg == seg && is(l, what))
			return l;
	return NULL;
}

/* Leave memory to a key that leads into it. Return: false: there is none */
static bool bequeath(const struct av_seg *seg, uint64_t memory, uint64_t bytes)
{
	struct deferred *l;

	LIST_FOREACH(l, &all.list, entry)
		if (l->seg == seg && l->leads_to && l->leads_to - memory < bytes) {
			l->memory = memory;
			l->bytes = bytes;
			return true;
		}
	return false;
}

/* What is still used by another is left to that one. */
static void unlink_deferred(struct deferred *l)
{
	LIST_REMOVE(l, entry);
	atomic_fetch_sub(&all.count, 1);
	if (l->memory && bequeath(l->seg, l->memory, l->bytes))
		l->memory = 0;
}

/* Defer the free of the key's entry, and of what it leads to. Return: false: memory is short */
static bool begin_deferral(struct av_seg *seg, uint32_t key, uint64_t leads_to)
{
	struct deferred *l = calloc(1, sizeof(*l));

	if (!l || av_fork_register(AV_FORK_DEFERRED, &fork_handlers)) {
		free(l);
		return false;
	}
	*l = (struct deferred){.seg = seg, .key = key, .leads_to = leads_to};
	AV_LOCKED(&all.mutex);
	LIST_INSERT_HEAD(&all.list, l, entry);
	atomic_fetch_add(&all.count, 1);
	return true;
}

static struct deferred *pop_deferred(const struct av_seg *seg, chosen *is, uint64_t what)
{
	struct deferred *l;

	if (av_likely(atomic_load(&all.count) == 0))
		return NULL;
	AV_LOCKED(&all.mutex);
	l = find_deferred(seg, is, what);
	if (l)
		unlink_deferred(l);
	return l;
}

/* Nothing of the key has been freed since. */
static void cancel_deferral(struct av_seg *seg, uint32_t key)
{
	free(pop_deferred(seg, is_key, key));
}

bool av_deferred_key(struct av_seg *seg, uint32_t key)
{
	const struct av_key *k = av_key_entry(seg, key);
	const struct av_kind *kind = av_kind_of(atomic_load(&k->kind));
	uint64_t leads_to;

	if (!kind->defer || !kind->defer(seg, k, &leads_to) || !begin_deferral(seg, key, leads_to))
		return false;
	if (revoke_key(seg, key))
		return true;
	forget_revocation(seg, key);
	cancel_deferral(seg, key);
	return false;
}

/* @key: out, if it is not NULL */
static bool has_deferred(struct av_seg *seg, chosen *is, uint64_t what, uint32_t *key)
{
	const struct deferred *l;

	if (av_likely(atomic_load(&all.count) == 0))
		return false;
	AV_LOCKED(&all.mutex);
	l = find_deferred(seg, is, what);
	if (l && key)
		*key = l->key;
	return l != NULL;
}

bool av_deferred_has_key(struct av_seg *seg, uint32_t key)
{
	return has_deferred(seg, is_key, key, NULL);
}

bool av_deferred_leads_to(struct av_seg *seg, uint64_t offset)
{
	return has_deferred(seg, leads_to, offset, NULL);
}

void av_deferred_wait(struct av_seg *seg, uint64_t offset)
{
	uint32_t key;

	while (has_deferred(seg, is_used_and_leads_to, offset, &key) && av_pin_drain(seg, key))
		;
}

void av_deferred_free(struct av_seg *seg, uint64_t offset, uint64_t bytes)
{
	bool left = false;

	if (av_unlikely(atomic_load(&all.count))) {
		AV_LOCKED(&all.mutex);
		left = bequeath(seg, offset, bytes);
	}
	if (!left)
		av_seg_free(seg, offset, bytes);
}

void av_deferred_settle(struct av_seg *seg, uint32_t key)
{
	struct deferred *l;

	if (av_likely(atomic_load(&all.count) == 0))
		return;
	AV_LOCKED(&all.mutex);
	l = find_deferred(seg, is_key, key);
	if (l)
		l->settled = true;
}

void av_deferred_sweep(struct av_seg *seg)
{
	struct deferred *l;

	while ((l = pop_deferred(seg, is_deferred_unused, 0))) {
		av_seg_free(seg, l->memory, l->bytes);
		forget_revocation(seg, l->key);
		av_slab_free(seg, AV_SLAB_KEY, AV_KEY_INDEX(l->key));
		free(l);
	}
}

void av_deferred_forget(struct av_seg *seg)
{
	struct deferred *l;

	while ((l = pop_deferred(seg, is_any, 0)))
		free(l);
}
