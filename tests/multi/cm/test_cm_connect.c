/* SPDX-License-Identifier: MIT */
/*
 * Connections between two processes: private data of every size arrives in both directions, with
 * refusals, too; and datagram services answer.
 */
#include <errno.h>
#include <string.h>

#include "cm_fixture.h"
#include "lib/expect.h"
#include "lib/sandbox.h"

#define REQUEST_MOST                                                                 \
	56 /* bytes of private data; rdma_connect(3), rdma_accept(3), rdma_reject(3) \
	    */
#define REPLY_MOST  196
#define REJECT_MOST 148
#define UD_REQUEST  180
#define UD_REPLY    136

static struct party active = {.here = true}, passive;
static struct sockaddr_in at;
static uint8_t pattern[DATA_MOST + 1];

/* Behind what was sent, there are zeros. */
static void expect_data(const char *what, const uint8_t *data, uint8_t length, uint32_t sent,
			uint32_t most)
{
	EXPECT(length == most, "%s: length %u, not %u", what, length, most);
	EXPECT(!memcmp(data, pattern, sent), "%s: other bytes", what);
	for (uint32_t i = sent; i < most; i++)
		if (!EXPECT(data[i] == 0, "%s: byte %u is 0x%x", what, i, data[i]))
			return;
}

static struct order with_data(enum what what, uint32_t id, uint32_t bytes)
{
	struct order o = {.what = what, .id = id, .uid = 1, .bytes = bytes};

	memcpy(o.data, pattern, bytes);
	return o;
}

/*
 * Who waits for an answer asks again. Where no connection comes of the answer, what was asked again
 * and comes behind it is a request like any other: of the round before, and of as many bytes.
 */
#define NONE UINT32_MAX
static uint32_t round_before = NONE; /* bytes of its request */

static uint32_t bytes_of(const uint8_t *data, uint32_t most)
{
	uint32_t n = 0;

	while (n < most && data[n])
		n++;
	return n;
}

/* The request of this round, which has another number of bytes than that before. */
static struct rdma_ucm_event_resp next_request(uint32_t bytes, bool datagrams)
{
	struct rdma_ucm_event_resp e = party_hear(&passive, CM_CONNECT_REQUEST);

	while (round_before == (datagrams ? bytes_of(e.param.ud.private_data, UD_REQUEST)
					  : bytes_of(e.param.conn.private_data, REQUEST_MOST))) {
		EXPECT(party_tell(&passive, DO_DESTROY, e.id) == 0, "not destroyed");
		e = party_hear(&passive, CM_CONNECT_REQUEST);
	}
	round_before = bytes;
	return e;
}

static uint32_t requested(uint32_t bytes, uint32_t *id)
{
	struct rdma_ucm_event_resp e;

	*id = party_request(&active, &at, pattern, bytes);
	e = next_request(bytes, false);
	expect_data("request", e.param.conn.private_data, e.param.conn.private_data_len, bytes,
		    REQUEST_MOST);
	EXPECT(e.param.conn.qp_num == 77, "queue pair %u", e.param.conn.qp_num);
	return e.id;
}

static void accepted(uint32_t to, uint32_t back)
{
	struct rdma_ucm_event_resp e;
	struct link l;
	struct order o;

	l.passive = requested(to, &l.active);
	o = with_data(DO_ACCEPT, l.passive, back);
	EXPECT(party_do(&passive, &o).ret == 0, "not accepted");
	e = party_hear(&active, CM_CONNECT_RESPONSE);
	expect_data("reply", e.param.conn.private_data, e.param.conn.private_data_len, back,
		    REPLY_MOST);
	EXPECT(party_tell(&active, DO_READY, l.active) == 0, "not ready");
	(void)party_hear(&passive, CM_ESTABLISHED);
	parties_part(&active, &passive, l);
	round_before = NONE; /* it is known whose it is */
}

static void rejected(uint32_t bytes, uint8_t reason)
{
	struct rdma_ucm_event_resp e;
	uint32_t id, other = requested(1 + bytes % 2, &id);
	struct order o = with_data(DO_REJECT, other, bytes);

	o.number = reason;
	EXPECT(party_do(&passive, &o).ret == 0, "not rejected");
	e = party_hear(&active, CM_REJECTED);
	EXPECT(e.status == reason, "reason %u, not %u", e.status, reason);
	expect_data("refusal", e.param.conn.private_data, e.param.conn.private_data_len, bytes,
		    REJECT_MOST);
	EXPECT(party_tell(&active, DO_DESTROY, id) == 0, "not destroyed");
	EXPECT(party_tell(&passive, DO_DESTROY, other) == 0, "not destroyed");
}

static void every_size(void)
{
	row("private data of every size, both ways");
	for (uint32_t bytes = 0; bytes <= REPLY_MOST; bytes++)
		accepted(bytes % (REQUEST_MOST + 1), bytes);
	row("refused with private data of every size");
	for (uint32_t bytes = 0; bytes <= REJECT_MOST; bytes++)
		rejected(bytes, bytes % 2 ? 28 : 35);
	accepted(0, 0); /* what was asked again is over */
}

/* --- datagrams ------------------------------------------------------------------------------ */

static void asked(const struct sockaddr_in *service, uint32_t to, uint32_t back, bool refuse)
{
	struct order o = with_data(DO_REQUEST, 0, to);
	struct rdma_ucm_event_resp e;
	uint32_t id, other;

	o.ps = RDMA_PS_UDP;
	o.at = *service;
	id = party_do(&active, &o).id;
	e = next_request(to, true);
	expect_data("SIDR request", e.param.ud.private_data, e.param.ud.private_data_len, to,
		    UD_REQUEST);
	other = e.id;
	o = with_data(refuse ? DO_REJECT : DO_ACCEPT, other, back);
	EXPECT(party_do(&passive, &o).ret == 0, "no answer");
	e = party_hear(&active, refuse ? CM_UNREACHABLE : CM_ESTABLISHED);
	expect_data("SIDR reply", e.param.ud.private_data, e.param.ud.private_data_len, back,
		    UD_REPLY);
	EXPECT(refuse || e.param.ud.qp_num == 77, "queue pair %u", e.param.ud.qp_num);
	EXPECT(party_tell(&active, DO_DESTROY, id) == 0, "not destroyed");
	EXPECT(party_tell(&passive, DO_DESTROY, other) == 0, "not destroyed");
}

static void datagrams(void)
{
	struct order o = {
		.what = DO_LISTEN, .uid = 1, .ps = RDMA_PS_UDP, .at = cm_address("127.0.0.1", 0)};
	struct sockaddr_in service = party_do(&passive, &o).at;

	row("datagram services");
	for (uint32_t bytes = 0; bytes <= UD_REQUEST; bytes++)
		asked(&service, bytes, bytes % (UD_REPLY + 1), bytes % 3 == 1);
}

/* Nobody listens, or a process that has ended did. */
static void nobody(void)
{
	struct party short_lived = {.here = false};
	struct sockaddr_in gone;
	uint32_t id;

	row("nobody listens any more");
	party_start(&short_lived);
	(void)party_listen(&short_lived, &gone);
	party_stop(&short_lived);
	id = party_request(&active, &gone, NULL, 0);
	EXPECT(party_hear(&active, CM_REJECTED).status == 8, "another reason");
	EXPECT(party_tell(&active, DO_DESTROY, id) == 0, "not destroyed");
}

int main(int argc, char **argv)
{
	parties_main(argc, argv);
	sandbox_begin(120);
	for (unsigned int i = 0; i < sizeof(pattern); i++)
		pattern[i] = (uint8_t)(1 + i % 255);
	party_start(&active);
	party_start(&passive);
	(void)party_listen(&passive, &at);
	every_size();
	datagrams();
	nobody();
	party_stop(&passive);
	party_stop(&active);
	return cm_end();
}
