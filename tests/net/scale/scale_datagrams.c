/* SPDX-License-Identifier: MIT */
/*
 * Each host has one queue pair, from which it sends datagrams to all others. Some may be lost: when
 * all have been sent, each host says which it lacks, and the driver has them sent once more.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/expect.h"
#include "lib/pattern.h"
#include "lib/to_rts.h"
#include "net/scale/scale_host.h"

#define SENDS	   64u /* on their way at a time */
#define BATCH	   64
#define RECEIVE_ID (UINT64_C(1) << 32)
#define QUIET_MS   20 /* after which nothing more of a turn is expected */

static struct peer {
	struct ibv_ah *ah;
	uint32_t qpn;
} * peers;
static uint32_t count, receives;
static struct ibv_qp *qp;
static bool *came; /* in this round, by peer and number */

static uint8_t *received(const struct scale_host *h, uint32_t i)
{
	return h->memory + (size_t)i * (GRH_BYTES + h->bytes);
}

static uint8_t *sent(const struct scale_host *h, uint32_t i)
{
	return received(h, receives) + (size_t)i * h->bytes;
}

static void post_receive(struct scale_host *h, uint32_t i)
{
	struct ibv_sge sge = {(uintptr_t)received(h, i), GRH_BYTES + h->bytes, h->mr->lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = RECEIVE_ID | i, .sg_list = &sge, .num_sge = 1};

	NEED(ibv_post_recv(qp, &wr, &bad) == 0);
}

/* --- getting to know each other ----------------------------------------------------- */

static void create(struct scale_host *h)
{
	struct ibv_qp_init_attr init = {
		.send_cq = h->cq,
		.recv_cq = h->cq,
		.cap = {.max_send_wr = SENDS,
			.max_recv_wr = receives,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IBV_QPT_UD,
		.sq_sig_all = 1,
	};
	struct scale_mark mark;

	printf("open\n");
	(void)scale_answer();
	mark = scale_mark();
	qp = ibv_create_qp(h->pd, &init);
	NEED(qp && connect_qp(qp, connect_attr(0, &h->gid)) == 0);
	scale_say_cost("created", mark);
	(void)scale_answer();
	for (uint32_t i = 0; i < receives; i++)
		post_receive(h, i);
	printf("numbers");
	scale_print_gid(&h->gid);
	printf(" %u\n", qp->qp_num);
}

static void meet_all(struct scale_host *h)
{
	struct ibv_ah_attr *attr = calloc(count, sizeof(*attr));
	char *line = scale_answer();
	struct scale_mark mark;

	NEED(attr);
	for (uint32_t i = 0; i < count; i++) {
		union ibv_gid gid = scale_gid(&line);

		attr[i] = connect_attr(0, &gid).ah_attr;
		attr[i].grh.sgid_index = h->gid_index;
		peers[i].qpn = (uint32_t)scale_number(&line);
	}
	mark = scale_mark();
	for (uint32_t i = 0; i < count; i++)
		NEED((peers[i].ah = ibv_create_ah(h->pd, &attr[i])) != NULL);
	scale_say_cost("connected", mark);
	free(attr);
	(void)scale_answer();
}

/* --- one that has come -------------------------------------------------------------- */

/* A datagram is number @id % each of peer @id / each in its round. */
static uint32_t imm_of(const struct scale_host *h, uint32_t id, uint32_t round)
{
	return htonl(round * count * h->each + id);
}

/* One of an earlier round comes late, after it has been sent once more. */
static void check(struct scale_host *h, const struct ibv_wc *wc, uint32_t i, uint32_t round)
{
	uint32_t total = count * h->each, imm = ntohl(wc->imm_data), id = imm % total;
	uint32_t peer = id / h->each, from = scale_rank(h, peer);
	const uint8_t *at = received(h, i) + GRH_BYTES;
	uint64_t seed = scale_seed(h, from, h->rank, id % h->each, imm / total);
	bool known = wc->wc_flags & IBV_WC_GRH && wc->wc_flags & IBV_WC_WITH_IMM &&
		     imm / total <= round && wc->src_qp == peers[peer].qpn &&
		     wc->byte_len == GRH_BYTES + h->bytes;
	int64_t first = known ? pattern_check(at, h->bytes, seed, 0) : 0;

	h->wrong += !EXPECT(first < 0, "a datagram of queue pair %u, %u bytes: byte %d", wc->src_qp,
			    wc->byte_len, (int)first);
	h->twice += first < 0 && (imm / total < round || came[id]);
	if (first < 0 && imm / total == round)
		came[id] = true;
	post_receive(h, i);
}

/* Return: how many sends have completed */
static uint32_t handle(struct scale_host *h, const struct ibv_wc *wc, int n, uint32_t round)
{
	uint32_t sends = 0;

	for (int i = 0; i < n; i++) {
		NEED(wc[i].status == IBV_WC_SUCCESS);
		if (wc[i].wr_id & RECEIVE_ID)
			check(h, &wc[i], (uint32_t)wc[i].wr_id, round);
		else
			sends++;
	}
	return sends;
}

/* --- a turn ----------------------------------------------------------------------- */

/* The peer knows it by this host's number. */
static void post(struct scale_host *h, uint32_t id, uint32_t slot, uint32_t round)
{
	uint32_t peer = id / h->each, n = id % h->each, rank = scale_rank(h, peer);
	uint32_t me = h->rank - (h->rank > rank);
	struct ibv_sge sge = {(uintptr_t)sent(h, slot), h->bytes, h->mr->lkey};
	struct ibv_send_wr *bad,
		wr = {
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_SEND_WITH_IMM,
			.imm_data = imm_of(h, me * h->each + n, round),
			.wr.ud = {peers[peer].ah, peers[peer].qpn, connect_attr(0, &h->gid).qkey},
		};

	pattern_fill(sent(h, slot), h->bytes, scale_seed(h, h->rank, rank, n, round), 0);
	NEED(ibv_post_send(qp, &wr, &bad) == 0);
}

/* @line: what is to be sent. Sends complete in order, so that their memory goes round. */
static void send_all(struct scale_host *h, char *line, uint32_t round)
{
	uint32_t wanted = (uint32_t)scale_number(&line), begun = 0, done = 0;
	struct ibv_wc wc[BATCH];

	while (done < wanted) {
		for (; begun < wanted && begun - done < SENDS; begun++)
			post(h, (uint32_t)scale_number(&line), begun % SENDS, round);
		done += handle(h, wc, scale_completions(h, wc, BATCH), round);
	}
}

/* Everybody has sent: what has not come after some rest is taken for lost. */
static void take_rest(struct scale_host *h, uint32_t round)
{
	struct ibv_wc wc[BATCH];
	int n;

	for (bool rested = false; (n = ibv_poll_cq(h->cq, BATCH, wc)) > 0 || !rested;) {
		NEED(n >= 0);
		NEED(handle(h, wc, n, round) == 0);
		rested = n == 0;
		if (rested)
			(void)poll(NULL, 0, QUIET_MS);
	}
}

static void say_lacking(const struct scale_host *h)
{
	printf("lacking");
	for (uint32_t id = 0; id < count * h->each; id++)
		if (!came[id])
			printf(" %u", id);
	printf("\n");
}

/* Until nobody lacks any. */
static void talk(struct scale_host *h, uint32_t round)
{
	char *line;

	for (uint32_t id = 0; id < count * h->each; id++)
		came[id] = false;
	say_lacking(h);
	while ((line = scale_answer())[0] != 'e') {
		send_all(h, line, round);
		printf("done\n");
		(void)scale_answer();
		take_rest(h, round);
		say_lacking(h);
	}
	printf("checked %u %u\n", h->wrong, h->twice);
	(void)scale_answer();
}

void scale_datagrams(struct scale_host *h)
{
	count = h->hosts - 1;
	receives = count * h->each;
	peers = calloc(count, sizeof(*peers));
	came = calloc(count * h->each, sizeof(*came));
	NEED(peers && came);
	scale_prepare(h, (size_t)receives * (GRH_BYTES + h->bytes) + (size_t)SENDS * h->bytes,
		      receives + SENDS);
	create(h);
	meet_all(h);
	for (uint32_t round = 0; round < h->rounds; round++)
		talk(h, round);
	for (uint32_t i = 0; i < count; i++)
		NEED(ibv_destroy_ah(peers[i].ah) == 0);
	NEED(ibv_destroy_qp(qp) == 0);
	free(peers);
	free(came);
}
