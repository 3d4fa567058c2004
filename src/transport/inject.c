/* SPDX-License-Identifier: MIT */
#include "transport/observed.h"

#include <signal.h>
#include <unistd.h>

#include "device/port.h"
#include "transport/transport.h"
#include "wire/address.h"

/* A packet that others are to overtake, in its context's list, which the receiver's turn guards. */
struct kept {
	struct av_late late;
	struct av_net_packet packet;
	uint8_t payload[];
};

/* In the place of the list of a context that is being closed. */
static struct av_overtaken ended;

static struct av_overtaken *faults_of(struct av_seg *seg)
{
	struct av_overtaken *w = atomic_load(&seg->late);

	if (w)
		return w == &ended ? NULL : w;
	w = calloc(1, sizeof(*w));
	atomic_store(&seg->late, w);
	return w;
}

static struct av_faults_verdict
decide_packet_faults(struct av_seg *seg, const struct av_net_packet *packet, uint64_t now)
{
	const struct av_opcode *info = av_opcode_info(packet->packet.opcode);
	struct av_faults_occasion o = {
		.kind = AV_FAULTS_PACKET,
		.now_ns = now,
		.qpn = packet->packet.dest_qpn,
		.which = packet->packet.psn,
	};
	struct av_faults_verdict v;

	o.opcode = info->response ? UINT32_MAX : av_packet_wr_opcode(info);
	v = av_faults_arrival(av_faults_of(seg), &o);
	if (v.damaged) {
		av_net_count(AV_NET_BAD_CRC, 1);
		av_wire_damaged(packet->packet.dest_qpn);
	}
	return v;
}

/* --- waiting for others ---------------------------------------------------------- */

/* Return: false: it does not wait */
static bool hold_packet(struct av_seg *seg, struct av_overtaken *w,
			const struct av_net_packet *packet, const struct av_faults_verdict *v,
			uint64_t now)
{
	uint32_t bytes = packet->packet.payload_bytes + av_packet_behind(&packet->packet);
	struct kept *k = av_overtaken_add(w, sizeof(*k) + bytes, v, now);

	if (!k)
		return false;
	k->packet = *packet;
	if (bytes)
		memcpy(k->payload, packet->packet.payload, bytes);
	k->packet.packet.payload = k->payload;
	av_timer_start(seg);
	av_seg_wake_timer(seg);
	return true;
}

static void replay_packet(const struct av_net_packet *packet, uint32_t times)
{
	for (uint32_t i = 0; i < times; i++)
		av_wire_handle(packet, 1, true);
}

static void release_due_packets(struct av_overtaken *w, uint64_t now)
{
	struct kept *k;

	while ((k = av_overtaken_take(w, now))) {
		k->packet.qp = av_dir_qpn_find(k->packet.packet.dest_qpn);
		replay_packet(&k->packet, k->late.times);
		free(k);
	}
}

/*
 * Return: true: it, and delayed packets that are due, have been handled. false: there is no memory,
 * or the context is being closed
 */
static bool strike_packet(struct av_seg *seg, const struct av_net_packet *packet)
{
	struct av_overtaken *w = faults_of(seg);
	struct av_net_packet p = *packet;
	uint64_t now = av_now_ns();
	struct av_faults_verdict v;

	if (!w)
		return false;
	v = decide_packet_faults(seg, packet, now);
	p.path.traffic_class |= v.marked ? AV_NET_CONGESTED : 0;
	if (!v.lost && !v.after) {
		replay_packet(&p, v.times);
		av_overtaken_pass(w);
	}
	release_due_packets(w, now);
	if (!v.lost && v.after && !hold_packet(seg, w, &p, &v, now))
		replay_packet(&p, v.times);
	return true;
}

/* --- without others -------------------------------------------------------------- */

struct late_poll {
	struct av_seg *seg;
	uint64_t next_ns;
};

static void poll_late_packets(void *arg)
{
	struct late_poll *l = arg;
	struct av_overtaken *w = atomic_load(&l->seg->late);

	release_due_packets(w, av_now_ns());
	l->next_ns = av_overtaken_next(w);
}

/* Handle delayed packets that nothing has overtaken in time. Return: when to look again */
static uint64_t look_at_late_packets(struct av_seg *seg)
{
	struct late_poll l = {seg, av_now_ns() + AV_OVERTAKEN_NS};

	if (!atomic_load(&seg->late))
		return UINT64_MAX;
	(void)av_net_in_turn(poll_late_packets, &l, false);
	return l.next_ns;
}

static void free_late_packets(void *arg)
{
	struct av_seg *seg = arg;
	struct av_overtaken *w = atomic_exchange(&seg->late, &ended);
	void *k;

	while (w && (k = av_overtaken_take(w, UINT64_MAX)))
		free(k);
	if (w != &ended)
		free(w);
}

void av_wire_faults_end(struct av_seg *seg)
{
	(void)av_net_in_turn(free_late_packets, seg, true);
}

/* Faults on demand. */

/* How often to look at a request that is held until something changes. */
#define LOOK_AGAIN_NS 100000000u

/* The decision about the request at the head of a queue pair. Guarded by its @req_lock. */
struct decision {
	uint32_t qpn, number; /* which request, */
	uint32_t change;      /* and the version of the rules */
	struct av_injected outcome;
	uint32_t rule;	      /* its number, */
	enum av_inject cause; /* and its fault */
	uint32_t left;	   /* of a fault that repeats: how many more times; AV_FAULTS_ALL: no end */
	uint64_t until_ns; /* or until when it repeats; 0: it is counted */
	uint64_t begins_ns; /* the request is held until then; UINT64_MAX: for ever */
};

struct av_injections {
	struct decision at[AV_OBSERVED_QPS];
	/* For the timer. */
	_Atomic uint32_t fatal;	      /* the device is to fail */
	_Atomic uint32_t port;	      /* enum port_wish */
	_Atomic uint64_t port_for_ns; /* how long the port stays down; 0: for ever */
	uint64_t port_up_ns;	      /* the timer's: when to take it up again; 0: never */
};

enum port_wish { PORT_NOTHING, PORT_DOWN, PORT_UP };

static struct av_injections *inject_of(struct av_seg *seg)
{
	return AV_MADE_ONCE(&seg->inject, 1);
}

/* Some rule may go by the clock: the timer looks at it. */
static void start_clock(struct av_seg *seg, struct av_faults *f)
{
	if (f && av_faults_next_tick(f) != UINT64_MAX)
		av_timer_start(seg);
}

/* --- what happens to a context --------------------------------------------------- */

struct chance {
	const struct av_faults_struck *struck;
	uint64_t drawn;
};

/* Random numbers for this occasion, other than the one that decided it. */
static uint64_t draw_eviction_random(void *arg, uint64_t below)
{
	struct chance *c = arg;

	const struct av_faults_rule *rule = &c->struck->rule;

	return av_faults_below(av_faults_draw(rule->seed ^ c->struck->occasion,
					      rule->number + AV_FAULTS_RULES, ++c->drawn),
			       below);
}

static void inject_eviction(struct av_seg *seg, const struct av_faults_struck *struck)
{
	struct chance c = {.struck = struck};
	struct av_odp_eviction how = {
		.pages = struck->rule.count,
		.chance = draw_eviction_random,
		.arg = &c,
		.key = struck->rule.has_key ? struck->rule.key : 0,
	};

	av_odp_evict(seg, &how);
}

/* Leave to the timer what takes queue pair locks or makes system calls. */
static void leave_to_timer(struct av_seg *seg, struct av_injections *in,
			   const struct av_faults_rule *rule)
{
	if (rule->what == AV_INJECT_FATAL)
		atomic_store(&in->fatal, 1);
	if (rule->what == AV_INJECT_PORT_DOWN)
		atomic_store(&in->port_for_ns, rule->time_ns);
	if (rule->what == AV_INJECT_PORT_DOWN || rule->what == AV_INJECT_PORT_UP)
		atomic_store(&in->port, rule->what == AV_INJECT_PORT_DOWN ? PORT_DOWN : PORT_UP);
	av_timer_start(seg);
	av_seg_wake_timer(seg);
}

static void strike_context(struct av_seg *seg, struct av_injections *in,
			   const struct av_faults_struck *struck)
{
	if (struck->rule.what == AV_INJECT_EVICT)
		inject_eviction(seg, struck);
	else if (struck->rule.what == AV_INJECT_KILL)
		kill(getpid(), SIGKILL);
	else
		leave_to_timer(seg, in, &struck->rule);
}

/* --- what happens to a request --------------------------------------------------- */

/* By enum av_inject; the others do not end a request. */
static const struct av_injected outcomes[] = {
	[AV_INJECT_RNR] = {.what = AV_INJECTED_RESULT, .result = {.wait_reason = AV_WAIT_RNR}},
	[AV_INJECT_RNR_EXHAUSTED] = {.what = AV_INJECTED_RESULT,
				     .result = {.fault = AV_FAULT_RNR_EXHAUSTED}},
	[AV_INJECT_LOSE] = {.what = AV_INJECTED_RESULT,
			    .result = {.wait_reason = AV_WAIT_NO_ANSWER}},
	[AV_INJECT_RETRY_EXHAUSTED] = {.what = AV_INJECTED_RESULT,
				       .result = {.fault = AV_FAULT_RETRY_EXHAUSTED}},
	[AV_INJECT_STATUS] = {.what = AV_INJECTED_STATUS},
	[AV_INJECT_PEER_DEATH] = {.what = AV_INJECTED_RESULT,
				  .result = {.wait_reason = AV_WAIT_NO_ANSWER, .gone = true}},
	[AV_INJECT_CQ_OVERRUN] = {.what = AV_INJECTED_OVERRUN},
};

/* The fault that a responder answers so that the request ends with @status; AV_FAULT_NONE: none */
static enum av_fault fault_of(enum ibv_wc_status status)
{
	for (int f = AV_FAULT_NONE + 1; f < AV_FAULT_N; f++) {
		const struct av_fault_effects *effects = av_fault_effects((enum av_fault)f);

		if (effects->requester == status && effects->nak != AV_NAK_NONE)
			return (enum av_fault)f;
	}
	return AV_FAULT_NONE;
}

/* How often the fault strikes the request. Without a timeout it is never sent again. */
static uint32_t repetitions(const struct av_qp_ref *end, const struct av_faults_rule *rule,
			    bool reliable)
{
	bool counted = rule->what == AV_INJECT_RNR ||
		       (rule->what == AV_INJECT_LOSE && reliable && end->qp->attr.timeout);

	return counted ? rule->count : AV_FAULTS_ALL;
}

/* The first rule that ends the request decides. Delays of several rules do not add up. */
static void decide_outcome(const struct av_qp_ref *end, struct decision *d,
			   const struct av_faults_rule *rule, bool reliable, uint64_t now)
{
	if (rule->what == AV_INJECT_DELAY && d->begins_ns < now + rule->time_ns)
		d->begins_ns = now + rule->time_ns;
	if (rule->what == AV_INJECT_STALL || rule->what == AV_INJECT_FATAL)
		d->begins_ns = UINT64_MAX;
	if (rule->what >= AV_ARRAY_SIZE(outcomes) || outcomes[rule->what].what == AV_INJECTED_NOT ||
	    d->outcome.what != AV_INJECTED_NOT)
		return;
	d->outcome = outcomes[rule->what];
	d->outcome.status = (enum ibv_wc_status)rule->status;
	if (rule->what == AV_INJECT_LOSE && !reliable) /* no responder could miss it */
		d->outcome.result = (struct av_outcome){0};
	d->left = repetitions(end, rule, reliable);
	d->until_ns = rule->time_ns ? now + rule->time_ns : 0;
	d->rule = rule->number;
	d->cause = rule->what;
}

static uint32_t keys_of(const struct av_sq_wqe *wqe, bool datagram, uint32_t keys[AV_MAX_SGE + 1])
{
	uint32_t n = 0;

	if (!datagram)
		keys[n++] = wqe->rkey;
	if (!(wqe->flags & IBV_SEND_INLINE) && wqe->count <= AV_MAX_SGE &&
	    !av_wr_opcode(wqe->opcode)->local)
		for (uint32_t i = 0; i < wqe->count; i++)
			keys[n++] = wqe->sge[i].lkey;
	return n;
}

static bool is_reliable_wqe(const struct av_qp_ref *end, const struct av_sq_wqe *wqe)
{
	return (end->qp->type == IBV_QPT_RC || end->qp->type == IBV_QPT_XRC_SEND) &&
	       !av_wr_opcode(wqe->opcode)->local;
}

static void decide_request_faults(const struct av_qp_ref *end, const struct av_sq_wqe *wqe,
				  struct av_faults *f, struct decision *d)
{
	uint32_t keys[AV_MAX_SGE + 1];
	struct av_faults_occasion o = {
		.kind = AV_FAULTS_REQUEST,
		.now_ns = av_now_ns(),
		.qpn = d->qpn,
		.opcode = wqe->opcode,
		.which = wqe->wr_id,
		.reliable = is_reliable_wqe(end, wqe),
		.failed = atomic_load(&end->seg->head->fatal),
		.keys = keys,
		.key_count = keys_of(wqe, end->qp->type == IBV_QPT_UD, keys),
	};
	struct av_faults_struck struck = {.next = 0};

	d->outcome = (struct av_injected){.what = AV_INJECTED_NOT};
	d->begins_ns = d->until_ns = 0;
	while (av_faults_strike(f, &o, &struck)) {
		decide_outcome(end, d, &struck.rule, o.reliable, o.now_ns);
		if (struck.rule.what >= AV_INJECT_EVICT)
			strike_context(end->seg, atomic_load(&end->seg->inject), &struck);
	}
}

/* A first look at the request, or new rules? Context: @req_lock is held. */
static bool is_new(const struct av_qp_ref *end, const struct decision *d, uint32_t change)
{
	return atomic_load(&end->qp->wait_reason) == AV_WAIT_NONE ||
	       d->number != end->qp->sq_next || d->qpn != atomic_load(&end->qp->qpn) ||
	       d->change != change;
}

/* Repeat the fault once more. When it is used up, execute the request. */
static struct av_injected again(const struct av_qp_ref *end, struct decision *d, uint64_t now)
{
	bool early = av_retry_is_early(end->qp, d->outcome.result.wait_reason, now);

	if (d->until_ns ? now >= d->until_ns : d->left == 0)
		d->outcome.what = AV_INJECTED_NOT;
	else if (d->left != AV_FAULTS_ALL && !early)
		d->left--;
	return d->outcome;
}

/*
 * Have the responder refuse the request: it counts the refusal, or its timer code is needed. A
 * responder on another host hears nothing.
 */
static void ask_responder(const struct av_qp_ref *end, struct av_qp_ref *peer,
			  const struct av_sq_wqe *wqe, struct av_injected *in)
{
	enum av_fault fault;

	if (!is_reliable_wqe(end, wqe))
		return;
	av_connect(end, peer);
	if (in->what == AV_INJECTED_RESULT && in->result.wait_reason == AV_WAIT_RNR)
		in->result.rnr_timer =
			peer->qp ? peer->qp->attr.min_rnr_timer : end->qp->attr.min_rnr_timer;
	if (in->what != AV_INJECTED_STATUS || (end->qp->wire && !peer->qp))
		return;
	fault = fault_of(in->status);
	if (fault == AV_FAULT_NONE)
		return;
	in->what = AV_INJECTED_RESULT;
	in->result = av_execute_refuse(end, peer, wqe, fault);
}

/* Decide which fault strikes a request, unless that is decided. Return: AV_INJECTED_NOT: none */
static struct av_injected strike_request(const struct av_observed *o, struct av_faults *f)
{
	const struct av_qp_ref *end = o->end;
	struct av_injected in = {.what = AV_INJECTED_NOT};
	struct av_injections *all = inject_of(end->seg);
	uint64_t now = av_now_ns();
	struct decision *d;

	if (!all || end->qp->index >= AV_OBSERVED_QPS)
		return in;
	d = &all->at[end->qp->index];
	if (d->change != atomic_load(&f->change))
		start_clock(end->seg, f);
	if (is_new(end, d, atomic_load(&f->change))) {
		d->change = atomic_load(&f->change);
		d->number = end->qp->sq_next;
		d->qpn = atomic_load(&end->qp->qpn);
		decide_request_faults(end, o->wqe, f, d);
	}
	if (d->begins_ns > now) {
		av_sq_wait_until(end, AV_WAIT_HELD,
				 d->begins_ns == UINT64_MAX ? now + LOOK_AGAIN_NS : d->begins_ns);
		return (struct av_injected){.what = AV_INJECTED_HELD};
	}
	if (d->outcome.what == AV_INJECTED_NOT)
		return in;
	in = again(end, d, now);
	if (in.what == AV_INJECTED_RESULT || in.what == AV_INJECTED_STATUS)
		av_diag_note(AV_CHECK_INJECTED, d->rule, d->cause);
	ask_responder(end, o->peer, o->wqe, &in);
	return in;
}

static bool injection_may_begin(struct av_observed *o)
{
	struct av_faults *f = av_faults_of(o->end->seg);

	o->singly = f && o->end->qp->wire && av_faults_at_requests(f);
	if (f && !av_wire_is_begun(o->end))
		o->injected = strike_request(o, f);
	return o->injected.what == AV_INJECTED_NOT;
}

const struct av_observer av_inject_observer = {
	.bit = AV_OBSERVER_FAULTS,
	.may_begin = injection_may_begin,
	.packet = strike_packet,
};

/* --- the clock ------------------------------------------------------------------- */

static void strike_by_clock(struct av_seg *seg, struct av_faults *f, struct av_injections *in)
{
	struct av_faults_occasion o = {.kind = AV_FAULTS_CLOCK, .now_ns = av_now_ns()};
	struct av_faults_struck struck = {.next = 0};

	while (av_faults_strike(f, &o, &struck))
		strike_context(seg, in, &struck);
}

static void apply_deferred_faults(struct av_seg *seg, struct av_injections *in, bool *fatal)
{
	uint32_t wish = atomic_exchange(&in->port, PORT_NOTHING);
	uint64_t stays = atomic_load(&in->port_for_ns);

	*fatal = atomic_exchange(&in->fatal, 0);
	if (wish != PORT_NOTHING) {
		(void)av_port_force(seg->head->device, wish == PORT_DOWN);
		in->port_up_ns = wish == PORT_DOWN && stays ? av_now_ns() + stays : 0;
	}
	if (in->port_up_ns && in->port_up_ns <= av_now_ns()) {
		(void)av_port_force(seg->head->device, false);
		in->port_up_ns = 0;
	}
}

/* Return: when to look again */
static uint64_t look_at_clock(struct av_seg *seg, bool *fatal)
{
	struct av_faults *f =
		av_faults_observed(seg) ? av_faults_of(seg) : atomic_load(&seg->faults);
	struct av_injections *in = f ? inject_of(seg) : NULL;
	uint64_t next;

	if (!in)
		return UINT64_MAX;
	strike_by_clock(seg, f, in);
	apply_deferred_faults(seg, in, fatal);
	next = av_faults_next_tick(f);
	return in->port_up_ns && in->port_up_ns < next ? in->port_up_ns : next;
}

uint64_t av_timer_look_at_faults(struct av_seg *seg)
{
	bool fatal = false;
	uint64_t next = look_at_clock(seg, &fatal), packets = look_at_late_packets(seg);

	if (fatal)
		av_context_fatal(seg);
	return packets < next ? packets : next;
}

void av_inject_begin(struct av_seg *seg)
{
	av_faults_attach(seg);
	start_clock(seg, atomic_load(&seg->faults));
}

void av_inject_end(struct av_seg *seg)
{
	free(atomic_exchange(&seg->inject, NULL));
	av_faults_detach(seg);
}

/* --- verbs ----------------------------------------------------------------------- */

static int strike_verb(struct av_faults *f, enum av_verb verb, uint32_t qpn, uint32_t key)
{
	struct av_faults_occasion o = {.kind = AV_FAULTS_VERB,
				       .verb = verb,
				       .now_ns = av_now_ns(),
				       .qpn = qpn,
				       .keys = &key,
				       .key_count = key != 0};
	struct av_faults_struck struck = {.next = 0};
	int err = 0;

	while (av_faults_strike(f, &o, &struck))
		if (!err)
			err = av_refuse(struck.rule.err, AV_CHECK_INJECTED, struck.rule.number,
					struck.rule.what);
	return err;
}

int av_inject_verb(struct av_seg *seg, enum av_verb verb, uint32_t qpn, uint32_t key)
{
	struct av_faults *f = av_faults_of(seg);
	int err = strike_verb(f, verb, qpn, key);

	start_clock(seg, f); /* the rules may be new */
	return err;
}

int av_inject_device_verb(const struct av_device *dev, enum av_verb verb)
{
	AV_ERRNO_KEPT;

	return strike_verb(av_device_faults(dev), verb, 0, 0);
}
