/* SPDX-License-Identifier: MIT */
/*
 * Messages of the connection manager on their way: management datagrams from queue pair 1 to queue
 * pair 1. Source: IBTA volume 1, 13.4, 13.5.1; annex A17.
 *
 * Processes of one directory in one network namespace give them to each other (av_net_pass()), as
 * the same packets. ANYVERBS_TRANSPORT=wire sends those by UDP, too.
 */
#ifndef AV_CM_CM_MAD_H
#define AV_CM_CM_MAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "net/net.h"
#include "registry/cm_ports.h"
#include "wire/cm_message.h"

/* From whom to whom. */
struct av_cm_route {
	struct av_net_path path; /* @src: own address */
	uint32_t proc;		 /* the peer's process, if it is of this directory; 0: by UDP */
	const char *device;	 /* borrowed for ever */
	uint8_t named[16];	 /* a requester's name for its destination: @path's, or any */
};

/* What becomes of a message; @path leads back. Context: not locked, within the receiver */
typedef void av_cm_receive(const struct av_net_path *path, const struct av_cm_message *m);

/*
 * The route back to the sender of @m, which belongs to no connection yet: a connection has its own
 * route. Context: any; asks for the host's addresses
 */
struct av_cm_route av_cm_route_back(const struct av_net_path *path, const struct av_cm_message *m);

/* Have the messages of other processes come to this one, always by the same function. */
void av_cm_mads_begin(av_cm_receive *receive);

/*
 * Send a message. What is lost is the sender's to repeat. Return: 0; -EAGAIN: the peer's process
 * takes no more for now; -errno: it cannot be reached. Context: locked; @route's source is
 * attended, or it has a process
 */
int av_cm_send(const struct av_cm_route *route, const struct av_cm_message *m);

/*
 * Numbers of connections say whose they are: the process is in the high bits.
 * @index: below AV_CM_COMM_MAX
 */
#define AV_CM_COMM_MAX 65536u
uint32_t av_cm_comm(uint32_t index);
uint32_t av_cm_comm_index(uint32_t comm);

/*
 * Who listens for a request that has come to that own address, in this thread's network namespace.
 * Context: any. Return: false: nobody
 */
bool av_cm_listener(const uint8_t own[16], const struct av_cm_message *request,
		    struct av_cm_port *found);

/*
 * Whom a request for @route's destination is for, if it is to be had without a network: who listens
 * there, or, if nobody does, this process, which then refuses it. Context: any. Return: 0: it is
 * not
 */
uint32_t av_cm_listener_of(const struct av_cm_route *route, uint64_t service_id);

/*
 * Requests whose connections are over, or that were taken back. One of them that comes once more
 * was late on its way: who listens is not asked again. Source: IBTA volume 1, 12.9.8.3 (timewait).
 *
 * They are told apart by their transactions, which are not used again. Context of all: locked
 */

/* Remember one, and forget an old one for it. @from: whose it is, and @comm its number there */
void av_cm_stale_add(const uint8_t from[16], uint32_t comm, uint64_t transaction);

AV_MUST_USE bool av_cm_stale_is(const uint8_t from[16], uint32_t comm, uint64_t transaction);

#endif
