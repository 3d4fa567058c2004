/* SPDX-License-Identifier: MIT */
/*
 * The directory: one small shared file per user. It says which processes use anyverbs, which
 * contexts they have open, and which context owns a queue pair number. It is the only thing that
 * processes find by name: everything else is reached from it.
 *
 * Place: DIR/anyverbs-UID-LAYOUT/ (mode 0700). DIR is $ANYVERBS_DIR, or else the first usable one
 * of /dev/shm, $XDG_RUNTIME_DIR and /tmp. Each context has a folder "cSLOT-GENERATION" in it, with
 * its segment and its FIFOs.
 *
 * Life and death: a process holds a POSIX record lock on the byte of its slot. The kernel drops it
 * when the process ends in any way, so a slot whose byte is not locked is dead. Whoever changes the
 * directory next sweeps it: removes the folders and frees the numbers. The last process to leave
 * removes everything.
 *
 * References: a process or a context is referred to by generation << AV_REF_SLOT_BITS | slot. This
 * is never 0, and not repeated before 2^20 later users of the slot, so that a stale reference is
 * recognised.
 *
 * Locks: a mutex of the process and a record lock on byte 0 of the file serialise changes. The
 * kernel drops this lock at death as well. Look-ups read single words without a lock.
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
#define AV_ATOMIC_STRIPES 64
#define AV_ATOMIC_BLOCK	  32u /* the largest operand: all sizes use the same locks */

/*
 * A QP number is tag << AV_QPN_INDEX_BITS | index. The tag changes whenever an index is used again.
 */
#define AV_QPN_INDEX_BITS 17
#define AV_QPN_MASK	  0xffffffu

/*
 * The queue pair of a number: its context's reference and its index in that context's table. ref 0:
 * there is none.
 */
struct av_qp_location {
	uint32_t ref;
	uint32_t index;
};

struct av_totals;

/*
 * Adds the counts of a context to @sum. @folder is the directory's and still has the context's
 * folder.
 */
typedef void av_dir_count(int folder, uint32_t ref, struct av_totals *sum);

/**
 * av_dir_join() - make this process known, or count one more use of it
 * @count: called for each context whose end this process sees to; NULL: their counts are dropped.
 *         That of the first join is used until the last leave.
 *
 * Sets av_lock_self. Sweeps what dead processes left. Undone by av_dir_leave().
 * Context: any thread; blocks on the directory's lock
 * Return: 0 or -errno. -EACCES: the folder belongs to another user; -ENOSPC; -EUSERS: no free slot
 */
AV_MUST_USE int av_dir_join(av_dir_count *count);

/*
 * Count one more use of the directory if this process has joined it. Return: false if it has not.
 */
AV_MUST_USE bool av_dir_join_again(void);

/*
 * Undo one av_dir_join(). The last one frees the slot of the process. The last process removes the
 * directory.
 */
void av_dir_leave(void);

/*
 * Called at the exit of the process: remove its traces, whatever is still open. Nothing of the
 * directory may be used afterwards.
 */
void av_dir_abandon(void);

/*
 * Is the process behind this reference alive? Costs a system call, unless it is the caller itself.
 */
bool av_dir_proc_alive(uint32_t proc);

/**
 * av_dir_context_add() - take a context slot and make its folder
 * @ref: out, the context's reference
 *
 * Return: descriptor of the folder (close-on-exec, owned by the caller), or -errno
 */
AV_MUST_USE int av_dir_context_add(uint32_t *ref);

/* Remove a context of this process: its folder with all files, its QP numbers, its slot. */
void av_dir_context_remove(uint32_t ref);

/* The process that owns a context, or 0 if the context is gone. Lock-free. */
uint32_t av_dir_context_owner(uint32_t ref);

/**
 * av_dir_context_at() - walk the contexts
 * @slot: in and out, 0 to begin
 *
 * Lock-free. The context may end at any time.
 * Return: the reference of the next context, or 0 after the last
 */
uint32_t av_dir_context_at(uint32_t *slot);

/*
 * Open the folder of a live context, of this process or of another. Return: O_PATH descriptor or
 * -errno.
 */
AV_MUST_USE int av_dir_context_open(uint32_t ref);

/**
 * av_dir_qpn_add() - give a queue pair of this process a number
 * @limit: number of queue pairs that the device may have in all processes together
 *
 * Return: the number (never 0, 1 or 0xffffff), or -ENOMEM
 */
AV_MUST_USE int av_dir_qpn_add(uint32_t ref, uint32_t index, uint32_t limit);
void av_dir_qpn_remove(uint32_t qpn);

/* Where the queue pair with this number is; .ref is 0 if the number is not in use. Lock-free. */
struct av_qp_location av_dir_qpn_find(uint32_t qpn);

/* Is this the number of a queue pair that is gone? The index may not have been used since. */
bool av_dir_qpn_ended(uint32_t qpn);

/**
 * av_dir_xrcd_open() - open an XRC domain in a context of this process
 * @dev, @ino: of the file that names it; both 0: a private one
 * @oflags:    O_CREAT, O_EXCL as in ibv_open_xrcd(3)
 *
 * Return: its number (> 0), or -EAGAIN (unknown, without O_CREAT), -EINVAL (known, with O_EXCL),
 * -ENOMEM
 */
AV_MUST_USE int av_dir_xrcd_open(uint32_t ref, uint64_t dev, uint64_t ino, int oflags);
void av_dir_xrcd_close(uint32_t ref, uint32_t number);

/**
 * av_dir_dm_take() - count @bytes of device memory as used by a context of this process
 * @limit: bytes that all processes together may use
 *
 * Given back by av_dir_dm_give(), or at the end of the context.
 * Return: 0 or -ENOMEM
 */
AV_MUST_USE int av_dir_dm_take(uint32_t ref, uint64_t bytes, uint64_t limit);
void av_dir_dm_give(uint32_t ref, uint64_t bytes);

/*
 * The lock that makes read-modify-write atomic among all processes (IBV_ATOMIC_HCA) in one aligned
 * block of AV_ATOMIC_BLOCK bytes. Owner and address choose one of AV_ATOMIC_STRIPES locks. A lock
 * taken over from a dead process needs no repair.
 */
struct av_lock *av_dir_atomic_lock(pid_t pid, uint64_t addr);

/*
 * Statistics of a device that all processes share. Its AV_DIR_COUNTERS counters last as long as the
 * directory; the AV_DIR_GAUGES gauges of a context end with the context. Only their users know what
 * they mean.
 */
#define AV_DIR_COUNTERS 16
#define AV_DIR_GAUGES	2

/*
 * The counters of a device; NULL if there are too many devices. They last as long as the directory.
 *
 * Context: the directory is joined.
 */
_Atomic uint64_t *av_dir_counters(const char *device);

/* The gauges of a context of this process on @device. */
_Atomic uint64_t *av_dir_gauges(uint32_t ref, const char *device);

/**
 * av_dir_read() - the counters of a device and the sums of its gauges, as of now
 *
 * The process need not have joined: the file is read if there is one. All are 0 if no process uses
 * the device.
 */
void av_dir_read(const char *device, uint64_t counters[AV_DIR_COUNTERS],
		 uint64_t gauges[AV_DIR_GAUGES]);

/**
 * av_dir_contexts() - the contexts of a device whose processes live
 * @refs: out, room for AV_REF_SLOTS
 *
 * The process need not have joined.
 * Return: their number
 */
unsigned int av_dir_contexts(const char *device, uint32_t *refs);

#endif
