/* SPDX-License-Identifier: MIT */
/*
 * Rules of faults at work in one context: which of them strikes now?
 *
 * Each rule counts the occasions that it selects, from 1 and from when the rules were set, and
 * decides about each from its count alone: the same rules, seed and sequence of occasions give the
 * same faults. Chance is av_faults_draw() of the rule's seed and the occasion's number. Occasions
 * are counted per context: with several threads, their order is the threads'.
 *
 * Thread-safety: a mutex, held for a look at all rules.
 */
#ifndef AV_OBSERVE_FAULTS_H
#define AV_OBSERVE_FAULTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/compiler.h"
#include "observe/faults_rule.h"

/* Something that faults may strike. */
struct av_faults_occasion {
	enum { AV_FAULTS_REQUEST, AV_FAULTS_VERB, AV_FAULTS_CLOCK } kind;
	uint64_t now_ns;
	/* Of a request. */
	uint32_t qpn, opcode;
	bool reliable; /* somebody answers it: what is about answers makes sense */
	const uint32_t *keys;
	uint32_t key_count;
	/* Of a verb. */
	enum av_fail verb;
};

struct av_faults {
	pthread_mutex_t mutex; /* guards what follows */
	_Atomic uint32_t
		change;	   /* number of the change of rules that is in force; also read without */
	uint64_t begin_ns; /* when they were set */
	unsigned int count;
	struct av_faults_active {
		struct av_faults_rule rule;
		uint64_t seen, struck; /* occasions */
		uint64_t tick_ns; /* of rules that go by the clock: the next occasion, UINT64_MAX:
				     none */
	} active[2 * AV_FAULTS_RULES];
};

void av_faults_init(struct av_faults *f);
void av_faults_fini(struct av_faults *f);

/**
 * av_faults_set() - put other rules into force, with all counts from the beginning
 * @texts, @count: at most two, not longer than AV_FAULTS_BYTES, NULL: none. One that is not
 *understood has no rules: who wrote it has been told.
 * @device: of the context. Rules for another device or process are left out.
 * Return: number of rules in force
 */
unsigned int av_faults_set(struct av_faults *f, uint32_t change, const char *const *texts,
			   unsigned int count, const char *device, uint64_t now_ns);

/**
 * av_faults_strike() - the next rule that strikes on this occasion
 * @at: in and out, 0 at first: all rules are to be asked, so that each counts
 * @rule: out, a copy: rules may change at any time; @occasion: out, which of its occasions this was
 * Return: is there one?
 */
AV_MUST_USE bool av_faults_strike(struct av_faults *f, const struct av_faults_occasion *o,
				  unsigned int *at, struct av_faults_rule *rule,
				  uint64_t *occasion);

/* When the clock is the next occasion for a rule; UINT64_MAX: never. */
uint64_t av_faults_next_tick(struct av_faults *f);

/*
 * The number that decides about an occasion: SplitMix64 (public domain, Sebastiano Vigna), the @nth
 * number of the generator that begins with @seed + @rule. Documented in anyverbs_faults(5).
 */
uint64_t av_faults_draw(uint64_t seed, uint32_t rule, uint64_t nth);

/* A number below @n (not 0), from a draw. */
static inline uint64_t av_faults_below(uint64_t draw, uint64_t n)
{
	return (uint64_t)(((unsigned __int128)draw * n) >> 64);
}

#endif
