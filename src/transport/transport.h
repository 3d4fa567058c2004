/* SPDX-License-Identifier: MIT */
/* What the rest of the library calls: queues are executed, polled, timed, reset and ended. */
#ifndef AV_TRANSPORT_TRANSPORT_H
#define AV_TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#include "base/compiler.h"
#include "queue/qp.h"
#include "segment/segment.h"
#include "transport/rules.h"
#include "transport/wire_qp.h"

/* === progress ==================================================================== */

/* The loop that executes a send queue: how its requests wait, end, and are executed again. */

/*
 * Detect that a program changed the buffers of a send request that waited before it was executed.
 * For contexts that are watched for misuse (AV_WATCHED_MISUSE).
 *
 * Only the first AV_SEND_SUM_BYTES of a message are checked.
 */

#define AV_SEND_SUM_BYTES 65536u

/* How many requests of the own queue pair had their buffers changed. */
uint64_t av_send_sum_changes(const struct av_qp_ref *end);

/*
 * The segment ends.
 * Context: nothing is executed any more.
 */
void av_send_sum_end(struct av_seg *seg);

/* The loop that executes a send queue, and how its requests end. */

/*
 * The end of a queue pair's receives while a stopped peer holds its right @resp: nobody waits for
 * that peer. The state changes at once, and the receives are flushed when the right is free.
 */

/* When to look again for a right that a stopped peer holds. */
#define AV_FLUSH_DUE_NS 50000000u

/* Flush the receives of an own queue pair in the error state. Context: the same. */
void av_deferred_flush(const struct av_qp_ref *end);

/*
 * The end of requests: their completions, in order, and what their failure does to the queue pair.
 * One way for all transports.
 *
 * Context: all functions: the requester's right @exec is held, no @resp.
 */

/* The request at the head, @wqe, is done. Without room in the CQ, the queue pair fails. */
void av_finish_done(const struct av_qp_ref *end, const struct av_sq_wqe *wqe);

/*
 * The request at the head has failed with @fault: complete it, and enter the error state. @peer:
 * its responder; .qp is NULL if there is none on this host
 */
AV_COLD void av_finish_fail(const struct av_qp_ref *end, const struct av_qp_ref *peer,
			    const struct av_sq_wqe *wqe, enum av_fault fault);

/* Enter the error state. The caller sees to it that the queue is flushed. */
AV_COLD void av_finish_error(const struct av_qp_ref *end);

/*
 * Driving send queues: execute posted requests in order, and hold back those that cannot be
 * executed yet.
 *
 * A queue pair's own process executes its requests: the poster, a poller, the timer. One of them at
 * a time, the holder of @exec, does the work. A peer that may have removed an obstacle, by a
 * receive request or because it is ready now, sets @kick and wakes the timer.
 */

/**
 * av_sq_progress() - execute what can be executed of a send queue
 * @end:  an own queue pair; one of another process is left to that one, which is told
 * @peer: its cached destination, guarded by @end's right @exec; NULL: look it up for this call
 *
 * Returns at once if another thread holds the right: that one looks again before it leaves.
 * Context: no execution right or lock held. Moves data, waits for pages.
 */
void av_sq_progress(const struct av_qp_ref *end, struct av_qp_ref *peer);

/*
 * Take an own queue pair's @exec, however long the thread takes that has it.
 * av_sq_progress_entered() gives it back. Context: no execution right held
 */
void av_sq_progress_enter(const struct av_qp_ref *end);

/* av_sq_progress() for a poster of an own queue pair. @with_exec: the caller has taken @exec
 * already */
void av_sq_progress_entered(const struct av_qp_ref *end, struct av_qp_ref *peer, bool with_exec);

/**
 * av_sq_progress_peer() - an obstacle is gone: make progress with the requester that is connected
 * to own queue pair @end
 *
 * Context: as av_sq_progress().
 */
void av_sq_progress_peer(const struct av_qp_ref *end);

/* The same, by a caller who has found it: av_connect(). @requester->qp: NULL: there is none */
void av_sq_progress_requester(const struct av_qp_ref *requester);

/*
 * Put an own queue pair into the error state, and flush both queues.
 * Context: no execution right held.
 */
void av_fail(const struct av_qp_ref *end);

/* === poll ======================================================================== */

/* Completions are taken; and receivers that were not ready. */

/*
 * Receiver not ready: when does a requester that waits for a receive request go on?
 *
 * Usually when one is posted: the poster tells it. A requester would go on for each request of a
 * poster that is behind. So that one posts some first. If it does not, it tells when it has polled
 * its own CQ in vain for a while, or arms it. Else the requester's RNR timer goes off. A requester
 * that polls its CQ in vain looks there whether it has been told, which is sooner than its thread
 * wakes up. On the wire it is told by a packet.
 *
 * Thread-safety: the CQs hold hints, taken by an atomic exchange. @exec guards everything else.
 */

/*
 * Requests have been posted to @rq, of @end alone, and a requester waits.
 * Context: owner's thread, no lock held.
 */
void av_rnr_posted(const struct av_qp_ref *end, struct av_rq_shared *rq);

/* The slow part of av_rnr_polled(). */
void av_rnr_polled_check(struct av_seg *seg, struct av_cq_shared *cq, bool long_since);

/*
 * An own CQ was polled in vain. @long_since: many times in a row
 * Context: owner's thread, no lock held.
 */
static inline void av_rnr_polled(struct av_seg *seg, struct av_cq_shared *cq, bool long_since)
{
	if (av_unlikely(long_since || atomic_load_explicit(&cq->waiting, memory_order_relaxed)))
		av_rnr_polled_check(seg, cq, long_since);
}

/* The thread is about to stop polling that CQ, and to wait for its event. */
static inline void av_rnr_armed(struct av_seg *seg, struct av_cq_shared *cq)
{
	av_rnr_polled(seg, cq, true);
}

/* Taking completions: what ibv_poll_cq() does. */

/**
 * av_poll() - take up to @count completions of an own CQ, oldest first
 * @stamp_ns: out, the time at which each was appended, if the CQ records it; NULL: not wanted
 *
 * Frees the slots of the completed requests, and places payload in bounce buffers. A call that
 * finds nothing may copy a piece of a message that is on its way (transport/execution.h). After
 * about a hundred calls in a row that found nothing, yields the core. Context: any thread of the
 * owner; holds no lock while it places payload. Return:  number of completions, or -EIO: the CQ has
 * overrun and is empty Source: ibv_poll_cq(3).
 */
int av_poll(struct av_seg *seg, struct av_cq_shared *cq, int count, struct ibv_wc *wc,
	    uint64_t *stamp_ns);

/* === timer ======================================================================= */

/*
 * The timer of a context: one thread that executes send queues whose retry time has come, and sends
 * the events of CQs that are moderated by time. The first request that has to wait, or event that
 * is put off, starts it. It keeps timeouts even if the program makes no call.
 */

/*
 * Have the timer see to the deadline of a request that was just waiting, of an own queue pair.
 * Context: may create a thread.
 */
void av_timer_watch(const struct av_qp_ref *end, uint64_t deadline_ns);

/* Start the timer of an own segment. Without memory for it, there is none. May create a thread. */
void av_timer_start(struct av_seg *seg);

/*
 * From now on, send the events of an own CQ that are put off (av_cq_put_off()).
 * Context: no lock held; may create a thread. Return: 0, or ENOMEM: there can be no timer
 */
AV_MUST_USE int av_timer_watch_cq(struct av_seg *seg, uint32_t index);

/* The CQ ends: the timer never looks at it again. Context: no lock held. */
void av_timer_forget_cq(struct av_seg *seg, uint32_t index);

/*
 * The thread's work, in transport/progress.c: look at one queue pair, and at faults that go by
 * the clock. Context: holds nothing. Return: when to look again; UINT64_MAX: when woken
 */
uint64_t av_timer_look(const struct av_qp_ref *end);
uint64_t av_timer_look_at_faults(struct av_seg *seg);

/* Stop the timer of an own segment and wait for its thread to end. */
void av_timer_stop(struct av_seg *seg);

/* === state ======================================================================= */

/*
 * The effects of state changes on a queue pair: empty its queues, fail it, repair it after the
 * executor of its work has died. queue/qp.h says which changes are allowed.
 */

/*
 * Put the responder into the error state and flush its receive queue.
 * Context: @resp is held.
 */
void av_responder_error(const struct av_qp_ref *end);

/*
 * End the receive queue of a queue pair whose state has been set to ERR. That was an atomic
 * exchange, a full barrier. So a post_recv that is not seen here sees the state, and flushes its
 * own requests.
 * Context: @resp is held.
 */
void av_responder_end_receives(const struct av_qp_ref *end);

/*
 * Finish or undo what a dead holder of @resp was doing, and fail the queue pair.
 * Context: @resp is held, taken over from a dead process.
 */
void av_responder_repair(const struct av_qp_ref *end);

/*
 * Take both execution rights of an own queue pair, or @resp of one that was opened and sends
 * nothing, and repair what a dead holder left; release them. Waits AV_PATIENCE_NS at most for a
 * peer that is stopped, and for threads of this process until they lose theirs.
 * Return: 0, or EBUSY: neither is held
 */
AV_MUST_USE int av_qp_quiesce(const struct av_qp_ref *end);
void av_qp_resume(const struct av_qp_ref *end);

/**
 * av_qp_apply_state() - apply the effects of entering @to
 *
 * RESET empties both queues and removes the queue pair's completions from its CQs. Who posts
 * meanwhile must be kept away by @append, or is the program's mistake. RTR and RTS set
 * the PSNs from the attributes, which must have been stored. ERR flushes the receive queue;
 * av_sq_progress() flushes the send queue.
 * Context: both execution rights are held.
 */
void av_qp_apply_state(const struct av_qp_ref *end, enum ibv_qp_state from, enum ibv_qp_state to);

/*
 * Remove the completions of this queue pair from its CQs, and release what they hold. Needs no
 * execution right.
 */
void av_qp_purge(const struct av_qp_ref *end);

/*
 * The same for the completions of an own XRC shared receive queue, which is retired. Its queue
 * pairs may live on.
 */
void av_srq_purge(struct av_seg *seg, uint32_t index);

/* === reset ======================================================================= */

/*
 * A device that fails on demand: what programs see of a fatal error of an adapter.
 *
 * In each context that is open, all queue pairs in use go to the error state and their requests are
 * flushed. Then IBV_EVENT_DEVICE_FATAL is raised, once, and the process is called (av_seg_call()):
 * its connection manager tells the device's ids. From then on verbs that need the device fail with
 * EIO. Completions can still be polled, requests posted (they are flushed), objects destroyed, and
 * the context closed. A context that is opened afterwards finds a working device, as after the
 * reset of an adapter.
 */

/**
 * av_device_fatal() - make a device fail, in all contexts of all processes that have it open
 *
 * Context: the directory is joined; no execution right or lock held; waits for requests under way.
 * Return:  number of contexts that failed; without those that had failed before
 */
unsigned int av_device_fatal(const char *device);

/*
 * The same in one open context, own or a peer's.
 * Context: as above.
 * Return:  has it failed now?
 */
bool av_context_fatal(struct av_seg *seg);

/*
 * Reset a device: the switches that were set for its next boot (device/device.h) take effect. As
 * with an adapter, a reset is refused while the device is in use, or fails every user.
 */

/**
 * av_device_reset() - reset a device
 * @force:  fail the open contexts first, as av_device_fatal() does; false: they prevent the reset
 * @pids:   out, the processes whose contexts these are, each once
 * @room:   how many fit into @pids
 * @count:  out, how many there are
 *
 * Contexts that had failed before do not count.
 * Context: the directory is joined; no execution right or lock held; with @force waits for requests
 * under way.
 * Return:  0; -EBUSY: the device is open and not @force, or is opened faster than it fails;
 * -ENOMEM; or another -errno: the switches could not be written down
 */
AV_MUST_USE int av_device_reset(const char *device, bool force, int32_t *pids, size_t room,
				size_t *count);

/* === wire ======================================================================== */

/*
 * Queue pairs whose peers are on other hosts. Their requests travel as packets (net/net.h), and
 * each side is executed by its own process. The outcome of a request is the same as on one host:
 * its responder runs the same operations, and faults have the same rules.
 */

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

/* === wire move =================================================================== */

/*
 * Connections of one host that move to the wire: the kernel keeps their processes apart (Yama,
 * seccomp, another PID namespace), and a request needs memory that only its owner can reach.
 *
 * Who is refused asks the peer to move; the peer moves first, and then asks back. So packets always
 * find somebody who expects them. Both sides have counted PSNs alike, as on the wire. From then on
 * each process executes, in its own memory, what the packets say.
 *
 * @to_wire of both queue pairs says how far they are. Each process changes its own queue pair only,
 * in its timer thread; a peer that asks sets @to_wire, and calls (av_seg_call()).
 */

/*
 * Take the next step of an own queue pair, if there is one to take. Context: holds nothing, may
 * start a thread. Return: false: a right of the queue pair is not had, so it is still to be taken
 */
AV_MUST_USE bool av_wire_move(const struct av_qp_ref *end);

/* For av_seg_call_by(): peers ask queue pairs of an own segment to move. Must not block. */
void av_wire_move_called(struct av_seg *seg);

#endif
