/* SPDX-License-Identifier: MIT */
/*
 * The watcher of the host's addresses. Each process that has contexts open has one such thread. It
 * sleeps until rtnetlink reports that an address or an interface has changed, in the network
 * namespace of the thread that opened the first context. Without netlink there is no watcher, and
 * addresses are only looked at when somebody asks for them.
 *
 * Why a thread: a program may poll its asynchronous descriptor and never call us, so nobody else
 * could listen to the kernel. And the asynchronous descriptor must not become readable for
 * something that turns out to be no event.
 */
#ifndef AV_DEVICE_PORT_WATCH_H
#define AV_DEVICE_PORT_WATCH_H

/*
 * One more context is open in this process. The first one starts the watcher.
 *
 * Context: the directory is joined, and stays so until after av_port_unwatch().
 */
void av_port_watch(void);

/* Undo one av_port_watch(). The last one waits for the watcher to end. */
void av_port_unwatch(void);

#endif
