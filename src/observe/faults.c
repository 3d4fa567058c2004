/* SPDX-License-Identifier: MIT */
#include "observe/faults.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "observe/wr_opcode.h"

#define SPLITMIX_STEP 0x9e3779b97f4a7c15ull

uint64_t av_faults_draw(uint64_t seed, uint32_t rule, uint64_t nth)
{
	uint64_t z = seed + rule + nth * SPLITMIX_STEP;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

void av_faults_init(struct av_faults *f, const char *device)
{
	memset(f, 0, sizeof(*f));
	f->device = device;
	f->pid = getpid();
	pthread_mutex_init(&f->mutex, NULL);
}

void av_faults_fini(struct av_faults *f)
{
	pthread_mutex_destroy(&f->mutex);
}

/* --- setting --------------------------------------------------------------------- */

static bool fault_rule_matches(const struct av_faults_rule *rule, const char *device)
{
	return (!rule->device[0] || !strcmp(rule->device, device)) &&
	       (!rule->process[0] || !strcmp(rule->process, program_invocation_short_name)) &&
	       (!rule->pid || rule->pid == (uint32_t)getpid());
}

static void activate_fault_rule(struct av_faults *f, const struct av_faults_rule *rule)
{
	uint64_t first = rule->after_ns ? rule->after_ns : rule->every_ns;

	f->active[f->count++] = (struct av_faults_active){
		.rule = *rule,
		.tick_ns = av_faults_is_timed(rule) ? f->begin_ns + first : UINT64_MAX,
	};
}

static void activate_text(struct av_faults *f, const char *text, struct av_faults_rule *rules)
{
	struct av_faults_error error;
	int n = av_faults_parse(text, rules, &error);

	for (int i = 0; i < n; i++)
		if (fault_rule_matches(&rules[i], f->device))
			activate_fault_rule(f, &rules[i]);
}

unsigned int av_faults_set(struct av_faults *f, uint32_t from, uint32_t change,
			   const char *const texts[2])
{
	struct av_faults_rule *rules = malloc(AV_FAULTS_RULES * sizeof(*rules));
	unsigned int count;

	pthread_mutex_lock(&f->mutex);
	if (atomic_load(&f->change) == from) {
		f->count = 0;
		f->begin_ns = av_now_ns();
		for (int t = 0; rules && t < 2; t++)
			if (texts[t])
				activate_text(f, texts[t], rules);
		atomic_store(&f->change, change);
	}
	count = f->count;
	pthread_mutex_unlock(&f->mutex);
	free(rules);
	return count;
}

/* --- striking -------------------------------------------------------------------- */

/* Does the rule strike packets, or messages? */
static bool is_of_packets(const struct av_faults_rule *rule)
{
	return rule->what >= AV_INJECT_DROP;
}

/* Faults that only make sense where the peer answers. */
static bool needs_answers(enum av_inject what)
{
	return what == AV_INJECT_RNR || what == AV_INJECT_RNR_EXHAUSTED ||
	       what == AV_INJECT_RETRY_EXHAUSTED || what == AV_INJECT_PEER_DEATH;
}

static bool selects_opcode(const struct av_faults_rule *rule, uint32_t opcode)
{
	return !rule->opcodes ||
	       (av_wr_opcode(opcode)->name && rule->opcodes & av_faults_opcode(opcode));
}

static bool selects_key(const struct av_faults_rule *rule, const struct av_faults_occasion *o)
{
	/* For evict, the key selects what to evict, not when. */
	if (!rule->has_key || rule->what == AV_INJECT_EVICT)
		return true;
	for (uint32_t i = 0; i < o->key_count; i++)
		if (o->keys[i] == rule->key)
			return true;
	return false;
}

static bool strikes_requests(const struct av_faults_rule *rule)
{
	return rule->what != AV_INJECT_FAIL && !is_of_packets(rule) && !rule->messages &&
	       !av_faults_is_timed(rule);
}

static bool selects_request(const struct av_faults_rule *rule, const struct av_faults_occasion *o)
{
	return strikes_requests(rule) && (!rule->qpn || rule->qpn == o->qpn) &&
	       selects_opcode(rule, o->opcode) && selects_key(rule, o) &&
	       (o->reliable || !needs_answers(rule->what));
}

static bool selects_packet(const struct av_faults_rule *rule, const struct av_faults_occasion *o)
{
	return is_of_packets(rule) && !rule->messages && (!rule->qpn || rule->qpn == o->qpn) &&
	       selects_opcode(rule, o->opcode);
}

static bool selects_verb(const struct av_faults_rule *rule, const struct av_faults_occasion *o)
{
	const bool any = rule->verb == AV_VERB_NONE && o->verb < AV_VERB_ANY_N;

	return rule->what == AV_INJECT_FAIL && (any || rule->verb == o->verb) &&
	       (!rule->err || strchr((const char *)av_verb_errs(o->verb), rule->err)) &&
	       (!rule->qpn || rule->qpn == o->qpn) && selects_key(rule, o);
}

/* Does this occasion count for the rule? */
static bool selects(struct av_faults_active *a, const struct av_faults_occasion *o,
		    uint64_t begin_ns)
{
	const struct av_faults_rule *rule = &a->rule;
	uint64_t age = o->now_ns - begin_ns;

	if (rule->for_ns && age >= rule->after_ns + rule->for_ns)
		return false;
	if (o->kind == AV_FAULTS_REQUEST)
		return age >= rule->after_ns && selects_request(rule, o);
	if (o->kind == AV_FAULTS_VERB)
		return age >= rule->after_ns && selects_verb(rule, o);
	if (o->kind == AV_FAULTS_PACKET)
		return age >= rule->after_ns && selects_packet(rule, o);
	if (o->kind == AV_FAULTS_MESSAGE)
		return age >= rule->after_ns &&
		       (rule->messages & av_faults_message(o->attribute)) != 0;
	if (a->tick_ns > o->now_ns)
		return false;
	a->tick_ns = rule->every_ns ? o->now_ns + rule->every_ns : UINT64_MAX;
	return true;
}

/* Count one more occasion: does the rule strike on it? */
static bool strikes(struct av_faults_active *a)
{
	const struct av_faults_rule *rule = &a->rule;
	uint64_t n = ++a->seen;

	if ((rule->nth && n != rule->nth) || (rule->every && n % rule->every) ||
	    (rule->first && a->struck >= rule->first))
		return false;
	if (rule->parts < AV_FAULTS_CERTAIN &&
	    av_faults_below(av_faults_draw(rule->seed, rule->number, n), AV_FAULTS_CERTAIN) >=
		    rule->parts)
		return false;
	a->struck++;
	return true;
}

/* A record of its own, so the thread's pending record stays as it is. */
static void append_fault_record(const struct av_faults *f, const struct av_faults_rule *rule,
				uint32_t qpn)
{
	struct av_flight_record r = {
		.kind = AV_FLIGHT_EVENT,
		.check = AV_CHECK_INJECTED,
		.has = AV_HAS_MEASURE | (qpn ? AV_HAS_OBJECT : 0),
		.wanted = rule->number,
		.limit = rule->what,
		.object = qpn ? AV_OBJECT_QP : AV_OBJECT_NONE,
		.number = qpn,
	};

	snprintf(r.device, sizeof(r.device), "%s", f->device);
	av_report_beside(&r);
}

static void record_fault(const struct av_faults *f, const struct av_faults_occasion *o,
			 const struct av_faults_struck *struck)
{
	const struct av_faults_rule *rule = &struck->rule;
	const char *verb = rule->what == AV_INJECT_FAIL ? av_faults_verb_name(rule->verb) : "";
	char request[64] = "";

	append_fault_record(f, rule, o->qpn);
	if (o->qpn && !*verb)
		snprintf(request, sizeof(request), ": QP 0x%06x, %s %" PRIu64, o->qpn,
			 is_of_packets(rule) ? "PSN" : "wr_id", o->which);
	av_log(AV_LOG_INFO, "%s: injected: rule %u, %s%s%s, occasion %" PRIu64 "%s", f->device,
	       rule->number, av_faults_name[rule->what], *verb ? " " : "", verb, struck->occasion,
	       request);
}

bool av_faults_strike(struct av_faults *f, const struct av_faults_occasion *o,
		      struct av_faults_struck *struck)
{
	bool strike = false;

	if (!f)
		return false;
	pthread_mutex_lock(&f->mutex);
	while (!strike && struck->next < f->count) {
		struct av_faults_active *a = &f->active[struck->next++];

		strike = selects(a, o, f->begin_ns) && strikes(a) &&
			 !(o->failed && a->rule.what == AV_INJECT_FATAL);
		if (strike) {
			struck->rule = a->rule;
			struck->occasion = a->seen;
			if (!struck->rule.err)
				struck->rule.err = av_verb_errs(o->verb)[0];
		}
	}
	pthread_mutex_unlock(&f->mutex);
	if (strike)
		record_fault(f, o, struck);
	return strike;
}

bool av_faults_at_requests(struct av_faults *f)
{
	AV_LOCKED(&f->mutex);
	for (unsigned int i = 0; i < f->count; i++)
		if (strikes_requests(&f->active[i].rule))
			return true;
	return false;
}

uint64_t av_faults_next_tick(struct av_faults *f)
{
	uint64_t next = UINT64_MAX;

	AV_LOCKED(&f->mutex);
	for (unsigned int i = 0; i < f->count; i++)
		if (f->active[i].tick_ns < next)
			next = f->active[i].tick_ns;
	return next;
}

/* --- packets and messages that arrive --------------------------------------------- */

static void apply_fault_rule(struct av_faults_verdict *v, const struct av_faults_rule *rule)
{
	switch (rule->what) {
	case AV_INJECT_DROP:
		v->lost = true;
		break;
	case AV_INJECT_CORRUPT:
		v->damaged |= !v->lost;
		v->lost = true;
		break;
	case AV_INJECT_DUPLICATE:
		v->times = v->times > 1 ? v->times : 1 + rule->count;
		break;
	case AV_INJECT_REORDER:
		v->after = v->after ? v->after : rule->count;
		break;
	case AV_INJECT_DELAY:
		v->delay_ns = v->delay_ns ? v->delay_ns : rule->time_ns;
		break;
	case AV_INJECT_MARK:
		v->marked = true;
		break;
	default:
		break;
	}
}

struct av_faults_verdict av_faults_arrival(struct av_faults *f, const struct av_faults_occasion *o)
{
	struct av_faults_verdict v = {.times = 1};
	struct av_faults_struck struck = {.next = 0};

	while (av_faults_strike(f, o, &struck))
		apply_fault_rule(&v, &struck.rule);
	return v;
}

void *av_overtaken_add(struct av_overtaken *o, size_t bytes, const struct av_faults_verdict *v,
		       uint64_t now_ns)
{
	struct av_late *late = o->count < AV_OVERTAKEN_MAX ? malloc(bytes) : NULL;
	struct av_late **at = &o->first;

	if (!late)
		return NULL;
	*late = (struct av_late){
		.times = v->times,
		.left = v->delay_ns ? UINT32_MAX : v->after,
		.until_ns = now_ns + (v->delay_ns ? v->delay_ns : AV_OVERTAKEN_NS),
	};
	while (*at)
		at = &(*at)->next;
	*at = late;
	o->count++;
	return late;
}

void av_overtaken_pass(struct av_overtaken *o)
{
	for (struct av_late *late = o->first; late; late = late->next)
		if (late->left != UINT32_MAX)
			late->left -= late->left > 0;
}

void *av_overtaken_take(struct av_overtaken *o, uint64_t now_ns)
{
	struct av_late **at = &o->first, *late;

	while (*at && (*at)->left && (*at)->until_ns > now_ns)
		at = &(*at)->next;
	late = *at;
	if (late) {
		*at = late->next;
		o->count--;
	}
	return late;
}

uint64_t av_overtaken_next(const struct av_overtaken *o)
{
	uint64_t next = UINT64_MAX;

	for (const struct av_late *late = o->first; late; late = late->next)
		if (late->until_ns < next)
			next = late->until_ns;
	return next;
}
