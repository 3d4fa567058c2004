/* SPDX-License-Identifier: MIT */
/*
 * What the rest of the library calls in the transport. It executes send queues, polls CQs, runs the
 * timer thread, applies state changes, fails and resets devices, and connects queue pairs to other
 * hosts by packets.
 *
 * Unless a contract says otherwise, @end is a queue pair of this process, and the caller holds no
 * queue pair lock (@req_lock of a requester, @resp_lock of a responder). "Any thread" may.
 */
#pragma once

#include "transport/wire_qp.h"

/* === progress ==================================================================== */

/*
 * A queue pair whose @resp_lock a stopped peer holds: no thread waits for that peer. The state
 * changes at once, and the timer thread flushes the receives when @resp_lock is free.
 */

/* The timer thread tries again to take @resp_lock after this long. */
#define AV_FLUSH_DUE_NS 50000000u

/*
 * Flush the receives in the error state, or defer that to the timer thread.
 * Context: @resp_lock is not held; waits AV_STUCK_NS at most for it; may create a thread.
 */
void av_deferred_flush(const struct av_qp_ref *end);

/*
 * Ending requests, on this host and on the wire: complete them in order, and fail the queue pair if
 * one failed. Context: @req_lock is held, no @resp_lock; waits AV_STUCK_NS at most for @resp_lock.
 */

/* @wqe, at the head, succeeded: complete it. If the CQ is full, the queue pair fails. */
void av_finish_done(const struct av_qp_ref *end, const struct av_sq_wqe *wqe);

/*
 * @wqe, at the head, failed: complete it with the status of @fault, and enter the error state.
 * @peer: the responder; .qp is NULL if this host has none
 */
AV_COLD void av_finish_fail(const struct av_qp_ref *end, const struct av_qp_ref *peer,
			    const struct av_sq_wqe *wqe, enum av_fault fault);

AV_COLD void av_finish_error(const struct av_qp_ref *end);

/*
 * Progress on send queues: execute posted requests in order, and hold back one that cannot be
 * executed yet. Only the queue pair's own process executes them: the poster, a poller, or the timer
 * thread, one at a time, the holder of @req_lock. A peer that removes an obstacle (no receive
 * request, a responder that does not answer) sets @kick, and wakes the requester's timer thread.
 */

/*
 * Execute what can be executed of a send queue. If another process owns it, set @kick, and wake its
 * timer thread if a request waits. @peer: the cached destination, guarded by @req_lock; NULL: look
 * it up for this call. Returns at once if another thread holds @req_lock; that thread checks for
 * new work after it has released @req_lock. Context: no lock held. Copies data, waits for pages.
 */
void av_sq_progress(const struct av_qp_ref *end, struct av_qp_ref *peer);

/*
 * av_sq_progress() for an own queue pair.
 * @with_lock: the caller holds @req_lock (av_lock_acquire_plain()); this releases it
 */
void av_sq_progress_entered(const struct av_qp_ref *end, struct av_qp_ref *peer, bool with_lock);

/*
 * An obstacle at own queue pair @end is gone: make its requester progress. Does nothing for one on
 * the wire, whose requester learns of it by packets. Context: as av_sq_progress().
 */
void av_sq_progress_peer(const struct av_qp_ref *end);

/* The same, with the requester that av_connect() found. If its .qp is NULL, this does nothing. */
void av_sq_progress_requester(const struct av_qp_ref *requester);

/*
 * Put a queue pair into the error state, and flush both queues. If another process owns it, that
 * process flushes the send queue. Waits AV_STUCK_NS at most for @resp_lock, else defers the flush.
 */
void av_fail(const struct av_qp_ref *end);

/* === poll ======================================================================== */

/*
 * Receiver not ready: when does a requester that waits for a receive request resume?
 *
 * Usually when the receiver posts one. A receiver that posts too slowly would pay one wake-up for
 * each. So it first posts a batch. If it posts no more, it resumes the requester when it has polled
 * its own CQ in vain for a while, or arms that CQ. Else the requester's RNR timer expires.
 *
 * A requester on this host is resumed by @kick, which it checks when it polls its CQ in vain:
 * sooner than its timer thread wakes up. On the wire, the receiver acknowledges with its credits.
 *
 * Each CQ holds hints; a thread takes a hint by an atomic exchange. @req_lock guards everything
 * else. Context: a thread of the owner, no lock held.
 */

/* The owner posted to @rq, which only @end uses, and a requester waits. */
void av_rnr_posted(const struct av_qp_ref *end, struct av_rq_shared *rq);

/*
 * A poll of an own CQ found nothing.
 * @long_since: many polls in a row found nothing, or the thread is about to wait for an event
 */
void av_rnr_polled(struct av_seg *seg, struct av_cq_shared *cq, bool long_since);

/*
 * Take up to @count completions of an own CQ, oldest first: ibv_poll_cq(3). Frees the slots of the
 * completed requests. Copies payload from bounce buffers to the receive buffers. A call that finds
 * nothing receives packets, and may copy a chunk of a large message that a sender is copying
 * (transport/execution.h). After 128 to 8192 such calls in a row, the thread yields its core once;
 * less often if no other thread wants the core. @stamp_ns: out, when each completion was appended,
 * if the CQ records it; NULL: not wanted. Context: any thread of the owner; holds no lock while it
 * copies payload.
 * Return: number of completions; -EIO: the CQ has overrun and is empty; -EINVAL: @count is negative
 */
int av_poll(struct av_seg *seg, struct av_cq_shared *cq, int count, struct ibv_wc *wc,
	    uint64_t *stamp_ns);

/* === timer ======================================================================= */

/*
 * The timer of a context: one thread that executes send queues whose deadline has passed, and sends
 * the deferred events of CQs that are moderated by time. The first request that waits, or the first
 * such CQ, starts it. So timeouts expire even while the program makes no call.
 */

/*
 * Have the timer thread check an own queue pair at @deadline_ns (av_now_ns()) at the latest. Any
 * thread; may create one. Without memory for it, this does nothing.
 */
void av_timer_arm(const struct av_qp_ref *end, uint64_t deadline_ns);

/* Start an own segment's timer. Without memory, logs a warning once. Any thread; may create one. */
void av_timer_start(struct av_seg *seg);

/*
 * Have the timer thread send the deferred events of own CQ @index (av_cq_put_off()).
 * Context: no lock held; may create a thread. Return: 0, or ENOMEM: no timer could be started
 */
AV_MUST_USE int av_timer_arm_cq(struct av_seg *seg, uint32_t index);

/*
 * CQ @index is about to be destroyed: have the timer thread check it no more.
 * Context: no lock held; waits while the timer thread checks CQs.
 */
void av_timer_forget_cq(struct av_seg *seg, uint32_t index);

/*
 * What the timer thread checks: one queue pair; the faults on demand that go by the clock; the
 * events that a strict device has put off.
 * Context: the timer thread, no lock held.
 * Return: when to check again, in ns of av_now_ns(); UINT64_MAX: only when woken
 */
uint64_t av_timer_look(const struct av_qp_ref *end);
uint64_t av_timer_look_at_faults(struct av_seg *seg);
uint64_t av_timer_look_at_events(struct av_seg *seg);

/* Stop the timer of an own segment, wait for its thread to end, and let none start any more. */
void av_timer_stop(struct av_seg *seg);

/* === state ======================================================================= */

/*
 * What a change of state does: empty the queues, fail the queue pair, repair it after its executor
 * died. queue/qp.h says which changes are allowed.
 */

/* Put the responder into the error state, and end its receive queue. @resp_lock is held. */
void av_responder_error(const struct av_qp_ref *end);

/*
 * End the receives in the error state: flush the own receive queue; if the queue is shared, have
 * IBV_EVENT_QP_LAST_WQE_REACHED raised.
 *
 * The caller set the state to ERR by an atomic exchange, a full barrier. So a concurrent post_recv
 * either has its requests flushed here, or sees the state and flushes them itself.
 * Context: @resp_lock is held.
 */
void av_responder_end_receives(const struct av_qp_ref *end);

/*
 * Complete or undo what the dead holder of @resp_lock was doing. A connection that answers requests
 * fails; a UD queue pair continues.
 * Context: @resp_lock is held, taken over from the dead process. Waits for a poller that copies
 * (av_coop_abandon()), and on XRC for a pin, AV_PEER_TIMEOUT_NS at most.
 */
void av_responder_repair(const struct av_qp_ref *end);

/*
 * Take both queue pair locks (of a queue pair that another process created and this one opened:
 * only @resp_lock), and complete or undo what a dead holder began. av_qp_resume() releases them.
 * Context: waits AV_PEER_TIMEOUT_NS at most for a stopped peer, and without limit for threads of
 * this process. Return: 0, or EBUSY: a peer still holds @resp_lock, and the caller holds neither
 */
AV_MUST_USE int av_qp_quiesce(const struct av_qp_ref *end);
void av_qp_resume(const struct av_qp_ref *end);

/*
 * Apply the effects of entering @to. RESET empties both queues, and removes the queue pair's
 * completions from its CQs. Meanwhile no thread may post: the caller holds @append, or the program
 * breaks the rule. RTR and RTS take the PSNs from the attributes, which the caller has stored
 * before. ERR ends the receives; av_sq_progress() flushes the send queue.
 * Context: both queue pair locks are held.
 */
void av_qp_apply_state(const struct av_qp_ref *end, enum ibv_qp_state from, enum ibv_qp_state to);

/*
 * An own XRC SRQ is about to be destroyed: remove its completions from the CQ, and release their
 * bounce buffers and slots. Its queue pairs may continue. Needs no queue pair lock.
 */
void av_srq_purge(struct av_seg *seg, uint32_t index);

/*
 * An own queue pair is about to be reset and destroyed: of a strict device, completions of its
 * sends stay where they are. Needs no queue pair lock.
 */
void av_qp_leave_behind(const struct av_qp_ref *end);

/* === reset ======================================================================= */

/*
 * A device that fails on demand: what programs see of a fatal error of an adapter.
 *
 * In each open context, all queue pairs in use enter the error state, and their requests are
 * flushed. Then the context's process is called (av_seg_call()), whose connection manager reports
 * the failure to the ids of the device. Then IBV_EVENT_DEVICE_FATAL is raised once. From then on,
 * verbs that need the device fail with EIO. A context that is opened later finds a working device.
 *
 * Context: the directory is joined, and no lock is held; waits for requests in execution.
 */

/* Make a device fail in all contexts of all processes. Return: how many contexts this failed */
unsigned int av_device_fatal(const char *device);

/*
 * The same for one open context, own or a peer's.
 * Return: false: it had failed before, or the event could not be sent
 */
bool av_context_fatal(struct av_seg *seg);

/*
 * Reset a device: the switches for its next boot (device/device.h) take effect. @force: fail the
 * open contexts first, as av_device_fatal() does; else they prevent the reset, without a wait.
 * Contexts that had failed before do not count. @pids: out, the @room first processes that have
 * these contexts, each once; @count: out, how many there are.
 * Return: 0; -EBUSY: the device is open and @force is false, or processes open it faster than it
 * fails; -ENOMEM; or another -errno: the switches could not be stored
 */
AV_MUST_USE int av_device_reset(const char *device, bool force, int32_t *pids, size_t room,
				size_t *count);

/* === wire ======================================================================== */

/*
 * Queue pairs whose peers are on other hosts. Their requests travel as packets (net/net.h), and
 * each side is executed by its own process. The outcome is the same as on one host: the responder
 * runs the same operations, and faults have the same effects (transport/outcome.h).
 */

/* May any queue pair use packets? False with ANYVERBS_TRANSPORT=direct. Context: any thread. */
bool av_wire_is_allowed(void);

/* Must every queue pair use packets, if it can (ANYVERBS_TRANSPORT=wire)? Context: any thread. */
bool av_wire_is_forced(void);

/*
 * May a connection of that context to that address use packets? Only on an Ethernet link, if the
 * address has a GID, and av_wire_is_allowed(). Context: any thread.
 */
bool av_wire_may_connect(const struct av_seg *seg, const struct ibv_ah_attr *ah);

/*
 * Does an own context reach queue pair @qpn at address @ah by packets? Yes if @ah is no address of
 * the own port, and this directory has no queue pair @qpn at @ah. ANYVERBS_TRANSPORT=wire: always,
 * direct: never. An InfiniBand link, or an address without a GID, never uses packets. Any thread.
 */
bool av_wire_is_wanted(const struct av_seg *seg, const struct ibv_ah_attr *ah, uint32_t qpn);

/*
 * Open the socket for the packets of a queue pair that is about to be connected by @attr. Then
 * av_wire_begin() starts the connection. The caller has closed what was open (av_wire_close()).
 * Context: the caller serialises changes of the queue pair.
 * Return: 0, or an errno of ibv_modify_qp(): ENOMEM, EADDRINUSE, EADDRNOTAVAIL
 */
AV_MUST_USE int av_wire_open(const struct av_qp_ref *end, const struct ibv_qp_attr *attr);

/*
 * Undo av_wire_open() or av_wire_open_datagrams(), if the queue pair is open. First waits for
 * packets that another thread is handling, so that the next connection does not get them.
 * Context: may wait AV_PEER_TIMEOUT_NS for those packets, and again for the rights. Return: 0, or
 * EBUSY: a stopped peer holds @resp_lock, and nothing is changed; the next connection tries again
 */
int av_wire_close(const struct av_qp_ref *end);

/*
 * Swap the connection's route with *@route; the caller closes the old one. Does nothing if the
 * queue pair is no connection on the wire, or *@route is not open. Context: both locks are held.
 */
void av_wire_change_route(const struct av_qp_ref *end, struct av_wire_route *route);

/* Is an own connection on the wire? Context: the caller serialises changes of the queue pair. */
bool av_wire_is_connected(const struct av_qp_ref *end);

/*
 * Have a datagram queue pair receive packets at all RoCEv2 addresses that its port has now.
 * Datagrams within the host need no socket. So failures are not reported here: av_wire_burst()
 * warns. Context: as av_wire_open(). av_wire_close() undoes it.
 */
void av_wire_open_datagrams(const struct av_qp_ref *end);

/* May an own queue pair send datagrams to a group on the wire? Context: any thread. */
bool av_wire_sends(const struct av_qp_ref *end);

/*
 * Begin a burst of datagrams along @path, for av_net_send(), which ends it. The source must be an
 * address that this queue pair has opened: sockets of other queue pairs may close meanwhile.
 * Context: @req_lock is held until the burst has been sent. Return: NULL: no memory, or the source
 * is not open, of which it warns once; the datagram is lost
 */
struct av_net_burst *av_wire_burst(const struct av_qp_ref *end, const struct av_net_path *path);

/*
 * Has the interface room for a datagram along @path? Yes if the source is not open, since the
 * datagram will be lost without a wait. Context: @req_lock is held.
 */
bool av_wire_has_room(const struct av_qp_ref *end, const struct av_net_path *path);

/*
 * A datagram queue pair has joined the group, or left it. The caller has updated the directory.
 * Context: as av_wire_open(), with the queue pair's changes_mutex held.
 */
void av_wire_join(const struct av_qp_ref *end, const union ibv_gid *group);
void av_wire_leave(const struct av_qp_ref *end, const union ibv_gid *group);

/*
 * The queue pair enters RTR or RTS: its packets start with the PSNs of its attributes. Or it enters
 * RESET: it gives up its share of the window. Does nothing for datagram queue pairs, and for those
 * that are not open. Context: both locks are held.
 */
void av_wire_begin(const struct av_qp_ref *end, enum ibv_qp_state to);

/*
 * Send requests of the send queue, and retransmit those that got no answer in time.
 * @singly: start a request only when all requests before it are done
 * Context: @req_lock is held.
 * Return: true: the caller examines the queue again, because the queue pair has failed, has been
 * drained (SQD), or with @singly has a new request at its head
 */
bool av_wire_step(const struct av_qp_ref *end, bool singly);

/* The queue has been flushed: no packet is outstanding. Context: @req_lock is held. */
void av_wire_flushed(const struct av_qp_ref *end);

/* Has the request at the head been started? Have packets of it been sent? @req_lock is held. */
bool av_wire_is_begun(const struct av_qp_ref *end);
bool av_wire_is_under_way(const struct av_qp_ref *end);

/*
 * The owner posted receive requests for a reliable connection whose requester found none. Send an
 * acknowledgement with their number. Waits for @resp_lock as av_responder_acquire().
 */
void av_wire_tell_credits(const struct av_qp_ref *end);

/*
 * Send the next packets of a long READ response, if one waits. Waits for @resp_lock as above.
 * Return: when to call again, in ns of av_now_ns(); UINT64_MAX: no response waits
 */
uint64_t av_wire_read_on(const struct av_qp_ref *end);

/* Receive all pending packets. Context, return: as av_net_catch_up(); true if not on the wire. */
AV_MUST_USE bool av_wire_catch_up(const struct av_qp_ref *end);

/* === wire move =================================================================== */

/*
 * Connections within one host that move to the wire, where the kernel denies a request memory that
 * only its owner can access (Yama, seccomp, another PID namespace).
 *
 * The refused side sets the peer's @to_wire, and calls the peer's process (av_seg_call()). The peer
 * moves first, and then asks the refused side to, so each packet finds a receiver that expects it.
 * From then on, each process executes in its own memory what the packets request. @to_wire of each
 * queue pair records the step. Each process moves only its own queue pair, in its timer thread.
 */

/*
 * Take the next step, if one is due. Context: the timer thread; no lock held; may create a thread.
 * Return: false: a peer holds @resp_lock, so the step is still due
 */
AV_MUST_USE bool av_wire_move(const struct av_qp_ref *end);

/*
 * For av_seg_call_by(): peers have asked queue pairs of own segment @seg to move. Has the timer
 * thread move them. Context: the watcher thread; must not block.
 */
void av_wire_move_called(struct av_seg *seg);
