/* SPDX-License-Identifier: MIT */
/*
 * User-mode registration, who else uses keys: lists of several elements, shared receive queues,
 * datagrams, windows, FLUSH; and the page faults that pieces are.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/newer_verbs.h"
#include "lib/odp_sysfs.h"
#include "lib/userfaultfd.h"
#include "umr_access_fixture.h"

#define QP_SELF	 1 /* connected with itself */
#define QP_SHARE 2 /* with a shared receive queue */
#define QP_EX	 3 /* with the functions ibv_wr_...() */

static uint8_t bytes[KEY_BYTES];

/* Both ends are keys of this process, in lists with plain elements between. */
static void both_ends_row(void)
{
	struct element e[] = {{&leaf[LEAF_PLAIN], 100, 1000, 0}, {&leaf[LEAF_DEVICE], 3, 2001, 0}};
	struct element f[] = {{&leaf[LEAF_ODP], 60, 7, 0}, {&leaf[LEAF_IOVA], 501, 3000, 0}};
	struct list from = list_of(e, 2), to = list_of(f, 2);
	struct made x = make(&from), y = make(&to);
	struct node_send send = {
		.opcode = IBV_WR_RDMA_WRITE,
		.flags = IBV_SEND_SIGNALED,
		.remote_addr = y.base + 1,
		.rkey = y.mr->rkey,
		.num_sge = 3,
		.sge = {{x.base + 5, 1500, x.mr->lkey},
			{(uintptr_t)n->arena + HERE, 11, n->mr[KEY_FULL]->lkey},
			{x.base + 2000, 800, x.mr->lkey}},
	};
	struct ibv_wc wc;

	row("from key to key, elements of a list");
	pair_create(&a, QP_SELF, &a, QP_SELF, NULL);
	pair_connect(&a, QP_SELF, NULL, &a, QP_SELF, NULL);
	memory_fill(seed += 16);
	pattern_fill(n->arena + HERE, 11, seed, 0);
	model_read(&x, 5, 1500, bytes);
	memcpy(bytes + 1500, n->arena + HERE, 11);
	model_read(&x, 2000, 800, bytes + 1511);
	EXPECT(node_post_send(n, QP_SELF, &send, 1).ret == 0, "ibv_post_send");
	EXPECT(node_poll(n, 0, 1, PATIENCE, &wc) == 1 && wc.status == GOOD, "no success");
	model_write(&y, 1, 2311, bytes);
	memory_expect();
	pair_destroy(&a, QP_SELF, &a, QP_SELF);
	unmake(&x);
	unmake(&y);
}

/* Messages of each size, which travel in different ways, to a shared receive queue. */
static void shared_queue_rows(void)
{
	static const uint32_t sizes[] = {1, 64, 65, 16384, 16385, 30000};
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(n->pd, &srq_attr);
	struct ibv_qp_init_attr init = {
		.send_cq = n->cq[0],
		.recv_cq = n->cq[1],
		.srq = srq,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_send_sge = 1},
	};
	struct node_qp_spec spec = spec_default();
	struct element e[] = {{&leaf[LEAF_PLAIN], 1, 20000, 0},
			      {&leaf[LEAF_DEVICE], 3, 1, 0},
			      {&leaf[LEAF_ODP], 60, 10000, 0}};
	struct list l = list_of(e, 3);
	struct made key = make(&l);

	n->qp[QP_SHARE] = srq ? ibv_create_qp(n->pd, &init) : NULL;
	if (!n->qp[QP_SHARE] || side_create_qp(&b, QP_SHARE, &spec, NULL))
		DIE("queue pairs");
	pair_connect(&a, QP_SHARE, NULL, &b, QP_SHARE, NULL);
	for (size_t i = 0; i < COUNT_OF(sizes); i++) {
		struct ibv_sge sge = {key.base, sizes[i], key.mr->lkey};
		struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
		struct node_send send = side_message(side_sge(&b, KEY_FULL, AT, sizes[i]));
		struct ibv_wc wc;

		row("a message of %u bytes to a shared receive queue", sizes[i]);
		memory_fill(seed += 16);
		side_fill(&b, AT, sizes[i], seed + 9, 0);
		pattern_fill(bytes, sizes[i], seed + 9, 0);
		EXPECT(ibv_post_srq_recv(srq, &wr, &bad) == 0, "ibv_post_srq_recv");
		EXPECT(side_post_send(&b, QP_SHARE, &send, 1).ret == 0, "ibv_post_send");
		EXPECT(side_poll(&b, 0, 1, PATIENCE, &wc) == 1 && wc.status == GOOD, "sending");
		expect_status(received(&a, sizes[i]), GOOD, "receiving");
		model_write(&key, 0, sizes[i], bytes);
		memory_expect();
	}
	pair_destroy(&a, QP_SHARE, &b, QP_SHARE);
	EXPECT(ibv_destroy_srq(srq) == 0, "ibv_destroy_srq");
	unmake(&key);
}

/* Each piece of on-demand memory is an access of its own: as many page faults as pieces on fresh
 * pages. */
static void page_fault_row(void)
{
	enum { PAGES = 8, PAGE = 4096 };
	uint8_t *at = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = need(ibv_reg_mr(n->pd, at, (size_t)PAGES * PAGE,
					    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND));
	struct made m = {.mr = mr,
			 .base = (uintptr_t)at,
			 .bytes = PAGES * PAGE,
			 .spots = leaf[LEAF_ODP].spots};
	const struct element e[] = {{&m, 5, 100, 0},
				    {&m, 2 * PAGE, 20, 0},
				    {&m, 4 * PAGE - 1, 2, 0},
				    {&m, 7 * PAGE, 300, 0}};
	struct list l = list_of(e, 4);
	struct made key = make(&l);
	uint64_t faults = odp_counter(ODP_FAULTS), pages = odp_counter(ODP_FAULT_PAGES);

	row("page faults of pieces");
	expect_status(remote(IBV_WR_RDMA_READ, BASE, key.mr->rkey, key.bytes), GOOD, "READ");
	EXPECT(odp_counter(ODP_FAULTS) == faults + 4, "%llu page faults",
	       (unsigned long long)(odp_counter(ODP_FAULTS) - faults));
	if (has_userfaultfd())
		EXPECT(odp_counter(ODP_FAULT_PAGES) == pages + 5, "%llu pages",
		       (unsigned long long)(odp_counter(ODP_FAULT_PAGES) - pages));
	unmake(&key);
	EXPECT(ibv_dereg_mr(mr) == 0 && munmap(at, (size_t)PAGES * PAGE) == 0, "closing");
}

/* Windows cannot be bound to an UMR key. */
static void window_rows(void)
{
	struct list l = list_of(&(struct element){&leaf[LEAF_PLAIN], 0, 1000, 0}, 1);
	struct made key = make(&l);
	struct ibv_mw *mw = ibv_alloc_mw(n->pd, IBV_MW_TYPE_1),
		      *two = ibv_alloc_mw(n->pd, IBV_MW_TYPE_2);
	struct ibv_mw_bind bind = {.bind_info = {key.mr, BASE, 64, IBV_ACCESS_REMOTE_READ}};
	struct ibv_exp_send_wr wr;

	row("windows on a key");
	EXPECT_RET(ibv_bind_mw(n->qp[0], mw, &bind), ENOTSUP);
	memset(&wr, 0, sizeof(wr));
	wr.exp_opcode = IBV_EXP_WR_BIND_MW;
	wr.bind_mw.mw = two;
	wr.bind_mw.rkey = ibv_inc_rkey(two->rkey);
	wr.bind_mw.bind_info =
		(struct ibv_exp_mw_bind_info){key.mr, BASE, 64, IBV_EXP_ACCESS_REMOTE_READ};
	EXPECT(run_request(&wr) == IBV_WC_MW_BIND_ERR, "type 2 is bound");
	row("LOCAL_INV of a key");
	memset(&wr, 0, sizeof(wr));
	wr.exp_opcode = IBV_EXP_WR_LOCAL_INV;
	wr.ex.invalidate_rkey = key.mr->rkey;
	EXPECT(run_request(&wr) == IBV_WC_LOC_QP_OP_ERR, "accepted");
	expect_accesses(&key, 1, 100, ALL);
	EXPECT(ibv_dealloc_mw(mw) == 0 && ibv_dealloc_mw(two) == 0, "ibv_dealloc_mw");
	unmake(&key);
}

static enum ibv_wc_status flush(struct ibv_qp_ex *ex, uint32_t rkey, uint8_t level)
{
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};

	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	flush_of(ex)(ex, rkey, BASE, 1000, GLOBAL, level);
	EXPECT(ibv_wr_complete(ex) == 0 && node_poll(n, 0, 1, PATIENCE, &wc) == 1, "no completion");
	return wc.status;
}

/* The length of what is flushed is nothing that takes time. */
static void flush_rows(void)
{
	static const struct {
		const char *name;
		uint64_t access, rounds;
		uint8_t level;
		enum ibv_wc_status want;
	} rows[] = {
		{"a range", RIGHTS | ACCESS_FLUSH_GLOBAL, 500, RANGE, GOOD},
		{"a range beyond the end", RIGHTS | ACCESS_FLUSH_GLOBAL, 499, RANGE, REMOTE},
		{"all of it", RIGHTS | ACCESS_FLUSH_GLOBAL, 500, WHOLE, GOOD},
		{"2^60 bytes", RIGHTS | ACCESS_FLUSH_GLOBAL, 1ull << 59, WHOLE, GOOD},
		{"a range, without the right", RIGHTS, 500, RANGE, REMOTE},
	};
	struct ibv_qp_init_attr_ex init = {
		.send_cq = n->cq[0],
		.recv_cq = n->cq[1],
		.cap = spec_default().cap,
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = n->pd,
		.send_ops_flags = QP_EX_WITH_FLUSH,
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct list l = list_of(&(struct element){&leaf[LEAF_NULL], 5, 2, 0}, 1);
		struct ibv_mr *mr = create_key(1, INDIRECT);
		struct node_link link = link_default();
		struct ibv_exp_send_wr wr;

		row("FLUSH: %s", rows[i].name);
		l.type = IBV_EXP_UMR_REPEAT;
		l.access = rows[i].access;
		wr = fill_request(mr, &l);
		wr.ext_op.umr.mem_list.rb.repeat_count[0] = rows[i].rounds;
		expect_status(run_request(&wr), GOOD, "UMR_FILL");
		n->qp[QP_EX] = ibv_create_qp_ex(n->ctx, &init);
		if (!n->qp[QP_EX])
			DIE("ibv_create_qp_ex: errno %d", errno);
		link.access |= ACCESS_FLUSH_GLOBAL;
		pair_connect(&a, QP_EX, &link, &a, QP_EX, &link);
		expect_status(flush(ibv_qp_to_qp_ex(n->qp[QP_EX]), mr->rkey, rows[i].level),
			      rows[i].want, "FLUSH");
		while (node_async(n, 0).any)
			;
		EXPECT(node_destroy_qp(n, QP_EX) == 0 && ibv_dereg_mr(mr) == 0, "closing");
	}
}

/* Datagrams, which bring a header with them, from key to key. */
static void datagram_row(void)
{
	struct element e[] = {{&leaf[LEAF_PLAIN], 100, 300, 0}, {&leaf[LEAF_DEVICE], 3, 300, 0}};
	struct element f[] = {{&leaf[LEAF_ODP], 60, 41, 0}, {&leaf[LEAF_IOVA], 501, 600, 0}};
	struct list from = list_of(e, 2), to = list_of(f, 2);
	struct made x = make(&from), y = make(&to);
	struct ibv_qp_init_attr init = {.send_cq = n->cq[0],
					.recv_cq = n->cq[1],
					.qp_type = IBV_QPT_UD,
					.cap = spec_default().cap};
	struct ibv_ah_attr to_self = {
		.is_global = 1, .port_num = 1, .grh = {.dgid = a.info.gid, .hop_limit = 1}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 5};
	struct ibv_sge out = {x.base + 1, 500, x.mr->lkey}, in = {y.base, 540, y.mr->lkey};
	struct ibv_recv_wr recv = {.sg_list = &in, .num_sge = 1}, *bad_recv;
	struct ibv_send_wr send = {.sg_list = &out,
				   .num_sge = 1,
				   .opcode = IBV_WR_SEND,
				   .send_flags = IBV_SEND_SIGNALED};
	struct ibv_qp *qp = ibv_create_qp(n->pd, &init);
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	row("a datagram from key to key");
	if (!qp ||
	    ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY))
		DIE("a queue pair: errno %d", errno);
	attr.qp_state = IBV_QPS_RTR;
	EXPECT(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0, "to RTR");
	attr.qp_state = IBV_QPS_RTS;
	EXPECT(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0, "to RTS");
	memory_fill(seed += 16);
	send.wr.ud.ah = ibv_create_ah(n->pd, &to_self);
	send.wr.ud.remote_qpn = qp->qp_num;
	send.wr.ud.remote_qkey = 5;
	EXPECT(ibv_post_recv(qp, &recv, &bad_recv) == 0 && ibv_post_send(qp, &send, &bad) == 0,
	       "posting");
	EXPECT(node_poll(n, 0, 1, PATIENCE, &wc) == 1 && wc.status == GOOD, "sending");
	EXPECT(node_poll(n, 1, 1, PATIENCE, &wc) == 1 && wc.status == GOOD && wc.byte_len == 540,
	       "receiving");
	model_read(&x, 1, 500, bytes);
	model_write(&y, 40, 500, bytes);
	memcpy(model.of[LEAF_ODP] + 60, (void *)(uintptr_t)(leaf[LEAF_ODP].base + 60),
	       40); /* the header */
	memory_expect();
	EXPECT(ibv_destroy_ah(send.wr.ud.ah) == 0 && ibv_destroy_qp(qp) == 0, "closing");
	unmake(&x);
	unmake(&y);
}

static void run(void)
{
	both_ends_row();
	shared_queue_rows();
	page_fault_row();
	window_rows();
	flush_rows();
	datagram_row();
}

int main(int argc, char **argv)
{
	return umr_test(argc, argv, run);
}
