/* SPDX-License-Identifier: MIT */
/*
 * ibv_modify_srq() with IBV_SRQ_MAX_WR: what is posted, received and not polled survives; the new
 * size holds; what cannot be is refused; and all of it while another process sends without pause.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "lib/expect.h"
#include "lib/two_sides.h"

#define PATIENCE 20000u
#define SLOT	 64u /* bytes of the arena for each request */
#define DEPTH	 64u /* of the sender */
#define RING	 1024u
#define MESSAGES (TEST_SANITIZED ? 20000u : 100000u)

static struct node *n;
static struct ibv_srq *srq;
static struct ibv_qp *qp;
static struct ibv_cq *cq;

static void create(uint32_t max_wr)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = max_wr, .max_sge = 1}};

	srq = ibv_create_srq(n->pd, &init);
	NEED(srq);
}

static void connect_side(struct side *s, uint32_t dest, const union ibv_gid *gid)
{
	struct node_link link = {.dest_qpn = dest,
				 .dgid = *gid,
				 .access = IBV_ACCESS_LOCAL_WRITE,
				 .mtu = IBV_MTU_1024,
				 .timeout = 18,
				 .retry_cnt = 7,
				 .rnr_retry = 7,
				 .min_rnr_timer = 1,
				 .to = IBV_QPS_RTS};

	if (side_connect(s, 0, &link))
		DIE("not connected");
}

/* A queue pair on the shared queue in a's place 0, connected with one of b's. */
static void connect_both(void)
{
	struct node_qp_spec spec = {.cap = {.max_send_wr = DEPTH,
					    .max_recv_wr = 1,
					    .max_send_sge = 1,
					    .max_recv_sge = 1}};
	struct ibv_qp_init_attr init = {.send_cq = cq,
					.recv_cq = cq,
					.srq = srq,
					.cap = {.max_send_wr = 1, .max_send_sge = 1},
					.qp_type = IBV_QPT_RC};
	uint32_t qpn;

	qp = n->qp[0] = ibv_create_qp(n->pd, &init);
	if (!qp || side_create_qp(&b, 0, &spec, &qpn))
		DIE("no queue pair");
	connect_side(&a, qpn, &b.info.gid);
	connect_side(&b, qp->qp_num, &a.info.gid);
}

static void end_all(void)
{
	EXPECT(ibv_destroy_qp(qp) == 0, "ibv_destroy_qp");
	n->qp[0] = NULL;
	EXPECT(ibv_destroy_srq(srq) == 0, "ibv_destroy_srq");
	EXPECT(side_destroy_qp(&b, 0) == 0, "destroy of the sender");
}

static int resize(uint32_t max_wr)
{
	struct ibv_srq_attr attr = {.max_wr = max_wr};

	return ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR);
}

static uint32_t size_now(void)
{
	struct ibv_srq_attr attr;

	return ibv_query_srq(srq, &attr) ? 0 : attr.max_wr;
}

static int post_one(uint64_t wr_id)
{
	struct ibv_sge sge = {(uintptr_t)n->arena + wr_id % RING * SLOT, SLOT,
			      n->mr[KEY_FULL]->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_srq_recv(srq, &wr, &bad);
}

static void expect_room(uint64_t *next, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (!EXPECT(post_one((*next)++) == 0, "request %u of %u is refused", i, count))
			return;
	EXPECT(post_one(*next) == ENOMEM, "one too many is accepted");
}

/* @count messages whose immediate data count on from @first. */
static void send_some(uint32_t first, uint32_t count)
{
	struct node_send s = {.opcode = IBV_WR_SEND_WITH_IMM,
			      .flags = IBV_SEND_SIGNALED,
			      .num_sge = 1,
			      .sge = {{b.info.base[KEY_FULL], 16, b.info.lkey[KEY_FULL]}}};
	struct ibv_wc wc;

	for (uint32_t i = 0; i < count; i++) {
		s.imm = first + i;
		if (side_post_send(&b, 0, &s, 1).ret || side_poll(&b, 0, 1, PATIENCE, &wc) != 1 ||
		    wc.status)
			DIE("the sender cannot send");
	}
}

static void expect_received(uint64_t *wr_id, uint32_t *imm, uint32_t count)
{
	struct ibv_wc wc;

	for (uint32_t i = 0; i < count; i++) {
		EXPECT(node_poll(n, 1, 1, PATIENCE, &wc) == 1 && wc.status == IBV_WC_SUCCESS,
		       "completion %u of %u", i, count);
		EXPECT(wc.wr_id == (*wr_id)++ && wc.imm_data == (*imm)++, "wr_id %lu, number %u",
		       wc.wr_id, wc.imm_data);
	}
}

/* --- rows ------------------------------------------------------------------------ */

static void refusal_rows(void)
{
	static const struct {
		const char *name;
		struct ibv_srq_attr attr;
		int mask, want;
	} rows[] = {
		{"size 0", {.max_wr = 0}, IBV_SRQ_MAX_WR, EINVAL},
		{"more than the device has", {.max_wr = UINT32_MAX}, IBV_SRQ_MAX_WR, EINVAL},
		{"below the limit", {.max_wr = 4}, IBV_SRQ_MAX_WR, EINVAL},
		{"a limit above the new size",
		 {.max_wr = 16, .srq_limit = 17},
		 IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT,
		 EINVAL},
		{"an unknown bit", {.max_wr = 16}, IBV_SRQ_MAX_WR | 4, EINVAL},
		{"both", {.max_wr = 16, .srq_limit = 16}, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT, 0},
	};
	struct ibv_srq_attr limit = {.srq_limit = 5};
	uint64_t next = 0;

	create(8);
	for (int i = 0; i < 8; i++)
		(void)post_one(next++);
	EXPECT(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT) == 0, "limit");
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_srq_attr attr = rows[i].attr;

		row("%s", rows[i].name);
		EXPECT(ibv_modify_srq(srq, &attr, rows[i].mask) == rows[i].want, "not errno %d",
		       rows[i].want);
		EXPECT(size_now() == (rows[i].want ? 8 : 16), "size %u", size_now());
	}
	row("below what is posted");
	EXPECT(resize(7) == EINVAL && size_now() == 16, "size %u", size_now());
	EXPECT(ibv_destroy_srq(srq) == 0, "ibv_destroy_srq");
}

/* From size to size with requests posted, and received but not polled: nothing is lost, nothing
 * twice. */
static void size_rows(void)
{
	static const uint32_t sizes[] = {1, 2, 3, 4, 7, 8, 9, 100, 1000, 40, 33, 1000, 32, 65};
	uint64_t next = 0, wr_id = 0;
	uint32_t sent = 0, imm = 0, in_use = 0, some;

	create(1);
	connect_both();
	for (size_t i = 0; i < COUNT_OF(sizes); i++) {
		row("size %u, with %u in use", sizes[i], in_use);
		EXPECT(resize(sizes[i]) == 0 && size_now() == sizes[i], "size %u", size_now());
		expect_room(&next, sizes[i] - in_use);
		some = (uint32_t)(next - sent) / 2;
		send_some(sent, some); /* received, and not polled while the size grows */
		sent += some;
		in_use = sizes[i];
		if (i + 1 < COUNT_OF(sizes) && sizes[i + 1] >= sizes[i])
			continue;
		expect_received(&wr_id, &imm, sent - imm);
		some = (uint32_t)(next - wr_id);
		send_some(sent, some);
		sent += some;
		expect_received(&wr_id, &imm, sent - imm);
		in_use = 0;
	}
	end_all();
}

static void largest_row(void)
{
	struct ibv_device_attr attr;
	uint64_t next = 0;

	row("from 1 to the largest at once, and all of it");
	EXPECT(ibv_query_device(n->ctx, &attr) == 0 &&
		       (attr.device_cap_flags & IBV_DEVICE_SRQ_RESIZE),
	       "not advertised");
	create(1);
	expect_room(&next, 1);
	EXPECT(resize((uint32_t)attr.max_srq_wr) == 0, "refused");
	expect_room(&next, (uint32_t)attr.max_srq_wr - 1);
	EXPECT(ibv_destroy_srq(srq) == 0, "ibv_destroy_srq");
}

/* --- under traffic --------------------------------------------------------------- */

/* In b's process: as many messages as told, the immediate data counting from 0. */
static uint64_t send_job(struct node *node, const struct side_job *job)
{
	struct node_send s = {.opcode = IBV_WR_SEND_WITH_IMM,
			      .flags = IBV_SEND_SIGNALED,
			      .num_sge = 1,
			      .sge = {{node->info.base[KEY_FULL], 16, node->info.lkey[KEY_FULL]}}};
	uint64_t sent = 0, done = 0;
	struct ibv_wc wc[16];

	while (done < job->arg[0]) {
		int got;

		for (; sent < job->arg[0] && sent - done < DEPTH; sent++) {
			s.imm = (uint32_t)sent;
			if (node_post_send(node, 0, &s, 1).ret)
				return done;
		}
		got = ibv_poll_cq(node->cq[0], 16, wc);
		for (int i = 0; i < got; i++)
			if (wc[i].status)
				return done;
		done += got > 0 ? (uint64_t)got : 0;
	}
	return done;
}

static atomic_bool done;

static void *receive(void *arg)
{
	uint64_t next = *(const uint64_t *)arg, wr_id = 0;

	for (uint32_t imm = 0; imm < MESSAGES && failures() == 0; imm++) {
		struct ibv_wc wc;

		if (!EXPECT(node_poll(n, 1, 1, PATIENCE, &wc) == 1 && wc.status == IBV_WC_SUCCESS,
			    "message %u: '%s'", imm, ibv_wc_status_str(wc.status)))
			break;
		EXPECT(wc.imm_data == imm && wc.wr_id == wr_id++,
		       "message %u in request %lu, expected %u in %lu", wc.imm_data, wc.wr_id, imm,
		       wr_id - 1);
		if (post_one(next) == 0)
			next++;
		if (imm % 16 == 0) /* what was refused while the queue was small */
			while (next - wr_id < 24 && post_one(next) == 0)
				next++;
	}
	atomic_store(&done, true);
	return NULL;
}

static void traffic_row(void)
{
	struct side_job job = {.arg = {MESSAGES}};
	uint64_t next = 0, resized = 0, seed = 1;
	pthread_t thread;

	row("resized all the time, %u messages", MESSAGES);
	create(32);
	connect_both();
	while (next < 24 && post_one(next) == 0)
		next++;
	side_begin(&b, &job);
	NEED(pthread_create(&thread, NULL, receive, &next) == 0);
	while (!atomic_load(&done) || resized <= 10) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		resized += resize(1 + (uint32_t)(seed >> 33) % (seed >> 63 ? 600 : 64)) == 0;
	}
	pthread_join(thread, NULL);
	EXPECT(side_end(&b) == MESSAGES, "the sender is not done");
	end_all();
}

int main(int argc, char **argv)
{
	side_work = send_job;
	two_sides_open(argc, argv);
	n = a.node;
	if (node_destroy_cq(n, 1) || node_create_cq(n, 1, 4096, false))
		DIE("no CQ");
	cq = n->cq[1];
	refusal_rows();
	size_rows();
	largest_row();
	traffic_row();
	return two_sides_close();
}
