/* SPDX-License-Identifier: MIT */
/*
 * Queue pairs whose peers are on other hosts. Their requests travel as packets (net/net.h), and
 * each side is executed by its own process. The outcome of a request is the same as on one host:
 * its responder runs the same operations, and faults have the same rules.
 */
#ifndef AV_TRANSPORT_WIRE_H
#define AV_TRANSPORT_WIRE_H

#include <stdbool.h>
#include <infiniband/verbs.h>

#include "base/compiler.h"
#include "queue/qp.h"
#include "transport/wire_qp.h"

/*
 * Does an own queue pair reach queue pair @qpn at that address by packets? Yes if the address is
 * another host's, and this directory has no such queue pair there; ANYVERBS_TRANSPORT=wire: always;
 * =direct: never. Context: any
 */
bool av_wire_is_wanted(const struct av_seg *seg, const struct ibv_ah_attr *ah, uint32_t qpn);

/**
 * av_wire_open() - prepare an own queue pair that is about to be connected by @attr
 *
 * Opens the socket that its packets come to. A later av_wire_begin() puts it into force. What was
 * open before has been closed.
 * Context: the caller serialises changes of the queue pair; no execution right held.
 * Return:  0, or an errno of ibv_modify_qp(): ENOMEM, EADDRINUSE, EADDRNOTAVAIL
 */
AV_MUST_USE int av_wire_open(const struct av_qp_ref *end, const struct ibv_qp_attr *attr);

/*
 * Undo it, if it was done. Context: no execution right held. Return: 0, or EBUSY: somebody is
 * stopped within the queue pair, and it is as before. Whoever connects it anew tries again
 */
int av_wire_close(const struct av_qp_ref *end);

/*
 * Swap the route of a connection on the wire with *@route. Does nothing to other queue pairs.
 * Context: both execution rights are held
 */
void av_wire_change_route(const struct av_qp_ref *end, struct av_wire_route *route);

/* Is an own connection on the wire? Context: the caller serialises changes of the queue pair */
bool av_wire_is_connected(const struct av_qp_ref *end);

/*
 * Have datagrams come to an own queue pair by packets, too, at all addresses that its port has now.
 * The host's own datagrams need no socket: if there is none, av_wire_burst() says so. Context: as
 * av_wire_open(); undone by av_wire_close()
 */
void av_wire_open_datagrams(const struct av_qp_ref *end);

/* May it send datagrams to a group on the wire? Context: any */
bool av_wire_sends(const struct av_qp_ref *end);

/*
 * Datagrams leave from addresses that the queue pair itself has opened: others' sockets may end
 * meanwhile. av_wire_burst(): NULL: there is no memory, or the address is not open, and it has been
 * told why, once: the datagram is lost, so av_wire_has_room() waits for nothing. Context: @exec is
 * held, until the burst has been sent
 */
struct av_net_burst *av_wire_burst(const struct av_qp_ref *end, const struct av_net_path *path);
bool av_wire_has_room(const struct av_qp_ref *end, const struct av_net_path *path);

/*
 * An own datagram queue pair is a member of the group, or no longer. The directory has been told.
 * Context: as av_wire_open()
 */
void av_wire_join(const struct av_qp_ref *end, const union ibv_gid *group);
void av_wire_leave(const struct av_qp_ref *end, const union ibv_gid *group);

/*
 * The queue pair enters RTR, or RTS: its packets begin with the PSNs of its attributes. Or RESET:
 * nothing is under way any more. Does nothing for queue pairs that are not open. Context: both
 * execution rights are held
 */
void av_wire_begin(const struct av_qp_ref *end, enum ibv_qp_state to);

/*
 * Move an own send queue on: begin what can be begun, repeat what has got no answer in time.
 * @singly: a request is begun when all before it are done
 * Context: @exec is held. Return: true: look again, since the queue pair has failed, or the request
 * at the head is another
 */
bool av_wire_step(const struct av_qp_ref *end, bool singly);

/* The queue has been flushed: nothing is under way any more. Context: @exec is held */
void av_wire_flushed(const struct av_qp_ref *end);

/*
 * Has the request at the head of an own queue been begun? Have packets of it been sent, too?
 * Context: @exec is held
 */
bool av_wire_is_begun(const struct av_qp_ref *end);
bool av_wire_is_under_way(const struct av_qp_ref *end);

/*
 * Receive requests have been posted for an own reliable connection whose requester has found none:
 * send their number. Context: no execution right held
 */
void av_wire_tell_credits(const struct av_qp_ref *end);

/*
 * Go on answering a READ that takes long, if one waits for its turn. Context: no execution right
 * held. Return: when to look again; UINT64_MAX: there is none
 */
uint64_t av_wire_read_on(const struct av_qp_ref *end);

/* Take packets that have come, unless there is no socket. Context: as av_net_poll() */
bool av_wire_poll(void);

/* Take all that has come, if the queue pair is on the wire. Context, return: av_net_catch_up() */
AV_MUST_USE bool av_wire_catch_up(const struct av_qp_ref *end);

#endif
