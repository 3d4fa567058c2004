/* SPDX-License-Identifier: MIT */
#include "cm/id.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/random.h"
#include "base/table.h"
#include "registry/directory.h"

#define MS 1000000ull

#define FIRST_NS    (100 * MS)	/* until a message is repeated; then twice as long, */
#define LONGEST_NS  (4295 * MS) /* and no longer than the kernel waits */
#define TRIES	    12		/* 30 s together */
#define SLOW_TRIES  7		/* likewise, at LONGEST_NS from the first */
#define LISTEN_NS   (5 * MS)	/* until somebody may listen; then twice as long: 0.3 s together */
#define REFUSALS    6
#define GOODBYES    7  /* of a DREQ: 10 s */
#define FULL_NS	    MS /* until a peer that has no room for a message may have some */
#define TIMEWAIT_NS (500 * MS)
#define DEATH_NS    (250 * MS) /* how often is looked whether peers on this host live */
#define ALIKE	    1024u

static TAILQ_HEAD(, av_cm_conn) conns = TAILQ_HEAD_INITIALIZER(conns);
static LIST_HEAD(, av_cm_conn) by_remote_comm[ALIKE]; /* the last one first */
static struct av_handles numbers = {.mutex = PTHREAD_MUTEX_INITIALIZER};
static uint64_t deaths_ns; /* when peers were looked at last */

bool av_cm_conns_there(void)
{
	return !TAILQ_EMPTY(&conns);
}

void av_cm_conns_forked(void)
{
	TAILQ_INIT(&conns);
	memset(by_remote_comm, 0, sizeof(by_remote_comm));
	numbers = (struct av_handles){.mutex = PTHREAD_MUTEX_INITIALIZER};
}

/* --- life ------------------------------------------------------------------------------ */

struct av_cm_conn *av_cm_conn_new(struct av_cm_id *id, enum av_cm_conn_state state,
				  const struct av_cm_route *route)
{
	struct av_cm_conn *c = calloc(1, sizeof(*c));
	uint32_t index = c ? av_handles_add(&numbers, c, AV_CM_COMM_MAX - 1) : 0;

	if (!index) {
		free(c);
		return NULL;
	}
	c->comm = av_cm_comm(index);
	c->nonce = (uint32_t)av_random();
	c->state = state;
	c->id = id;
	c->route = *route;
	c->due_ns = UINT64_MAX;
	c->psn = (uint32_t)av_random() & AV_PSN_MASK;
	TAILQ_INSERT_TAIL(&conns, c, entry);
	if (route->proc)
		av_cm_wake(av_now_ns() + DEATH_NS);
	return c;
}

static void free_cm_conn(struct av_cm_conn *c)
{
	av_handles_remove(&numbers, av_cm_comm_index(c->comm));
	TAILQ_REMOVE(&conns, c, entry);
	if (c->alike.le_prev)
		LIST_REMOVE(c, alike);
	free(c);
}

void av_cm_conn_called(struct av_cm_conn *c, uint32_t remote_comm)
{
	if (c->alike.le_prev)
		LIST_REMOVE(c, alike);
	c->remote_comm = remote_comm;
	LIST_INSERT_HEAD(&by_remote_comm[remote_comm % ALIKE], c, alike);
}

/* The connection that a message is for, by its own number. Context: locked */
static struct av_cm_conn *conn_of_message(uint32_t comm)
{
	struct av_cm_conn *c = av_table_get(&numbers.table, av_cm_comm_index(comm));

	return c && c->comm == comm ? c : NULL;
}

/* No connection begins by such a request, so nobody hears of the end of the peer. */
static bool serves_datagrams(const struct av_cm_conn *c)
{
	return c->state == AV_CM_SIDR_RECEIVED || c->state == AV_CM_SIDR_ANSWERED;
}

/*
 * The connection that this peer has requested under that number, of that kind, and in the
 * transaction *@request unless it is NULL: a peer that begins anew may give a number again.
 * Context: locked
 */
static struct av_cm_conn *requested_conn(const struct av_net_path *back, uint32_t remote_comm,
					 bool sidr, const uint64_t *request)
{
	struct av_cm_conn *c;

	LIST_FOREACH(c, &by_remote_comm[remote_comm % ALIKE], alike)
		if (c->remote_comm == remote_comm && serves_datagrams(c) == sidr &&
		    c->state != AV_CM_ENDED && (!request || c->request == *request) &&
		    memcmp(c->route.path.dst, back->dst, sizeof(back->dst)) == 0)
			return c;
	return NULL;
}

/* --- sending --------------------------------------------------------------------------- */

/* What a peer has no room for now waits here, for moments. */
static void send_conn_message(struct av_cm_conn *c)
{
	c->unsent = av_cm_send(&c->route, &c->sent) == -EAGAIN;
	if (c->unsent)
		av_cm_wake(av_now_ns() + FULL_NS);
}

static void due_after(struct av_cm_conn *c, uint64_t ns)
{
	c->due_ns = av_now_ns() + ns;
	av_cm_wake(c->due_ns);
}

/*
 * A kernel forgets a SIDR_REQ when it has answered: one that comes again is another request to it.
 * So it is said again as late as a kernel does. Source: Linux, cm_send_sidr_rep_locked().
 */
static bool asks_slowly(const struct av_cm_conn *c)
{
	return c->state == AV_CM_SIDR_SENT && !c->route.proc;
}

static uint64_t first_ns(const struct av_cm_conn *c)
{
	return asks_slowly(c) ? LONGEST_NS : FIRST_NS;
}

static unsigned int requests(const struct av_cm_conn *c)
{
	return asks_slowly(c) ? SLOW_TRIES : TRIES;
}

/*
 * All messages until the connection is there are of the transaction that the request has begun, and
 * what answers has that of what it answers. Source: Linux, cm_format_rep(), cm_format_drep() ...
 */
static uint64_t transaction_of(const struct av_cm_conn *c, uint16_t attribute)
{
	if (attribute == AV_CM_DREP)
		return c->goodbye;
	if (attribute != AV_CM_DREQ && c->request)
		return c->request;
	return (uint64_t)c->nonce << 32 | (attribute == AV_CM_DREQ ? AV_CM_DREQ : AV_CM_REQ);
}

/* Send a message, filled in but for its numbers, @tries times until there is an answer. */
static void start_conn_message(struct av_cm_conn *c, struct av_cm_message m, unsigned int tries)
{
	m.local_comm_id = c->comm;
	m.remote_comm_id = c->remote_comm;
	m.transaction = transaction_of(c, m.attribute);
	c->sent = m;
	c->tries = tries;
	c->interval_ns = first_ns(c);
	if (tries)
		due_after(c, c->interval_ns);
	else
		c->due_ns = UINT64_MAX;
	send_conn_message(c);
}

void av_cm_conn_stop_timer(struct av_cm_conn *c)
{
	c->tries = 0;
	c->due_ns = UINT64_MAX;
}

/* 4.096 us * 2^service_timeout: IBTA volume 1, 12.6.6 */
static void extend_conn_timer(struct av_cm_conn *c, uint8_t service_timeout)
{
	c->tries = TRIES;
	due_after(c, 4096ull << (service_timeout < 25 ? service_timeout : 25));
}

/* Who listens on this host may be another process by now, or one at last. */
static void aim(struct av_cm_conn *c)
{
	if (c->route.proc && (c->state == AV_CM_REQ_SENT || c->state == AV_CM_SIDR_SENT))
		c->route.proc = av_cm_listener_of(&c->route, c->sent.service_id);
}

/* Nobody listens, but somebody may soon: try again then. Return: false: no more tries are left. */
static bool back_off_conn(struct av_cm_conn *c)
{
	if (c->refusals == REFUSALS)
		return false;
	c->tries = requests(c);
	c->interval_ns = first_ns(c);
	due_after(c, LISTEN_NS << c->refusals++);
	return true;
}

/* Wait for late packets, then end the id. */
static void enter_timewait(struct av_cm_conn *c)
{
	if (c->request)
		av_cm_stale_add(c->route.path.dst, c->remote_comm, c->request);
	c->state = AV_CM_TIMEWAIT;
	c->tries = 0;
	due_after(c, c->id ? TIMEWAIT_NS : 0);
}

static struct av_cm_message make_conn_message(uint16_t attribute)
{
	return (struct av_cm_message){.attribute = attribute};
}

static void end_cm_conn(struct av_cm_conn *c)
{
	av_cm_conn_stop_timer(c);
	c->state = AV_CM_ENDED;
	if (!c->id)
		av_cm_wake(0);
}

/* Answer a message that belongs to no connection. @message: of a REJ: 0 REQ, 1 REP, 2 other */
static void cm_refuse(const struct av_cm_route *route, const struct av_cm_message *m, uint8_t about,
		      uint16_t reason)
{
	struct av_cm_message reply = make_conn_message(AV_CM_REJ);

	reply.transaction = m->transaction;
	reply.local_comm_id = m->remote_comm_id;
	reply.remote_comm_id = m->local_comm_id;
	reply.message_rejected = about;
	reply.reason = reason;
	(void)av_cm_send(route, &reply);
}

/* What a REJ is about that this side sends: the message that it has got. */
static uint8_t rejected_message(const struct av_cm_conn *c)
{
	return c->state == AV_CM_REQ_RECEIVED ? 0 : c->state == AV_CM_REP_RECEIVED ? 1 : 2;
}

/* A peer that has no number of ours finds the connection by the sender's GUID: 12.6.7.2 */
static void put_guid(struct av_cm_message *m, uint64_t guid)
{
	const uint64_t bytes = htobe64(guid);

	memcpy(m->info, &bytes, sizeof(bytes));
	m->info_bytes = sizeof(bytes);
}

static void say_reject(struct av_cm_conn *c, uint16_t reason, const void *data, size_t bytes)
{
	struct av_cm_message m = make_conn_message(AV_CM_REJ);

	m.message_rejected = rejected_message(c);
	m.reason = reason;
	if (reason == AV_CM_TIMEOUT)
		put_guid(&m, c->sent.ca_guid);
	if (bytes)
		memcpy(m.private_data, data, bytes);
	start_conn_message(c, m, 0);
	end_cm_conn(c);
}

static void say_sidr_refusal(struct av_cm_conn *c, const void *data, size_t bytes)
{
	struct av_cm_message m = make_conn_message(AV_CM_SIDR_REP);

	m.transaction = c->request;
	m.local_comm_id = c->remote_comm;
	m.status = AV_CM_SIDR_REJECTED;
	if (bytes)
		memcpy(m.private_data, data, bytes);
	(void)av_cm_send(&c->route, &m);
	end_cm_conn(c);
}

/* --- commands -------------------------------------------------------------------------- */

void av_cm_conn_request(struct av_cm_conn *c, const struct av_cm_message *m)
{
	start_conn_message(c, *m, requests(c));
}

int av_cm_conn_reply(struct av_cm_conn *c, const struct av_cm_message *m)
{
	if (m->attribute == AV_CM_REP && c->state == AV_CM_REQ_RECEIVED) {
		c->state = AV_CM_REP_SENT;
		start_conn_message(c, *m, TRIES);
		return 0;
	}
	if (m->attribute != AV_CM_SIDR_REP || c->state != AV_CM_SIDR_RECEIVED)
		return -EINVAL;
	c->state = AV_CM_SIDR_ANSWERED;
	c->sent = *m;
	c->sent.transaction = c->request;
	c->sent.local_comm_id = c->remote_comm;
	send_conn_message(c);
	return 0;
}

int av_cm_conn_ready(struct av_cm_conn *c)
{
	if (c->state != AV_CM_REP_RECEIVED)
		return -EINVAL;
	c->state = AV_CM_ESTABLISHED;
	start_conn_message(c, make_conn_message(AV_CM_RTU), 0);
	return 0;
}

int av_cm_conn_reject(struct av_cm_conn *c, uint8_t reason, const void *data, size_t bytes)
{
	switch (c->state) {
	case AV_CM_REQ_SENT:
	case AV_CM_REQ_RECEIVED:
	case AV_CM_REP_RECEIVED:
	case AV_CM_REP_SENT:
		say_reject(c, reason, data, bytes);
		return 0;
	case AV_CM_SIDR_RECEIVED:
		say_sidr_refusal(c, data, bytes);
		return 0;
	default:
		return -EINVAL;
	}
}

void av_cm_conn_disconnect(struct av_cm_conn *c)
{
	switch (c->state) {
	case AV_CM_ESTABLISHED: {
		struct av_cm_message m = make_conn_message(AV_CM_DREQ);

		m.qpn = c->remote_qpn;
		c->state = AV_CM_DREQ_SENT;
		start_conn_message(c, m, GOODBYES);
		break;
	}
	case AV_CM_DREQ_RECEIVED:
		start_conn_message(c, make_conn_message(AV_CM_DREP), 0);
		enter_timewait(c);
		break;
	default:
		break;
	}
}

int av_cm_conn_established(struct av_cm_conn *c)
{
	if (c->state == AV_CM_ESTABLISHED)
		return -EISCONN;
	if (c->state != AV_CM_REP_SENT)
		return -EINVAL;
	av_cm_conn_stop_timer(c);
	c->state = AV_CM_ESTABLISHED;
	return 0;
}

void av_cm_conn_abandon(struct av_cm_conn *c)
{
	c->id = NULL;
	switch (c->state) {
	case AV_CM_REQ_SENT:
		say_reject(c, AV_CM_TIMEOUT, NULL, 0);
		break;
	case AV_CM_REQ_RECEIVED:
	case AV_CM_REP_SENT: /* a peer that is not established yet takes no DREQ */
	case AV_CM_REP_RECEIVED:
	case AV_CM_SIDR_RECEIVED:
		(void)!av_cm_conn_reject(c, AV_CM_CONSUMER, NULL, 0);
		break;
	case AV_CM_ESTABLISHED:
	case AV_CM_DREQ_RECEIVED:
		av_cm_conn_disconnect(c);
		break;
	case AV_CM_DREQ_SENT:
		break;
	default:
		end_cm_conn(c);
	}
	av_cm_wake(0);
}

void av_cm_conns_exit(void)
{
	struct av_cm_conn *c;

	/* Of copies: other threads may still use them. */
	TAILQ_FOREACH(c, &conns, entry) {
		struct av_cm_conn copy = *c;

		av_cm_conn_abandon(&copy);
	}
}

/* --- time ------------------------------------------------------------------------------ */

/* No answer has come. */
static void give_up(struct av_cm_conn *c)
{
	enum av_cm_conn_state state = c->state;

	if (state == AV_CM_DREQ_SENT) {
		if (c->id)
			av_cm_id_heard(c->id, AV_CM_EVENT_DISCONNECTED, -ETIMEDOUT, NULL);
		enter_timewait(c);
		return;
	}
	if (c->id && (state == AV_CM_REQ_SENT || state == AV_CM_SIDR_SENT))
		av_cm_report_silence(&c->route, c->id->service_id, requests(c));
	if (state == AV_CM_REQ_SENT || state == AV_CM_REP_SENT)
		say_reject(c, AV_CM_TIMEOUT, NULL, 0);
	else
		end_cm_conn(c);
	if (c->id)
		av_cm_id_heard(c->id, AV_CM_EVENT_UNREACHABLE, -ETIMEDOUT, NULL);
}

static void handle_conn_timeout(struct av_cm_conn *c)
{
	c->due_ns = UINT64_MAX;
	if (c->state == AV_CM_TIMEWAIT) {
		end_cm_conn(c);
		if (c->id)
			av_cm_id_heard(c->id, AV_CM_EVENT_TIMEWAIT_EXIT, 0, NULL);
	} else if (c->tries && --c->tries == 0) {
		give_up(c);
	} else if (c->tries) {
		c->interval_ns = 2 * c->interval_ns < LONGEST_NS ? 2 * c->interval_ns : LONGEST_NS;
		due_after(c, c->interval_ns);
		aim(c);
		send_conn_message(c);
		if (c->tries == 1 && !c->route.proc)
			av_net_icmp_watch(&c->route.path);
	}
}

/* What its kernel would have said when the peer's process ended. */
static void peer_died(struct av_cm_conn *c)
{
	struct av_cm_message m = make_conn_message(AV_CM_REJ);

	m.reason = AV_CM_CONSUMER;
	switch (c->state) {
	case AV_CM_REQ_SENT:
	case AV_CM_REQ_RECEIVED:
	case AV_CM_REP_SENT:
	case AV_CM_REP_RECEIVED:
		end_cm_conn(c);
		if (c->id)
			av_cm_id_heard(c->id, AV_CM_EVENT_REJECTED, AV_CM_CONSUMER, &m);
		break;
	case AV_CM_ESTABLISHED:
	case AV_CM_DREQ_SENT:
		if (c->id)
			av_cm_id_heard(c->id, AV_CM_EVENT_DISCONNECTED, 0, NULL);
		c->unsent = false;
		enter_timewait(c);
		break;
	case AV_CM_DREQ_RECEIVED:
		enter_timewait(c);
		break;
	case AV_CM_SIDR_SENT:
		give_up(c);
		break;
	default:
		break;
	}
}

static bool has_conn_peer_died(const struct av_cm_conn *c)
{
	static uint32_t asked; /* one process has many connections */
	static uint64_t asked_ns;
	static bool lives;

	if (asked != c->route.proc || asked_ns != deaths_ns) {
		asked = c->route.proc;
		asked_ns = deaths_ns;
		lives = av_dir_proc_alive(asked);
	}
	return !lives;
}

/* May it be forgotten? */
static bool is_forgotten(const struct av_cm_conn *c)
{
	return !c->id && !c->unsent;
}

static bool is_conn_ended(const struct av_cm_conn *c)
{
	return c->state == AV_CM_ENDED || c->state == AV_CM_TIMEWAIT;
}

/* Is the end of the peer's process to be noticed? */
static bool needs_peer(const struct av_cm_conn *c)
{
	return c->route.proc && !is_conn_ended(c) && !serves_datagrams(c);
}

uint64_t av_cm_conns_look(uint64_t now_ns)
{
	bool deaths = now_ns - deaths_ns >= DEATH_NS;
	uint64_t next = UINT64_MAX;
	struct av_cm_conn *c, *after;
	uint32_t full = UINT32_MAX; /* the process that has no room now; 0: the network */

	if (deaths)
		deaths_ns = now_ns;
	for (c = TAILQ_FIRST(&conns); c; c = after) {
		after = TAILQ_NEXT(c, entry);
		if (c->due_ns <= now_ns)
			handle_conn_timeout(c);
		if (deaths && needs_peer(c) && has_conn_peer_died(c))
			peer_died(c);
		if (c->unsent && c->route.proc != full)
			send_conn_message(c);
		if (c->unsent)
			full = c->route.proc;
		if (is_conn_ended(c) && is_forgotten(c)) {
			free_cm_conn(c);
			continue;
		}
		if (c->unsent && now_ns + FULL_NS < next)
			next = now_ns + FULL_NS;
		if (c->due_ns < next)
			next = c->due_ns;
		if (needs_peer(c) && deaths_ns + DEATH_NS < next)
			next = deaths_ns + DEATH_NS;
	}
	return next;
}

/* Messages that have come: whose are they, and what do they change? IBTA volume 1, 12.9. */

#define SLOW_TIMEOUT 20 /* what an MRA asks for: 4.3 s */

static void report_conn_event(struct av_cm_conn *c, enum av_cm_event_type event, int status,
			      const struct av_cm_message *m)
{
	if (c->id)
		av_cm_id_heard(c->id, event, status, m);
}

/* A message has come again, since the program takes its time. @about: 0 REQ, 1 REP */
static void ask_for_time(struct av_cm_conn *c, uint8_t about)
{
	const struct av_cm_message m = {.attribute = AV_CM_MRA,
					.transaction =
						c->request ? c->request : c->sent.transaction,
					.local_comm_id = c->comm,
					.remote_comm_id = c->remote_comm,
					.message_mraed = about,
					.service_timeout = SLOW_TIMEOUT};

	(void)av_cm_send(&c->route, &m);
}

/* --- requests -------------------------------------------------------------------------- */

/* It has come before. Its answer is on its way, or was lost, or is not there yet. */
static void requested_again(struct av_cm_conn *c)
{
	if (c->state == AV_CM_REP_SENT || c->state == AV_CM_ESTABLISHED) {
		send_conn_message(c);
		return;
	}
	if (c->state == AV_CM_REQ_RECEIVED)
		ask_for_time(c, 0);
}

static void requested(const struct av_net_path *path, const struct av_cm_message *m)
{
	struct av_cm_conn *c = requested_conn(path, m->local_comm_id, false, &m->transaction);
	struct av_cm_route route;
	uint16_t reason;

	if (c) {
		requested_again(c);
		return;
	}
	if (av_cm_stale_is(path->dst, m->local_comm_id, m->transaction))
		return;
	route = av_cm_route_back(path, m);
	reason = av_cm_id_requested(&route, m);
	if (reason)
		cm_refuse(&route, m, 0, reason);
}

static void sidr_requested(const struct av_net_path *path, const struct av_cm_message *m)
{
	struct av_cm_conn *c = requested_conn(path, m->local_comm_id, true, &m->transaction);
	struct av_cm_message refusal = {.attribute = AV_CM_SIDR_REP,
					.transaction = m->transaction,
					.local_comm_id = m->local_comm_id};
	struct av_cm_route route;
	uint16_t reason;

	if (c) {
		if (c->state == AV_CM_SIDR_ANSWERED)
			send_conn_message(c);
		return;
	}
	route = av_cm_route_back(path, m);
	reason = av_cm_id_requested(&route, m);
	if (!reason)
		return;
	refusal.status =
		reason == AV_CM_INVALID_SERVICE_ID ? AV_CM_SIDR_UNSUPPORTED : AV_CM_SIDR_REJECTED;
	(void)av_cm_send(&route, &refusal);
}

/* --- answers --------------------------------------------------------------------------- */

static void replied(struct av_cm_conn *c, const struct av_cm_message *m)
{
	if (c->state == AV_CM_ESTABLISHED && c->sent.attribute == AV_CM_RTU)
		send_conn_message(c); /* it was lost */
	if (c->state == AV_CM_REP_RECEIVED)
		ask_for_time(c, 1);
	if (c->state != AV_CM_REQ_SENT)
		return;
	av_cm_conn_stop_timer(c);
	c->state = AV_CM_REP_RECEIVED;
	av_cm_conn_called(c, m->local_comm_id);
	c->remote_qpn = av_cm_kind_qpn(m, c->id->qp_type);
	c->remote_psn = m->psn;
	c->initiator_depth = m->responder_resources;
	c->responder_resources = m->initiator_depth;
	c->rnr_retry_count = m->rnr_retry_count;
	report_conn_event(c, AV_CM_EVENT_CONNECT_RESPONSE, 0, m);
}

/* No event has private data of an RTU, nor of a DREQ or DREP: so the kernel. */
static void handle_rtu(struct av_cm_conn *c)
{
	if (c->state != AV_CM_REP_SENT)
		return;
	av_cm_conn_stop_timer(c);
	c->state = AV_CM_ESTABLISHED;
	report_conn_event(c, AV_CM_EVENT_ESTABLISHED, 0, NULL);
}

static void rejected(struct av_cm_conn *c, const struct av_cm_message *m)
{
	if (c->state == AV_CM_REQ_SENT && m->reason == AV_CM_INVALID_SERVICE_ID && back_off_conn(c))
		return;
	switch (c->state) {
	case AV_CM_REQ_SENT:
	case AV_CM_REQ_RECEIVED:
	case AV_CM_REP_SENT:
	case AV_CM_REP_RECEIVED:
		av_cm_conn_stop_timer(c);
		if (c->request)
			av_cm_stale_add(c->route.path.dst, c->remote_comm, c->request);
		if (c->id && c->state == AV_CM_REQ_SENT)
			av_cm_report_refused(&c->route, c->id->service_id, m->reason,
					     m->reason == AV_CM_INVALID_SERVICE_ID);
		c->state = AV_CM_ENDED;
		report_conn_event(c, AV_CM_EVENT_REJECTED, m->reason, m);
		break;
	case AV_CM_ESTABLISHED: /* it knows nothing of the connection any more */
	case AV_CM_DREQ_SENT:
		av_cm_conn_stop_timer(c);
		report_conn_event(c, AV_CM_EVENT_DISCONNECTED, 0, NULL);
		enter_timewait(c);
		break;
	default:
		break;
	}
}

static void is_slow(struct av_cm_conn *c, const struct av_cm_message *m)
{
	if (c->state == AV_CM_REQ_SENT || c->state == AV_CM_REP_SENT)
		extend_conn_timer(c, m->service_timeout);
}

/* The numbers of connections alone are easy to guess. Source: Linux, cm_dreq_handler() */
static void disconnected(struct av_cm_conn *c, const struct av_cm_message *m)
{
	if (m->qpn != c->qpn)
		return;
	if (c->state != AV_CM_TIMEWAIT)
		c->goodbye = m->transaction;
	if (c->state == AV_CM_REP_SENT) { /* its RTU was lost */
		av_cm_conn_stop_timer(c);
		c->state = AV_CM_ESTABLISHED;
		report_conn_event(c, AV_CM_EVENT_ESTABLISHED, 0, NULL);
	}
	switch (c->state) {
	case AV_CM_ESTABLISHED:
		c->state = AV_CM_DREQ_RECEIVED;
		report_conn_event(c, AV_CM_EVENT_DISCONNECTED, 0, NULL);
		if (!c->id)
			av_cm_conn_disconnect(c);
		break;
	case AV_CM_DREQ_SENT: /* both at once */
		av_cm_conn_stop_timer(c);
		c->state = AV_CM_DREQ_RECEIVED;
		report_conn_event(c, AV_CM_EVENT_DISCONNECTED, 0, NULL);
		av_cm_conn_disconnect(c);
		break;
	case AV_CM_TIMEWAIT:
		if (c->sent.attribute == AV_CM_DREP)
			send_conn_message(c);
		break;
	default:
		break;
	}
}

static void is_disconnected(struct av_cm_conn *c)
{
	if (c->state != AV_CM_DREQ_SENT)
		return;
	av_cm_conn_stop_timer(c);
	report_conn_event(c, AV_CM_EVENT_DISCONNECTED, 0, NULL);
	enter_timewait(c);
}

static void sidr_replied(struct av_cm_conn *c, const struct av_cm_message *m)
{
	bool ok = m->status == AV_CM_SIDR_OK;

	if (c->state != AV_CM_SIDR_SENT ||
	    (m->status == AV_CM_SIDR_UNSUPPORTED && back_off_conn(c)))
		return;
	av_cm_conn_stop_timer(c);
	if (c->id && !ok)
		av_cm_report_refused(&c->route, c->id->service_id, m->status,
				     m->status == AV_CM_SIDR_UNSUPPORTED);
	c->state = AV_CM_ENDED;
	report_conn_event(c, ok ? AV_CM_EVENT_ESTABLISHED : AV_CM_EVENT_UNREACHABLE, m->status, m);
}

/* No alternate path is ever loaded: APR status 0x? says so. */
static void asked_for_path(struct av_cm_conn *c, const struct av_cm_message *m)
{
	struct av_cm_message reply = {.attribute = AV_CM_APR,
				      .transaction = m->transaction,
				      .local_comm_id = c->comm,
				      .remote_comm_id = c->remote_comm,
				      .status = 2 /* rejected: 12.8.2 */};

	(void)av_cm_send(&c->route, &reply);
}

/* --- whose ----------------------------------------------------------------------------- */

/* A message of a connection that is not known, or not with that peer. */
static void reply_unknown_conn(const struct av_net_path *path, const struct av_cm_message *m)
{
	const struct av_cm_route route = av_cm_route_back(path, m);
	struct av_cm_message reply = {.attribute = AV_CM_DREP,
				      .transaction = m->transaction,
				      .local_comm_id = m->remote_comm_id,
				      .remote_comm_id = m->local_comm_id};

	if (m->attribute == AV_CM_DREQ)
		(void)av_cm_send(&route, &reply);
	else if (m->attribute == AV_CM_REP)
		cm_refuse(&route, m, 1, AV_CM_INVALID_COMM_ID);
}

/* The peer goes on: it has not heard of the end, or answers what is late. */
static void after_end(struct av_cm_conn *c, const struct av_net_path *path,
		      const struct av_cm_message *m)
{
	if (m->attribute == AV_CM_REP && c->sent.attribute == AV_CM_REJ)
		send_conn_message(c);
	else
		reply_unknown_conn(path, m);
}

/* It has no number for this end yet. Else a refusal without one is late, or somebody else's. */
static bool may_lack_number(const struct av_cm_conn *c, const struct av_cm_message *m)
{
	return m->attribute == AV_CM_REJ && m->local_comm_id == 0 && c->state == AV_CM_REP_SENT;
}

/* Until the answer to a request, the peer's number is not known. */
static bool is_peer(const struct av_cm_conn *c, const struct av_net_path *path,
		    const struct av_cm_message *m)
{
	return memcmp(c->route.path.dst, path->dst, sizeof(path->dst)) == 0 &&
	       (c->remote_comm == 0 || m->attribute == AV_CM_SIDR_REP ||
		c->remote_comm == m->local_comm_id || may_lack_number(c, m));
}

static void answered(const struct av_net_path *path, const struct av_cm_message *m)
{
	uint32_t comm = m->attribute == AV_CM_SIDR_REP ? m->local_comm_id : m->remote_comm_id;
	struct av_cm_conn *c = conn_of_message(comm);

	if (!c && m->attribute == AV_CM_REJ && m->remote_comm_id == 0)
		c = requested_conn(path, m->local_comm_id, false, NULL);
	if (!c || !is_peer(c, path, m)) {
		reply_unknown_conn(path, m);
		return;
	}
	if (c->state == AV_CM_ENDED) {
		after_end(c, path, m);
		return;
	}
	switch (m->attribute) {
	case AV_CM_REP:
		replied(c, m);
		break;
	case AV_CM_RTU:
		handle_rtu(c);
		break;
	case AV_CM_REJ:
		rejected(c, m);
		break;
	case AV_CM_MRA:
		is_slow(c, m);
		break;
	case AV_CM_DREQ:
		disconnected(c, m);
		break;
	case AV_CM_DREP:
		is_disconnected(c);
		break;
	case AV_CM_SIDR_REP:
		sidr_replied(c, m);
		break;
	case AV_CM_LAP:
		asked_for_path(c, m);
		break;
	default:
		break;
	}
}

void av_cm_arrived(const struct av_net_path *path, const struct av_cm_message *m)
{
	av_cm_lock();
	if (m->attribute == AV_CM_REQ)
		requested(path, m);
	else if (m->attribute == AV_CM_SIDR_REQ)
		sidr_requested(path, m);
	else
		answered(path, m);
	av_cm_unlock();
}
