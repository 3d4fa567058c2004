/* SPDX-License-Identifier: MIT */
#include "cm/id.h"

#include <endian.h>

#include "base/random.h"
#include "base/table.h"

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
#define MRA_TIMEOUT 20	       /* what an MRA asks for: 4.3 s */
#define ALIKE	    1024u

enum { REJECTS_REQ, REJECTS_REP, REJECTS_OTHER }; /* field @message_rejected: 12.6.7.1 */

#define IN(state)  (1u << AV_CM_##state)
#define CONNECTING (IN(REQ_SENT) | IN(REQ_RECEIVED) | IN(REP_SENT) | IN(REP_RECEIVED))
#define SERVES	   (IN(SIDR_RECEIVED) | IN(SIDR_ANSWERED)) /* datagrams: without a connection */
#define OVER	   (IN(TIMEWAIT) | IN(ENDED))

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

static uint32_t comm_of(uint32_t index)
{
	uint32_t tag = (uint32_t)av_random() % (1u << AV_CM_COMM_BITS) & ~(AV_CM_COMM_MAX - 1);

	return AV_REF_SLOT(av_lock_self) << AV_CM_COMM_BITS | tag | index;
}

static uint32_t index_of(uint32_t comm)
{
	return comm & (AV_CM_COMM_MAX - 1);
}

static void free_cm_conn(struct av_cm_conn *c)
{
	av_handles_remove(&numbers, index_of(c->comm));
	TAILQ_REMOVE(&conns, c, entry);
	if (c->alike.le_prev)
		LIST_REMOVE(c, alike);
	free(c);
}

static void keep_path(struct av_cm_conn *c, const struct av_cm_message *request)
{
	c->retry_count = request->retry_count;
	c->ack_timeout = request->primary.ack_timeout;
	c->path_mtu = request->path_mtu;
}

/*
 * Keep what the peer's REQ, SIDR_REQ or REP says, and find the connection by the peer's number.
 * What one end initiates, the other responds to.
 */
static void keep_peer(struct av_cm_conn *c, const struct av_cm_message *m)
{
	c->remote_comm = m->local_comm_id;
	LIST_INSERT_HEAD(&by_remote_comm[c->remote_comm % ALIKE], c, alike);
	c->remote_qpn = av_cm_kind_qpn(m, c->id->qp_type);
	c->remote_psn = m->psn;
	c->responder_resources = m->initiator_depth;
	c->initiator_depth = m->responder_resources;
	c->rnr_retry_count = m->rnr_retry_count;
	if (m->attribute == AV_CM_REP)
		return;
	c->request = m->transaction;
	c->route.path.traffic_class = m->primary.traffic_class;
	c->route.path.hop_limit = m->primary.hop_limit;
	keep_path(c, m);
}

struct av_cm_conn *av_cm_conn_new(struct av_cm_id *id, enum av_cm_conn_state state,
				  const struct av_cm_route *route,
				  const struct av_cm_message *request)
{
	struct av_cm_conn *c = calloc(1, sizeof(*c));
	uint32_t index = c ? av_handles_add(&numbers, c, AV_CM_COMM_MAX - 1) : 0;

	if (!index) {
		free(c);
		return NULL;
	}
	c->comm = comm_of(index);
	c->nonce = (uint32_t)av_random();
	c->state = state;
	c->id = id;
	c->route = *route;
	c->due_ns = UINT64_MAX;
	c->psn = (uint32_t)av_random() & AV_PSN_MASK;
	TAILQ_INSERT_TAIL(&conns, c, entry);
	if (request)
		keep_peer(c, request);
	if (route->proc)
		av_cm_wake(av_now_ns() + DEATH_NS);
	return c;
}

static bool is_in(const struct av_cm_conn *c, unsigned int states)
{
	return 1u << c->state & states;
}

/*
 * The connection that this peer has requested under that number, of that kind, and in transaction
 * *@request unless NULL: a peer that begins anew may give a number again. Context: locked
 */
static struct av_cm_conn *requested_conn(const struct av_net_path *back, uint32_t remote_comm,
					 bool sidr, const uint64_t *request)
{
	struct av_cm_conn *c;

	LIST_FOREACH(c, &by_remote_comm[remote_comm % ALIKE], alike)
		if (c->remote_comm == remote_comm && is_in(c, SERVES) == sidr &&
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

/* When a message is repeated first, and how often in all. */
static const struct pace {
	uint64_t first_ns;
	unsigned int tries;
} usual = {FIRST_NS, TRIES}, slow = {LONGEST_NS, SLOW_TRIES};

/*
 * A kernel forgets a SIDR_REQ when it has answered, so one that is repeated is another request to
 * it: repeat as late as a kernel does. Source: Linux, cm_send_sidr_rep_locked().
 */
static const struct pace *pace_of(const struct av_cm_conn *c)
{
	return c->state == AV_CM_SIDR_SENT && !c->route.proc ? &slow : &usual;
}

/*
 * All messages up to the connection are of the transaction that the request has begun; an answer
 * has that of what it answers. Source: Linux, cm_format_rep(), cm_format_drep() ...
 */
static uint64_t transaction_of(const struct av_cm_conn *c, uint16_t attribute)
{
	if (attribute == AV_CM_DREP)
		return c->goodbye;
	if (attribute == AV_CM_SIDR_REP || (attribute != AV_CM_DREQ && c->request))
		return c->request;
	return (uint64_t)c->nonce << 32 | (attribute == AV_CM_DREQ ? AV_CM_DREQ : AV_CM_REQ);
}

/* @m with the connection's numbers: of SIDR, both ends use the requester's. */
static struct av_cm_message numbered(const struct av_cm_conn *c, struct av_cm_message m)
{
	m.local_comm_id = m.attribute == AV_CM_SIDR_REP ? c->remote_comm : c->comm;
	m.remote_comm_id = c->remote_comm;
	m.transaction = transaction_of(c, m.attribute);
	return m;
}

/* Send a message, filled in but for its numbers, @tries times until there is an answer. */
static void start_conn_message(struct av_cm_conn *c, const struct av_cm_message *m,
			       unsigned int tries)
{
	c->sent = numbered(c, *m);
	c->tries = tries;
	c->interval_ns = pace_of(c)->first_ns;
	c->due_ns = UINT64_MAX;
	if (tries)
		due_after(c, c->interval_ns);
	send_conn_message(c);
}

/* Enter a state in which nothing is retransmitted. */
static void enter_conn_state(struct av_cm_conn *c, enum av_cm_conn_state state)
{
	c->state = state;
	c->tries = 0;
	c->due_ns = UINT64_MAX;
}

/* Nobody listens, but somebody may soon: try again then. Return: false: no more tries are left. */
static bool back_off_conn(struct av_cm_conn *c)
{
	if (c->refusals == REFUSALS)
		return false;
	c->tries = pace_of(c)->tries;
	c->interval_ns = pace_of(c)->first_ns;
	due_after(c, LISTEN_NS << c->refusals++);
	return true;
}

static void report_conn_event(struct av_cm_conn *c, enum av_cm_event_type event, int status,
			      const struct av_cm_message *m)
{
	if (c->id)
		av_cm_id_heard(c->id, event, status, m);
}

static void forget_request(const struct av_cm_conn *c)
{
	if (c->request)
		av_cm_stale_add(c->route.path.dst, c->remote_comm, c->request);
}

/* Wait for late packets, then end the id. */
static void enter_timewait(struct av_cm_conn *c)
{
	forget_request(c);
	enter_conn_state(c, AV_CM_TIMEWAIT);
	due_after(c, c->id ? TIMEWAIT_NS : 0);
}

/* The connection is over for both. */
static void lose(struct av_cm_conn *c, int status)
{
	report_conn_event(c, AV_CM_EVENT_DISCONNECTED, status, NULL);
	enter_timewait(c);
}

static void end_cm_conn(struct av_cm_conn *c)
{
	enter_conn_state(c, AV_CM_ENDED);
	if (!c->id)
		av_cm_wake(0);
}

/* An answer to @m beside the connection's own messages, or without a connection. */
static struct av_cm_message answer_to(const struct av_cm_message *m, uint16_t attribute)
{
	bool sidr = attribute == AV_CM_SIDR_REP;

	return (struct av_cm_message){.attribute = attribute,
				      .transaction = m->transaction,
				      .local_comm_id = sidr ? m->local_comm_id : m->remote_comm_id,
				      .remote_comm_id = m->local_comm_id};
}

/* Answer a REQ, SIDR_REQ or REP that belongs to no connection. */
static void refuse_message(const struct av_cm_route *route, const struct av_cm_message *m,
			   uint16_t reason)
{
	struct av_cm_message reply =
		answer_to(m, m->attribute == AV_CM_SIDR_REQ ? AV_CM_SIDR_REP : AV_CM_REJ);

	reply.message_rejected = m->attribute == AV_CM_REP ? REJECTS_REP : REJECTS_REQ;
	reply.reason = reason;
	reply.status =
		reason == AV_CM_INVALID_SERVICE_ID ? AV_CM_SIDR_UNSUPPORTED : AV_CM_SIDR_REJECTED;
	(void)av_cm_send(route, &reply);
}

/* --- commands -------------------------------------------------------------------------- */

/* The messages that commands send: in which state, the state after it, and how often. */
static const struct send {
	uint16_t attribute;
	enum av_cm_conn_state in, after;
	unsigned int tries;
} sends[] = {
	{AV_CM_REQ, AV_CM_REQ_SENT, AV_CM_REQ_SENT, TRIES},
	{AV_CM_REP, AV_CM_REQ_RECEIVED, AV_CM_REP_SENT, TRIES},
	{AV_CM_RTU, AV_CM_REP_RECEIVED, AV_CM_ESTABLISHED, 0},
	{AV_CM_DREQ, AV_CM_ESTABLISHED, AV_CM_DREQ_SENT, GOODBYES},
	{AV_CM_DREP, AV_CM_DREQ_RECEIVED, AV_CM_TIMEWAIT, 0},
	{AV_CM_SIDR_REQ, AV_CM_SIDR_SENT, AV_CM_SIDR_SENT, TRIES},
	{AV_CM_SIDR_REP, AV_CM_SIDR_RECEIVED, AV_CM_SIDR_ANSWERED, 0},
};

int av_cm_conn_send(struct av_cm_conn *c, const struct av_cm_message *m)
{
	const struct send *s = sends;

	while (s->attribute != m->attribute)
		s++;
	if (c->state != s->in)
		return -EINVAL;
	if (c->state == AV_CM_REQ_SENT)
		keep_path(c, m);
	c->state = s->after;
	start_conn_message(c, m, s->tries == TRIES ? pace_of(c)->tries : s->tries);
	if (c->state == AV_CM_TIMEWAIT)
		enter_timewait(c);
	return 0;
}

int av_cm_conn_reject(struct av_cm_conn *c, uint16_t reason, const void *data, size_t bytes)
{
	struct av_cm_message m = {.attribute = is_in(c, SERVES) ? AV_CM_SIDR_REP : AV_CM_REJ,
				  .reason = reason,
				  .status = AV_CM_SIDR_REJECTED};
	const uint64_t guid = htobe64(c->sent.ca_guid);

	if (!is_in(c, CONNECTING | IN(SIDR_RECEIVED)))
		return -EINVAL;
	m.message_rejected = c->state == AV_CM_REQ_RECEIVED   ? REJECTS_REQ
			     : c->state == AV_CM_REP_RECEIVED ? REJECTS_REP
							      : REJECTS_OTHER;
	if (reason == AV_CM_TIMEOUT) { /* by which a peer without our number finds it: 12.6.7.2 */
		m.info_bytes = sizeof(guid);
		memcpy(m.info, &guid, sizeof(guid));
	}
	if (bytes)
		memcpy(m.private_data, data, bytes);
	start_conn_message(c, &m, 0);
	end_cm_conn(c);
	return 0;
}

void av_cm_conn_disconnect(struct av_cm_conn *c)
{
	const struct av_cm_message m = {.attribute = c->state == AV_CM_DREQ_RECEIVED ? AV_CM_DREP
										     : AV_CM_DREQ,
					.qpn = c->remote_qpn};

	(void)!av_cm_conn_send(c, &m);
}

int av_cm_conn_established(struct av_cm_conn *c)
{
	if (c->state == AV_CM_ESTABLISHED)
		return -EISCONN;
	if (c->state != AV_CM_REP_SENT)
		return -EINVAL;
	enter_conn_state(c, AV_CM_ESTABLISHED);
	return 0;
}

/* A peer that is not established yet takes no DREQ, but a REJ. */
void av_cm_conn_abandon(struct av_cm_conn *c)
{
	uint16_t reason = c->state == AV_CM_REQ_SENT ? AV_CM_TIMEOUT : AV_CM_CONSUMER;

	c->id = NULL;
	if (is_in(c, IN(ESTABLISHED) | IN(DREQ_RECEIVED)))
		av_cm_conn_disconnect(c);
	else if (c->state != AV_CM_DREQ_SENT && av_cm_conn_reject(c, reason, NULL, 0))
		end_cm_conn(c);
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

static void give_up(struct av_cm_conn *c)
{
	if (c->state == AV_CM_DREQ_SENT) {
		lose(c, -ETIMEDOUT);
		return;
	}
	if (is_in(c, IN(REQ_SENT) | IN(SIDR_SENT)))
		av_cm_report_silence(&c->route, c->id->service_id, pace_of(c)->tries);
	if (av_cm_conn_reject(c, AV_CM_TIMEOUT, NULL, 0))
		end_cm_conn(c);
	report_conn_event(c, AV_CM_EVENT_UNREACHABLE, -ETIMEDOUT, NULL);
}

static void handle_conn_timeout(struct av_cm_conn *c)
{
	c->due_ns = UINT64_MAX;
	if (c->state == AV_CM_TIMEWAIT) {
		end_cm_conn(c);
		report_conn_event(c, AV_CM_EVENT_TIMEWAIT_EXIT, 0, NULL);
	} else if (c->tries && --c->tries == 0) {
		give_up(c);
	} else if (c->tries) {
		c->interval_ns = 2 * c->interval_ns < LONGEST_NS ? 2 * c->interval_ns : LONGEST_NS;
		due_after(c, c->interval_ns);
		if (c->route.proc &&
		    is_in(c, IN(REQ_SENT) | IN(SIDR_SENT))) /* another may listen */
			c->route.proc = av_cm_listener_of(&c->route, c->sent.service_id);
		send_conn_message(c);
		if (c->tries == 1 && !c->route.proc)
			av_net_icmp_probe(&c->route.path);
	}
}

/* What its kernel would have said when the peer's process ended. */
static void peer_died(struct av_cm_conn *c)
{
	const struct av_cm_message m = {.attribute = AV_CM_REJ, .reason = AV_CM_CONSUMER};

	if (is_in(c, CONNECTING)) {
		end_cm_conn(c);
		report_conn_event(c, AV_CM_EVENT_REJECTED, AV_CM_CONSUMER, &m);
	} else if (c->state == AV_CM_SIDR_SENT) {
		give_up(c);
	} else {
		c->unsent = false;
		lose(c, 0);
	}
}

/* Is the end of the peer's process to be noticed? */
static bool needs_peer(const struct av_cm_conn *c)
{
	return c->route.proc && !is_in(c, OVER | SERVES);
}

void av_cm_conns_look(uint64_t now_ns)
{
	bool deaths = now_ns - deaths_ns >= DEATH_NS, lives = true;
	struct av_cm_conn *c, *after;
	uint32_t asked = 0;	    /* the process that @lives is about: one has many connections */
	uint32_t full = UINT32_MAX; /* the process that has no room now; 0: the network */

	if (deaths)
		deaths_ns = now_ns;
	for (c = TAILQ_FIRST(&conns); c; c = after) {
		after = TAILQ_NEXT(c, entry);
		if (c->due_ns <= now_ns)
			handle_conn_timeout(c);
		if (deaths && needs_peer(c)) {
			lives = c->route.proc == asked ? lives : av_dir_proc_alive(c->route.proc);
			asked = c->route.proc;
			if (!lives)
				peer_died(c);
		}
		if (c->unsent && c->route.proc != full)
			send_conn_message(c);
		if (c->unsent)
			full = c->route.proc;
		if (is_in(c, OVER) && !c->id && !c->unsent) {
			free_cm_conn(c);
			continue;
		}
		if (c->unsent)
			av_cm_wake(now_ns + FULL_NS);
		if (needs_peer(c))
			av_cm_wake(deaths_ns + DEATH_NS);
		av_cm_wake(c->due_ns);
	}
}

/* Messages that have come: whose are they, and what do they change? IBTA volume 1, 12.9. */

/* A message has come again, since the program takes its time. @about: 0 REQ, 1 REP */
static void ask_for_time(struct av_cm_conn *c, uint8_t about)
{
	const struct av_cm_message m =
		numbered(c, (struct av_cm_message){.attribute = AV_CM_MRA,
						   .message_mraed = about,
						   .service_timeout = MRA_TIMEOUT});

	(void)av_cm_send(&c->route, &m);
}

/* It has come before. Its answer is on its way, or was lost, or is not there yet. */
static void requested_again(struct av_cm_conn *c)
{
	if (is_in(c, IN(REP_SENT) | IN(ESTABLISHED) | IN(SIDR_ANSWERED)))
		send_conn_message(c);
	else if (c->state == AV_CM_REQ_RECEIVED)
		ask_for_time(c, 0);
}

static void requested(const struct av_net_path *path, const struct av_cm_message *m)
{
	struct av_cm_conn *c = requested_conn(path, m->local_comm_id,
					      m->attribute == AV_CM_SIDR_REQ, &m->transaction);
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
		refuse_message(&route, m, reason);
}

/* --- answers --------------------------------------------------------------------------- */

/* Changes the state of a connection by its peer's message. */
typedef void answered_by(struct av_cm_conn *c, const struct av_cm_message *m);

static void replied(struct av_cm_conn *c, const struct av_cm_message *m)
{
	if (c->state == AV_CM_ESTABLISHED && c->sent.attribute == AV_CM_RTU)
		send_conn_message(c); /* it was lost */
	if (c->state == AV_CM_REP_RECEIVED)
		ask_for_time(c, 1);
	if (c->state != AV_CM_REQ_SENT)
		return;
	enter_conn_state(c, AV_CM_REP_RECEIVED);
	keep_peer(c, m);
	report_conn_event(c, AV_CM_EVENT_CONNECT_RESPONSE, 0, m);
}

/* No event has private data of an RTU, nor of a DREQ or DREP: so the kernel. */
static void confirmed(struct av_cm_conn *c, const struct av_cm_message *m)
{
	if (av_cm_conn_established(c) == 0)
		report_conn_event(c, AV_CM_EVENT_ESTABLISHED, 0, NULL);
}

static void rejected(struct av_cm_conn *c, const struct av_cm_message *m)
{
	bool asked = c->state == AV_CM_REQ_SENT, unknown = m->reason == AV_CM_INVALID_SERVICE_ID;

	if (asked && unknown && back_off_conn(c))
		return;
	if (is_in(c, CONNECTING)) {
		forget_request(c);
		if (asked)
			av_cm_report_refused(&c->route, c->id->service_id, m->reason, unknown);
		end_cm_conn(c);
		report_conn_event(c, AV_CM_EVENT_REJECTED, m->reason, m);
	} else if (is_in(c, IN(ESTABLISHED) | IN(DREQ_SENT))) {
		lose(c, 0); /* it knows nothing of the connection any more */
	}
}

/* 4.096 us * 2^service_timeout: IBTA volume 1, 12.6.6 */
static void is_slow(struct av_cm_conn *c, const struct av_cm_message *m)
{
	if (!is_in(c, IN(REQ_SENT) | IN(REP_SENT)))
		return;
	c->tries = TRIES;
	due_after(c, 4096ull << (m->service_timeout < 25 ? m->service_timeout : 25));
}

/* The numbers of connections alone are easy to guess. Source: Linux, cm_dreq_handler() */
static void disconnected(struct av_cm_conn *c, const struct av_cm_message *m)
{
	bool both; /* at once */

	if (m->qpn != c->qpn)
		return;
	if (c->state == AV_CM_TIMEWAIT) {
		if (c->sent.attribute == AV_CM_DREP)
			send_conn_message(c);
		return;
	}
	c->goodbye = m->transaction;
	confirmed(c, m); /* its RTU was lost */
	both = c->state == AV_CM_DREQ_SENT;
	if (c->state != AV_CM_ESTABLISHED && !both)
		return;
	enter_conn_state(c, AV_CM_DREQ_RECEIVED);
	report_conn_event(c, AV_CM_EVENT_DISCONNECTED, 0, NULL);
	if (both)
		av_cm_conn_disconnect(c);
}

static void is_disconnected(struct av_cm_conn *c, const struct av_cm_message *m)
{
	if (c->state == AV_CM_DREQ_SENT)
		lose(c, 0);
}

static void sidr_replied(struct av_cm_conn *c, const struct av_cm_message *m)
{
	bool ok = m->status == AV_CM_SIDR_OK, unknown = m->status == AV_CM_SIDR_UNSUPPORTED;

	if (c->state != AV_CM_SIDR_SENT || (unknown && back_off_conn(c)))
		return;
	if (!ok)
		av_cm_report_refused(&c->route, c->id->service_id, m->status, unknown);
	end_cm_conn(c);
	report_conn_event(c, ok ? AV_CM_EVENT_ESTABLISHED : AV_CM_EVENT_UNREACHABLE, m->status, m);
}

/* No alternate path is ever loaded. */
static void asked_for_path(struct av_cm_conn *c, const struct av_cm_message *m)
{
	struct av_cm_message reply = answer_to(m, AV_CM_APR);

	reply.status = 2; /* rejected: 12.8.2 */
	(void)av_cm_send(&c->route, &reply);
}

static answered_by *const answers[] = {
	[AV_CM_REP] = replied,		 [AV_CM_RTU] = confirmed,
	[AV_CM_REJ] = rejected,		 [AV_CM_MRA] = is_slow,
	[AV_CM_DREQ] = disconnected,	 [AV_CM_DREP] = is_disconnected,
	[AV_CM_SIDR_REP] = sidr_replied, [AV_CM_LAP] = asked_for_path,
};

/* --- whose ----------------------------------------------------------------------------- */

/* A message of a connection that is not known, or not with that peer. */
static void reply_unknown_conn(const struct av_net_path *path, const struct av_cm_message *m)
{
	const struct av_cm_route route = av_cm_route_back(path, m);
	const struct av_cm_message reply = answer_to(m, AV_CM_DREP);

	if (m->attribute == AV_CM_DREQ)
		(void)av_cm_send(&route, &reply);
	else if (m->attribute == AV_CM_REP)
		refuse_message(&route, m, AV_CM_INVALID_COMM_ID);
}

/*
 * The peer's number is unknown until it answers. A peer that does not know this end refuses without
 * one. Later, such a refusal is late, or somebody else's.
 */
static bool is_peer(const struct av_cm_conn *c, const struct av_net_path *path,
		    const struct av_cm_message *m)
{
	return memcmp(c->route.path.dst, path->dst, sizeof(path->dst)) == 0 &&
	       (c->remote_comm == 0 || c->remote_comm == m->local_comm_id ||
		m->attribute == AV_CM_SIDR_REP ||
		(m->attribute == AV_CM_REJ && m->local_comm_id == 0 && c->state == AV_CM_REP_SENT));
}

static void answered(const struct av_net_path *path, const struct av_cm_message *m)
{
	uint32_t comm = m->attribute == AV_CM_SIDR_REP ? m->local_comm_id : m->remote_comm_id;
	struct av_cm_conn *c = av_table_get(&numbers.table, index_of(comm));

	if (c && c->comm != comm)
		c = NULL;
	if (!c && m->attribute == AV_CM_REJ && m->remote_comm_id == 0)
		c = requested_conn(path, m->local_comm_id, false, NULL);
	if (!c || !is_peer(c, path, m))
		reply_unknown_conn(path, m);
	else if (c->state != AV_CM_ENDED && m->attribute != AV_CM_APR) /* no path was asked for */
		answers[m->attribute](c, m);
	else if (m->attribute == AV_CM_REP && c->sent.attribute == AV_CM_REJ)
		send_conn_message(c); /* the peer answers what is late */
	else
		reply_unknown_conn(path, m);
}

void av_cm_arrived(const struct av_net_path *path, const struct av_cm_message *m)
{
	av_cm_lock();
	if (m->attribute == AV_CM_REQ || m->attribute == AV_CM_SIDR_REQ)
		requested(path, m);
	else
		answered(path, m);
	av_cm_unlock();
}
