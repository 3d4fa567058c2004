/* SPDX-License-Identifier: MIT */
/*
 * Threads that touch a range wait until its pages are there: userfaultfd, for faults of the
 * kernel's, too, so that a system call that is given an address of the range waits and does not
 * fail. That takes CAP_SYS_PTRACE, vm.unprivileged_userfaultfd or a /dev/userfaultfd that may be
 * opened, and Linux 6.8.
 *
 * Who holds a range must not touch it, nor wait for anybody who may: no lock, no heap. Pages are
 * moved by the kernel, one whole page table entry at a time: a store is in the page before it
 * moves, or waits. A page that a device or another process is being served into (pinned) does not
 * move.
 */
#ifndef AV_MEMORY_HOLD_H
#define AV_MEMORY_HOLD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

/* May this process hold ranges at all? Asked of the kernel once. Context: any thread */
bool av_hold_possible(void);

/* A descriptor for one range. Its threads that discard some of it, or move it, wait until
 * av_hold_events() has heard of that. Return: -1: refused */
int av_hold_open(void);

/* From now on pages of private memory that are absent are waited for. Return: false: not memory
 * that can be held */
AV_MUST_USE bool av_hold_begin(int fd, uint64_t addr, uint64_t bytes);

/* No more; who waits goes on, with zeros where there is nothing. */
void av_hold_end(int fd, uint64_t addr, uint64_t bytes);

/**
 * av_hold_shift() - move what pages there are to a range that is held and empty
 * @maps: descriptor of /proc/self/maps
 * @moved: bytes of the range that have been seen to
 *
 * Neither range need be one mapping. Return: false: a page is pinned or shared with a child, or
 * somebody discards part of it: the rest is where it was
 */
AV_MUST_USE bool av_hold_shift(int fd, int maps, uint64_t to, uint64_t from, uint64_t bytes,
			       uint64_t *moved);

/* The same of pages that nobody else knows, and with whatever it takes. What others discard
 * meanwhile is not filled in. */
void av_hold_fill(int fd, int maps, uint64_t to, uint64_t from, uint64_t bytes);

/* What is heard: [addr, addr + bytes) is being discarded. */
typedef void av_hold_discard(void *arg, uint64_t addr, uint64_t bytes);

/* Hear of everything that is outstanding: what waited for that goes on. */
void av_hold_events(int fd, av_hold_discard *discard, void *arg);

/* A thread that moves a mapping, since somebody else must hear of it meanwhile. @fresh, @addr and
 * @bytes are given. */
struct av_hold_mover {
	unsigned long thread;
	uint64_t fresh, addr, bytes;
	_Atomic int state;
};

/* Start it, until it needs nothing any more; to be ended by av_hold_mover_end(), while no range is
 * held. */
AV_MUST_USE bool av_hold_mover_start(struct av_hold_mover *mover);
void av_hold_mover_end(struct av_hold_mover *mover);

/**
 * av_hold_replace() - have @fresh, held and empty, take the place of what is mapped at @addr, in
 * one step
 * @fd: @fresh is held by it, and afterwards @addr is
 * @discard: hears of what is discarded there meanwhile
 *
 * Once for a mover. Return: false: nothing has changed
 */
AV_MUST_USE bool av_hold_replace(int fd, struct av_hold_mover *mover, av_hold_discard *discard,
				 void *arg);

#endif
