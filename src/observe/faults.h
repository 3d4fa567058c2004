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
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/text.h"

/* === faults rule ================================================================= */

/*
 * The parser of fault rules: a pure function from a text to rules. anyverbs_faults(5) describes the
 * language to users; the words are in the tables of faults.c and faults_rule.c.
 */

#define AV_FAULTS_RULES	  64	      /* rules in one text */
#define AV_FAULTS_BYTES	  8192	      /* longest text, NUL included */
#define AV_FAULTS_ALL	  UINT32_MAX  /* as a count: without limit */
#define AV_FAULTS_CERTAIN 1000000000u /* probability 1 */
#define AV_FAULTS_NAME	  64
#define AV_FAULTS_PACKETS 1000 /* as a count of packets: at most */

/* clang-format off */
#define AV_FAULTS(X) \
	/* Faults that strike a request: */ \
	X(DELAY, "delay")                     /* it starts, or a message comes, @time_ns later */ \
	X(STALL, "stall")                     /* it and those behind it wait for other rules */ \
	X(RNR, "rnr")                         /* "receiver not ready" @count times, or @time_ns */ \
	X(RNR_EXHAUSTED, "rnr-exhausted")     /* it fails as if its RNR retries were exhausted */ \
	X(LOSE, "lose")                       /* it is sent and lost @count times */ \
	X(RETRY_EXHAUSTED, "retry-exhausted") /* it fails as if its retries were exhausted */ \
	X(STATUS, "status")                   /* it completes with @status; no bytes move */ \
	X(PEER_DEATH, "peer-death")           /* its peer process is treated as dead */ \
	X(CQ_OVERRUN, "cq-overrun")           /* its completion finds the queue full */ \
	/* Faults that strike a context, at a request or by the clock: */ \
	X(EVICT, "evict")                     /* @count pages of each ODP region go away */ \
	X(FATAL, "fatal")                     /* the device fails */ \
	X(PORT_DOWN, "port-down")             /* for @time_ns; 0: until port-up */ \
	X(PORT_UP, "port-up") \
	X(KILL, "kill")                       /* the process is killed */ \
	/* Faults that strike a verb: */ \
	X(FAIL, "fail")                       /* @verb fails with @err */ \
	/* Faults that strike a packet or a message that arrives: */ \
	X(DROP, "drop")                       /* nobody hears of it */ \
	X(CORRUPT, "corrupt")                 /* it is dropped, and counted as damaged */ \
	X(DUPLICATE, "duplicate")             /* it comes @count more times */ \
	X(REORDER, "reorder")                 /* @count later packets overtake it */ \
	X(MARK, "mark")                       /* it has met congestion on its way */

/* Verbs that can be made to fail. */
#define AV_FAILS(X) \
	X(ALLOC_PD, "alloc_pd") \
	X(ALLOC_TD, "alloc_td") \
	X(ALLOC_MW, "alloc_mw") \
	X(ALLOC_DM, "alloc_dm") \
	X(ALLOC_NULL_MR, "alloc_null_mr") \
	X(REG_MR, "reg_mr") \
	X(REG_DMABUF_MR, "reg_dmabuf_mr") \
	X(REREG_MR, "rereg_mr") \
	X(CREATE_AH, "create_ah") \
	X(CREATE_COMP_CHANNEL, "create_comp_channel") \
	X(CREATE_CQ, "create_cq") \
	X(RESIZE_CQ, "resize_cq") \
	X(CREATE_QP, "create_qp") \
	X(MODIFY_QP, "modify_qp") \
	X(CREATE_SRQ, "create_srq") \
	X(MODIFY_SRQ, "modify_srq") \
	X(OPEN_XRCD, "open_xrcd") \
	X(MEMORY, "memory") /* no verb: allocation from the segment, which many verbs do */ \
	X(ANY, "any")       /* in a rule: any verb above, but not AV_FAIL_MEMORY */

#define AV_INJECT_ID(id, name) AV_INJECT_##id,
#define AV_FAIL_ID(id, name) AV_FAIL_##id,
enum av_inject { AV_FAULTS(AV_INJECT_ID) AV_INJECT_N };
enum av_fail { AV_FAILS(AV_FAIL_ID) AV_FAIL_N };
/* clang-format on */

struct av_faults_rule {
	enum av_inject what;
	uint32_t number; /* its position in the text, from 1 */
	size_t at, len;	 /* offset and length in the text */
	uint64_t time_ns;
	uint32_t count; /* or AV_FAULTS_ALL */
	int status;	/* enum ibv_wc_status */
	enum av_fail verb;
	int err; /* errno value */

	char device[AV_FAULTS_NAME], process[AV_FAULTS_NAME]; /* "": any */
	uint32_t pid, qpn;				      /* 0: any */
	uint64_t opcodes;				      /* of av_faults_opcode(); 0: any */
	uint32_t messages; /* of av_faults_message(); 0: it is not about messages */
	bool has_key;
	uint32_t key;

	uint32_t parts; /* probability, out of AV_FAULTS_CERTAIN */
	uint64_t seed;
	bool own_seed; /* @seed is in its own text; false: it is that of a "seed" before it, or 0 */
	uint32_t nth, every, first; /* 0: not given */
	uint64_t every_ns, after_ns, for_ns;
};

/* What is wrong with a text, and where. @line and @column count from 1, columns in bytes. */
struct av_faults_error {
	unsigned int line, column;
	char text[280]; /* "'foo' is not a fault; expected ..." */
};

/*
 * Parse @text. @error: out, on failure.
 * Context: any thread; allocates nothing and keeps no pointers.
 * Return: number of rules, or -1 on a syntax error
 */
int av_faults_parse(const char *text, struct av_faults_rule rules[AV_FAULTS_RULES],
		    struct av_faults_error *error);

/* Does the rule go by the clock, not by requests or verbs? */
bool av_faults_is_timed(const struct av_faults_rule *rule);

/* Is it about packets? */
static inline bool av_faults_is_of_packets(const struct av_faults_rule *rule)
{
	return rule->what >= AV_INJECT_DROP;
}

/* --- words ----------------------------------------------------------------------- */

/* The fault's name, indexed by enum av_inject. */
extern const char *const av_faults_name[AV_INJECT_N];

/* The verb's name without "ibv_", indexed by enum av_fail. */
extern const char *const av_faults_verb_name[AV_FAIL_N];

/* Index of a word in a table, or @count; in any case, "-" or "_", with @prefix or not. */
unsigned int av_faults_find(struct av_word word, const char *prefix, const char *const *names,
			    unsigned int count);

/* Names of completion statuses without "IBV_WC_", indexed by enum ibv_wc_status. */
#define AV_STATUS_N 22
extern const char *const av_status_name[AV_STATUS_N];

/* The value that a word names, or -1. Success is no status here: it is no fault. */
int av_faults_status(struct av_word word);
int av_faults_errno(struct av_word word);

/* The bit of an opcode of a send request. No two of them have the same. */
static inline uint64_t av_faults_opcode(uint32_t opcode)
{
	return 1ull << (opcode & 63);
}

/* The bits of the opcodes that a word names; 0: none. */
uint64_t av_faults_opcodes(struct av_word word);

/* The bit of a message of the connection manager, by its attribute. */
static inline uint32_t av_faults_message(uint16_t attribute)
{
	return 1u << (attribute & 31);
}

/* The bits of the messages that a word names, which may be all; 0: none. */
uint32_t av_faults_messages(struct av_word word);

/* === faults ====================================================================== */

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
