/* SPDX-License-Identifier: MIT */
/* Builds the sentences of `anyverbs explain`. */
#include "observe/explain.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "observe/check.h"
#include "observe/field.h"

/* A text buffer. What does not fit is cut. */
struct text {
	char *at;
	size_t used, size;
};

AV_PRINTF(2, 3)
static void add(struct text *t, const char *fmt, ...)
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
	add(t, "%s", word);
	if (field->group == AV_HAS_GID && record->has & AV_HAS_TAKEN_FOR)
		add_sentence(t, " (taken for {taken_for})", record);
}

static void add_sentence(struct text *t, const char *sentence,
			 const struct av_flight_record *record)
{
	const char *open, *close;

	while ((open = strchr(sentence, '{')) && (close = strchr(open, '}'))) {
		add(t, "%.*s", (int)(open - sentence), sentence);
		add_field(t, (struct av_word){open + 1, (size_t)(close - open - 1)}, record);
		sentence = close + 1;
	}
	add(t, "%s", sentence);
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
	add(t, ": ");
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
		add(t, ": ");
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
		add(t, " (dropped silently)");
	if (r->repeats > 1)
		add_sentence(t, ", {repeats} times in a row", r);
	add(t, "\n");
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
		add(&t, "    ");
		add_sentence(&t, row->advice, record);
		add(&t, " [%s]\n", row->clause);
	}
	if (t.used == AV_EXPLAIN_MAX - 1)
		text[t.used - 1] = '\n';
	return t.used;
}
