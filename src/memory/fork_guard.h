/* SPDX-License-Identifier: MIT */
/*
 * Registered memory that a child of fork() does not get.
 *
 * Where pages are pinned and the kernel does not copy pinned pages at fork(), libibverbs keeps
 * registered memory out of children (madvise(2), MADV_DONTFORK), as told by ibv_fork_init(3). Ours
 * is not pinned, and children get all of their memory. With ANYVERBS_FORK=dontfork it is done all
 * the same, so that a program can be tried for hosts that need it, and the codes of ibv_rereg_mr(3)
 * that speak of it have their meaning.
 *
 * A page is guarded for as long as a region covers it. Thread-safe; blocks on a mutex and in the
 * kernel.
 */
#ifndef AV_MEMORY_FORK_GUARD_H
#define AV_MEMORY_FORK_GUARD_H

#include <stdint.h>

#include "base/compiler.h"

/**
 * av_fork_guard() - one region more covers a range of this process' memory
 * @addr, @length: bytes; the pages they touch are meant; length 0 is nothing
 *
 * Return: 0 (also if memory is not guarded at all), or errno of madvise() or ENOMEM; nothing has
 * changed then
 */
AV_MUST_USE int av_fork_guard(uint64_t addr, uint64_t length);

/**
 * av_fork_unguard() - one region less covers a range that was given to av_fork_guard()
 *
 * Return: 0, or errno: whether a child gets the range is not known then; nothing is left to be
 * undone
 */
AV_MUST_USE int av_fork_unguard(uint64_t addr, uint64_t length);

#endif
