/* SPDX-License-Identifier: MIT */
/*
 * The owner of memory takes back a key while a peer is about to copy by a system call.
 *
 * A system call cannot be made to depend on a word of shared memory, but on its arguments: the
 * remote end of process_vm_readv() and process_vm_writev() is read from the pin (segment/layout.h)
 * when the call begins. The peer writes it there, then looks whether the key has been recalled. The
 * owner recalls the key, then empties what it finds there. Both have a full barrier in between. So
 * a peer that has not looked yet sees the recall, and one that has looked copies nothing. That
 * leaves the peer whose call has begun: it is waited for, unless its thread is stopped. A stopped
 * thread is in no such call, since it stops before one or behind it.
 */
#ifndef AV_MEMORY_RECALL_H
#define AV_MEMORY_RECALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/compiler.h"
#include "segment/segment.h"

/* --- the peer --------------------------------------------------------------------- */

/**
 * av_recall_begin() - this thread is about to copy by a system call, behind a pin
 * @remote, @bytes: the memory in the pin's owner
 *
 * Return: what the call takes as its remote end; NULL: the key has been recalled. In both cases
 * av_recall_end() follows.
 */
AV_MUST_USE const struct iovec *av_recall_begin(struct av_pin *pin, uint64_t remote,
						uint64_t bytes);

/* The call is over. Return: true: the key had been recalled; bytes may not have been copied */
bool av_recall_end(struct av_pin *pin);

/*
 * The same for a call whose remote end is in no pin, since it has many, behind @count pins. It can
 * be recalled until here; afterwards the owner waits. Return: false: recalled
 */
AV_MUST_USE bool av_recall_begin_many(struct av_pin *const *pins, size_t count);
bool av_recall_end_many(struct av_pin *const *pins, size_t count);

/* --- the owner -------------------------------------------------------------------- */

/*
 * @key of the own context @seg is withdrawn, but used. Keep its users from the program's memory:
 * none of them is in a system call on return, and none will be. Waits for calls under way,
 * AV_PATIENCE_NS at most for each. Return: false: a thread may be stopped in one
 */
AV_MUST_USE bool av_recall(struct av_seg *seg, uint32_t key);

/* No pin names the key any more, and it may be given out again. */
void av_recall_forget(struct av_seg *seg, uint32_t key);

#endif
