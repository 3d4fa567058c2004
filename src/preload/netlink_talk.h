/* SPDX-License-Identifier: MIT */
/* A program's message to the kernel, on a socket of netlink_hooks.c: on its way to us and back. */
#ifndef AV_PRELOAD_NETLINK_TALK_H
#define AV_PRELOAD_NETLINK_TALK_H

#include <sys/socket.h>
#include <sys/types.h>

#include "base/compiler.h"

/*
 * sendmsg(2): send, and have the answers in the socket's queue. @message: the program's, but the
 * structure itself, whose address is replaced
 *
 * Context: allocates, opens files and takes locks of the library. Keeps errno on success.
 * Return: bytes sent; -1 and errno, ENOBUFS: no memory or descriptors for an answer
 */
AV_MUST_USE ssize_t av_netlink_talk(int fd, struct msghdr *message, int flags);

#endif
