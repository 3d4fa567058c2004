/* SPDX-License-Identifier: MIT */
/*
 * Copies that the kernel makes between two processes, and how an owner takes a key back meanwhile.
 *
 * A peer's call reads its remote iovec from the pin (segment/segment.h) when it begins; the owner
 * revokes the key, then empties the iovec (docs/concurrency, handshake 16). Only a call that has
 * already begun still copies: the owner (deferred_free.c) waits for it, unless its thread is
 * stopped: that is before a call or after it, never in one.
 */
#include "memory/region.h"

#include <sys/syscall.h>
#include <unistd.h>

static_assert(sizeof(struct iovec) == 2 * sizeof(uint64_t), "@remote and @bytes of a pin");
static_assert(offsetof(struct av_pin, bytes) == offsetof(struct av_pin, remote) + sizeof(uint64_t),
	      "adjacent");

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

/*
 * This thread is about to copy behind a pin. Return: the call's remote iovec, of @bytes at @remote
 * in the pin owner's process; NULL: revoked, make no call. end_call() in both cases.
 */
static const struct iovec *begin_call(struct av_pin *pin, uint64_t remote, uint64_t bytes)
{
	atomic_store_explicit(&pin->remote, remote, memory_order_relaxed);
	atomic_store_explicit(&pin->bytes, bytes, memory_order_relaxed);
	atomic_store(&pin->tid,
		     this_thread()); /* a full barrier before the revocation is looked at */
	return is_revoked(pin) ? NULL : (const struct iovec *)(const void *)&pin->remote;
}

/* The call has returned. Return: true: the key was revoked, and bytes may not have been copied */
static bool end_call(struct av_pin *pin)
{
	bool ret = is_revoked(pin);

	atomic_store_explicit(&pin->tid, 0, memory_order_release);
	return ret;
}

/*
 * The same for a call with a remote iovec of its own. The owner can revoke it only before this;
 * afterwards the owner waits for end_calls(). Return: false: revoked
 */
static bool begin_calls(struct av_pin *const *pins, size_t count)
{
	bool ret = true;

	for (size_t i = 0; i < count; i++)
		atomic_store(&pins[i]->tid, AV_VM_TOLD_NOTHING); /* as above */
	for (size_t i = 0; i < count; i++)
		ret = !is_revoked(pins[i]) && ret;
	return ret;
}

static bool end_calls(struct av_pin *const *pins, size_t count)
{
	bool ret = false;

	for (size_t i = 0; i < count; i++)
		ret = end_call(pins[i]) || ret;
	return ret;
}

/* Return: 0, or why not, as av_vm_call() */
static int reachable(struct av_seg *seg)
{
	if (!av_seg_alive(seg))
		return -ESRCH;
	if (!seg->same_pidns || atomic_load_explicit(&seg->vm_refused, memory_order_relaxed))
		return -EPERM;
	return 0;
}

static ssize_t call(bool write, const struct av_seg *seg, const struct iovec *local, size_t count,
		    const struct iovec *remote, size_t remote_count)
{
	/* By number: sanitizers would check the program's memory in their wrappers (docs/COPY.md).
	 */
	ssize_t n = syscall(write ? SYS_process_vm_writev : SYS_process_vm_readv, (long)seg->pid,
			    local, count, remote, remote_count, 0UL);

	if (n > 0)
		return n;
	return n == 0 ? -EAGAIN : -errno; /* 0: the remote end has been emptied */
}

ssize_t av_vm_call(bool write, const struct av_vm_remote *remote, const struct iovec *local,
		   size_t count)
{
	ssize_t n = reachable(remote->seg);
	const struct iovec *there;

	if (n)
		return n;
	there = begin_call(remote->pin, remote->addr, remote->bytes);
	if (there)
		n = call(write, remote->seg, local, count, there, 1);
	return end_call(remote->pin) ? -EAGAIN : n;
}

ssize_t av_vm_call_many(bool write, struct av_seg *seg, struct av_pin *const *pins,
			size_t pin_count, const struct iovec *local, size_t count,
			const struct iovec *remote, size_t remote_count)
{
	ssize_t n = reachable(seg);

	if (n)
		return n;
	if (begin_calls(pins, pin_count))
		n = call(write, seg, local, count, remote, remote_count);
	return end_calls(pins, pin_count) ? -EAGAIN : n;
}
