/* SPDX-License-Identifier: MIT */
/* Messages of exchanges between connection managers: each is judged when it is sent. */
#include "unit/cm/cm_link_parts.h"

#include <stdio.h>
#include <string.h>

#include "cm/id.h"
#include "lib/check.h"

#define COMM_AT	 24u /* behind the header of a management datagram are the numbers */
#define GIVEN_UP 4   /* a timeout: IBTA volume 1, 12.6.7.2 */

struct cm_link_message cm_link_sent[CM_LINK_MESSAGES];

/* Private data: what the program says, what an event has, and where it is in the datagram. */
static const struct kind {
	uint16_t attribute;
	uint8_t says, all, at;
} kinds[] = {
	{AV_CM_REQ, 50, 56, 24 + 140 + 36},  {AV_CM_REP, 196, 196, 24 + 36},
	{AV_CM_REJ, 140, 148, 24 + 84},	     {AV_CM_SIDR_REQ, 180, 180, 24 + 16 + 36},
	{AV_CM_SIDR_REP, 130, 136, 24 + 96},
};

static const struct kind *kind_of(uint16_t attribute)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (kinds[i].attribute == attribute)
			return &kinds[i];
	return NULL;
}

static uint8_t pattern(uint16_t attribute, unsigned int i)
{
	return (uint8_t)(attribute * 37u + i * 11u + 1u);
}

uint8_t cm_link_say(uint16_t attribute, uint8_t *to)
{
	const struct kind *k = kind_of(attribute);

	for (unsigned int i = 0; i < k->says; i++)
		to[i] = pattern(attribute, i);
	return k->says;
}

/* @from: private data in an event, or in a datagram. @own: the program has cm_link_now.said it;
 * else nobody */
bool cm_link_is_said(uint16_t attribute, const uint8_t *from, bool own)
{
	const struct kind *k = kind_of(attribute);

	for (unsigned int i = 0; i < k->all; i++)
		if (from[i] != (own && i < k->says ? pattern(attribute, i) : 0))
			return false;
	return true;
}

/* --- messages ---------------------------------------------------------------------- */

uint64_t cm_link_get(const uint8_t *from, unsigned int bytes)
{
	uint64_t v = 0;

	for (unsigned int i = 0; i < bytes; i++)
		v = v << 8 | from[i];
	return v;
}

/* The first message of that kind that @from has sent. NULL: none */
const uint8_t *cm_link_first_said(unsigned int from, uint16_t attribute)
{
	for (unsigned int i = 0; i < cm_link_now.said_count; i++)
		if (cm_link_now.said[i].from == from &&
		    cm_link_get(cm_link_now.said[i].mad + 16, 2) == attribute)
			return cm_link_now.said[i].mad;
	return NULL;
}

static uint32_t asker(void)
{
	const uint8_t *req = cm_link_first_said(0, AV_CM_REQ);

	return req ? (uint32_t)cm_link_get(req + COMM_AT, 4) : 0;
}

static bool has_said(unsigned int from, uint32_t comm)
{
	for (unsigned int i = 0; i < cm_link_now.said_count; i++)
		if (cm_link_now.said[i].from == from &&
		    cm_link_get(cm_link_now.said[i].mad + COMM_AT, 4) == comm)
			return true;
	return false;
}

/* Has the listener answered with that number? */
static bool has_answered(uint32_t comm)
{
	for (unsigned int i = 0; i < cm_link_now.said_count; i++)
		if (cm_link_get(cm_link_now.said[i].mad + 16, 2) == AV_CM_REP &&
		    cm_link_get(cm_link_now.said[i].mad + COMM_AT, 4) == comm)
			return true;
	return false;
}

/* 12.6: each message has its sender's number and its peer's, as far as they are known. */
static void judge_numbers(const struct cm_link_message *m)
{
	if (m->attribute == AV_CM_REQ)
		MUST_BE(m->remote, 0);
	if (m->from == 0) {
		MUST_BE(m->local, asker() ? asker() : m->local);
		MUST(m->attribute == AV_CM_REQ || m->attribute == AV_CM_REJ ||
		     has_said(1, m->remote));
	} else {
		MUST_BE(m->remote, asker());
		MUST(m->local || m->attribute == AV_CM_REJ);
	}
}

/* 12.6: what answers has the transaction of what it answers; RTU and REJ that of the request. */
static void judge_transaction(const struct cm_link_message *m)
{
	static const uint16_t of[][2] = {
		{AV_CM_MRA, AV_CM_REQ}, {AV_CM_REJ, AV_CM_REQ},	  {AV_CM_REP, AV_CM_REQ},
		{AV_CM_RTU, AV_CM_REQ}, {AV_CM_DREP, AV_CM_DREQ}, {AV_CM_SIDR_REP, AV_CM_SIDR_REQ},
	};

	for (size_t i = 0; i < sizeof(of) / sizeof(*of); i++) {
		bool goodbye = of[i][1] == AV_CM_DREQ;
		const uint8_t *first = cm_link_first_said(goodbye ? 1 - m->from : 0, of[i][1]);

		if (of[i][0] != m->attribute)
			continue;
		MUST(first != NULL);
		if (first)
			MUST_BE(m->transaction, cm_link_get(first + 8, 8));
	}
}

/* What comes again is the same. Of MRA and REJ there are several, and of what refuses a request. */
static void judge_again(const struct cm_link_message *m, const uint8_t *mad)
{
	if (m->attribute == AV_CM_MRA || m->attribute == AV_CM_REJ ||
	    (m->attribute == AV_CM_SIDR_REP && cm_link_now.exchange->deaf))
		return;
	for (unsigned int i = 0; i < cm_link_now.said_count; i++)
		if (cm_link_now.said[i].from == m->from &&
		    cm_link_get(cm_link_now.said[i].mad + 16, 2) == m->attribute &&
		    cm_link_get(cm_link_now.said[i].mad + COMM_AT, 4) == m->local)
			MUST(memcmp(cm_link_now.said[i].mad, mad, AV_MAD_BYTES) == 0);
}

static bool says_own(const struct cm_link_message *m)
{
	for (unsigned int i = 0; i < cm_link_now.id_count; i++)
		if (cm_link_now.ids[i].rejected && cm_link_now.ids[i].host == m->from)
			return true;
	return false;
}

/* A program that has not answered yet, or has not heard yet what it is to answer. */
static bool takes_its_time(unsigned int host)
{
	bool any = host == 0 && cm_link_now.ids[0].there && !cm_link_now.ids[0].ready &&
		   !cm_link_now.ids[0].rejected;

	for (unsigned int i = 1; i < cm_link_now.id_count; i++)
		any |= host == 1 && cm_link_now.ids[i].there && !cm_link_now.ids[i].accepted &&
		       !cm_link_now.ids[i].rejected;
	return any || (host == 1 && !TAILQ_EMPTY(&cm_link_now.channel[1]->events));
}

/* Of MRA and REJ: 0 REQ, 1 REP, 2 another, or none. 12.6.6, 12.6.7 */
static void judge_about(const struct cm_link_message *m, const uint8_t *mad)
{
	bool late = cm_link_get(mad + HEADER + 10, 2) == GIVEN_UP;
	uint64_t about = m->from == 0;

	if (m->attribute == AV_CM_REJ && (late || (m->from == 1 && has_answered(m->local))))
		about = 2;
	MUST_BE(mad[HEADER + 8] >> 6, about);
}

static void judge_contents(const struct cm_link_message *m, const uint8_t *mad)
{
	const struct kind *k = kind_of(m->attribute);

	if (m->attribute == AV_CM_MRA)
		MUST(takes_its_time(m->from));
	if (m->attribute == AV_CM_MRA || m->attribute == AV_CM_REJ)
		judge_about(m, mad);
	if (m->attribute == AV_CM_DREQ)
		MUST_BE(cm_link_get(mad + HEADER + 8, 3), cm_link_parameters[1 - m->from].qp_num);
	if (m->attribute == AV_CM_REQ || m->attribute == AV_CM_REP ||
	    m->attribute == AV_CM_SIDR_REQ)
		MUST(cm_link_is_said(m->attribute, mad + k->at, true));
	if (m->attribute == AV_CM_REJ && !cm_link_now.exchange->deaf)
		MUST(cm_link_is_said(AV_CM_REJ, mad + k->at, true) ||
		     cm_link_is_said(AV_CM_REJ, mad + k->at, false));
	if (m->attribute == AV_CM_REJ && cm_link_get(mad + HEADER + 10, 2) == REASON &&
	    !says_own(m))
		MUST(cm_link_is_said(AV_CM_REJ, mad + k->at, false));
}

static void trace_message(const struct cm_link_message *m, const struct link_packet *p)
{
	if (cm_link_now.traces)
		printf("  %10.3f ms %u: %-8s %08x %08x %s\n", (double)m->ns / 1e6, m->from,
		       av_cm_attribute_name(m->attribute), m->local, m->remote,
		       p->fault ? "*" : "");
}

static void judge_datagram(const struct av_packet *b)
{
	MUST_BE(b->opcode, 0x64); /* SEND Only of UD */
	MUST_BE(b->qkey, 0x80010000);
	MUST_BE(b->src_qpn, 1);
	MUST_BE(b->dest_qpn, 1);
	MUST_BE(b->payload_bytes, AV_MAD_BYTES);
	MUST_BE(cm_link_get(b->payload, 4),
		0x01070203); /* versions, class, method: 13.4.2, 16.7.1 */
}

bool cm_link_loses(const struct link_packet *p)
{
	return cm_link_now.exchange->lost == cm_link_get(p->net->packet.payload + 16, 2);
}

void cm_link_on_sent(const struct link_packet *p)
{
	const uint8_t *mad = p->net->packet.payload;
	struct cm_link_message m = {.from = p->from,
				    .ns = cm_link_since_begun(),
				    .attribute = (uint16_t)cm_link_get(mad + 16, 2),
				    .transaction = cm_link_get(mad + 8, 8),
				    .local = (uint32_t)cm_link_get(mad + COMM_AT, 4)};

	if (m.attribute != AV_CM_SIDR_REQ && m.attribute != AV_CM_SIDR_REP)
		m.remote = (uint32_t)cm_link_get(mad + COMM_AT + 4, 4);
	trace_message(&m, p);
	CHECK(cm_link_now.messages < CM_LINK_MESSAGES);
	cm_link_sent[cm_link_now.messages++] = m;
	judge_datagram(&p->net->packet);
	if (m.attribute != AV_CM_SIDR_REQ && m.attribute != AV_CM_SIDR_REP)
		judge_numbers(&m);
	judge_transaction(&m);
	judge_again(&m, mad);
	judge_contents(&m, mad);
	cm_link_now.said[cm_link_now.said_count].from = m.from;
	memcpy(cm_link_now.said[cm_link_now.said_count++].mad, mad, AV_MAD_BYTES);
}

uint64_t cm_link_sent_ns(uint16_t attribute, unsigned int nth)
{
	for (unsigned int i = 0; i < cm_link_now.messages; i++)
		if (cm_link_sent[i].attribute == attribute && nth-- == 0)
			return cm_link_sent[i].ns;
	return UINT64_MAX;
}

unsigned int cm_link_sent_count(uint16_t attribute)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < cm_link_now.messages; i++)
		n += cm_link_sent[i].attribute == attribute;
	return n;
}

unsigned int cm_link_private_bytes(uint16_t attribute)
{
	return kind_of(attribute)->all;
}
