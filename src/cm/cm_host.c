/* SPDX-License-Identifier: MIT */
#include "cm/cm_host.h"

#include <stdatomic.h>
#include <string.h>

#include "base/watcher.h"
#include "cm/cm_lock.h"
#include "device/port.h"
#include "device/port_watch.h"

static void changed(struct av_watched_fd *w);

static struct av_watched_fd host = {.socket.fd = -1, .ready = changed};
static _Atomic bool news;
static uint64_t watched; /* network namespace; 0: none, for want of netlink */

/* The interface that was asked last in that namespace. Guarded by the lock. */
static struct {
	uint32_t ifindex; /* 0: none since the host has changed */
	uint8_t hardware[AV_HARDWARE_BYTES];
} asked;

/* In the watcher's thread, which opens no sockets: the other one does what follows. */
static void changed(struct av_watched_fd *w)
{
	if (!av_port_watch_heard(w->socket.fd))
		return;
	atomic_store(&news, true);
	av_cm_lock();
	asked.ifindex = 0;
	av_cm_wake(0);
	av_cm_unlock();
}

void av_cm_host_begin(void)
{
	asked.ifindex = 0;
	watched = 0;
	if (av_port_watch_open(&host.socket)) {
		watched = av_netns_of_thread();
		av_watch_begin(&host);
	}
}

void av_cm_host_end(void)
{
	av_watch_end(&host);
	av_own_fd_close(&host.socket);
	atomic_store(&news, false);
}

bool av_cm_host_has_changed(void)
{
	return atomic_exchange(&news, false);
}

void av_cm_host_hardware(uint64_t netns, uint32_t ifindex, uint8_t address[AV_HARDWARE_BYTES])
{
	if (netns != watched) {
		av_gid_interface_hardware(ifindex, address);
		return;
	}
	if (asked.ifindex != ifindex)
		av_gid_interface_hardware(ifindex, asked.hardware);
	asked.ifindex = ifindex;
	memcpy(address, asked.hardware, AV_HARDWARE_BYTES);
}

void av_cm_host_forked(void)
{
	av_own_fd_close(&host.socket);
	atomic_store(&news, false);
}
