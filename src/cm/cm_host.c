/* SPDX-License-Identifier: MIT */
#include "cm/cm_host.h"

#include <stdatomic.h>

#include "base/watcher.h"
#include "cm/cm_lock.h"
#include "device/port_watch.h"

static void changed(struct av_watched_fd *w);

static struct av_watched_fd host = {.socket.fd = -1, .ready = changed};
static _Atomic bool news;

/* In the watcher's thread, which opens no sockets: the other one does what follows. */
static void changed(struct av_watched_fd *w)
{
	if (!av_port_watch_heard(w->socket.fd))
		return;
	atomic_store(&news, true);
	av_cm_lock();
	av_cm_wake(0);
	av_cm_unlock();
}

void av_cm_host_begin(void)
{
	if (av_port_watch_open(&host.socket))
		av_watch_begin(&host);
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

void av_cm_host_forked(void)
{
	av_own_fd_close(&host.socket);
	atomic_store(&news, false);
}
