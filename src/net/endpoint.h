/* SPDX-License-Identifier: MIT */
/* The sockets of this process: which there are, and for which address. */
#ifndef AV_NET_ENDPOINT_H
#define AV_NET_ENDPOINT_H

#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/file.h"

#define AV_ENDPOINTS 512 /* that a process can have */

enum av_endpoint_kind {
	AV_ENDPOINT_ADDRESS, /* of an own address */
	AV_ENDPOINT_GROUP,   /* of a multicast group */
	AV_ENDPOINT_PASSED,  /* where others pass packets on to (net/socket.h) */
};

struct av_endpoint {
	enum av_endpoint_kind kind;
	uint8_t address[16]; /* own, or of the group */
	uint32_t ifindex;
	unsigned int users; /* guarded by who opens and closes: net/open.c */
	struct av_own_fd socket;
	_Atomic bool single; /* the kernel cuts nothing apart here: no UDP_SEGMENT */

	/* Of AV_ENDPOINT_ADDRESS: net/socket.c. The last two are owned by who receives. */
	_Atomic int group; /* who shares it; -1: nobody */
	uint32_t drained;  /* what the kernel had been told when nothing was left */
	uint64_t repair_after;
};

/*
 * Have it found from now on. It stays the caller's, who takes it out before it closes the socket.
 * Return: false: there are too many
 */
AV_MUST_USE bool av_endpoint_add(struct av_endpoint *e);

/* Nobody finds it any more. Who has found it may still use it: see av_endpoint_find(). */
void av_endpoint_remove(struct av_endpoint *e);

/*
 * NULL: there is none. @ifindex: 0: any. It stays valid as long as the caller knows it to be open.
 */
struct av_endpoint *av_endpoint_find(enum av_endpoint_kind kind, const uint8_t address[16],
				     uint32_t ifindex);

/* A different number after each change. */
unsigned int av_endpoint_version(void);

/* All of them, as they are now. Return: how many */
unsigned int av_endpoint_all(struct av_endpoint *all[AV_ENDPOINTS]);

/* What to wait for in poll(2). Return: how many; those that the program has closed are left out */
unsigned int av_endpoint_poll(struct pollfd all[AV_ENDPOINTS]);

/* In a forked child: close its copies of the sockets, and forget them. */
void av_endpoint_forked(void);

/* Questions to kernels on the way to another host, within net/. net.h has the others. */

/* No address is open any more, or this is a forked child: there were no questions. */
void av_net_icmp_end(void);
void av_net_icmp_forked(void);

#endif
