/* SPDX-License-Identifier: MIT */
/*
 * The directory: one small shared file per user, the only thing that processes find by name. It
 * says which processes use anyverbs, which contexts they have open, and which owns a queue pair
 * number.
 *
 * Place: DIR/anyverbs-UID-LAYOUT/ (mode 0700). DIR is $ANYVERBS_DIR, or else the first usable one
 * of /dev/shm, $XDG_RUNTIME_DIR and /tmp. Each context has a folder "cSLOT-GENERATION" in it, with
 * its segment and its FIFOs; a process that receives packets, a socket "pSLOT-GENERATION".
 *
 * Life and death: a process holds a record lock on the byte of its slot, which the kernel drops
 * when it ends in any way. It is a lock of the open file (F_OFD_SETLK), so that it does not go when
 * the program closes another descriptor of that file; a forked child closes what it inherits.
 * Whoever joins or leaves next sweeps the dead: removes their folders and frees their numbers. The
 * last process to leave removes everything: it locks the bytes of all slots, so that nobody joins.
 * What devices have counted stays, in a small file (av_dir_counts_keep()), and the record of
 * failures (observe/flight.h).
 *
 * References to a process or a context are generation << AV_REF_SLOT_BITS | slot: never 0, and not
 * repeated before 2^20 later users of the slot, so that a stale one is recognised.
 *
 * Locks: a process that is stopped (SIGSTOP, a debugger) stops nobody. So it claims its slot by the
 * record lock, and rows of contexts and numbers by compare-and-swap. A mutex of the process and a
 * record lock on byte 0 serialise all other changes; who cannot have it soon fails, or leaves the
 * work to the next one. Look-ups read single words without a lock.
 */
#ifndef AV_REGISTRY_DIRECTORY_H
#define AV_REGISTRY_DIRECTORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/compiler.h"
#include "base/lock.h"

#define AV_REF_SLOT_BITS  12
#define AV_REF_SLOTS	  (1u << AV_REF_SLOT_BITS)
#define AV_REF_SLOT(ref)  ((ref) & (AV_REF_SLOTS - 1))
#define AV_ATOMIC_STRIPES 16  /* of each process */
#define AV_ATOMIC_BLOCK	  32u /* the largest operand: all sizes use the same locks */

/* A QP number is tag << AV_QPN_INDEX_BITS | index. Each use of an index has another tag. */
#define AV_QPN_INDEX_BITS 17
#define AV_QPN_MASK	  0xffffffu
#define AV_QPN_INDEX(qpn) ((qpn) & ((1u << AV_QPN_INDEX_BITS) - 1))

/* Indices close together are one block: what the kernel is told of (registry/reuseport.h). */
#define AV_QPN_BLOCK_BITS 4
#define AV_QPN_BLOCKS	  (1u << (AV_QPN_INDEX_BITS - AV_QPN_BLOCK_BITS))
#define AV_QPN_BLOCK(qpn) (AV_QPN_INDEX(qpn) >> AV_QPN_BLOCK_BITS)

/* Its context's reference (0: none) and its index in that context's table. */
struct av_qp_location {
	uint32_t ref;
	uint32_t index;
};

struct av_totals;

/* Adds the counts of a context, still with its folder in the directory's @folder, to @sum. */
typedef void av_dir_count(int folder, uint32_t ref, struct av_totals *sum);

/*
 * Make this process known, or count one more use of it (av_dir_leave()). Sets av_lock_self. Sweeps
 * what dead processes left. @count: for each context whose end this process sees to; NULL: counts
 * are dropped. That of the first join is used until the last leave.
 * Context: any thread; waits briefly for others.
 * Return: 0 or -errno. -EACCES: the folder belongs to another user; -ENOSPC; -EUSERS: no free slot
 */
AV_MUST_USE int av_dir_join(av_dir_count *count);

/* Count one more use if this process has joined. Return: false if it has not. */
AV_MUST_USE bool av_dir_join_again(void);

/* Undo one join. The last one frees the slot; the last process removes the directory. */
void av_dir_leave(void);

/* At the exit of the process: remove its traces. Nothing works afterwards. */
void av_dir_abandon(void);

/* Does the process live? Costs a system call, unless it is the caller itself. */
bool av_dir_proc_alive(uint32_t proc);

/* The process that has that slot now; 0: none. Lock-free. */
uint32_t av_dir_proc_at(uint32_t slot);

/* The PID of a process in its own namespace; 0: there is no such process. */
pid_t av_dir_proc_pid(uint32_t proc);

/* Take a slot (@ref: out) and make its folder. Return: descriptor (close-on-exec) or -errno. */
AV_MUST_USE int av_dir_context_add(uint32_t *ref);

/*
 * Remove a context of this process: its folder with all files, its QP numbers, its slot. While
 * somebody is in a change, the folder and the slot stay until the next sweep.
 */
void av_dir_context_remove(uint32_t ref);

/* The process that owns a context, or 0 if the context is gone. Lock-free. */
uint32_t av_dir_context_owner(uint32_t ref);

/* The next context at or after @slot (in and out), or 0; each may end at any time. Lock-free. */
uint32_t av_dir_context_at(uint32_t *slot);

/* The name of a context's folder: printf() format and arguments. */
#define AV_CONTEXT_NAME		"c%u-%u"
#define AV_CONTEXT_NAME_OF(ref) AV_REF_SLOT(ref), (ref) >> AV_REF_SLOT_BITS

/* The path of that folder while joined. Return: false: it is too long */
AV_MUST_USE bool av_dir_context_path(uint32_t ref, char *name, size_t size);

/* The memory of a context, as its process has it open (segment/handout.h). @ino: 0: none */
struct av_dir_memory {
	pid_t pid;
	int number;
	uint64_t ino;
};

/* Say so of a context of this process. */
void av_dir_context_set_memory(uint32_t ref, int number, uint64_t ino);

struct av_dir_file;
struct av_dir_memory av_dir_context_memory(const struct av_dir_file *d, uint32_t ref);

/*
 * Open the file @name in the folder of a context; @dir: where that folder is, av_dir_folder() while
 * joined. @flags: as for open(2), of a file that exists; a link is none.
 * Return: close-on-exec descriptor, or -1 and errno
 */
AV_MUST_USE int av_dir_context_open(int dir, uint32_t ref, const char *name, int flags);

/* Return: the number (never 0, 1 or 0xffffff), or -ENOMEM: beyond @limit in all processes. */
AV_MUST_USE int av_dir_qpn_add(uint32_t ref, uint32_t index, uint32_t limit);
void av_dir_qpn_remove(uint32_t qpn);

/* Where the queue pair with this number is; .ref is 0 if the number is not in use. Lock-free. */
struct av_qp_location av_dir_qpn_find(uint32_t qpn);

/* Is this the number of a queue pair that is gone? The index may not have been used since. */
bool av_dir_qpn_ended(uint32_t qpn);

/*
 * Open an XRC domain in a context of this process. @dev, @ino: of the file that names it; both 0: a
 * private one. @oflags: O_CREAT, O_EXCL as in ibv_open_xrcd(3). Return: its number (> 0), or
 * -EAGAIN (unknown, without O_CREAT), -EINVAL (known, with O_EXCL), -ENOMEM, -EBUSY.
 */
AV_MUST_USE int av_dir_xrcd_open(uint32_t ref, uint64_t dev, uint64_t ino, int oflags);
void av_dir_xrcd_close(uint32_t ref, uint32_t number);

/* What all processes of a user share, so that there is a limit. */
enum av_dir_limited { AV_DIR_NUMBERS, AV_DIR_DM_BYTES, AV_DIR_LIMITED_N };

/*
 * Use @amount more of it, in a context of this process, until its end. Two processes that ask for
 * the last of it at once may both be refused. Return: 0 or -ENOMEM: beyond @limit
 */
AV_MUST_USE int av_dir_use(uint32_t ref, enum av_dir_limited what, uint64_t amount, uint64_t limit);
void av_dir_unuse(uint32_t ref, enum av_dir_limited what, uint64_t amount);

/* How much of it all living processes use. */
uint64_t av_dir_used(enum av_dir_limited what);

/*
 * Makes read-modify-write atomic among all processes in one aligned block of AV_ATOMIC_BLOCK bytes
 * (IBV_ATOMIC_HCA). @owner: reference of the process whose memory it is; for pages of the library,
 * of the context that they belong to. Others have other locks: whoever is stopped while it holds
 * one is noticed only by peers of that process. One taken over from a dead process needs no repair.
 */
struct av_dir_stripe {
	struct av_lock lock;
	_Atomic uint32_t taken; /* how often; counted by its holder before it changes anything */
};
struct av_dir_stripe *av_dir_stripe(uint32_t owner, uint64_t addr);

/*
 * Statistics of a device that all processes share: counters, which outlive the directory, and
 * gauges of a context, which end with it. Only their users know what they mean.
 */
#define AV_DIR_COUNTERS 16
#define AV_DIR_GAUGES	2

/* NULL if there are too many devices. Context: the directory is joined. */
_Atomic uint64_t *av_dir_counters(const char *device);

/*
 * All that the device has counted so far counts as 0 from now on, also what its contexts have.
 * Context: within a change.
 */
void av_dir_counters_reset(const char *device);

_Atomic uint64_t *av_dir_gauges(uint32_t ref, const char *device);

/* The counters and the sums of the gauges, now; 0 if nobody uses it. Needs no joining. */
void av_dir_read(const char *device, uint64_t counters[AV_DIR_COUNTERS],
		 uint64_t gauges[AV_DIR_GAUGES]);

/*
 * How often devices have failed, all contexts of all processes together: whether something began
 * before or after a failure is seen by its number. av_dir_failures_add(): one more. Return: the
 * number, never 0. Context: joined; lock-free
 */
uint32_t av_dir_failures(void);
uint32_t av_dir_failures_add(void);

/* Contexts whose processes live: @refs has room for AV_REF_SLOTS. Needs no joining. */
unsigned int av_dir_contexts(const char *device, uint32_t *refs);

#endif
