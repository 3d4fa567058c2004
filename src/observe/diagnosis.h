/* SPDX-License-Identifier: MIT */
/*
 * Leaving a record of a failure. Who finds something wrong notes it in the thread's one pending
 * record; who reports the failure to the program completes the record and appends it to the flight
 * recorder. The next failure overwrites what was never reported. All of this preserves errno and
 * takes no lock.
 */
#ifndef AV_OBSERVE_DIAGNOSIS_H
#define AV_OBSERVE_DIAGNOSIS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "observe/check.h"
#include "observe/flight.h"
#include "observe/verb.h"

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
