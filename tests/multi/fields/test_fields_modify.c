/* SPDX-License-Identifier: MIT */
/* ibv_modify_qp(): attributes without their bit are not looked at; wide numbers are cut. */
#include "fields_fixture.h"

#include "lib/to_rts.h"

static enum ibv_qp_state step;
static struct ibv_qp_attr good;

static struct ibv_qp *create(void)
{
	struct ibv_qp_init_attr init = {.send_cq = n->cq[0],
					.recv_cq = n->cq[1],
					.cap = {1, 1, 1, 1, 0},
					.qp_type = IBV_QPT_RC};
	struct ibv_qp *qp = ibv_create_qp(n->pd, &init);

	NEED(qp);
	return qp;
}

static void before(struct ibv_qp *qp, enum ibv_qp_state to)
{
	if (to != IBV_QPS_INIT)
		NEED(connect_step(qp, good, IBV_QPS_INIT) == 0);
	if (to == IBV_QPS_RTS)
		NEED(connect_step(qp, good, IBV_QPS_RTR) == 0);
}

/* Takes one step, with what is in @what. What its mask names is as in @good. */
static void take_step(void *what)
{
	struct ibv_qp_attr *attr = what, got;
	struct ibv_qp_init_attr init;
	struct ibv_qp *qp = create();

	before(qp, step);
	attr->qp_state = step;
	EXPECT(ibv_modify_qp(qp, attr, connect_mask(IBV_QPT_RC, step)) == 0, "errno %d", errno);
	NEED(ibv_query_qp(qp, &got, 0, &init) == 0);
	EXPECT(got.qp_state == step && got.cap.max_send_wr == 1, "state %d", (int)got.qp_state);
	EXPECT(got.alt_port_num == 0 && got.alt_timeout == 0 && got.rate_limit == 0 &&
		       got.sq_draining == 0,
	       "an attribute without its bit is there");
	NEED(ibv_destroy_qp(qp) == 0);
}

static void step_rows(enum ibv_qp_state to, const struct garbage *fields, size_t count)
{
	step = to;
	with_garbage(&good, sizeof(good), fields, count, take_step);
}

static void garbage_rows(void)
{
	const struct garbage never[] = {
		GARBAGE(ibv_qp_attr, cur_qp_state),
		GARBAGE(ibv_qp_attr, path_mig_state),
		GARBAGE(ibv_qp_attr, qkey),
		GARBAGE(ibv_qp_attr, cap),
		GARBAGE(ibv_qp_attr, alt_ah_attr),
		GARBAGE(ibv_qp_attr, alt_pkey_index),
		GARBAGE(ibv_qp_attr, en_sqd_async_notify),
		GARBAGE(ibv_qp_attr, sq_draining),
		GARBAGE(ibv_qp_attr, alt_port_num),
		GARBAGE(ibv_qp_attr, alt_timeout),
		GARBAGE(ibv_qp_attr, rate_limit),
	};
	const struct garbage not_to_init[] = {
		GARBAGE(ibv_qp_attr, path_mtu),
		GARBAGE(ibv_qp_attr, rq_psn),
		GARBAGE(ibv_qp_attr, sq_psn),
		GARBAGE(ibv_qp_attr, dest_qp_num),
		GARBAGE(ibv_qp_attr, ah_attr),
		GARBAGE(ibv_qp_attr, max_rd_atomic),
		GARBAGE(ibv_qp_attr, max_dest_rd_atomic),
		GARBAGE(ibv_qp_attr, min_rnr_timer),
		GARBAGE(ibv_qp_attr, timeout),
		GARBAGE(ibv_qp_attr, retry_cnt),
		GARBAGE(ibv_qp_attr, rnr_retry),
	};
	const struct garbage not_to_rtr[] = {
		GARBAGE(ibv_qp_attr, qp_access_flags),
		GARBAGE(ibv_qp_attr, pkey_index),
		GARBAGE(ibv_qp_attr, port_num),
	};

	step_rows(IBV_QPS_INIT, never, COUNT_OF(never));
	step_rows(IBV_QPS_RTR, never, COUNT_OF(never));
	step_rows(IBV_QPS_RTS, never, COUNT_OF(never));
	step_rows(IBV_QPS_INIT, not_to_init, COUNT_OF(not_to_init));
	step_rows(IBV_QPS_RTR, not_to_rtr, COUNT_OF(not_to_rtr));
}

static void width_rows(void)
{
	struct ibv_qp_attr wide = good, got;
	struct ibv_qp_init_attr init;
	struct ibv_qp *qp = create();

	row("numbers wider than their fields on the wire");
	wide.rq_psn = wide.sq_psn = 0x5a123456;
	wide.dest_qp_num = 0x5a000000u | good.dest_qp_num;
	wide.timeout = 0xe0 | 14;
	wide.min_rnr_timer = 0x60 | 12;
	wide.retry_cnt = 0xf8 | 5;
	wide.rnr_retry = 8 | 6;
	EXPECT(connect_qp(qp, wide) == 0, "errno %d", errno);
	NEED(ibv_query_qp(qp, &got, 0, &init) == 0);
	EXPECT(got.rq_psn == 0x123456 && got.sq_psn == 0x123456, "PSN 0x%x, 0x%x", got.rq_psn,
	       got.sq_psn);
	EXPECT(got.dest_qp_num == good.dest_qp_num, "destination 0x%x", got.dest_qp_num);
	EXPECT(got.timeout == 14 && got.min_rnr_timer == 12, "timers %u, %u", got.timeout,
	       got.min_rnr_timer);
	EXPECT(got.retry_cnt == 5 && got.rnr_retry == 6, "retries %u, %u", got.retry_cnt,
	       got.rnr_retry);
	row("rights that no header has yet");
	wide.qp_access_flags = ~0u;
	EXPECT(ibv_modify_qp(qp, &wide, IBV_QP_ACCESS_FLAGS) == 0, "errno %d", errno);
	NEED(ibv_destroy_qp(qp) == 0);
}

static void run(void)
{
	good = connect_attr(0x1234, &here.info.gid);
	garbage_rows();
	width_rows();
}

int main(int argc, char **argv)
{
	return fields_test(argc, argv, run);
}
