/* SPDX-License-Identifier: MIT */
/*
 * Which listener takes a request for which kind of queue pair: one of its own kind, or any. In
 * RDMA_PS_IB all kinds share the port numbers. Rules: Linux, drivers/infiniband/core/cma.c,
 * cma_ib_check_req_qp_type(); IBTA volume 1, 12.7.11 and annex A14 (XRC).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#include "cm/cm_address.h"
#include "cm/id.h"
#include "cm_commands_fixture.h"
#include "lib/unit.h"
#include "wire/cm_message.h"

#define ANY_TYPE 0 /* of a listener that takes all */
#define QPN	 77
#define REJECTED 2 /* the status of a SIDR_REP */

static int asks, listens;

static int set_up(void **state)
{
	asks = channel(0);
	listens = channel(0);
	return 0;
}

static int tear_down(void **state)
{
	return close(asks) || close(listens);
}

static uint32_t new_id(int fd, uint8_t qp_type)
{
	struct rdma_ucm_create_id_resp answer = {0};
	struct rdma_ucm_create_id c = {.response = (uintptr_t)&answer,
				       .uid = qp_type + 1u,
				       .ps = RDMA_PS_IB,
				       .qp_type = qp_type};

	assert_int_equal(cm_do(fd, RDMA_USER_CM_CMD_CREATE_ID, &c, sizeof(c), sizeof(answer)), 0);
	return answer.id;
}

static struct sockaddr_in listen_for(uint8_t qp_type)
{
	struct sockaddr_in at = cm_address("127.0.0.1", 0);
	uint32_t id = new_id(listens, qp_type);

	assert_int_equal(cm_bind(listens, id, &at), 0);
	assert_int_equal(cm_listen(listens, id, 0), 0);
	return cm_source(listens, id);
}

/* Return: the id that asks */
static uint32_t ask_for(uint8_t qp_type, const struct sockaddr_in *at)
{
	uint32_t id = new_id(asks, qp_type);

	assert_int_equal(cm_resolve(asks, id, at), 0);
	(void)heard(asks, CM_ADDR_RESOLVED);
	assert_int_equal(cm_resolve_route(asks, id), 0);
	(void)heard(asks, CM_ROUTE_RESOLVED);
	assert_int_equal(cm_connect(asks, id, "", 0), 0);
	return id;
}

static const uint8_t listeners[] = {ANY_TYPE, IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_RECV};

static const struct request {
	uint8_t qp_type, wants;
	enum cm_kind refused;
	int status;
} requests[] = {
	{IBV_QPT_RC, IBV_QPT_RC, CM_REJECTED, AV_CM_INVALID_TRANSPORT},
	{IBV_QPT_UC, IBV_QPT_UC, CM_REJECTED, AV_CM_INVALID_TRANSPORT},
	{IBV_QPT_UD, IBV_QPT_UD, CM_UNREACHABLE, REJECTED},
	{IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV, CM_REJECTED, AV_CM_INVALID_TRANSPORT},
};

static void one(uint8_t listener, const struct request *r)
{
	struct sockaddr_in at = listen_for(listener);

	(void)ask_for(r->qp_type, &at);
	if (listener == ANY_TYPE || listener == r->wants)
		(void)heard(listens, CM_CONNECT_REQUEST);
	else
		assert_int_equal(heard(asks, r->refused).status, r->status);
	assert_false(cm_pending(listens));
	assert_false(cm_pending(asks));
}

TEST_WITH(each_kind, set_up, tear_down)
{
	for (size_t l = 0; l < sizeof(listeners); l++)
		for (size_t i = 0; i < sizeof(requests) / sizeof(*requests); i++)
			one(listeners[l], &requests[i]);
}

/* Whoever takes all has a child of the kind that is asked for. */
TEST_WITH(the_child_is_of_that_kind, set_up, tear_down)
{
	struct sockaddr_in at = listen_for(ANY_TYPE);
	struct rdma_ucm_event_resp e;

	for (size_t i = 0; i < sizeof(requests) / sizeof(*requests); i++) {
		bool ud = requests[i].qp_type == IBV_QPT_UD;

		(void)ask_for(requests[i].qp_type, &at);
		e = heard(listens, CM_CONNECT_REQUEST);
		assert_int_equal(cm_accept(listens, e.id, 99, "", 0), 0);
		e = heard(asks, ud ? CM_ESTABLISHED : CM_CONNECT_RESPONSE);
		assert_int_equal(ud ? e.param.ud.qp_num : e.param.conn.qp_num, QPN);
	}
}

/* Of an XRC target's answer, the number is in the place of an EE context. */
TEST_WITH(where_the_number_is, set_up, tear_down)
{
	struct sockaddr_in at = listen_for(IBV_QPT_XRC_RECV);
	struct end x = {asks, ask_for(IBV_QPT_XRC_SEND, &at)};
	struct ib_uverbs_qp_attr attr;

	assert_int_equal(cm_accept(listens, heard(listens, CM_CONNECT_REQUEST).id, 99, "", 0), 0);
	assert_int_equal(heard(asks, CM_CONNECT_RESPONSE).param.conn.srq, 1);
	assert_int_equal(end_attr(x, IBV_QPS_RTR, &attr), 0);
	assert_int_equal(attr.dest_qp_num, QPN);
}

int main(void)
{
	return run_cases(commands_setup, commands_teardown);
}
