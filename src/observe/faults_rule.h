/* SPDX-License-Identifier: MIT */
/*
 * The parser of fault rules: a pure function from a text to rules. anyverbs_faults(5) describes the
 * language to users; the words are in the tables of faults_words.c and faults_rule.c.
 *
 *     FAULTS = [RULE] *( (";" | newline) [RULE] )    "#" starts a comment up to the end of the line
 *     RULE   = "seed" NUMBER                         default for the rules that follow
 *            | WHAT *( WHERE | WHEN )
 *     WHAT   = "delay" TIME | "stall" | "rnr" [COUNT | TIME | "all"] | "rnr-exhausted"
 *            | "lose" [COUNT | "all"] | "retry-exhausted" | "status" STATUS | "peer-death"
 *            | "cq-overrun" | "evict" [COUNT | "all"] | "fatal" | "port-down" [TIME] | "port-up"
 *            | "kill" | "fail" VERB [ERRNO]
 *     WHERE  = "device" NAME | "process" NAME | "pid" NUMBER | "qp" (NUMBER | "all")
 *            | "opcode" OPCODE | "key" NUMBER
 *     WHEN   = "p" FRACTION | NUMBER "%" | "seed" NUMBER | "nth" COUNT | "every" (COUNT | TIME)
 *            | "first" COUNT | "after" TIME | "for" TIME
 *     TIME   = NUMBER ("ns" | "us" | "ms" | "s" | "min")
 *
 * "drop", "duplicate", "reorder" and "corrupt" are reserved for packets.
 */
#ifndef AV_OBSERVE_FAULTS_RULE_H
#define AV_OBSERVE_FAULTS_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AV_FAULTS_RULES	  64	      /* rules in one text */
#define AV_FAULTS_BYTES	  8192	      /* longest text, NUL included */
#define AV_FAULTS_ALL	  UINT32_MAX  /* as a count: without limit */
#define AV_FAULTS_CERTAIN 1000000000u /* probability 1 */
#define AV_FAULTS_NAME	  64

enum av_inject {
	/* Faults that strike a request: */
	AV_INJECT_DELAY, /* it starts @time_ns later */
	AV_INJECT_STALL, /* it and the requests behind it wait until the rules change */
	AV_INJECT_RNR,	 /* it is answered "receiver not ready" @count times, or for @time_ns */
	AV_INJECT_RNR_EXHAUSTED,   /* it fails at once as if its RNR retries were exhausted */
	AV_INJECT_LOSE,		   /* it is sent and lost @count times */
	AV_INJECT_RETRY_EXHAUSTED, /* it fails at once as if its retries were exhausted */
	AV_INJECT_STATUS,	   /* it completes with @status; no bytes move */
	AV_INJECT_PEER_DEATH,	   /* its peer process is treated as dead */
	AV_INJECT_CQ_OVERRUN,	   /* its completion finds the queue full */
	/* Faults that strike a context, at a request or by the clock: */
	AV_INJECT_EVICT,     /* @count pages of each ODP region are invalidated */
	AV_INJECT_FATAL,     /* the device fails */
	AV_INJECT_PORT_DOWN, /* for @time_ns; 0: until port-up */
	AV_INJECT_PORT_UP,
	AV_INJECT_KILL, /* the process is killed */
	/* Faults that strike a verb: */
	AV_INJECT_FAIL, /* @verb fails with @err */
	AV_INJECT_N
};

/* Verbs that can be made to fail. */
enum av_fail {
	AV_FAIL_ALLOC_PD,
	AV_FAIL_ALLOC_TD,
	AV_FAIL_ALLOC_MW,
	AV_FAIL_ALLOC_DM,
	AV_FAIL_ALLOC_NULL_MR,
	AV_FAIL_REG_MR,
	AV_FAIL_REG_DMABUF_MR,
	AV_FAIL_REREG_MR,
	AV_FAIL_CREATE_AH,
	AV_FAIL_CREATE_COMP_CHANNEL,
	AV_FAIL_CREATE_CQ,
	AV_FAIL_RESIZE_CQ,
	AV_FAIL_CREATE_QP,
	AV_FAIL_MODIFY_QP,
	AV_FAIL_CREATE_SRQ,
	AV_FAIL_MODIFY_SRQ,
	AV_FAIL_OPEN_XRCD,
	AV_FAIL_MEMORY, /* not a verb: allocation from the context's segment, which many verbs do */
	AV_FAIL_ANY,	/* in a rule: any verb above, but not AV_FAIL_MEMORY */
	AV_FAIL_N
};

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
	uint32_t opcodes; /* bit mask of indices into av_faults_opcode[]; 0: any */
	bool has_key;
	uint32_t key;

	uint32_t parts; /* probability, out of AV_FAULTS_CERTAIN */
	uint64_t seed;
	uint32_t nth, every, first; /* 0: not given */
	uint64_t every_ns, after_ns, for_ns;
};

/* What is wrong with a text, and where. @line and @column count from 1, columns in bytes. */
struct av_faults_error {
	unsigned int line, column;
	char text[200]; /* "'foo' is not a fault; expected ..." */
};

/**
 * av_faults_parse() - parse @text
 * @rules: out, room for AV_FAULTS_RULES
 * @error: out, on failure
 *
 * Context: any thread; allocates nothing and keeps no pointers.
 * Return: number of rules, or -1 on a syntax error
 */
int av_faults_parse(const char *text, struct av_faults_rule rules[AV_FAULTS_RULES],
		    struct av_faults_error *error);

/* Does the rule go by the clock, not by requests or verbs? */
bool av_faults_is_timed(const struct av_faults_rule *rule);

/* --- words ----------------------------------------------------------------------- */

/* A piece of a text, not NUL-terminated. */
struct av_faults_word {
	const char *text;
	size_t len;
};

/* The fault's name, indexed by enum av_inject. */
extern const char *const av_faults_name[AV_INJECT_N];

/* The verb's name without "ibv_", indexed by enum av_fail. */
extern const char *const av_faults_verb_name[AV_FAIL_N];

/* The opcodes of send requests. */
#define AV_FAULTS_OPCODES 19
extern const struct av_faults_opcode {
	const char *name; /* as in IBV_WR_..., without the prefix */
	uint32_t opcode;
} av_faults_opcode[AV_FAULTS_OPCODES];

/*
 * Find a word in a table of names. Case does not matter, "-" equals "_", and @prefix may be present
 * or not.
 * Return: index, or @count
 */
unsigned int av_faults_find(struct av_faults_word word, const char *prefix,
			    const char *const *names, unsigned int count);

/*
 * The value that a word names, or -1. av_faults_status() knows every enum ibv_wc_status but
 * success.
 */
int av_faults_status(struct av_faults_word word);
int av_faults_opcode_place(struct av_faults_word word);
int av_faults_errno(struct av_faults_word word);

#endif
