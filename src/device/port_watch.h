/* SPDX-License-Identifier: MIT */
/*
 * Watching the host's addresses (base/watcher.h) while contexts are open. rtnetlink reports changes
 * in the namespace of the thread that opened the first one. Without netlink, addresses are looked
 * at only when somebody asks.
 *
 * Why a thread: a program may poll its asynchronous descriptor and never call us. That descriptor
 * must not become readable for what turns out to be no event.
 */
#ifndef AV_DEVICE_PORT_WATCH_H
#define AV_DEVICE_PORT_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/file.h"

/*
 * One more context is open in this process. The first one begins to watch.
 * Context: the directory is joined, and stays so until after av_port_unwatch().
 */
void av_port_watch(void);

/*
 * Do the ports that this process uses agree with the host's addresses in @netns, the namespace of
 * this thread? Follows what has changed since. Costs two system calls if nothing has.
 * Context: as av_port_follow(). Return: false: it is not known
 */
AV_MUST_USE bool av_port_watch_look(uint64_t netns);

/*
 * For others who watch, by a socket of their own: one that becomes readable when an address or an
 * interface of this thread's network namespace changes. Return: false: there is none, and errno
 */
AV_MUST_USE bool av_port_watch_open(struct av_own_fd *socket);

/* Take what such a socket says. Never waits. Return: false: nothing has changed */
AV_MUST_USE bool av_port_watch_heard(int fd);

/* Undo one av_port_watch(). Nobody follows addresses behind the last one. */
void av_port_unwatch(void);

#endif
