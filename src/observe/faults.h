/* SPDX-License-Identifier: MIT */
/*
 * Faults on demand: the parser of fault rules, and the decision which of a context's rules strikes.
 *
 * Each rule counts the occasions that it selects, from 1 when the rules are set. Its count alone
 * decides whether it strikes: the same rules, seed and occasions give the same faults. Each context
 * counts for itself, in order of arrival.
 */
#pragma once

#include <pthread.h>

#include "observe/check.h"

/* === faults rule ================================================================= */

/* anyverbs_faults(5) describes the language of rules to users. faults_rule.c has its words. */

#define AV_FAULTS_RULES	  64	      /* rules in one text */
#define AV_FAULTS_BYTES	  8192	      /* longest text, NUL included */
#define AV_FAULTS_ALL	  UINT32_MAX  /* as a count: without limit */
#define AV_FAULTS_CERTAIN 1000000000u /* probability 1 */
#define AV_FAULTS_NAME	  64	      /* longest name of a device or process, NUL included */
#define AV_FAULTS_PACKETS 1000	      /* largest count of packets */

/* clang-format off */
#define AV_FAULTS(X) \
	/* Faults that strike a request: */ \
	X(DELAY, "delay")                     /* it starts, or a message arrives, @time_ns later */ \
	X(STALL, "stall")                     /* it, and all behind it, wait until the rules change */ \
	X(RNR, "rnr")                         /* "receiver not ready" @count times, or @time_ns */ \
	X(RNR_EXHAUSTED, "rnr-exhausted")     /* it fails as if its RNR retries were exhausted */ \
	X(LOSE, "lose")                       /* it is sent and lost @count times */ \
	X(RETRY_EXHAUSTED, "retry-exhausted") /* it fails as if its retries were exhausted */ \
	X(STATUS, "status")                   /* it completes with @status; no bytes move */ \
	X(PEER_DEATH, "peer-death")           /* its peer process is treated as dead */ \
	X(CQ_OVERRUN, "cq-overrun")           /* its completion finds the queue full */ \
	/* Faults that strike a context, at a request or by the clock: */ \
	X(EVICT, "evict")                     /* @count pages of each ODP region are evicted */ \
	X(FATAL, "fatal")                     /* the device fails */ \
	X(PORT_DOWN, "port-down")             /* for @time_ns; 0: until port-up */ \
	X(PORT_UP, "port-up") \
	X(KILL, "kill")                       /* the process is killed */ \
	/* Faults that strike a verb: */ \
	X(FAIL, "fail")                       /* @verb fails with @err */ \
	/* Faults that strike a packet or a message that arrives: */ \
	X(DROP, "drop")                       /* it is dropped silently */ \
	X(CORRUPT, "corrupt")                 /* it is dropped, and counted as damaged */ \
	X(DUPLICATE, "duplicate")             /* it arrives @count more times */ \
	X(REORDER, "reorder")                 /* @count later packets overtake it */ \
	X(MARK, "mark")                       /* it carries a congestion mark */

#define AV_INJECT_ID(id, name) AV_INJECT_##id,
enum av_inject { AV_FAULTS(AV_INJECT_ID) AV_INJECT_N };
/* clang-format on */

struct av_faults_rule {
	enum av_inject what;
	uint32_t number; /* position in the text, from 1 */
	size_t at, len;	 /* offset and length in the text */
	uint64_t time_ns;
	uint32_t count;	   /* or AV_FAULTS_ALL */
	int status;	   /* enum ibv_wc_status */
	enum av_verb verb; /* AV_VERB_NONE: any below AV_VERB_ANY_N; AV_VERB_MEMORY: allocations
			      from the segment, in many verbs */
	int err;	   /* errno value; 0: the verb's default */

	char device[AV_FAULTS_NAME], process[AV_FAULTS_NAME]; /* "": any */
	uint32_t pid, qpn;				      /* 0: any */
	uint64_t opcodes;				      /* of av_faults_opcode(); 0: any */
	uint32_t messages; /* of av_faults_message(); 0: the rule is not about messages */
	bool has_key;
	uint32_t key;

	uint32_t parts; /* probability, out of AV_FAULTS_CERTAIN */
	uint64_t seed;
	bool own_seed; /* the rule itself names @seed; false: a "seed" before it does, or 0 */
	uint32_t nth, every, first; /* 0: not given */
	uint64_t every_ns, after_ns, for_ns;
};

/* A syntax error. @line and @column count from 1, columns in bytes. */
struct av_faults_error {
	unsigned int line, column;
	char text[280]; /* "'foo' is not a fault; expected ..." */
};

/* Parse @text. A pure function. @error: out, on failure. Return: number of rules; -1: an error */
int av_faults_parse(const char *text, struct av_faults_rule rules[AV_FAULTS_RULES],
		    struct av_faults_error *error);

/* Does the clock make the rule's occasions, not requests or verbs? */
static inline bool av_faults_is_timed(const struct av_faults_rule *rule)
{
	return rule->what >= AV_INJECT_EVICT && rule->what < AV_INJECT_FAIL &&
	       (rule->every_ns || rule->after_ns) && !rule->nth && !rule->every && !rule->qpn &&
	       !rule->opcodes;
}

/* --- words ----------------------------------------------------------------------- */

/* The fault's name, indexed by enum av_inject. */
extern const char *const av_faults_name[AV_INJECT_N];

/* The verb's name in rules, without "ibv_"; "any". NULL: no fault on demand fails it */
const char *av_faults_verb_name(enum av_verb verb);

/* The bit of a send request's opcode. No two opcodes share a bit. */
static inline uint64_t av_faults_opcode(uint32_t opcode)
{
	return 1ull << (opcode & 63);
}

/* The bit of a message of the connection manager. @attribute: the message's attribute ID */
static inline uint32_t av_faults_message(uint16_t attribute)
{
	return 1u << (attribute & 31);
}

/* === faults ====================================================================== */

/* An occasion: an event that a fault may strike. */
struct av_faults_occasion {
	enum {
		AV_FAULTS_REQUEST,
		AV_FAULTS_VERB,
		AV_FAULTS_CLOCK,
		AV_FAULTS_PACKET,
		AV_FAULTS_MESSAGE,
	} kind;
	uint64_t now_ns;
	/* For a request or a packet. A packet may have no opcode: UINT32_MAX. */
	uint32_t qpn, opcode; /* @qpn: also for a verb; 0: it is about no queue pair */
	uint64_t which;	      /* wr_id; PSN */
	/* For a request: */
	bool reliable;	      /* the responder answers, so faults about answers apply */
	bool failed;	      /* the device has failed, and does not once more */
	const uint32_t *keys; /* also for a verb */
	uint32_t key_count;
	/* For a verb: */
	enum av_verb verb;
	/* For a message of the connection manager: */
	uint16_t attribute;
};

struct av_faults {
	pthread_mutex_t mutex;	 /* guards the fields below */
	_Atomic uint32_t change; /* version of the rules; readable without the mutex */
	const char *device;
	pid_t pid;
	uint64_t begin_ns; /* when the rules were set */
	unsigned int count;
	struct av_faults_active {
		struct av_faults_rule rule;
		uint64_t seen, struck; /* occasions selected; faults among them */
		uint64_t tick_ns;      /* next occasion of a timed rule; UINT64_MAX: none */
	} active[2 * AV_FAULTS_RULES];
};

/*
 * Functions on struct av_faults: any thread, any lock held; they lock its mutex for moments, and
 * keep errno. @device lives as long as @f. av_faults_strike() and av_faults_arrival() accept NULL.
 */
void av_faults_init(struct av_faults *f, const char *device);
void av_faults_fini(struct av_faults *f);

/*
 * Replace all rules of version @from, unless another thread has done so: then nothing changes. The
 * new ones are those for its device and this process in both texts (NULL: none), as version
 * @change. Every count restarts at 0. Bad text, or no memory, gives none. Return: number in force
 */
unsigned int av_faults_set(struct av_faults *f, uint32_t from, uint32_t change,
			   const char *const texts[2]);

/* A rule that has struck. All zero before the first. */
struct av_faults_struck {
	struct av_faults_rule rule; /* a copy, since another thread may change the rules */
	uint64_t occasion;	    /* its count of occasions, this one included */
	unsigned int next;	    /* where to look for the next one */
};

/*
 * Find the next rule that strikes on this occasion, and record that it does, so that users can tell
 * the fault from a real one: in a flight record, and in a log line at level "info". Call it until
 * it returns false, so that every rule counts the occasion.
 */
AV_MUST_USE bool av_faults_strike(struct av_faults *f, const struct av_faults_occasion *o,
				  struct av_faults_struck *struck);

/* How to handle a packet, or a message of the connection manager, that arrives. */
struct av_faults_verdict {
	bool lost;	   /* drop it */
	bool damaged;	   /* count it as damaged; it is lost, too */
	bool marked;	   /* it carries a congestion mark */
	uint32_t times;	   /* how often to handle it: 1, or more for a duplicate */
	uint32_t after;	   /* how many later arrivals overtake it */
	uint64_t delay_ns; /* how much later to handle it */
};

/* All rules together that strike at an arrival. */
struct av_faults_verdict av_faults_arrival(struct av_faults *f, const struct av_faults_occasion *o);

/* May any rule strike at a request? */
bool av_faults_at_requests(struct av_faults *f);

/* The next occasion that the clock makes, in ns of av_now_ns(); UINT64_MAX: none */
uint64_t av_faults_next_tick(struct av_faults *f);

/*
 * The random number that decides an occasion, as anyverbs_faults(5) documents: number @nth of the
 * SplitMix64 generator (public domain, Sebastiano Vigna) that starts at @seed + @rule. Pure
 */
uint64_t av_faults_draw(uint64_t seed, uint32_t rule, uint64_t nth);

/* Scale a random number to one below @n (@n > 0). */
static inline uint64_t av_faults_below(uint64_t draw, uint64_t n)
{
	return (uint64_t)(((unsigned __int128)draw * n) >> 64);
}

/* --- packets and messages that wait for others ---------------------------------- */

/*
 * Deferred arrivals: packets, or messages of the connection manager, that a fault on demand delays
 * or reorders. Each waits until @left others have overtaken it, or until its deadline.
 * Context of all: one caller at a time for each list
 */

#define AV_OVERTAKEN_MAX 64	  /* most entries of one list */
#define AV_OVERTAKEN_NS	 1000000u /* how long an entry waits for others to overtake it */

/* The first member of each entry. */
struct av_late {
	struct av_late *next;
	uint32_t times; /* how often to handle it; the caller's to use */
	uint32_t left;	/* others that are still to overtake it; UINT32_MAX: wait for time only */
	uint64_t until_ns; /* deadline, in the caller's clock */
};

/* All zero: an empty list. */
struct av_overtaken {
	struct av_late *first; /* in the order of arrival */
	unsigned int count;
};

/*
 * Append an entry of @bytes in all, with @after or @delay_ns of @v. Return: memory of malloc(), for
 * the members behind struct av_late. NULL: none, or a full list: handle the arrival at once
 */
AV_MUST_USE void *av_overtaken_add(struct av_overtaken *o, size_t bytes,
				   const struct av_faults_verdict *v, uint64_t now_ns);

/* Count one arrival that overtakes all entries. */
void av_overtaken_pass(struct av_overtaken *o);

/* Remove the first entry that has waited long enough (UINT64_MAX: any has); the caller frees it. */
AV_MUST_USE void *av_overtaken_take(struct av_overtaken *o, uint64_t now_ns);

/* Return: the earliest deadline; UINT64_MAX: the list is empty */
uint64_t av_overtaken_next(const struct av_overtaken *o);
