/* SPDX-License-Identifier: MIT */
/*
 * The watcher of the host's addresses: one thread per process that has contexts open, asleep until
 * the kernel says (rtnetlink) that an address or an interface has changed, in the network namespace
 * of the thread that opened the first of them. Where there is no netlink, there is no watcher, and
 * addresses are looked at when somebody asks for them.
 *
 * Why a thread of its own: a program may poll its asynchronous descriptor without ever calling, so
 * nobody else is there to hear the kernel; the descriptor itself must not become readable for what
 * may turn out to be no event.
 */
#ifndef AV_DEVICE_PORT_WATCH_H
#define AV_DEVICE_PORT_WATCH_H

/* One more context is open in this process; the first starts the watcher. The directory is joined
 * until after av_port_unwatch(). */
void av_port_watch(void);

/* Undo one av_port_watch(). The last one waits for the watcher to end. */
void av_port_unwatch(void);

#endif
