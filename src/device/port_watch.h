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

/*
 * One more context is open in this process. The first one begins to watch.
 * Context: the directory is joined, and stays so until after av_port_unwatch().
 */
void av_port_watch(void);

/* Undo one av_port_watch(). Nobody follows addresses behind the last one. */
void av_port_unwatch(void);

#endif
