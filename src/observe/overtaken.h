/* SPDX-License-Identifier: MIT */
/*
 * What a fault on demand holds back of what arrives, packets or messages of the connection manager.
 * Each goes on when so many others have gone before it, or when its time is over.
 * Context of all: one caller at a time for each list.
 */
#ifndef AV_OBSERVE_OVERTAKEN_H
#define AV_OBSERVE_OVERTAKEN_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "observe/faults.h"

#define AV_OVERTAKEN_MAX 64	  /* that wait in one list */
#define AV_OVERTAKEN_NS	 1000000u /* how long one waits for others */

/* The first member of whatever waits. */
struct av_late {
	struct av_late *next;
	uint32_t times;	   /* that it is handled */
	uint32_t left;	   /* others that go before it; UINT32_MAX: time alone counts */
	uint64_t until_ns; /* it goes on without them */
};

/* All zero: nothing waits. */
struct av_overtaken {
	struct av_late *first; /* in the order of arrival */
	unsigned int count;
};

/*
 * Have one more wait, by a verdict with @after or @delay_ns. @bytes: of all of it.
 * Return: memory of malloc(), whose other members the caller fills in. NULL: without memory, or
 * with too many that wait already, it does not wait
 */
AV_MUST_USE void *av_overtaken_add(struct av_overtaken *o, size_t bytes,
				   const struct av_faults_verdict *v, uint64_t now_ns);

/* Another one goes before those that wait. */
void av_overtaken_pass(struct av_overtaken *o);

/*
 * Take off the first one that need not wait any more; the caller frees it. @now_ns: UINT64_MAX: all
 * go. Return: NULL: there is none
 */
AV_MUST_USE void *av_overtaken_take(struct av_overtaken *o, uint64_t now_ns);

/* Return: when the next one goes on without others; UINT64_MAX: none waits */
uint64_t av_overtaken_next(const struct av_overtaken *o);

#endif
