/* SPDX-License-Identifier: MIT */
/* What was unmapped under a region, and how a key is taken back from a peer. */
#ifndef AV_MEMORY_UNMAPPED_H
#define AV_MEMORY_UNMAPPED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/compiler.h"
#include "memory/key.h"
#include "segment/segment.h"

/*
 * The owner of memory takes back a key while a peer is about to copy by a system call.
 *
 * A system call cannot be made to depend on a word of shared memory, but on its arguments: the
 * remote end of process_vm_readv() and process_vm_writev() is read from the pin (segment/layout.h)
 * when the call begins. The peer writes it there, then looks whether the key has been revoked. The
 * owner revokes the key, then empties what it finds there. Both have a full barrier in between. So
 * a peer that has not looked yet sees the revocation, and one that has looked copies nothing. That
 * leaves the peer whose call has begun: it is waited for, unless its thread is stopped. A stopped
 * thread is in no such call, since it stops before one or behind it.
 */

/* --- the peer --------------------------------------------------------------------- */

/**
 * av_revoke_begin() - this thread is about to copy by a system call, behind a pin
 * @remote, @bytes: the memory in the pin's owner
 *
 * Return: what the call takes as its remote end; NULL: the key has been revoked. In both cases
 * av_revoke_end() follows.
 */
AV_MUST_USE const struct iovec *av_revoke_begin(struct av_pin *pin, uint64_t remote,
						uint64_t bytes);

/* The call is over. Return: true: the key had been revoked; bytes may not have been copied */
bool av_revoke_end(struct av_pin *pin);

/*
 * The same for a call whose remote end is in no pin, since it has many, behind @count pins. It can
 * be revoked until here; afterwards the owner waits. Return: false: revoked
 */
AV_MUST_USE bool av_revoke_begin_many(struct av_pin *const *pins, size_t count);
bool av_revoke_end_many(struct av_pin *const *pins, size_t count);

/* --- the owner -------------------------------------------------------------------- */

/*
 * @key of the own context @seg is withdrawn, but used. Keep its users from the program's memory:
 * none of them is in a system call on return, and none will be. Waits for calls under way,
 * AV_PATIENCE_NS at most for each. Return: false: a thread may be stopped in one
 */
AV_MUST_USE bool av_revoke(struct av_seg *seg, uint32_t key);

/* No pin names the key any more, and it may be given out again. */
void av_revoke_forget(struct av_seg *seg, uint32_t key);

/*
 * Has any page under a region that is not ODP been unmapped since the region was registered?
 *
 * An adapter pins pages and keeps using them. We move bytes through virtual addresses, where
 * something else may be mapped by then. So the kernel reports unmappings to us (odp_notify.h), each
 * is recorded with its moment, and an access to a page that was unmapped after its region's
 * registration is refused. docs/DEVIATIONS.md lists what goes unnoticed.
 *
 * A moment is a value of the context's odp_seq, which is odd while unmappings are being recorded. A
 * key remembers the moment up to which its whole range is known to be intact (@intact), so nearly
 * every access is one comparison.
 *
 * Lock-free; any thread of any process may ask, only the owner's listener records.
 */

/* Later than every unmapping. */
#define AV_UNMAPPED_NEVER UINT64_MAX

/* Every earlier unmapping is recorded, every later one gets a greater moment. */
static inline uint64_t av_unmapped_now(const struct av_seg *seg)
{
	return atomic_load_explicit(&seg->head->odp_seq, memory_order_acquire) & ~(uint64_t)1;
}

/* Record that a range has just been unmapped. If the file system is full, nothing is recorded. */
void av_unmapped_record(struct av_seg *seg, uint64_t addr, uint64_t len);

/* Was any page of the range unmapped after @moment? */
bool av_unmapped_since(const struct av_seg *seg, uint64_t addr, uint64_t len, uint64_t moment);

bool av_still_mapped_check(const struct av_seg *seg, struct av_key *k, uint64_t addr, uint64_t len);

/*
 * Is [addr, addr + len) still the memory that the region was registered with? @k: the region's key,
 * or that of a window onto it, kept alive by a pin; the range lies within it.
 * Context: any thread; may wait for the owner's listener (bounded).
 */
static inline bool av_still_mapped(const struct av_seg *seg, struct av_key *k, uint64_t addr,
				   uint64_t len)
{
	uint64_t seq = atomic_load_explicit(&seg->head->odp_seq, memory_order_acquire);

	if (av_likely(seq == atomic_load_explicit(&k->intact, memory_order_relaxed)))
		return true;
	return av_still_mapped_check(seg, k, addr, len);
}

#endif
