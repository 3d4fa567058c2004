/* SPDX-License-Identifier: MIT */
/*
 * The watcher of the host's addresses: one thread in each process that has contexts open. It sleeps
 * until rtnetlink reports a change in the namespace of the thread that opened the first context.
 * Without netlink, addresses are looked at only when somebody asks.
 *
 * Why a thread: a program may poll its asynchronous descriptor and never call us. That descriptor
 * must not become readable for what turns out to be no event.
 */
#ifndef AV_DEVICE_PORT_WATCH_H
#define AV_DEVICE_PORT_WATCH_H

/*
 * One more context is open in this process. The first one starts the watcher.
 * Context: the directory is joined, and stays so until after av_port_unwatch().
 */
void av_port_watch(void);

/* Undo one av_port_watch(). The last one waits for the watcher to end. */
void av_port_unwatch(void);

#endif
