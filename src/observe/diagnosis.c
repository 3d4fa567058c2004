/* SPDX-License-Identifier: MIT */
#include "observe/check.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "base/thread.h"
#include "observe/flight.h"

void *av_overtaken_add(struct av_overtaken *o, size_t bytes, const struct av_faults_verdict *v,
		       uint64_t now_ns)
{
	struct av_late *late = o->count < AV_OVERTAKEN_MAX ? malloc(bytes) : NULL;
	struct av_late **at = &o->first;

	if (!late)
		return NULL;
	*late = (struct av_late){
		.times = v->times,
		.left = v->delay_ns ? UINT32_MAX : v->after,
		.until_ns = now_ns + (v->delay_ns ? v->delay_ns : AV_OVERTAKEN_NS),
	};
	while (*at)
		at = &(*at)->next;
	*at = late;
	o->count++;
	return late;
}

void av_overtaken_pass(struct av_overtaken *o)
{
	for (struct av_late *late = o->first; late; late = late->next)
		if (late->left != UINT32_MAX)
			late->left -= late->left > 0;
}

void *av_overtaken_take(struct av_overtaken *o, uint64_t now_ns)
{
	struct av_late **at = &o->first, *late;

	while (*at && (*at)->left && (*at)->until_ns > now_ns)
		at = &(*at)->next;
	late = *at;
	if (late) {
		*at = late->next;
		o->count--;
	}
	return late;
}

uint64_t av_overtaken_next(const struct av_overtaken *o)
{
	uint64_t next = UINT64_MAX;

	for (const struct av_late *late = o->first; late; late = late->next)
		if (late->until_ns < next)
			next = late->until_ns;
	return next;
}

/* Builds the sentences of `anyverbs explain`. */

/* A text buffer. What does not fit is cut. */
struct text {
	char *at;
	size_t used, size;
};

AV_PRINTF(2, 3)
static void append_diag_text(struct text *t, const char *fmt, ...)
{
	size_t room = t->size - t->used;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(t->at + t->used, room, fmt, ap);
	va_end(ap);
	if (n > 0)
		t->used += (size_t)n < room ? (size_t)n : room - 1;
}

static void add_sentence(struct text *t, const char *sentence,
			 const struct av_flight_record *record);

/* Append a placeholder's value. @name: what the braces hold, a name or name:form. */
static void add_field(struct text *t, struct av_word name, const struct av_flight_record *record)
{
	const char *end = name.text + name.len, *colon = memchr(name.text, ':', name.len);
	const struct av_field *field;
	char word[AV_FIELD_TEXT_MAX];

	if (colon)
		name.len = (size_t)(colon++ - name.text);
	field = av_field_find(name);
	if (!field)
		return;
	av_field_write(field,
		       colon ? av_field_form((struct av_word){colon, (size_t)(end - colon)})
			     : field->form,
		       record, word);
	append_diag_text(t, "%s", word);
	if (field->group == AV_HAS_GID && record->has & AV_HAS_TAKEN_FOR)
		add_sentence(t, " (taken for {taken_for})", record);
}

static void add_sentence(struct text *t, const char *sentence,
			 const struct av_flight_record *record)
{
	const char *open, *close;

	while ((open = strchr(sentence, '{')) && (close = strchr(open, '}'))) {
		append_diag_text(t, "%.*s", (int)(open - sentence), sentence);
		add_field(t, (struct av_word){open + 1, (size_t)(close - open - 1)}, record);
		sentence = close + 1;
	}
	append_diag_text(t, "%s", sentence);
}

void av_explain_sentence(const char *sentence, const struct av_flight_record *record, char *text,
			 size_t size)
{
	struct text t = {text, 0, size};

	text[0] = '\0';
	add_sentence(&t, sentence, record);
}

static void add_who(struct text *t, const struct av_flight_record *r)
{
	add_sentence(t, "{process}[{pid}]", r);
	if (r->device[0])
		add_sentence(t, " {device}", r);
	append_diag_text(t, ": ");
}

/* The memory range that the request named, if known. */
static void add_memory(struct text *t, const struct av_flight_record *r)
{
	if (r->has & AV_HAS_ACCESS)
		add_sentence(t,
			     r->remote ? " of {length} B to {address} under rkey {key}"
				       : " of {length} B at {address} under lkey {key}",
			     r);
}

/* By the number that programs print. */
static void add_object(struct text *t, const struct av_flight_record *r)
{
	add_sentence(t, "{object} ", r);
	add_sentence(t,
		     r->object == AV_OBJECT_QP	 ? "{number:qpn}"
		     : r->object == AV_OBJECT_MR ? "{number:x}"
						 : "{number}",
		     r);
}

static void add_what(struct text *t, const struct av_flight_record *r)
{
	if (r->has & AV_HAS_VERB)
		add_sentence(t, r->has & AV_HAS_OBJECT ? "{verb} of " : "{verb}", r);
	if (r->has & AV_HAS_OBJECT)
		add_object(t, r);
	if (r->has & AV_HAS_REQUEST) {
		bool peers = r->kind == AV_FLIGHT_RECEIVE ||
			     (r->kind == AV_FLIGHT_DROPPED && (r->has & AV_HAS_PEER));

		add_sentence(t, peers ? ": peer's {opcode}" : ": {opcode}", r);
		add_memory(t, r);
	}
	if (r->has & (AV_HAS_VERB | AV_HAS_OBJECT | AV_HAS_REQUEST))
		append_diag_text(t, ": ");
}

/* The process at the other end. A queue pair may be connected within its own process. */
static void add_peer(struct text *t, const struct av_flight_record *r)
{
	if (!(r->has & AV_HAS_PEER) || r->peer_pid == r->pid)
		return;
	if (r->peer_pid)
		add_sentence(t, " (peer: QP {peer_qp} of pid {peer_pid})", r);
	else if (r->kind == AV_FLIGHT_RECEIVE || r->kind == AV_FLIGHT_DROPPED)
		add_sentence(t, " (peer: QP {peer_qp} of another host)", r);
}

static void add_outcome(struct text *t, const struct av_flight_record *r)
{
	add_peer(t, r);
	if (r->has & AV_HAS_REGION && r->region_pid && r->region_pid != r->pid)
		add_sentence(t, " (registered by pid {region_pid})", r);
	if (r->has & AV_HAS_VERB)
		add_sentence(t, " ({error})", r);
	if (r->has & AV_HAS_STATUS)
		add_sentence(t,
			     r->has & AV_HAS_REQUEST ? " ({status}, wr_id {wr_id})" : " ({status})",
			     r);
	if (r->has & AV_HAS_EVENT)
		add_sentence(t, " ({event})", r);
	if (r->kind == AV_FLIGHT_DROPPED)
		append_diag_text(t, " (dropped silently)");
	if (r->repeats > 1)
		add_sentence(t, ", {repeats} times in a row", r);
	append_diag_text(t, "\n");
}

size_t av_explain(const struct av_flight_record *record, char text[AV_EXPLAIN_MAX])
{
	const struct av_check_row *row = av_check_row(record->check);
	struct text t = {text, 0, AV_EXPLAIN_MAX};

	add_who(&t, record);
	add_what(&t, record);
	add_sentence(&t, row->sentence, record);
	add_outcome(&t, record);
	if (*row->advice) {
		append_diag_text(&t, "    ");
		add_sentence(&t, row->advice, record);
		append_diag_text(&t, " [%s]\n", row->clause);
	}
	if (t.used == AV_EXPLAIN_MAX - 1)
		text[t.used - 1] = '\n';
	return t.used;
}

/* Pending records, and their recording. */

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

static void complete_flight_record(struct av_flight_record *r)
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
static void append_diag_row(uint64_t number)
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
	complete_flight_record(&r);
	if (is_news(&r, now)) {
		r.monotonic_ns = now;
		r.time_ns = av_now_real_ns();
		if (r.repeats && mine.row_count)
			withdraw_last();
		append_diag_row(av_flight_append(&r));
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
static uint64_t print_foreign_records(const struct av_flight_file *file, uint64_t at)
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
		at = print_foreign_records(file, at);
		av_flight_own_end();
	}
	atomic_flag_clear(&busy);
}
