/* SPDX-License-Identifier: MIT */
#include "base/waker.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/raw_socket.h"

bool av_waker_begin(struct av_waker *w, struct av_own_fd *woken)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return false;
	if (!av_own_fd_keep(woken, pair[0])) {
		close(pair[1]);
		return false;
	}
	w->woken = *woken;
	if (av_own_fd_keep(&w->wake, pair[1]))
		return true;
	av_own_fd_close(woken);
	return false;
}

bool av_waker_wake(const struct av_waker *w)
{
	int fd = av_own_fd(&w->wake);

	return fd >= 0 &&
	       (av_raw_send(fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 || errno == EAGAIN);
}

/* At the end of the file, the program has closed the other end. */
void av_waker_drain(struct av_own_fd *woken)
{
	char byte;
	ssize_t n = 1;
	int fd;

	while (n > 0 && (fd = av_own_fd(woken)) >= 0)
		n = av_raw_recv(fd, &byte, 1, MSG_DONTWAIT);
	if (n == 0)
		av_own_fd_close(woken);
}

void av_waker_end(struct av_waker *w)
{
	av_own_fd_close(&w->wake);
}

void av_waker_forked(struct av_waker *w)
{
	av_own_fd_close(&w->wake);
	av_own_fd_close(&w->woken);
}
