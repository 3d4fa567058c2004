/* SPDX-License-Identifier: MIT */
/*
 * The directory: one small shared file per user that says which processes use anyverbs, which
 * contexts they have open, and which context owns a queue-pair number. It is the only thing
 * processes find by name; everything else is reached from it.
 *
 * Where: DIR/anyverbs-UID-LAYOUT/ (mode 0700), DIR being $ANYVERBS_DIR or else the first usable one
 * of /dev/shm, $XDG_RUNTIME_DIR and /tmp. Each context has a folder "cSLOT-GENERATION" in it
 * (segment, FIFOs).
 *
 * Life and death: a process holds a POSIX record lock on the byte of its slot; the kernel drops it
 * when the process ends, however it ends. A slot whose byte is free is dead, and whoever next
 * changes the directory sweeps it: folders removed, numbers freed. The last one to leave removes
 * everything.
 *
 * Identities: a process or context *reference* is generation << AV_REF_SLOT_BITS | slot, never 0,
 * and not used again before 2^20 later occupants of the slot, so that a stale one is recognised.
 *
 * Thread-safety: changes are serialised by a process-wide mutex and a record lock on byte 0 of the
 * file (dropped by the kernel at death as well); look-ups are lock-free reads of single words.
 */
#ifndef AV_REGISTRY_DIRECTORY_H
#define AV_REGISTRY_DIRECTORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/compiler.h"
#include "base/lock.h"

#define AV_LAYOUT \
	20 /* version of everything in shared memory; changes with any change of a layout */
#define AV_REF_SLOT_BITS  12
#define AV_REF_SLOTS	  (1u << AV_REF_SLOT_BITS)
#define AV_REF_SLOT(ref)  ((ref) & (AV_REF_SLOTS - 1))
#define AV_ATOMIC_STRIPES 64
#define AV_ATOMIC_BLOCK \
	32u /* the largest operand: operations of different sizes meet in one lock */

/* A QP number is tag << AV_QPN_INDEX_BITS | index: the tag changes with each reuse of an index. */
#define AV_QPN_INDEX_BITS 17
#define AV_QPN_MASK	  0xffffffu

/* Where the queue pair of a number is: context reference and index in that context's table; ref 0:
 * nowhere.
 */
struct av_qp_location {
	uint32_t ref;
	uint32_t index;
};

/**
 * av_dir_join() - make this process known, or count one more use of it
 *
 * Sets av_lock_self. Also sweeps what dead processes left.
 * Context: any thread; blocks on the directory's lock. Undone by av_dir_leave().
 * Return:  0 or -errno (-EACCES: the folder belongs to somebody else; -ENOSPC; -EUSERS: all slots
 * taken)
 */
AV_MUST_USE int av_dir_join(void);

/* One more use of the directory if this process has joined; else nothing, and false. */
AV_MUST_USE bool av_dir_join_again(void);

/* Undo one av_dir_join(). The last one frees the process slot, and the last process removes the
 * directory. */
void av_dir_leave(void);

/* At process exit: remove this process' traces, whatever is still open. Nothing may be used
 * afterwards. */
void av_dir_abandon(void);

/* True in a process forked from one that had joined, until it joins itself. */
bool av_dir_is_forked_child(void);

/* Is the process behind this reference alive? Costs a system call except for the calling process
 * itself. */
bool av_dir_proc_alive(uint32_t proc);

/**
 * av_dir_context_add() - take a context slot and make its folder
 * @ref:    out, the context's reference
 * Return:  descriptor of the folder (close-on-exec, owned by the caller), or -errno
 */
AV_MUST_USE int av_dir_context_add(uint32_t *ref);

/* Remove a context of this process: folder and all files in it, its QP numbers, its slot. */
void av_dir_context_remove(uint32_t ref);

/* The process that owns a context, or 0 if that context is gone. Lock-free. */
uint32_t av_dir_context_owner(uint32_t ref);

/**
 * av_dir_context_at() - the contexts there are, one after another
 * @slot: in and out; 0 at first
 * Return: the next one's reference, or 0 after the last. Lock-free; the context may end at any
 * time.
 */
uint32_t av_dir_context_at(uint32_t *slot);

/* Descriptor (O_PATH) of a live context's folder, own or peer's; or -errno. */
AV_MUST_USE int av_dir_context_open(uint32_t ref);

/**
 * av_dir_qpn_add() - give a queue pair of this process a number
 * @limit:  number of queue pairs the device may have in all processes together
 * Return:  number (never 0, 1 or 0xffffff), or -ENOMEM
 */
AV_MUST_USE int av_dir_qpn_add(uint32_t ref, uint32_t index, uint32_t limit);
void av_dir_qpn_remove(uint32_t qpn);

/* Where that queue pair is; .ref is 0 if the number is not in use. Lock-free. */
struct av_qp_location av_dir_qpn_find(uint32_t qpn);

/**
 * av_dir_xrcd_open() - open an XRC domain in a context of this process
 * @dev, @ino: of the file that names it; both 0: a private one
 * @oflags:    O_CREAT, O_EXCL as in ibv_open_xrcd(3)
 * Return: its number (> 0), or -EAGAIN (unknown, without O_CREAT), -EINVAL (known, with O_EXCL),
 * -ENOMEM
 */
AV_MUST_USE int av_dir_xrcd_open(uint32_t ref, uint64_t dev, uint64_t ino, int oflags);
void av_dir_xrcd_close(uint32_t ref, uint32_t number);

/**
 * av_dir_dm_take() - count @bytes of device memory as used by a context of this process
 * @limit: bytes that all processes together may use
 * Return: 0 or -ENOMEM. Given back by av_dir_dm_give(), or when the context ends.
 */
AV_MUST_USE int av_dir_dm_take(uint32_t ref, uint64_t bytes, uint64_t limit);
void av_dir_dm_give(uint32_t ref, uint64_t bytes);

/*
 * The lock that makes read-modify-write atomic among all processes (IBV_ATOMIC_HCA), for whatever
 * lies in one aligned block of AV_ATOMIC_BLOCK bytes: one of AV_ATOMIC_STRIPES, chosen by owner and
 * address. Taking it over from a dead process needs no repair.
 */
struct av_lock *av_dir_atomic_lock(pid_t pid, uint64_t addr);

/*
 * Statistics of a device, kept in the directory for all processes: AV_DIR_COUNTERS counters since
 * the device came into being, and AV_DIR_GAUGES gauges per context, which end with it. What they
 * mean is their users' business.
 */
#define AV_DIR_COUNTERS 16
#define AV_DIR_GAUGES	2

/* A device's counters, for the life of the directory; NULL if there are too many devices. The
 * directory is joined. */
_Atomic uint64_t *av_dir_counters(const char *device);

/* The gauges of a context of this process, whose device is @device. */
_Atomic uint64_t *av_dir_gauges(uint32_t ref, const char *device);

/**
 * av_dir_read() - a device's counters and the sums of its gauges, as of now
 *
 * Needs no join: reads the file, if there is one. Without any process that uses the device, all are
 * 0.
 */
void av_dir_read(const char *device, uint64_t counters[AV_DIR_COUNTERS],
		 uint64_t gauges[AV_DIR_GAUGES]);

/**
 * av_dir_contexts() - the contexts of a device whose processes live
 * @refs: out, room for AV_REF_SLOTS
 * Return: their number. Needs no join, as above.
 */
unsigned int av_dir_contexts(const char *device, uint32_t *refs);

/* Path of the directory's folder for messages; "" before the first join. */
const char *av_dir_path(void);

#endif
