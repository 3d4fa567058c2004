/* SPDX-License-Identifier: MIT */
/*
 * Who holds a shared block of pages: every process that has a region on it. Each has a record lock
 * in the directory, which the kernel drops when the process ends in any way. So there is no count
 * that a killed process could leave wrong.
 *
 * A block is named by the context whose segment it is in, and its offset there.
 */
#ifndef AV_REGISTRY_PAGE_USERS_H
#define AV_REGISTRY_PAGE_USERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

/**
 * av_page_users_join() - this process holds the block once more
 *
 * What the caller knew about the block may be out of date afterwards: look again.
 * Context: the directory is joined; blocks on its lock
 * Return: 0 or ENOMEM
 */
AV_MUST_USE int av_page_users_join(uint32_t ref, uint64_t at);

/**
 * av_page_users_leave() - this process holds the block once less
 * @last: called if no process holds it any more, this one included; nobody can begin to
 *         meanwhile
 *
 * Context: the directory is joined; blocks on its lock. @last runs within a change of the
 * directory.
 * Return: true if @last was called
 */
bool av_page_users_leave(uint32_t ref, uint64_t at, void (*last)(void *arg), void *arg);

/* Does any process hold it, including this one? */
bool av_page_users_any(uint32_t ref, uint64_t at);

#endif
