/* SPDX-License-Identifier: MIT */
/* Pending records, and their recording. */
#include "observe/diagnosis.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/setting.h"
#include "base/uncancelled.h"
#include "observe/explain.h"
#include "observe/log.h"

#define IN_A_ROW_NS 1000000000ull /* what happens again later than that is told again */

static __thread struct {
	struct av_flight_record pending;
	struct av_flight_record last; /* recorded, but for its times */
	uint64_t last_ns;
	/* Records of the row that the last one belongs to, + 1 each; [row_count - 1]: the last. */
	uint64_t row[AV_DIAG_ROW];
	unsigned int row_count; /* of those that were not withdrawn */
} mine;

_Atomic bool av_explain_on;

static uint64_t began_ns; /* what is older is of a process that had this one's number */
static char device[sizeof(((struct av_flight_record *)0)->device)];
static _Atomic int devices; /* different ones that were opened: 0, 1, 2 or more */

struct av_flight_record *av_diag_pending(void)
{
	return &mine.pending;
}

struct av_flight_record *av_diag_note(enum av_check check, uint64_t wanted, uint64_t limit)
{
	mine.pending = (struct av_flight_record){
		.check = (uint16_t)check, .wanted = wanted, .limit = limit, .has = AV_HAS_MEASURE};
	return &mine.pending;
}

void av_diag_state(uint32_t state)
{
	mine.pending.state = (uint16_t)state;
	mine.pending.has |= AV_HAS_STATE;
}

int av_refuse_device(int err, enum av_check check, const char *name)
{
	av_diag_verb(err, check, 0, 0);
	snprintf(mine.pending.device, sizeof(mine.pending.device), "%s", name);
	return err;
}

void av_diag_error(int err)
{
	mine.pending.error = err;
}

void av_diag_detail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(mine.pending.detail, sizeof(mine.pending.detail), fmt, ap);
	va_end(ap);
	mine.pending.has |= AV_HAS_DETAIL;
}

void av_diag_verb(int err, enum av_check check, uint64_t wanted, uint64_t limit)
{
	av_diag_note(check, wanted, limit)->error = err;
}

void av_refuse_object(int err, enum av_flight_object object, uint32_t number)
{
	if (mine.pending.error != err) {
		av_diag_verb(err, av_check_of_errno(err), 0, 0);
		mine.pending.has = 0;
	}
	mine.pending.object = (uint8_t)object;
	mine.pending.number = number;
	mine.pending.has |= AV_HAS_OBJECT;
}

void av_diag_drop(void)
{
	memset(&mine.pending, 0, sizeof(mine.pending));
}

static void complete(struct av_flight_record *r)
{
	r->by = (int32_t)getpid();
	r->by_group = (int32_t)getpgrp();
	if (!r->pid)
		r->pid = r->by;
	if (!r->process[0] && r->pid == r->by)
		snprintf(r->process, sizeof(r->process), "%s", program_invocation_short_name);
	if (!r->device[0] && atomic_load(&devices) == 1)
		memcpy(r->device, device, sizeof(r->device));
}

/* The same rule broken in the same way, by the same amount? */
static bool is_same(const struct av_flight_record *r)
{
	struct av_flight_record like = *r;

	like.repeats = mine.last.repeats;
	return memcmp(&like, &mine.last, sizeof(like)) == 0;
}

/* The same verb refused by the same check, perhaps by another amount? */
static bool is_row(const struct av_flight_record *r)
{
	return r->kind == AV_FLIGHT_REFUSAL && mine.last.kind == AV_FLIGHT_REFUSAL &&
	       r->verb == mine.last.verb && r->check == mine.last.check && r->by == mine.last.by;
}

static void withdraw_last(void)
{
	av_flight_withdraw(mine.row[--mine.row_count] - 1);
}

/* Add record @number, + 1, to the row. A full one loses its first. */
static void remember(uint64_t number)
{
	if (!number)
		return;
	if (mine.row_count == AV_DIAG_ROW)
		memmove(mine.row, mine.row + 1, --mine.row_count * sizeof(mine.row[0]));
	mine.row[mine.row_count++] = number;
}

/*
 * The same again at once? Then only the 2nd, 4th, 8th ... time is worth a record, which takes the
 * place of the one before.
 */
static bool is_news(struct av_flight_record *r, uint64_t now_ns)
{
	bool soon = mine.last_ns && now_ns - mine.last_ns <= IN_A_ROW_NS,
	     again = soon && is_same(r);

	r->repeats = !again ? 0 : mine.last.repeats ? mine.last.repeats + 1 : 2;
	if (!again && !(soon && is_row(r)))
		mine.row_count = 0;
	mine.last = *r;
	mine.last_ns = now_ns;
	return (r->repeats & (r->repeats - 1)) == 0;
}

static void print(const struct av_flight_record *r)
{
	char text[AV_EXPLAIN_MAX];

	av_log_raw(text, av_explain(r, text));
}

void av_report(void)
{
	AV_UNCANCELLED;
	struct av_flight_record r = mine.pending;
	uint64_t now = av_now_ns();
	int saved = errno;

	av_diag_drop();
	complete(&r);
	if (is_news(&r, now)) {
		r.monotonic_ns = now;
		r.time_ns = av_now_real_ns();
		if (r.repeats && mine.row_count)
			withdraw_last();
		remember(av_flight_append(&r));
		if (av_explaining() && r.pid == r.by)
			print(&r);
	}
	errno = saved;
}

void av_report_beside(const struct av_flight_record *record)
{
	AV_UNCANCELLED;
	struct av_flight_record before = mine.pending;

	mine.pending = *record;
	av_report();
	mine.pending = before;
}

void av_overcome(enum av_verb verb)
{
	if (mine.last.kind == AV_FLIGHT_REFUSAL && mine.last.verb == verb &&
	    mine.last.by == (int32_t)getpid())
		while (mine.row_count)
			withdraw_last();
}

int av_refused(enum av_verb verb, int err)
{
	struct av_flight_record *r = &mine.pending;

	if (r->error != err) /* of something that was overcome, or not said */
		memset(r, 0, sizeof(*r));
	if (r->check == AV_CHECK_NONE)
		r->check = (uint16_t)av_check_of_errno(err);
	r->kind = AV_FLIGHT_REFUSAL;
	r->verb = (uint16_t)verb;
	r->error = err;
	r->has |= AV_HAS_VERB;
	av_report();
	return err;
}

void av_diag_begin(void)
{
	static struct av_setting setting = {"ANYVERBS_EXPLAIN", "1", 0};

	if (began_ns == 0)
		began_ns = av_now_real_ns();
	atomic_store(&av_explain_on, av_setting_is(&setting));
}

void av_diag_device(const char *name)
{
	av_diag_begin();
	if (atomic_load(&devices) == 0) {
		snprintf(device, sizeof(device), "%s", name);
		atomic_store(&devices, 1);
	} else if (strncmp(device, name, sizeof(device) - 1)) {
		atomic_store(&devices, 2);
	}
}

/* Write what others have recorded of this process. Return: number of the next record */
static uint64_t tell(const struct av_flight_file *file, uint64_t at)
{
	uint64_t next = av_flight_next(file);
	struct av_flight_record r;
	int saved = errno;

	if (at < av_flight_first(next) || at > next)
		at = av_flight_first(next);
	for (; at < next; at++)
		if (av_flight_read(file, at, &r) && r.pid == (int32_t)getpid() && r.by != r.pid &&
		    r.time_ns >= began_ns)
			print(&r);
	errno = saved;
	return next;
}

/* @at: where reading has come to; one thread at a time reads. */
void av_explain_others(void)
{
	AV_UNCANCELLED;
	static atomic_flag busy = ATOMIC_FLAG_INIT;
	static uint64_t at;
	const struct av_flight_file *file;

	if (atomic_flag_test_and_set(&busy))
		return;
	file = av_flight_own();
	if (file) {
		at = tell(file, at);
		av_flight_own_end();
	}
	atomic_flag_clear(&busy);
}
