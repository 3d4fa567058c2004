/* SPDX-License-Identifier: MIT */
/*
 * The language of faults on demand, understood: a pure function from a text to rules.
 * anyverbs_faults(5) is what users read; the words are in the tables of faults_words.c and
 * faults_rule.c.
 *
 *     FAULTS = [RULE] *( (";" | newline) [RULE] )      "#" begins a comment, up to the end of the
 * line RULE   = "seed" NUMBER                           for the rules behind it | WHAT *( WHERE |
 * WHEN ) WHAT   = "delay" TIME | "stall" | "rnr" [COUNT | TIME | "all"] | "rnr-exhausted" | "lose"
 * [COUNT | "all"] | "retry-exhausted" | "status" STATUS | "peer-death" | "cq-overrun" | "evict"
 * [COUNT | "all"] | "fatal" | "port-down" [TIME] | "port-up" | "kill" | "fail" VERB [ERRNO] WHERE
 * = "device" NAME | "process" NAME | "pid" NUMBER | "qp" (NUMBER | "all") | "opcode" OPCODE | "key"
 * NUMBER WHEN   = "p" FRACTION | NUMBER "%" | "seed" NUMBER | "nth" COUNT | "every" (COUNT | TIME)
 * | "first" COUNT | "after" TIME | "for" TIME TIME   = NUMBER ("ns" | "us" | "ms" | "s" | "min")
 *
 * "drop", "duplicate", "reorder" and "corrupt" are words kept for packets.
 */
#ifndef AV_OBSERVE_FAULTS_RULE_H
#define AV_OBSERVE_FAULTS_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AV_FAULTS_RULES	  64	      /* of one text */
#define AV_FAULTS_BYTES	  8192	      /* longest text, with its NUL */
#define AV_FAULTS_ALL	  UINT32_MAX  /* as a count: no end */
#define AV_FAULTS_CERTAIN 1000000000u /* parts of as many: always */
#define AV_FAULTS_NAME	  64

enum av_inject {
	/* What happens to a request. */
	AV_INJECT_DELAY, /* it is begun @time_ns later */
	AV_INJECT_STALL, /* it, and what is behind it, is not begun until the rules change */
	AV_INJECT_RNR,	 /* it is answered "receiver not ready" @count times, or for @time_ns */
	AV_INJECT_RNR_EXHAUSTED,   /* so often that its retries are over, at once */
	AV_INJECT_LOSE,		   /* it is sent and lost @count times */
	AV_INJECT_RETRY_EXHAUSTED, /* so often that its retries are over, at once */
	AV_INJECT_STATUS,	   /* it completes with @status, nothing being moved */
	AV_INJECT_PEER_DEATH,	   /* the process it is for is dead */
	AV_INJECT_CQ_OVERRUN,	   /* its completion finds no room */
	/* What happens to a context, at a request or by the clock. */
	AV_INJECT_EVICT,     /* @count pages of each region on demand are invalidated */
	AV_INJECT_FATAL,     /* its device fails */
	AV_INJECT_PORT_DOWN, /* for @time_ns, 0: until it is taken up */
	AV_INJECT_PORT_UP,
	AV_INJECT_KILL, /* the process is killed */
	/* What happens to a verb. */
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
	AV_FAIL_MEMORY, /* no verb: taking memory of the context's segment, which verbs do */
	AV_FAIL_ANY,	/* in a rule: any of the verbs, but not the above */
	AV_FAIL_N
};

struct av_faults_rule {
	enum av_inject what;
	uint32_t number; /* its place among the rules of its text, from 1 */
	size_t at, len;	 /* and where in the text it is written */
	uint64_t time_ns;
	uint32_t count; /* or AV_FAULTS_ALL */
	int status;	/* enum ibv_wc_status */
	enum av_fail verb;
	int err; /* errno value */

	char device[AV_FAULTS_NAME], process[AV_FAULTS_NAME]; /* "": any */
	uint32_t pid, qpn;				      /* 0: any */
	uint32_t opcodes; /* bits: places in av_faults_opcode[]; 0: any */
	bool has_key;
	uint32_t key;

	uint32_t parts; /* probability, of AV_FAULTS_CERTAIN */
	uint64_t seed;
	uint32_t nth, every, first; /* 0: not said */
	uint64_t every_ns, after_ns, for_ns;
};

/* What is wrong with a text, and where: @line and @column count from 1, columns in bytes. */
struct av_faults_error {
	unsigned int line, column;
	char text[200]; /* "'foo' is no fault; ... is wanted" */
};

/**
 * av_faults_parse() - understand @text
 * @rules: out, room for AV_FAULTS_RULES
 * @error: out, if the text is not understood
 *
 * Context: any thread; allocates nothing, keeps nothing. Return: number of rules, or -1: not
 * understood
 */
int av_faults_parse(const char *text, struct av_faults_rule rules[AV_FAULTS_RULES],
		    struct av_faults_error *error);

/* Does the rule go by the clock, and by no request or verb? */
bool av_faults_is_timed(const struct av_faults_rule *rule);

/* --- words ----------------------------------------------------------------------- */

/* A piece of a text. */
struct av_faults_word {
	const char *text;
	size_t len;
};

/* By enum av_inject: the fault's name. */
extern const char *const av_faults_name[AV_INJECT_N];

/* By enum av_fail, without ibv_. */
extern const char *const av_faults_verb_name[AV_FAIL_N];

/* Opcodes of send requests. */
#define AV_FAULTS_OPCODES 19
extern const struct av_faults_opcode {
	const char *name; /* as in IBV_WR_... */
	uint32_t opcode;
} av_faults_opcode[AV_FAULTS_OPCODES];

/*
 * The place of a word in a table of names, in capitals or not, "-" for "_" or not, with @prefix or
 * not. Return: place, or @count
 */
unsigned int av_faults_find(struct av_faults_word word, const char *prefix,
			    const char *const *names, unsigned int count);

/* The value a word names; -1: none. Of statuses but success: enum ibv_wc_status. */
int av_faults_status(struct av_faults_word word);
int av_faults_opcode_place(struct av_faults_word word);
int av_faults_errno(struct av_faults_word word);

#endif
