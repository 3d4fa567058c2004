/* SPDX-License-Identifier: MIT */
/* Each host connects to all others, and every connection carries a SEND, a WRITE and a READ. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/expect.h"
#include "lib/pattern.h"
#include "lib/to_rts.h"
#include "net/scale/scale_host.h"

#define GUARD 64u
#define BATCH 64

/* Parts of the memory, each with a place for each connection. */
enum part { SOURCE, RECEIVED, WRITTEN, READ, PARTS };
static const char *const name_of[] = {"source", "SEND", "WRITE", "READ"};

struct connection {
	struct ibv_qp *qp;
	uint32_t peer, n;     /* the nth to that host */
	uint64_t remote_addr; /* where the peer's memory begins */
	uint32_t rkey;
};

static struct connection *all;
static uint32_t count;

static size_t place(const struct scale_host *h, enum part part, uint32_t index)
{
	return ((size_t)part * count + index) * (h->bytes + GUARD);
}

/* All hosts have their parts alike; so this host's number among the peer's peers says where. */
static size_t place_there(const struct scale_host *h, enum part part, const struct connection *c)
{
	uint32_t me = h->rank - (h->rank > c->peer);

	return place(h, part, me * h->each + c->n);
}

static struct ibv_sge local(const struct scale_host *h, enum part part, uint32_t index)
{
	return (struct ibv_sge){(uintptr_t)h->memory + place(h, part, index), h->bytes,
				h->mr->lkey};
}

/* --- connecting ------------------------------------------------------------------- */

static void create(struct scale_host *h, struct connection *c)
{
	struct ibv_qp_init_attr init = {
		.send_cq = h->cq,
		.recv_cq = h->cq,
		.cap = {.max_send_wr = 4, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};

	c->qp = ibv_create_qp(h->pd, &init);
	if (!c->qp)
		DIE("queue pair %u of %u", (uint32_t)(c - all), count);
	NEED(connect_step(c->qp, connect_attr(0, &h->gid), IBV_QPS_INIT) == 0);
}

static void create_all(struct scale_host *h)
{
	struct scale_mark mark;

	printf("open\n");
	(void)scale_answer();
	mark = scale_mark();
	for (uint32_t i = 0; i < count; i++)
		create(h, &all[i]);
	scale_say_cost("created", mark);
	(void)scale_answer();
	printf("numbers");
	scale_print_gid(&h->gid);
	printf(" %" PRIu64 " %u", (uint64_t)(uintptr_t)h->memory, h->mr->rkey);
	for (uint32_t i = 0; i < count; i++)
		printf(" %u", all[i].qp->qp_num);
	printf("\n");
}

/* A timer that outlasts the time until the peer's process has a core. */
static struct ibv_qp_attr attributes(const struct scale_host *h, uint32_t dest,
				     const union ibv_gid *gid)
{
	struct ibv_qp_attr attr = connect_attr(dest, gid);

	attr.ah_attr.grh.sgid_index = h->gid_index;
	attr.timeout = 18;
	return attr;
}

static void connect_all(struct scale_host *h)
{
	struct ibv_qp_attr *attr = calloc(count, sizeof(*attr));
	char *line = scale_answer();
	struct scale_mark mark;

	NEED(attr);
	for (uint32_t peer = 0, i = 0; peer + 1 < h->hosts; peer++) {
		union ibv_gid gid = scale_gid(&line);
		uint64_t addr = scale_number(&line);
		uint32_t rkey = (uint32_t)scale_number(&line);

		for (uint32_t n = 0; n < h->each; n++, i++) {
			attr[i] = attributes(h, (uint32_t)scale_number(&line), &gid);
			all[i].remote_addr = addr;
			all[i].rkey = rkey;
		}
	}
	mark = scale_mark();
	for (uint32_t i = 0; i < count; i++)
		NEED(connect_step(all[i].qp, attr[i], IBV_QPS_RTR) == 0 &&
		     connect_step(all[i].qp, attr[i], IBV_QPS_RTS) == 0);
	scale_say_cost("connected", mark);
	free(attr);
	(void)scale_answer();
}

/* --- messages --------------------------------------------------------------------- */

static void prepare_round(struct scale_host *h, uint32_t round)
{
	memset(h->memory, UNTOUCHED, h->memory_bytes);
	for (uint32_t i = 0; i < count; i++) {
		struct ibv_sge sge = local(h, RECEIVED, i);
		struct ibv_recv_wr *bad, wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1};

		pattern_fill(h->memory + place(h, SOURCE, i), h->bytes,
			     scale_seed(h, h->rank, all[i].peer, all[i].n, round), 0);
		NEED(ibv_post_recv(all[i].qp, &wr, &bad) == 0);
	}
}

/* Return: how many requests */
static uint32_t post(struct scale_host *h, uint32_t i)
{
	const struct connection *c = &all[i];
	struct ibv_sge source = local(h, SOURCE, i), read = local(h, READ, i);
	struct ibv_send_wr *bad,
		wr[] = {
			{.wr_id = i,
			 .next = &wr[1],
			 .sg_list = &source,
			 .num_sge = 1,
			 .opcode = IBV_WR_SEND},
			{.wr_id = i,
			 .next = &wr[2],
			 .sg_list = &source,
			 .num_sge = 1,
			 .opcode = IBV_WR_RDMA_WRITE,
			 .wr.rdma = {c->remote_addr + place_there(h, WRITTEN, c), c->rkey}},
			{.wr_id = i,
			 .sg_list = &read,
			 .num_sge = 1,
			 .opcode = IBV_WR_RDMA_READ,
			 .wr.rdma = {c->remote_addr + place_there(h, SOURCE, c), c->rkey}},
		};

	NEED(ibv_post_send(c->qp, wr, &bad) == 0);
	return COUNT_OF(wr);
}

/* What is still to complete on this host. */
struct left {
	uint32_t requests, receives;
};

static void complete(struct scale_host *h, struct left *left)
{
	struct ibv_wc wc[BATCH];
	int n = scale_completions(h, wc, BATCH);

	for (int i = 0; i < n; i++) {
		bool receive = wc[i].opcode == IBV_WC_RECV;
		uint32_t *of = receive ? &left->receives : &left->requests;

		NEED(*of > 0);
		--*of;
		h->wrong += receive && wc[i].byte_len != h->bytes;
	}
}

static void post_and_complete(struct scale_host *h)
{
	struct left left = {.receives = count};

	for (uint32_t i = 0; i < count;) {
		for (uint32_t end = i + h->together; i < end && i < count; i++)
			left.requests += post(h, i);
		while (left.requests > 0)
			complete(h, &left);
	}
	while (left.receives > 0)
		complete(h, &left);
}

/* Is there what the peer has sent, and nothing behind it? */
static void check_place(struct scale_host *h, enum part part, uint32_t i, uint32_t round)
{
	const struct connection *c = &all[i];
	const uint8_t *at = h->memory + place(h, part, i);
	uint32_t from = part == SOURCE ? h->rank : c->peer, to = part == SOURCE ? c->peer : h->rank;
	int64_t first = pattern_check(at, h->bytes, scale_seed(h, from, to, c->n, round), 0);

	for (uint32_t n = 0; first < 0 && n < GUARD; n++)
		if (at[h->bytes + n] != UNTOUCHED)
			first = h->bytes + n;
	h->wrong += !EXPECT(first < 0, "%s from host %u, connection %u, round %u: byte %d",
			    name_of[part], from, c->n, round, (int)first);
}

static void check_round(struct scale_host *h, uint32_t round)
{
	for (uint32_t i = 0; i < count; i++)
		for (enum part part = 0; part < PARTS; part++)
			check_place(h, part, i, round);
}

static void talk(struct scale_host *h, uint32_t round)
{
	prepare_round(h, round);
	printf("ready\n");
	(void)scale_answer();
	post_and_complete(h);
	printf("done\n");
	(void)scale_answer();
	check_round(h, round);
	printf("checked %u %u\n", h->wrong, h->twice);
	(void)scale_answer();
}

void scale_connected(struct scale_host *h)
{
	count = (h->hosts - 1) * h->each;
	all = calloc(count, sizeof(*all));
	NEED(all);
	for (uint32_t i = 0; i < count; i++) {
		all[i].peer = scale_rank(h, i / h->each);
		all[i].n = i % h->each;
	}
	scale_prepare(h, (size_t)PARTS * count * (h->bytes + GUARD), 4 * count);
	create_all(h);
	connect_all(h);
	for (uint32_t round = 0; round < h->rounds; round++)
		talk(h, round);
	for (uint32_t i = 0; i < count; i++)
		NEED(ibv_destroy_qp(all[i].qp) == 0);
	free(all);
}
