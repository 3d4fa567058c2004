/* SPDX-License-Identifier: MIT */
/*
 * The fault rules in force in one context: which of them strikes now?
 *
 * Each rule counts the occasions it selects, from 1 when the rules are set, and decides from its
 * count alone: the same rules, seed and occasions give the same faults. Each context counts for
 * itself, in the order in which occasions arrive. One mutex is held while all rules are looked at.
 */
#ifndef AV_OBSERVE_FAULTS_H
#define AV_OBSERVE_FAULTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/compiler.h"
#include "observe/faults_rule.h"

/* Something that a fault may strike. */
struct av_faults_occasion {
	enum {
		AV_FAULTS_REQUEST,
		AV_FAULTS_VERB,
		AV_FAULTS_CLOCK,
		AV_FAULTS_PACKET,
		AV_FAULTS_MESSAGE,
	} kind;
	uint64_t now_ns;
	/* For a request, and for a packet, which may have no opcode (UINT32_MAX): */
	uint32_t qpn, opcode;
	/* For a request: */
	bool reliable; /* the transport has answers, so faults about answers apply */
	const uint32_t *keys;
	uint32_t key_count;
	/* For a verb: */
	enum av_fail verb;
	/* For a message of the connection manager: */
	uint16_t attribute;
};

struct av_faults {
	pthread_mutex_t mutex; /* guards the fields below */
	_Atomic uint32_t
		change;	   /* number of the rule change in force; also read without the mutex */
	uint64_t begin_ns; /* when the rules were set */
	unsigned int count;
	struct av_faults_active {
		struct av_faults_rule rule;
		uint64_t seen, struck; /* occasions counted */
		uint64_t tick_ns; /* next occasion of a rule that goes by the clock; UINT64_MAX:
				     none */
	} active[2 * AV_FAULTS_RULES];
};

void av_faults_init(struct av_faults *f);
void av_faults_fini(struct av_faults *f);

/*
 * Replace all rules by those of at most two texts (NULL: none) that are for this device and
 * process; every count starts again. A text that does not parse gives no rules: its author was
 * told. Return: number of rules in force
 */
unsigned int av_faults_set(struct av_faults *f, uint32_t change, const char *const *texts,
			   unsigned int count, const char *device, uint64_t now_ns);

/*
 * Find the next rule that strikes on this occasion. Call until false, with @at 0 at first, so that
 * every rule counts the occasion. @rule: out, a copy, since the rules may change at any time;
 * @occasion: out, the rule's number for it
 */
AV_MUST_USE bool av_faults_strike(struct av_faults *f, const struct av_faults_occasion *o,
				  unsigned int *at, struct av_faults_rule *rule,
				  uint64_t *occasion);

/*
 * Record a fault that has struck, its rule's occasion @nth, so that nobody takes it for a real one:
 * for `anyverbs explain`, and in a log line at level "info". @qpn, @which: the request and its
 * wr_id, or the packet and its PSN; 0: none
 * Context: any thread; any lock may be held.
 */
void av_fault_note(const char *device, const struct av_faults_rule *rule, uint64_t nth,
		   uint32_t qpn, uint64_t which);

/* What is to become of a packet, or of a message of the connection manager, that arrives. */
struct av_faults_verdict {
	bool lost;
	bool damaged;	   /* which is why it is lost */
	bool marked;	   /* it has met congestion */
	uint32_t times;	   /* that it is handled */
	uint32_t after;	   /* so many others */
	uint64_t delay_ns; /* it is handled so much later */
};

/*
 * Let each rule that strikes at an arrival do so, and record it. @f: NULL: no rules; @psn: of a
 * packet, else 0. Context: as of av_faults_strike() and av_fault_note()
 */
struct av_faults_verdict av_faults_arrival(struct av_faults *f, const char *device,
					   const struct av_faults_occasion *o, uint32_t psn);

/* Does some rule strike at requests, not by the clock, at verbs or at packets? */
bool av_faults_at_requests(struct av_faults *f);

/* The next time at which the clock is an occasion for some rule; UINT64_MAX: never. */
uint64_t av_faults_next_tick(struct av_faults *f);

/*
 * The random number that decides an occasion: number @nth of the SplitMix64 generator (public
 * domain, Sebastiano Vigna) that starts at @seed + @rule. Documented in anyverbs_faults(5).
 */
uint64_t av_faults_draw(uint64_t seed, uint32_t rule, uint64_t nth);

/* Scale a draw to a number below @n (@n > 0). */
static inline uint64_t av_faults_below(uint64_t draw, uint64_t n)
{
	return (uint64_t)(((unsigned __int128)draw * n) >> 64);
}

#endif
