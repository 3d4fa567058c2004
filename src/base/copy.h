/* SPDX-License-Identifier: MIT */
/*
 * The copy routine for memory that belongs to the program.
 *
 * Three things distinguish it from memcpy:
 *  - Order: bytes become visible in ascending address order and the last (partial) word is stored last, with
 *    release; programs poll the last byte of an RDMA WRITE. An aligned 8-byte word of the destination is stored
 *    whole whenever its 8 source bytes are copied whole, never torn.
 *  - Faults are answers: an address that is unmapped, protected or lies beyond the end of its file ends the copy
 *    with AV_COPY_FAULT instead of a signal to the program.
 *  - Nothing but the two ranges is read or written (a destination's neighbours are never rewritten).
 *
 * How a fault is caught: a SIGSEGV and SIGBUS handler that acts only while the calling thread is inside this
 * routine (a thread-local mark) and otherwise passes the signal on to whatever handler was there before. Where the
 * program has since replaced the handler, or blocks the signals in this thread, av_copy() uses process_vm_readv()
 * on its own process instead: slower, equally safe. See docs/COPY.md.
 */
#ifndef AV_BASE_COPY_H
#define AV_BASE_COPY_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

enum av_copy_result {
	AV_COPY_OK = 0,
	AV_COPY_FAULT = -1, /* some byte of a range could not be accessed; bytes before it may have been copied */
};

/**
 * av_copy_init() - install the fault handler if it is not installed
 *
 * Context: any thread, any number of times; serialised inside. Not async-signal-safe. Called before the first copy
 *          (registration of memory does it); av_copy() works without it, by the slow path.
 * Return:  0, or -errno (the slow path then serves)
 */
int av_copy_init(void);

/**
 * av_copy() - copy @len bytes from @src to @dst, both in this process, in ascending order
 *
 * Context: any thread; may wait for pages; the caller holds no lock another thread needs to make progress.
 *          The ranges may overlap only if dst <= src.
 * Return:  AV_COPY_OK, or AV_COPY_FAULT
 */
AV_MUST_USE enum av_copy_result av_copy(void *dst, const void *src, size_t len);

/**
 * av_copy_probe() - can this byte be read (and with @write non-zero, written back unchanged) without a fault?
 *
 * @write probes with an atomic add of zero, so that a concurrent writer's store is never lost.
 * Return:  AV_COPY_OK or AV_COPY_FAULT
 */
AV_MUST_USE enum av_copy_result av_copy_probe(const void *addr, int write);

/*
 * 8-byte atomic operations on this process' own memory, with the same protection against faults as av_copy().
 * @addr is 8-byte aligned (the caller has checked). The original value is stored to *old. Sequentially consistent.
 */
AV_MUST_USE enum av_copy_result av_copy_fetch_add(void *addr, uint64_t add, uint64_t *old);
AV_MUST_USE enum av_copy_result av_copy_cmp_swap(void *addr, uint64_t compare, uint64_t swap, uint64_t *old);

#endif
