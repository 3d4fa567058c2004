/* SPDX-License-Identifier: MIT */
#include "unit/cm/cm_link_fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "cm/channel.h"
#include "cm/cm_file.h"
#include "cm/cm_lock.h"
#include "cm/conn.h"
#include "cm/event_type.h"
#include "cm/id.h"
#include "lib/check.h"
#include "lib/turned_clock.h"
#include "registry/cm_ports.h"

#define PORT	4242
#define REASON	28 /* the consumer's: IBTA volume 1, 12.6.7.2; */
#define UNKNOWN 6  /* invalid communication ID */
#define QKEY	0x01234567u
#define IDS	8u
#define DOINGS	16u
#define HEADER	24u	       /* of a management datagram; */
#define COMM_AT 24u	       /* behind it are the numbers */
#define LONG	(120 * SECOND) /* whatever can happen has happened */

#define LISTENER 100u /* what programs call their ids: uid */

/* Parameters of both programs. Each end hears what the other one says. */
static const struct rdma_ucm_conn_param parameters[LINK_HOSTS] = {
	{.qp_num = 0x1a2b3c,
	 .srq = 0,
	 .responder_resources = 3,
	 .initiator_depth = 5,
	 .flow_control = 1,
	 .retry_count = 6,
	 .rnr_retry_count = 2,
	 .valid = 1},
	{.qp_num = 0x4d5e6f,
	 .srq = 1,
	 .responder_resources = 4,
	 .initiator_depth = 2,
	 .rnr_retry_count = 5,
	 .valid = 1},
};

/* Private data: what the program says, what an event has, and where it is in the datagram. */
static const struct kind {
	uint16_t attribute;
	uint8_t says, all, at;
} kinds[] = {
	{AV_CM_REQ, 50, 56, 24 + 140 + 36},  {AV_CM_REP, 196, 196, 24 + 36},
	{AV_CM_REJ, 140, 148, 24 + 84},	     {AV_CM_SIDR_REQ, 180, 180, 24 + 16 + 36},
	{AV_CM_SIDR_REP, 130, 136, 24 + 96},
};

struct cm_link_message cm_link_sent[CM_LINK_MESSAGES];
struct cm_link_heard cm_link_heard[CM_LINK_EVENTS];
unsigned int cm_link_events;
static unsigned int messages;

/* The ids of a run: the first one asks; the others are requests' at host 1, and refused ones too.
 */
static struct id {
	unsigned int host;
	uint32_t number;
	uint64_t uid;
	bool there, accepted, ready, rejected;
	uint8_t heard[CM_HISTORY];
	unsigned int count;
} ids[IDS];
static unsigned int id_count;

static struct doing {
	enum cm_link_act act;
	uint64_t due_ns;
	unsigned int host, id;
} doings[DOINGS];
static unsigned int doing_count;

static const struct cm_link_exchange *exchange;
static const struct link_fault *faults;
static unsigned int fault_count;
static struct link_setting setting;
static uint64_t begun_ns;
static int fd[LINK_HOSTS];
static struct av_cm_channel *channel[LINK_HOSTS]; /* as the manager has it */
static uint32_t listener;
static bool traces, peer_dead;
/* cmocka puts its own in the place of that of av_copy(), which then asks the kernel. */
static const int fault[] = {SIGSEGV, SIGBUS};
static struct sigaction on_fault[2];
static char failure[400];

/* What has been said first, by whom and of which kind. */
static struct said {
	unsigned int from;
	uint8_t mad[AV_MAD_BYTES];
} said[CM_LINK_MESSAGES];
static unsigned int said_count;

/* --- saying what is wrong ---------------------------------------------------------- */

static void print_faults(char *to, size_t room)
{
	static const char *const names[] = {"lost",    "doubled", "echoed",
					    "swapped", "late",	  "damaged"};
	size_t n = (size_t)snprintf(to, room, "%s%s", exchange->name,
				    exchange->together ? " (processes)" : "");

	for (unsigned int i = 0; i < fault_count && n < room; i++)
		n += (size_t)snprintf(to + n, room - n, ", %u %s by %llu ms", faults[i].packet,
				      names[faults[i].what],
				      (unsigned long long)(faults[i].delay_ns / MS));
}

void cm_link_fail(const char *fmt, ...)
{
	char text[160], which[200];
	va_list ap;

	if (failure[0])
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	print_faults(which, sizeof(which));
	snprintf(failure, sizeof(failure), "%s: %s", which, text);
}

#define MUST(cond)                                                              \
	do {                                                                    \
		if (!(cond))                                                    \
			cm_link_fail("line %d: not true: %s", __LINE__, #cond); \
	} while (0)
#define MUST_BE(is, wants)                                                                  \
	do {                                                                                \
		unsigned long long is_ = (unsigned long long)(is), wants_ = (wants);        \
		if (is_ != wants_)                                                          \
			cm_link_fail("line %d: %s is %#llx, not %#llx", __LINE__, #is, is_, \
				     wants_);                                               \
	} while (0)

static uint64_t since_begun(void)
{
	return turned_clock_ns() - begun_ns;
}

/* --- private data ------------------------------------------------------------------ */

static const struct kind *kind_of(uint16_t attribute)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (kinds[i].attribute == attribute)
			return &kinds[i];
	return NULL;
}

static uint8_t pattern(uint16_t attribute, unsigned int i)
{
	return (uint8_t)(attribute * 37u + i * 11u + 1u);
}

static uint8_t say(uint16_t attribute, uint8_t *to)
{
	const struct kind *k = kind_of(attribute);

	for (unsigned int i = 0; i < k->says; i++)
		to[i] = pattern(attribute, i);
	return k->says;
}

/* @from: private data in an event, or in a datagram. @own: the program has said it; else nobody */
static bool is_said(uint16_t attribute, const uint8_t *from, bool own)
{
	const struct kind *k = kind_of(attribute);

	for (unsigned int i = 0; i < k->all; i++)
		if (from[i] != (own && i < k->says ? pattern(attribute, i) : 0))
			return false;
	return true;
}

/* --- messages ---------------------------------------------------------------------- */

static uint64_t get(const uint8_t *from, unsigned int bytes)
{
	uint64_t v = 0;

	for (unsigned int i = 0; i < bytes; i++)
		v = v << 8 | from[i];
	return v;
}

/* The first message of that kind that @from has sent. NULL: none */
static const uint8_t *first_said(unsigned int from, uint16_t attribute)
{
	for (unsigned int i = 0; i < said_count; i++)
		if (said[i].from == from && get(said[i].mad + 16, 2) == attribute)
			return said[i].mad;
	return NULL;
}

static uint32_t asker(void)
{
	const uint8_t *req = first_said(0, AV_CM_REQ);

	return req ? (uint32_t)get(req + COMM_AT, 4) : 0;
}

static bool has_said(unsigned int from, uint32_t comm)
{
	for (unsigned int i = 0; i < said_count; i++)
		if (said[i].from == from && get(said[i].mad + COMM_AT, 4) == comm)
			return true;
	return false;
}

/* 12.6: each message has its sender's number and its peer's, as far as they are known. */
static void judge_numbers(const struct cm_link_message *m)
{
	if (m->attribute == AV_CM_REQ)
		MUST_BE(m->remote, 0);
	if (m->from == 0) {
		MUST_BE(m->local, asker() ? asker() : m->local);
		MUST(m->attribute == AV_CM_REQ || m->attribute == AV_CM_REJ ||
		     has_said(1, m->remote));
	} else {
		MUST_BE(m->remote, asker());
		MUST(m->local || m->attribute == AV_CM_REJ);
	}
}

/* 12.6: what answers has the transaction of what it answers; RTU and REJ that of the request. */
static void judge_transaction(const struct cm_link_message *m)
{
	static const uint16_t of[][2] = {
		{AV_CM_MRA, AV_CM_REQ}, {AV_CM_REJ, AV_CM_REQ},	  {AV_CM_REP, AV_CM_REQ},
		{AV_CM_RTU, AV_CM_REQ}, {AV_CM_DREP, AV_CM_DREQ}, {AV_CM_SIDR_REP, AV_CM_SIDR_REQ},
	};

	for (size_t i = 0; i < sizeof(of) / sizeof(*of); i++) {
		bool goodbye = of[i][1] == AV_CM_DREQ;
		const uint8_t *first = first_said(goodbye ? 1 - m->from : 0, of[i][1]);

		if (of[i][0] != m->attribute)
			continue;
		MUST(first != NULL);
		if (first)
			MUST_BE(m->transaction, get(first + 8, 8));
	}
}

/* What comes again is the same. Of MRA and REJ there are several, and of what refuses a request. */
static void judge_again(const struct cm_link_message *m, const uint8_t *mad)
{
	if (m->attribute == AV_CM_MRA || m->attribute == AV_CM_REJ ||
	    (m->attribute == AV_CM_SIDR_REP && exchange->deaf))
		return;
	for (unsigned int i = 0; i < said_count; i++)
		if (said[i].from == m->from && get(said[i].mad + 16, 2) == m->attribute &&
		    get(said[i].mad + COMM_AT, 4) == m->local)
			MUST(memcmp(said[i].mad, mad, AV_MAD_BYTES) == 0);
}

static bool says_own(const struct cm_link_message *m)
{
	for (unsigned int i = 0; i < id_count; i++)
		if (ids[i].rejected && ids[i].host == m->from)
			return true;
	return false;
}

/* A program that has not answered yet, or has not heard yet what it is to answer. */
static bool takes_its_time(unsigned int host)
{
	bool any = host == 0 && ids[0].there && !ids[0].ready && !ids[0].rejected;

	for (unsigned int i = 1; i < id_count; i++)
		any |= host == 1 && ids[i].there && !ids[i].accepted && !ids[i].rejected;
	return any || (host == 1 && !TAILQ_EMPTY(&channel[1]->events));
}

static void judge_contents(const struct cm_link_message *m, const uint8_t *mad)
{
	const struct kind *k = kind_of(m->attribute);

	if (m->attribute == AV_CM_MRA)
		MUST(takes_its_time(m->from));
	if (m->attribute == AV_CM_DREQ)
		MUST_BE(get(mad + HEADER + 8, 3), parameters[1 - m->from].qp_num);
	if (m->attribute == AV_CM_REQ || m->attribute == AV_CM_REP ||
	    m->attribute == AV_CM_SIDR_REQ)
		MUST(is_said(m->attribute, mad + k->at, true));
	if (m->attribute == AV_CM_REJ && !exchange->deaf)
		MUST(is_said(AV_CM_REJ, mad + k->at, true) ||
		     is_said(AV_CM_REJ, mad + k->at, false));
	if (m->attribute == AV_CM_REJ && get(mad + HEADER + 10, 2) == REASON && !says_own(m))
		MUST(is_said(AV_CM_REJ, mad + k->at, false));
}

static void trace_message(const struct cm_link_message *m, const struct link_packet *p)
{
	if (traces)
		printf("  %10.3f ms %u: %-8s %08x %08x %s\n", (double)m->ns / 1e6, m->from,
		       av_cm_attribute_name(m->attribute), m->local, m->remote,
		       p->fault ? "*" : "");
}

static void judge_datagram(const struct av_packet *b)
{
	MUST_BE(b->opcode, 0x64); /* SEND Only of UD */
	MUST_BE(b->qkey, 0x80010000);
	MUST_BE(b->src_qpn, 1);
	MUST_BE(b->dest_qpn, 1);
	MUST_BE(b->payload_bytes, AV_MAD_BYTES);
	MUST_BE(get(b->payload, 4), 0x01070203); /* versions, class, method: 13.4.2, 16.7.1 */
}

static bool loses(const struct link_packet *p)
{
	return exchange->lost == get(p->net->packet.payload + 16, 2);
}

static void on_sent(const struct link_packet *p)
{
	const uint8_t *mad = p->net->packet.payload;
	struct cm_link_message m = {.from = p->from,
				    .ns = since_begun(),
				    .attribute = (uint16_t)get(mad + 16, 2),
				    .transaction = get(mad + 8, 8),
				    .local = (uint32_t)get(mad + COMM_AT, 4)};

	if (m.attribute != AV_CM_SIDR_REQ && m.attribute != AV_CM_SIDR_REP)
		m.remote = (uint32_t)get(mad + COMM_AT + 4, 4);
	trace_message(&m, p);
	CHECK(messages < CM_LINK_MESSAGES);
	cm_link_sent[messages++] = m;
	judge_datagram(&p->net->packet);
	if (m.attribute != AV_CM_SIDR_REQ && m.attribute != AV_CM_SIDR_REP)
		judge_numbers(&m);
	judge_transaction(&m);
	judge_again(&m, mad);
	judge_contents(&m, mad);
	said[said_count].from = m.from;
	memcpy(said[said_count++].mad, mad, AV_MAD_BYTES);
}

uint64_t cm_link_sent_ns(uint16_t attribute, unsigned int nth)
{
	for (unsigned int i = 0; i < messages; i++)
		if (cm_link_sent[i].attribute == attribute && nth-- == 0)
			return cm_link_sent[i].ns;
	return UINT64_MAX;
}

unsigned int cm_link_sent_count(uint16_t attribute)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < messages; i++)
		n += cm_link_sent[i].attribute == attribute;
	return n;
}

uint64_t cm_link_heard_ns(unsigned int host, uint8_t kind)
{
	for (unsigned int i = 0; i < cm_link_events; i++)
		if (cm_link_heard[i].host == host && cm_link_heard[i].kind == kind)
			return cm_link_heard[i].ns;
	return UINT64_MAX;
}

/* --- programs ---------------------------------------------------------------------- */

static ssize_t put(int to, const void *bytes, size_t count)
{
	return av_cm_write(to, channel[to == fd[1]]->number, bytes, count);
}

static uint16_t space(void)
{
	return exchange->ps ? exchange->ps : RDMA_PS_TCP;
}

static bool is_datagrams(void)
{
	return space() == RDMA_PS_UDP;
}

static int connect_it(struct id *x)
{
	struct rdma_ucm_connect c = {.conn_param = parameters[0], .id = x->number};

	c.conn_param.private_data_len =
		say(is_datagrams() ? AV_CM_SIDR_REQ : AV_CM_REQ, c.conn_param.private_data);
	return cm_do(fd[0], RDMA_USER_CM_CMD_CONNECT, &c, sizeof(c), 0);
}

static int accept_it(struct id *x)
{
	struct rdma_ucm_accept c = {.uid = x->uid, .conn_param = parameters[1], .id = x->number};

	c.conn_param.qkey = QKEY + 1;
	c.conn_param.private_data_len =
		say(is_datagrams() ? AV_CM_SIDR_REP : AV_CM_REP, c.conn_param.private_data);
	x->accepted = true;
	return cm_do(fd[1], RDMA_USER_CM_CMD_ACCEPT, &c, sizeof(c), 0);
}

static int reject_it(struct id *x)
{
	uint8_t data[256];
	uint8_t bytes = say(is_datagrams() ? AV_CM_SIDR_REP : AV_CM_REJ, data);

	x->rejected = true;
	return cm_reject(fd[x->host], x->number, 0, data, bytes);
}

static int notify(struct id *x)
{
	struct rdma_ucm_notify c = {.id = x->number, .event = IBV_EVENT_COMM_EST};

	return cm_do(fd[x->host], RDMA_USER_CM_CMD_NOTIFY, &c, sizeof(c), 0);
}

static struct ib_uverbs_qp_attr attr_of(const struct id *x, uint32_t state)
{
	struct ib_uverbs_qp_attr attr = {0};
	struct rdma_ucm_init_qp_attr c = {
		.response = (uintptr_t)&attr, .id = x->number, .qp_state = state};

	MUST_BE(cm_do(fd[x->host], RDMA_USER_CM_CMD_INIT_QP_ATTR, &c, sizeof(c), sizeof(attr)), 0);
	return attr;
}

/* 12.7.31: each message says at which PSN its receiver is to begin. */
static uint64_t psn_of(unsigned int host)
{
	return get(first_said(host, host ? AV_CM_REP : AV_CM_REQ) + HEADER + (host ? 20 : 44), 3);
}

/*
 * What its queue pair is to be given, once the end is connected: the numbers of both, and what the
 * listener has said of READs, which the asker answers. rdma_accept(3)
 */
static void judge_queue_pair(const struct id *x)
{
	const struct rdma_ucm_conn_param *p = &parameters[1];
	struct ib_uverbs_qp_attr rtr = attr_of(x, IBV_QPS_RTR), rts = attr_of(x, IBV_QPS_RTS);

	MUST_BE(rtr.dest_qp_num, parameters[1 - x->host].qp_num);
	MUST_BE(rtr.rq_psn, psn_of(x->host));
	MUST_BE(rts.sq_psn, psn_of(1 - x->host));
	MUST_BE(rtr.max_dest_rd_atomic, x->host ? p->responder_resources : p->initiator_depth);
	MUST_BE(rts.max_rd_atomic, x->host ? p->initiator_depth : p->responder_resources);
}

static void end_id(struct id *x)
{
	int ret = cm_destroy(fd[x->host], x->number);

	x->there = false;
	MUST_BE(ret, x->count - (x->host == 1)); /* the request was the listener's event */
}

static void begin_listener(void)
{
	struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_port = htons(PORT)};
	struct rdma_ucm_bind c = {.addr_size = sizeof(at)};
	union ibv_gid gid = link_gid(exchange->together ? 0 : 1);

	link_be(1);
	MUST_BE(cm_create(fd[1], LISTENER, space(), &listener), 0);
	c.id = listener;
	memcpy(&at.sin6_addr, &gid, sizeof(gid));
	memcpy(&c.addr, &at, sizeof(at));
	MUST_BE(cm_do(fd[1], RDMA_USER_CM_CMD_BIND, &c, sizeof(c), 0), 0);
	MUST_BE(cm_listen(fd[1], listener, 0), 0);
}

static void end_listener(void)
{
	link_be(1);
	if (listener)
		MUST(cm_destroy(fd[1], listener) >= 0);
	listener = 0;
}

static bool has_ended(const struct id *x)
{
	uint8_t last = x->count ? x->heard[x->count - 1] : 0;

	return last == CM_REJECTED || last == CM_UNREACHABLE || last == CM_DISCONNECTED ||
	       last == CM_TIMEWAIT_EXIT;
}

static int act_on(struct id *x, enum cm_link_act act)
{
	switch (act) {
	case ACCEPT:
		return accept_it(x);
	case READY:
		x->ready = true;
		if (fault_count < 2)
			judge_queue_pair(x);
		return cm_ready(fd[x->host], x->number);
	case REJECT:
		return reject_it(x);
	case DISCONNECT:
		return cm_disconnect(fd[x->host], x->number);
	case NOTIFY:
		return notify(x);
	default:
		end_id(x);
		return 0;
	}
}

/* Whoever answers may hear then that the asker has taken its request back, or has died. */
static bool may_fail(const struct id *x)
{
	return x->host == 1 &&
	       (peer_dead || ids[0].rejected || !ids[0].there || has_ended(&ids[0]));
}

/* What befalls a host. Return: is it that? */
static bool befall(unsigned int host, enum cm_link_act act)
{
	if (act == LISTEN)
		begin_listener();
	else if (act == UNLISTEN)
		end_listener();
	if (act == DIE)
		manager_peer_dies();
	peer_dead |= act == DIE;
	setting.cut[host] |= act == DIE || act == CUT;
	return act >= LISTEN;
}

static void act(unsigned int host, unsigned int i, enum cm_link_act act)
{
	struct id *x = &ids[i];
	int ret;

	if (traces)
		printf("  %10.3f ms %u: does %d\n", (double)since_begun() / 1e6, host, act);
	if (befall(host, act) || i >= id_count || !x->there)
		return;
	if (has_ended(x) && act != DESTROY && act != DISCONNECT)
		return;
	if (act == NOTIFY && !ids[0].ready) /* nobody has sent a packet */
		return;
	link_be(host);
	ret = act_on(x, act);
	if (!(ret == -EINVAL && may_fail(x)))
		MUST_BE(ret, 0);
}

static void plan(unsigned int host, unsigned int id, struct cm_link_do what)
{
	if (what.act == STAY)
		return;
	CHECK(doing_count < DOINGS);
	doings[doing_count++] =
		(struct doing){what.act, turned_clock_ns() + what.after_ns, host, id};
}

static uint64_t next_doing(void)
{
	uint64_t next = UINT64_MAX;

	for (unsigned int i = 0; i < doing_count; i++)
		if (doings[i].due_ns < next)
			next = doings[i].due_ns;
	return next;
}

/* In the order in which they were planned. */
static void do_due(void)
{
	for (unsigned int i = 0; i < doing_count; i++) {
		struct doing d = doings[i];

		if (d.due_ns > turned_clock_ns())
			continue;
		doing_count--;
		memmove(&doings[i], &doings[i + 1], (doing_count - i) * sizeof(d));
		act(d.host, d.id, d.act);
		i--;
	}
}

/* --- events ------------------------------------------------------------------------ */

/* What one end begins, the other one answers. */
static void judge_parameters(const struct rdma_ucm_conn_param *p, unsigned int of)
{
	const struct rdma_ucm_conn_param *said_there = &parameters[of];

	MUST_BE(p->qp_num, said_there->qp_num);
	MUST_BE(p->responder_resources, said_there->initiator_depth);
	MUST_BE(p->initiator_depth, said_there->responder_resources);
	MUST_BE(p->flow_control, said_there->flow_control);
	MUST_BE(p->retry_count, said_there->retry_count);
	MUST_BE(p->rnr_retry_count, said_there->rnr_retry_count);
	MUST_BE(p->srq, said_there->srq);
}

static void judge_private(const uint8_t *data, uint8_t bytes, uint16_t attribute, bool own)
{
	MUST_BE(bytes, kind_of(attribute)->all);
	MUST(is_said(attribute, data, own));
}

static bool refuses(unsigned int host)
{
	return exchange->on[host][CM_CONNECT_REQUEST].act == REJECT ||
	       exchange->then[host].act == REJECT;
}

static void judge_rejected(const struct id *x, const struct rdma_ucm_event_resp *e)
{
	const struct rdma_ucm_conn_param *p = &e->param.conn;

	if (!(x->host == 1 && fault_count && e->status == UNKNOWN))
		MUST_BE(e->status, exchange->reason ? exchange->reason : REASON);
	MUST(is_said(AV_CM_REJ, p->private_data, true) ||
	     is_said(AV_CM_REJ, p->private_data, false));
	if (x->host == 0 && !exchange->reason && !peer_dead)
		judge_private(p->private_data, p->private_data_len, AV_CM_REJ, refuses(1));
}

static void judge_sidr(const struct rdma_ucm_event_resp *e)
{
	const struct rdma_ucm_ud_param *p = &e->param.ud;

	if (e->event == CM_ESTABLISHED) {
		MUST_BE(p->qp_num, parameters[1].qp_num);
		MUST_BE(p->qkey, QKEY + 1);
		judge_private(p->private_data, p->private_data_len, AV_CM_SIDR_REP, true);
	} else if (e->event == CM_CONNECT_REQUEST) {
		judge_private(p->private_data, p->private_data_len, AV_CM_SIDR_REQ, true);
	} else if (e->event == CM_UNREACHABLE && exchange->reason) {
		MUST_BE(e->status, exchange->reason);
	} else if (e->event == CM_UNREACHABLE && e->status == 2) { /* 12.11.2.2: rejected */
		judge_private(p->private_data, p->private_data_len, AV_CM_SIDR_REP, refuses(1));
	} else {
		MUST_BE((int)e->status, (unsigned long long)-ETIMEDOUT);
	}
}

static void judge_contents_of(const struct id *x, const struct rdma_ucm_event_resp *e)
{
	const struct rdma_ucm_conn_param *p = &e->param.conn;
	bool request = e->event == CM_CONNECT_REQUEST;

	if (is_datagrams()) {
		judge_sidr(e);
	} else if (request || e->event == CM_CONNECT_RESPONSE) {
		judge_parameters(p, 1 - x->host);
		judge_private(p->private_data, p->private_data_len, request ? AV_CM_REQ : AV_CM_REP,
			      true);
		MUST_BE(e->status, 0);
	} else if (e->event == CM_REJECTED) {
		judge_rejected(x, e);
	} else if (e->event == CM_UNREACHABLE) {
		MUST_BE((int)e->status, (unsigned long long)-ETIMEDOUT);
	} else {
		MUST(e->status == 0 ||
		     (e->event == CM_DISCONNECTED && (int)e->status == -ETIMEDOUT));
	}
}

static struct id *id_of(unsigned int host, const struct rdma_ucm_event_resp *e)
{
	for (unsigned int i = 0; i < id_count; i++)
		if (ids[i].host == host && ids[i].uid == e->uid && ids[i].number == e->id &&
		    ids[i].there)
			return &ids[i];
	return NULL;
}

/* A request: its id has no uid before it is accepted. */
static struct id *new_id(const struct rdma_ucm_event_resp *e)
{
	struct id *x = &ids[id_count];

	CHECK(id_count < IDS);
	MUST_BE(e->uid, LISTENER);
	*x = (struct id){.host = 1, .number = e->id, .uid = 10 + id_count++, .there = true};
	return x;
}

static void hear(unsigned int host, const struct rdma_ucm_event_resp *e)
{
	struct id *x = e->event == CM_CONNECT_REQUEST && host == 1 ? new_id(e) : id_of(host, e);

	if (traces)
		printf("  %10.3f ms %u: hears %u, status %d\n", (double)since_begun() / 1e6, host,
		       e->event, (int)e->status);
	CHECK(cm_link_events < CM_LINK_EVENTS);
	cm_link_heard[cm_link_events++] = (struct cm_link_heard){.host = host,
								 .kind = (uint8_t)e->event,
								 .status = (int)e->status,
								 .ns = since_begun()};
	if (!x || e->event >= CM_KINDS || x->count == CM_HISTORY) {
		cm_link_fail("host %u hears %u", host, e->event);
		return;
	}
	x->heard[x->count++] = (uint8_t)e->event;
	if (e->event == CM_ESTABLISHED && !is_datagrams() && fault_count < 2 &&
	    TAILQ_EMPTY(&channel[host]->events)) /* else it is over at once */
		judge_queue_pair(x);
	judge_contents_of(x, e);
	plan(host, (unsigned int)(x - ids), exchange->on[host][e->event]);
}

static void hear_all(void)
{
	struct rdma_ucm_event_resp e;

	for (unsigned int h = 0; h < LINK_HOSTS; h++)
		while (!TAILQ_EMPTY(&channel[h]->events)) {
			link_be(h);
			CHECK(cm_next(fd[h], &e) == 0);
			hear(h, &e);
		}
}

/* --- a run ------------------------------------------------------------------------- */

static uint64_t due(void)
{
	uint64_t manager = manager_due(), program = next_doing();

	return manager < program ? manager : program;
}

static void look(void)
{
	do_due();
	if (manager_due() <= turned_clock_ns())
		manager_look();
}

/* Past the resolution of addresses, which asks the kernel. */
static void route(struct id *x)
{
	union ibv_gid own = link_gid(0), there = link_gid(exchange->together ? 0 : 1);
	struct av_cm_id *id;

	CHECK(av_cm_id_find(channel[0], x->number, &id) == 0);
	CHECK(av_cm_where_gid(own.raw, &id->where));
	id->src = (struct av_cm_name){.v6 = true, .port = PORT + 1};
	id->dst = (struct av_cm_name){.v6 = true, .port = PORT};
	memcpy(id->src.address, own.raw, sizeof(own));
	memcpy(id->dst.address, there.raw, sizeof(there));
	memcpy(id->gid, there.raw, sizeof(there));
	id->state = AV_CM_ID_ROUTED;
}

static void begin(const struct cm_link_exchange *e, const struct link_fault *f, unsigned int n)
{
	exchange = e;
	faults = f;
	fault_count = n;
	setting.faults = f;
	setting.fault_count = n;
	setting.sent = on_sent;
	setting.loses = loses;
	setting.alarm = (struct link_alarm){due, look};
	setting.full = e->full;
	memset(setting.proc, 0, sizeof(setting.proc));
	if (e->together)
		memcpy(setting.proc, manager_proc, sizeof(setting.proc));
	av_lock_self = manager_proc[0];
	for (int i = 0; i < 2; i++)
		CHECK(sigaction(fault[i], &on_fault[i], NULL) == 0);
	link_begin(&setting);
	begun_ns = turned_clock_ns();
	messages = cm_link_events = said_count = id_count = doing_count = 0;
	listener = 0;
	peer_dead = false;
	failure[0] = '\0';
}

static void ask(void)
{
	struct id *x = &ids[id_count++];

	*x = (struct id){.uid = 1, .there = true};
	if (traces) {
		char which[200];

		print_faults(which, sizeof(which));
		printf("%s\n", which);
	}
	if (!exchange->deaf)
		begin_listener();
	link_be(0);
	MUST_BE(cm_create(fd[0], x->uid, space(), &x->number), 0);
	route(x);
	MUST_BE(connect_it(x), 0);
	plan(0, 0, exchange->then[0]);
	plan(1, 1, exchange->then[1]);
}

static void play(void)
{
	uint64_t until = turned_clock_ns() + LONG;

	hear_all();
	while (turned_clock_ns() < until && link_step())
		hear_all();
}

static bool is_case(const struct cm_link_case *c)
{
	if (memcmp(ids[0].heard, c->hears[0], CM_HISTORY) != 0)
		return false;
	if (peer_dead)
		return true;
	if (id_count > 1 && memcmp(ids[1].heard, c->hears[1], CM_HISTORY) != 0)
		return false;
	for (unsigned int i = 2; i < id_count; i++)
		if (memcmp(ids[i].heard, c->hears[1], CM_HISTORY) != 0 &&
		    !(ids[i].count == 2 && ids[i].heard[1] == CM_REJECTED))
			return false;
	return id_count > 1 || !c->hears[1][0];
}

/* A request whose refusal is lost is another one when it comes again. Else there is one. */
static void judge_ends(void)
{
	bool anew = refuses(1) || exchange->on[1][CM_CONNECT_REQUEST].act == DESTROY;

	for (unsigned int i = 0; i < CM_CASES; i++) {
		if (i && !fault_count)
			break;
		if (is_case(&exchange->cases[i]) && (id_count <= 2 || anew))
			return;
	}
	cm_link_fail("host 0 hears %u %u %u %u %u, host 1 %u %u %u %u %u, of %u requests",
		     ids[0].heard[0], ids[0].heard[1], ids[0].heard[2], ids[0].heard[3],
		     ids[0].heard[4], ids[1].heard[0], ids[1].heard[1], ids[1].heard[2],
		     ids[1].heard[3], ids[1].heard[4], id_count - 1);
}

static void judge_leavings(void)
{
	struct av_cm_port p;
	uint32_t at = 0;

	for (unsigned int h = 0; h < LINK_HOSTS; h++)
		MUST(TAILQ_EMPTY(&channel[h]->ids) && TAILQ_EMPTY(&channel[h]->events));
	MUST(!av_cm_conns_there());
	MUST(manager_due() == UINT64_MAX);
	MUST(!av_cm_port_next(&at, &p));
	MUST_BE(link_under_way(), 0);
}

static void end(void)
{
	doing_count = 0;
	for (unsigned int i = 0; i < id_count; i++) {
		link_be(ids[i].host);
		if (ids[i].there)
			end_id(&ids[i]);
	}
	end_listener();
	play();
	judge_leavings();
	if (peer_dead)
		manager_peer_begins();
	memset(setting.cut, 0, sizeof(setting.cut));
}

unsigned int cm_link_run(const struct cm_link_exchange *e, const struct link_fault *f,
			 unsigned int n)
{
	unsigned int count;

	begin(e, f, n);
	ask();
	play();
	count = messages;
	judge_ends();
	end();
	memset(ids, 0, sizeof(ids));
	fflush(stdout);
	if (failure[0])
		fail_msg("%s", failure);
	return count;
}

/* --- everything that can happen ---------------------------------------------------- */

/* Beyond the first repetition, TIMEWAIT, the longest time between two, and all of them. */
static const struct link_fault each_fault[] = {
	{.what = LINK_LOSE},
	{.what = LINK_DOUBLE},
	{.what = LINK_SWAP},
	{.what = LINK_DAMAGE, .byte = 11},
	{.what = LINK_DAMAGE, .byte = 100},
	{.what = LINK_DAMAGE, .byte = -1},
	{.what = LINK_ECHO, .delay_ns = MS},
	{.what = LINK_ECHO, .delay_ns = 150 * MS},
	{.what = LINK_ECHO, .delay_ns = 700 * MS},
	{.what = LINK_ECHO, .delay_ns = 1200 * MS}, /* in TIMEWAIT, if it began after a second */
	{.what = LINK_ECHO, .delay_ns = 5 * SECOND},
	{.what = LINK_ECHO, .delay_ns = 40 * SECOND},
	{.what = LINK_DELAY, .delay_ns = MS},
	{.what = LINK_DELAY, .delay_ns = 150 * MS},
	{.what = LINK_DELAY, .delay_ns = 700 * MS},
	{.what = LINK_DELAY, .delay_ns = 5 * SECOND},
	{.what = LINK_DELAY, .delay_ns = 40 * SECOND},
};

static const struct link_fault one_of_two[] = {
	{.what = LINK_LOSE},
	{.what = LINK_DOUBLE},
	{.what = LINK_SWAP},
	{.what = LINK_ECHO, .delay_ns = 700 * MS},
	{.what = LINK_DELAY, .delay_ns = 150 * MS},
	{.what = LINK_DELAY, .delay_ns = 5 * SECOND},
};

void cm_link_each(const struct cm_link_exchange *e)
{
	unsigned int n = cm_link_run(e, NULL, 0);

	for (unsigned int i = 0; i < n; i++)
		for (size_t k = 0; k < sizeof(each_fault) / sizeof(*each_fault); k++) {
			struct link_fault f = each_fault[k];

			f.packet = i;
			(void)cm_link_run(e, &f, 1);
		}
}

/* The second message is one of those that are sent after what happened to the first. */
static void try_second(const struct cm_link_exchange *e, const struct link_fault *first)
{
	unsigned int n = cm_link_run(e, first, 1);
	struct link_fault f[2] = {*first};

	for (unsigned int i = first->packet + 1; i < n; i++)
		for (size_t k = 0; k < sizeof(one_of_two) / sizeof(*one_of_two); k++) {
			f[1] = one_of_two[k];
			f[1].packet = i;
			(void)cm_link_run(e, f, 2);
		}
}

void cm_link_each_two(const struct cm_link_exchange *e)
{
	unsigned int n = cm_link_run(e, NULL, 0);

	for (unsigned int i = 0; i < n; i++)
		for (size_t k = 0; k < sizeof(one_of_two) / sizeof(*one_of_two); k++) {
			struct link_fault f = one_of_two[k];

			f.packet = i;
			try_second(e, &f);
		}
}

void cm_link_all(const struct cm_link_exchange *rows, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		struct cm_link_exchange together = rows[i];

		cm_link_each(&rows[i]);
		cm_link_each_two(&rows[i]);
		together.together = true;
		cm_link_each(&together);
	}
}

/* --- set-up ------------------------------------------------------------------------ */

int cm_link_set_up(void **state)
{
	traces = getenv("CM_LINK_TRACE") != NULL;
	cm_put = put;
	if (manager_set_up(state))
		return -1;
	for (int i = 0; i < 2; i++)
		CHECK(sigaction(fault[i], NULL, &on_fault[i]) == 0);
	for (unsigned int h = 0; h < LINK_HOSTS; h++) {
		uint32_t number;

		fd[h] = av_cm_channel_new(O_CLOEXEC | O_NONBLOCK);
		CHECK(fd[h] >= 0 && av_cm_is_channel(fd[h], &number));
		av_cm_lock();
		channel[h] = av_cm_channel_get(number);
		av_cm_unlock();
	}
	return 0;
}

int cm_link_tear_down(void **state)
{
	for (unsigned int h = 0; h < LINK_HOSTS; h++)
		close(fd[h]);
	return manager_tear_down(state);
}
