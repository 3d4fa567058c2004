/* SPDX-License-Identifier: MIT */
/*
 * Who holds a shared block of pages: each process that has a region on it, known to all by a record
 * lock in the directory, which the kernel drops however the process ends. So the block's life needs
 * no count that a killed process could leave wrong.
 *
 * A block is named by the context whose segment it is in and its offset there.
 */
#ifndef AV_REGISTRY_PAGE_USERS_H
#define AV_REGISTRY_PAGE_USERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

/**
 * av_page_users_join() - this process holds the block once more
 *
 * Context: the directory is joined; blocks on its lock. What the caller knew of the block before
 * may be out of date: it looks again afterwards. Return: 0 or ENOMEM
 */
AV_MUST_USE int av_page_users_join(uint32_t ref, uint64_t at);

/**
 * av_page_users_leave() - this process holds it once less
 * @last: called if nobody holds it then, while nobody can begin to; not called if this process does
 * still Context: as above; @last runs within a change of the directory. Return: true if @last was
 * called
 */
bool av_page_users_leave(uint32_t ref, uint64_t at, void (*last)(void *arg), void *arg);

/* Does any process hold it, this one included? */
bool av_page_users_any(uint32_t ref, uint64_t at);

#endif
