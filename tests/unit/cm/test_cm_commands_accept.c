/* SPDX-License-Identifier: MIT */
/*
 * Whose accept fails has refused: the peer hears of it at once. Rules: Linux,
 * drivers/infiniband/core/cma.c, rdma_accept(); cm.c, ib_send_cm_rej().
 */
#include <errno.h>
#include <stdbool.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#include "cm_commands_fixture.h"
#include "lib/unit.h"
#include "lib/wait.h"

#define UID	 9
#define TOO_MUCH 197 /* bytes of private data in a REP; a datagram's answer has less room */
#define CONSUMER 28
#define REFUSED	 2 /* the status of a SIDR_REP */

static const uint8_t data[TOO_MUCH];

static int too_much(struct end x)
{
	return cm_accept(x.fd, x.id, UID, data, TOO_MUCH);
}

static int plain(struct end x)
{
	return cm_accept(x.fd, x.id, UID, "", 0);
}

static int confirm(struct end x)
{
	return cm_ready(x.fd, x.id);
}

/* What the peer hears: REJECTED at last. A request that nobody has accepted hears nothing. */
static const struct row {
	enum stage stage;
	int (*accept)(struct end x);
	enum cm_kind before; /* what the peer hears first; CM_REJECTED: nothing */
} rows[] = {
	{REQUESTED, too_much, CM_REJECTED},	  {REQUESTED, confirm, CM_REJECTED},
	{ACCEPTED, plain, CM_CONNECT_RESPONSE},	  {ACCEPTED, too_much, CM_CONNECT_RESPONSE},
	{ACCEPTED, confirm, CM_CONNECT_RESPONSE}, {ANSWERED, plain, CM_REJECTED},
	{ANSWERED, too_much, CM_REJECTED},
};

/*
 * Nothing more can be said of it. All that may still happen: its numbers are free some day, and a
 * request that was repeated before the refusal came is a new one.
 */
static void expect_over(struct end x)
{
	struct rdma_ucm_event_resp event;

	assert_int_equal(plain(x), -EINVAL);
	assert_int_equal(confirm(x), -EINVAL);
	assert_int_equal(cm_reject(x.fd, x.id, 0, "", 0), -EINVAL);
	while (cm_pending(x.fd)) {
		assert_int_equal(cm_next(x.fd, &event), 0);
		assert_true(event.event == CM_TIMEWAIT_EXIT || event.event == CM_CONNECT_REQUEST);
	}
}

TEST(the_peer_hears)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct row *r = &rows[i];
		struct ends e;
		struct end x;
		int peer;

		ends_open(&e);
		x = ends_come_to(&e, r->stage);
		peer = x.fd == e.active_fd ? e.passive_fd : e.active_fd;
		assert_int_equal(r->accept(x), -EINVAL);
		if (r->before != CM_REJECTED)
			(void)heard(peer, r->before);
		assert_int_equal(heard(peer, CM_REJECTED).status, CONSUMER);
		expect_over(x);
		ends_close(&e);
	}
}

/* No queue pair can be made ready for it. */
static bool is_gone(struct end x)
{
	struct ib_uverbs_qp_attr answer;

	return end_attr(x, IBV_QPS_INIT, &answer) == -EINVAL;
}

/* Who asks has nothing to accept yet: the request is taken back. */
TEST(the_request_is_taken_back)
{
	int (*const accepts[])(struct end x) = {plain, confirm};

	for (size_t i = 0; i < sizeof(accepts) / sizeof(*accepts); i++) {
		struct ends e;
		struct end x, passive;

		ends_open(&e);
		x = ends_come_to(&e, REQUESTING);
		passive = (struct end){e.passive_fd, heard(e.passive_fd, CM_CONNECT_REQUEST).id};
		assert_false(is_gone(passive));
		assert_int_equal(accepts[i](x), -EINVAL);
		expect_over(x);
		assert_true(WAIT_UNTIL(is_gone(passive), SOON));
		ends_close(&e);
	}
}

/* What is agreed on stays: there is nothing to refuse any more. */
TEST(a_connection_stays)
{
	const enum stage stages[] = {CONNECTED, ESTABLISHED};
	int (*const accepts[])(struct end x) = {plain, too_much, confirm};

	for (size_t i = 0; i < 6; i++) {
		struct ends e;
		struct end x;

		ends_open(&e);
		x = ends_come_to(&e, stages[i / 3]);
		assert_int_equal(accepts[i % 3](x), -EINVAL);
		if (stages[i / 3] == CONNECTED)
			(void)heard(e.passive_fd, CM_ESTABLISHED);
		assert_int_equal(cm_disconnect(e.active_fd, e.active), 0);
		(void)heard(e.passive_fd, CM_DISCONNECTED);
		ends_close(&e);
	}
}

TEST(datagrams)
{
	struct sockaddr_in at = cm_address("127.0.0.1", 0);
	struct end asks = {.fd = channel(0)}, answers = {.fd = channel(0)};
	uint32_t listener;

	assert_int_equal(cm_create(answers.fd, 1, RDMA_PS_UDP, &listener), 0);
	assert_int_equal(cm_bind(answers.fd, listener, &at), 0);
	at = cm_source(answers.fd, listener);
	assert_int_equal(cm_listen(answers.fd, listener, 0), 0);
	assert_int_equal(cm_create(asks.fd, 2, RDMA_PS_UDP, &asks.id), 0);
	assert_int_equal(cm_resolve(asks.fd, asks.id, &at), 0);
	(void)heard(asks.fd, CM_ADDR_RESOLVED);
	assert_int_equal(cm_resolve_route(asks.fd, asks.id), 0);
	(void)heard(asks.fd, CM_ROUTE_RESOLVED);
	assert_int_equal(cm_connect(asks.fd, asks.id, "", 0), 0);
	answers.id = heard(answers.fd, CM_CONNECT_REQUEST).id;
	assert_int_equal(too_much(answers), -EINVAL);
	assert_int_equal(heard(asks.fd, CM_UNREACHABLE).status, REFUSED);
	expect_over(answers);
	assert_int_equal(close(asks.fd), 0);
	assert_int_equal(close(answers.fd), 0);
}

int main(void)
{
	return run_cases(commands_setup, commands_teardown);
}
