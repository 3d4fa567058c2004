/* SPDX-License-Identifier: MIT */
/*
 * What a queue pair is to be given in each state (RDMA_USER_CM_CMD_INIT_QP_ATTR). Rules: Linux,
 * drivers/infiniband/core/cma.c (rdma_init_qp_attr()) and cm.c (ib_cm_init_qp_attr()).
 */
#include <unistd.h>
#include <infiniband/verbs.h>

#include "base/compiler.h"
#include "cm_commands_fixture.h"
#include "lib/unit.h"

#define UDP_QKEY 0x01234567u /* of RDMA_PS_UDP: IBTA volume 1, annex A11 */
#define QPN	 77u	     /* what cm_command.h says of each end */
#define RETRIES	 7u

#define ADDRESSED (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define PLACED	  (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT)

static struct ib_uverbs_qp_attr attr_of(struct end x, enum ibv_qp_state state)
{
	struct ib_uverbs_qp_attr a;

	assert_int_equal(end_attr(x, state, &a), 0);
	assert_int_equal(a.qp_state, state);
	return a;
}

/* Before there is a connection, and for datagrams, which have none. */
TEST(not_connected)
{
	static const struct {
		uint16_t ps;
		uint32_t mask, qkey;
	} rows[] = {
		{RDMA_PS_TCP, PLACED | IBV_QP_ACCESS_FLAGS, 0},
		{RDMA_PS_UDP, PLACED | IBV_QP_QKEY, UDP_QKEY},
	};
	struct sockaddr_in at = device_address(0);

	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		struct end x = {.fd = channel(0)};
		struct ib_uverbs_qp_attr a;

		assert_int_equal(cm_create(x.fd, 1, rows[i].ps, &x.id), 0);
		assert_int_equal(cm_bind(x.fd, x.id, &at), 0);
		a = attr_of(x, IBV_QPS_INIT);
		assert_int_equal(a.qp_attr_mask, rows[i].mask);
		assert_int_equal(a.port_num, 1);
		assert_int_equal(a.pkey_index, 0);
		assert_int_equal(a.qkey, rows[i].qkey);
		assert_int_equal(a.qp_access_flags, 0);
		assert_int_equal(close(x.fd), 0);
	}
}

static void expect_init(struct end x)
{
	struct ib_uverbs_qp_attr a = attr_of(x, IBV_QPS_INIT);

	assert_int_equal(a.qp_attr_mask, PLACED | IBV_QP_ACCESS_FLAGS);
	assert_int_equal(a.port_num, 1);
	assert_int_equal(a.pkey_index, 0);
	assert_int_equal(a.qp_access_flags, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
						    IBV_ACCESS_REMOTE_ATOMIC);
}

/* Each end begins where the other expects it. */
static void expect_way(struct end to, struct end from)
{
	struct ib_uverbs_qp_attr r = attr_of(to, IBV_QPS_RTR), s = attr_of(from, IBV_QPS_RTS);

	assert_int_equal(r.qp_attr_mask,
			 ADDRESSED | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	assert_int_equal(r.dest_qp_num, QPN);
	assert_int_equal(r.max_dest_rd_atomic, 1);
	assert_int_equal(r.ah_attr.is_global, 1);
	assert_int_equal(r.ah_attr.port_num, 1);
	assert_true(r.path_mtu >= IBV_MTU_256 && r.path_mtu <= IBV_MTU_4096);
	assert_int_equal(s.qp_attr_mask, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
						 IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
						 IBV_QP_MAX_QP_RD_ATOMIC);
	assert_int_equal(s.max_rd_atomic, 1);
	assert_int_equal(s.retry_cnt, RETRIES);
	assert_int_equal(s.rnr_retry, RETRIES);
	assert_int_equal(s.sq_psn, r.rq_psn);
}

TEST(connected)
{
	struct ends e;
	struct end passive, active;

	ends_open(&e);
	passive = ends_come_to(&e, ESTABLISHED);
	active = (struct end){e.active_fd, e.active};
	expect_init(active);
	expect_init(passive);
	expect_way(active, passive);
	expect_way(passive, active);
	ends_close(&e);
}

int main(void)
{
	return run_cases(commands_setup, commands_teardown);
}
