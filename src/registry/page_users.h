/* SPDX-License-Identifier: MIT */
/*
 * Who holds a shared block of pages, named by its context and offset, or an imported block of
 * device memory, named by AV_PAGE_USERS_DM(): every process that has a region on it. Each has a
 * record lock in the directory, which the kernel drops when the process ends in any way: there is
 * no count that a killed process could leave wrong.
 * Context: the directory is joined; blocks on its lock.
 */
#ifndef AV_REGISTRY_PAGE_USERS_H
#define AV_REGISTRY_PAGE_USERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

/* @index: of the block's key. No block of pages begins there. */
#define AV_PAGE_USERS_DM(index) ((uint64_t)(index) << 12 | 1)

/* What the caller knew about the block may be out of date now: look again. Return: 0 or ENOMEM. */
AV_MUST_USE int av_page_users_join(uint32_t ref, uint64_t at);

/*
 * This process holds the block once less. @last, if any, is called, within a change of the
 * directory, if no process holds it any more; nobody can begin to meanwhile. Return: was it called?
 */
bool av_page_users_leave(uint32_t ref, uint64_t at, void (*last)(void *arg), void *arg);

/* Does any process hold it, including this one? */
bool av_page_users_any(uint32_t ref, uint64_t at);

#endif
