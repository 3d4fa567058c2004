/* SPDX-License-Identifier: MIT */
/*
 * Large messages arrive as they were sent, whether the receiver copies a part of them or not: it
 * polls, it comes late, it waits for an event, it cannot write to its buffer. And that it does copy
 * a part.
 */
#include <stdio.h>
#include <unistd.h>

#include "coop_fixture.h"
#include "lib/sandbox.h"

#define SEEN_MS	      60000u /* to see help: there may be others on the cores */
#define SILENCE_US    50000u /* far more than a sender knows that a peer lives */
#define AFTER_SILENCE (1u << 20)
#define UNREAD_AT     (6ul << 20)
#define PROTECTED     30
#define CHANGES	      100

enum receiver { POLLS, COMES_LATE, WAITS_FOR_EVENT, RECEIVERS };
static const char *const receiver_name[] = {"polls", "comes late", "waits for the event"};

static const struct {
	uint32_t bytes, from_by, to_by;
} rows[] = {
	{ASSIST_MIN - 1, 0, 0},
	{ASSIST_MIN, 0, 0},
	{ASSIST_MIN, 0, 1},
	{ASSIST_MIN, 1, 0},
	{ASSIST_MIN + 1, 7, 63},
	{ASSIST_MIN + 4096, 0, 0}, /* the end that is not shared out: whole pieces before it, */
	{ASSIST_MIN + 4096 - 64, 0, 0}, /* a line less, */
	{ASSIST_MIN + 4096 - 1, 0, 0},	/* a byte less, */
	{ASSIST_MIN + 4096 + 1, 0, 0},	/* and more */
	{ASSIST_MIN + 4096 + 64, 0, 0},
	{ASSIST_MIN + 4096, 33, 33},
	{5 * PIECE + 100, 8, 8},
	{8 * PIECE, 4095, 4095},
	{16 * PIECE, 0, 0},
	{16 * PIECE + 4096, 0, 60},
	{16 * PIECE - 3, 5, 2},
	{LARGE, 0, 0},
	{LARGE + 12345, 3, 11},
};

static uint64_t seed;

static enum ibv_wc_status receive_late(void)
{
	struct ibv_wc wc[1];

	return side_poll(&b, 1, 1, PATIENCE, wc) == 1 ? wc[0].status : IBV_WC_GENERAL_ERR;
}

static void send_to(enum receiver how, uint64_t from, uint32_t bytes)
{
	if (how == WAITS_FOR_EVENT)
		EXPECT(side_arm(&b, 3, 0) == 0, "arming");
	if (how == POLLS) {
		coop_begin_polling(&b, JOB_POLL, 1);
	}
	EXPECT(coop_send(how == WAITS_FOR_EVENT, from, bytes) == IBV_WC_SUCCESS, "not sent");
	if (how == POLLS)
		EXPECT(side_end(&b) == 1, "not received");
	if (how == COMES_LATE)
		EXPECT(receive_late() == IBV_WC_SUCCESS, "not received");
	if (how == WAITS_FOR_EVENT) {
		struct ibv_wc wc[1];

		EXPECT(side_comp_event(&b, PATIENCE) == 3, "no event");
		EXPECT(side_poll(&b, 3, 1, PATIENCE, wc) == 1 && wc[0].byte_len == bytes,
		       "not received");
	}
}

static void message_row(enum receiver how, uint32_t bytes, uint32_t from_by, uint32_t to_by)
{
	struct area from = {FROM_AT + from_by, bytes}, to = {TO_AT + to_by, bytes};
	int64_t wrong;

	row("%u bytes from %u to %u, the receiver %s", bytes, from_by, to_by, receiver_name[how]);
	side_load_areas(&a, &from, 1, ++seed);
	side_clear_areas(&b, &to, 1);
	side_recv_one(&b, how == WAITS_FOR_EVENT, 0, to.offset, bytes);
	send_to(how, from.offset, bytes);
	wrong = side_check_areas(&b, &to, 1, seed, bytes);
	EXPECT(wrong < 0, "byte %ld is another", (long)(wrong - (int64_t)to.offset));
}

/* The receiver has the sender's pages mapped where it copied from. */
static void seen_row(void)
{
	uint64_t before = coop_work(&b, JOB_MAPPED, 0), after = before, begin = now_ms();

	row("a receiver that polls copies a part");
	while (after < before + PIECE && now_ms() - begin < SEEN_MS) {
		side_recv_one(&b, 0, 0, TO_AT, LARGE);
		send_to(POLLS, FROM_AT, LARGE);
		after = coop_work(&b, JOB_MAPPED, 0);
	}
	EXPECT(after >= before + PIECE, "it never did: %lu bytes mapped", (unsigned long)after);
}

/* From where nobody but the sender has read yet: what is mapped there afterwards was help. */
static void silence_row(void)
{
	uint64_t before = coop_work(&b, JOB_MAPPED, 0), after = before, begin = now_ms();

	row("a receiver that polls copies a part of the first message after a silence");
	while (after < before + PIECE && now_ms() - begin < SEEN_MS) {
		side_recv_one(&b, 0, 0, TO_AT, AFTER_SILENCE);
		coop_begin_polling(&b, JOB_POLL, 1);
		usleep(SILENCE_US); /* the silence */
		EXPECT(coop_send(0, UNREAD_AT, AFTER_SILENCE) == IBV_WC_SUCCESS, "not sent");
		EXPECT(side_end(&b) == 1, "not received");
		after = coop_work(&b, JOB_MAPPED, 0);
	}
	EXPECT(after >= before + PIECE, "it never did: %lu bytes mapped", (unsigned long)after);
}

static void late_row(void)
{
	uint64_t before = coop_work(&b, JOB_MAPPED, 0);

	row("one that does not poll copies nothing");
	side_recv_one(&b, 0, 0, TO_AT, LARGE);
	send_to(COMES_LATE, FROM_AT, LARGE);
	EXPECT(coop_work(&b, JOB_MAPPED, 0) < before + PIECE, "it has mapped the sender's memory");
}

/* The sender can write there, the receiver cannot: the message arrives all the same. */
static void protected_row(void)
{
	struct area area = {FROM_AT, LARGE};
	int64_t wrong;

	row("a receive buffer that its owner may not write to, half of it");
	for (int i = 0; i < PROTECTED; i++) {
		side_load_areas(&a, &area, 1, ++seed);
		side_clear_areas(&b, &area, 1);
		side_recv_one(&b, 0, 0, TO_AT, LARGE);
		EXPECT(coop_work(&b, JOB_PROTECT, 1) == 0, "mprotect");
		send_to(POLLS, FROM_AT, LARGE);
		EXPECT(coop_work(&b, JOB_PROTECT, 0) == 0, "mprotect");
		wrong = side_check_areas(&b, &area, 1, seed, LARGE);
		EXPECT(wrong < 0, "byte %ld is another", (long)(wrong - (int64_t)TO_AT));
	}
}

/* Once its SEND is completed the sender's buffer is the program's. */
static void source_row(void)
{
	const struct area from = {FROM_AT, ASSIST_MIN}, to = {TO_AT, ASSIST_MIN};

	row("the sender changes its buffer at once");
	for (int i = 0; i < CHANGES; i++) {
		side_load_areas(&a, &from, 1, ++seed);
		side_clear_areas(&b, &to, 1);
		side_recv_one(&b, 0, 0, TO_AT, ASSIST_MIN);
		coop_begin_polling(&b, JOB_POLL, 1);
		EXPECT(coop_send(0, FROM_AT, ASSIST_MIN) == IBV_WC_SUCCESS, "not sent");
		for (size_t end = PIECE; end <= ASSIST_MIN; end += PIECE)
			a.node->arena[FROM_AT + end - 1] ^= 0xff;
		EXPECT(side_end(&b) == 1, "not received");
		EXPECT(side_check_areas(&b, &to, 1, seed, ASSIST_MIN) < 0,
		       "the change was received");
	}
}

static void open_event_queue(void)
{
	struct node_qp_spec spec = spec_default();

	spec.send_cq = 0;
	spec.recv_cq = 3;
	if (side_create_cq(&a, 3, 16, true) || side_create_cq(&b, 3, 16, true))
		DIE("completion queue");
	pair_create(&a, 1, &b, 1, &spec);
	pair_connect(&a, 1, NULL, &b, 1, NULL);
}

static void run(void)
{
	open_event_queue();
	late_row();
	seen_row();
	silence_row();
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		for (enum receiver how = 0; how < RECEIVERS; how++)
			message_row(how, rows[i].bytes, rows[i].from_by, rows[i].to_by);
	source_row();
	protected_row();
	side_stop(&b);
	side_stop(&a);
	sandbox_leave();
}

int main(int argc, char **argv)
{
	return coop_test(argc, argv, run);
}
