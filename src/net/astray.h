/* SPDX-License-Identifier: MIT */
/*
 * Passing packets on to the process that owns their queue pair. Each process has a socket in the
 * directory's folder, which is the user's alone. What does not fit into it is lost, as on any
 * network, unless it is kept (net/backlog.h).
 */
#ifndef AV_NET_ASTRAY_H
#define AV_NET_ASTRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/own_fd.h"
#include "net/cut.h"

/* The socket of this process, without a name; the name; and the name no longer. 0 or -errno */
AV_MUST_USE int av_astray_socket(struct av_own_fd *own);
AV_MUST_USE int av_astray_begin(const struct av_own_fd *own);
void av_astray_end(void);

/*
 * Pass datagrams on, all of @cut, to @owner. @own: the socket of this process. Return: 0; -EAGAIN:
 * its socket is full; -ECONNREFUSED, -ENOENT: it has none
 */
int av_astray_pass(const struct av_own_fd *own, uint32_t owner, const struct av_cut *cut);

/* Read what was passed on. @cut: out; its datagrams stay in @from. Return: false: it is garbage */
AV_MUST_USE bool av_astray_get(struct av_cut *cut, const uint8_t *from, size_t bytes);

#endif
