/* SPDX-License-Identifier: MIT */
#include "memory/recall.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/lock.h"
#include "base/patience.h"
#include "base/uncancelled.h"
#include "registry/directory.h"

#define NOT_TOLD UINT32_MAX /* as a thread: its call cannot be recalled any more */

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

static bool is_recalled(struct av_pin *pin)
{
	return atomic_load(&pin->recalled) == (uint32_t)atomic_load(&pin->word);
}

const struct iovec *av_recall_begin(struct av_pin *pin, uint64_t remote, uint64_t bytes)
{
	atomic_store_explicit(&pin->remote, remote, memory_order_relaxed);
	atomic_store_explicit(&pin->bytes, bytes, memory_order_relaxed);
	atomic_store(&pin->tid, this_thread()); /* a full barrier before the recall is looked at */
	return is_recalled(pin) ? NULL : (const struct iovec *)(const void *)&pin->remote;
}

bool av_recall_end(struct av_pin *pin)
{
	bool ret = is_recalled(pin);

	atomic_store_explicit(&pin->tid, 0, memory_order_release);
	return ret;
}

bool av_recall_begin_many(struct av_pin *const *pins, size_t count)
{
	bool ret = true;

	for (size_t i = 0; i < count; i++)
		atomic_store(&pins[i]->tid, NOT_TOLD); /* as above */
	for (size_t i = 0; i < count; i++)
		ret = !is_recalled(pins[i]) && ret;
	return ret;
}

bool av_recall_end_many(struct av_pin *const *pins, size_t count)
{
	bool ret = false;

	for (size_t i = 0; i < count; i++)
		ret = av_recall_end(pins[i]) || ret;
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

static bool recall(struct av_pin *pin, uint64_t word)
{
	const struct timespec nap = {.tv_nsec = 50000};
	uint64_t until = 0;

	atomic_store(&pin->recalled, (uint32_t)word); /* a barrier before the thread is looked at */
	/*
	 * If the pin has been put, and another key's user set one here, then that one's call copies
	 * nothing, and is done again: av_vm_call().
	 */
	atomic_store(&pin->bytes, 0);
	while (may_copy(pin, word)) {
		if (!av_patient(&until))
			return false;
		nanosleep(&nap, NULL);
	}
	return true;
}

bool av_recall(struct av_seg *seg, uint32_t key)
{
	AV_UNCANCELLED;
	bool ret = true;

	for (uint32_t i = 0; i < AV_PINS; i++) {
		struct av_pin *pin = &seg->head->pin[i];
		uint64_t word = atomic_load(&pin->word);

		if (word && (uint32_t)word == key)
			ret = recall(pin, word) && ret;
	}
	return ret;
}

void av_recall_forget(struct av_seg *seg, uint32_t key)
{
	for (uint32_t i = 0; i < AV_PINS; i++) {
		uint32_t recalled = key;

		atomic_compare_exchange_strong(&seg->head->pin[i].recalled, &recalled, 0);
	}
}
