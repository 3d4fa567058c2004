/* SPDX-License-Identifier: MIT */
/* Notes of what failed, their sentences, and what faults on demand hold back. */
#ifndef AV_OBSERVE_DIAGNOSIS_H
#define AV_OBSERVE_DIAGNOSIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "observe/check.h"
#include "observe/faults.h"
#include "observe/flight.h"

/*
 * What a fault on demand holds back of what arrives, packets or messages of the connection manager.
 * Each goes on when so many others have gone before it, or when its time is over.
 * Context of all: one caller at a time for each list.
 */

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

/* Turns a record into English. */

#define AV_EXPLAIN_MAX 1024 /* bytes of both lines, NUL included */

/*
 * One sentence, and a second line of advice if the check has any. Each line ends in a newline; what
 * is too long is cut. Return: bytes written, without the NUL
 */
size_t av_explain(const struct av_flight_record *record, char text[AV_EXPLAIN_MAX]);

/* Only the sentence, with its {fields} filled in. */
void av_explain_sentence(const char *sentence, const struct av_flight_record *record, char *text,
			 size_t size);

/*
 * Leaving a record of a failure. Who finds something wrong notes it in the thread's one pending
 * record; who reports the failure to the program completes the record and appends it to the flight
 * recorder. The next failure overwrites what was never reported. All of this preserves errno and
 * takes no lock.
 */

#define AV_DIAG_ROW 16

/* Begin the pending record: which check failed, and what it compared. Return: it, to be added to */
AV_COLD struct av_flight_record *av_diag_note(enum av_check check, uint64_t wanted, uint64_t limit);

/* The same in a verb that is going to fail with @err. Return: @err, which the compiler sees */
AV_COLD void av_diag_verb(int err, enum av_check check, uint64_t wanted, uint64_t limit);
static inline int av_refuse(int err, enum av_check check, uint64_t wanted, uint64_t limit)
{
	av_diag_verb(err, check, wanted, limit);
	return err;
}

/* The same about that device, of several. */
AV_COLD int av_refuse_device(int err, enum av_check check, const char *name);

/* The same reason as was noted, with another errno value. Return: @err */
AV_COLD void av_diag_error(int err);
static inline int av_refuse_as(int err)
{
	av_diag_error(err);
	return err;
}

/* What the pending record's sentence says in words of its own: {detail}. Too long a one is cut. */
AV_PRINTF(1, 2)
AV_COLD void av_diag_detail(const char *fmt, ...);

/* The pending record as it is; its check is AV_CHECK_NONE if nothing has been noted. */
AV_COLD struct av_flight_record *av_diag_pending(void);

/* What the pending record tells of is a queue pair in that state. */
AV_COLD void av_diag_state(uint32_t state);

/* Append the pending record to the recorder; it is empty afterwards. */
AV_COLD void av_report(void);

/* Append another record than the pending one, which stays. */
AV_COLD void av_report_beside(const struct av_flight_record *record);

/* @verb fails with @err. Return: @err */
AV_COLD int av_refused(enum av_verb verb, int err);

/*
 * @verb succeeds. If it was the last to be refused, the program has overcome that, or was finding
 * out a limit: the refusals by that check in a row are no failures, and the last of their records,
 * AV_DIAG_ROW at most, are withdrawn.
 */
AV_COLD void av_overcome(enum av_verb verb);

/*
 * A verb of that object is going to fail with @err: add the object to what av_refuse() noted of
 * this error, or to what the errno value means by itself.
 */
AV_COLD void av_refuse_object(int err, enum av_flight_object object, uint32_t number);

/* Forget the pending record: it was no failure, after all. */
AV_COLD void av_diag_drop(void);

/* The program uses us: from now on, what it is refused is explained if it asks for that. */
void av_diag_begin(void);

/* A device is opened: what is refused from now on is that device's, unless there are several. */
void av_diag_device(const char *name);

/*
 * With ANYVERBS_EXPLAIN=1 records of this process also go to standard error. av_explain_others(),
 * for when the program learns of a failure, writes those that others have made.
 */
static inline bool av_explaining(void)
{
	extern _Atomic bool av_explain_on;

	return av_unlikely(__atomic_load_n((const bool *)&av_explain_on, __ATOMIC_RELAXED));
}
AV_COLD void av_explain_others(void);

#endif
