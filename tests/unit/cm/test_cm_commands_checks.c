/* SPDX-License-Identifier: MIT */
/* What a command that is refused for its arguments leaves in the flight recorder. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#include "cm_commands_fixture.h"
#include "lib/unit.h"
#include "observe/check.h"

static int fd;
static uint32_t id;

static int set_up(void **state)
{
	fd = channel(0);
	return cm_create(fd, 1, RDMA_PS_TCP, &id);
}

static int tear_down(void **state)
{
	return close(fd);
}

static void says(int ret, enum av_check check, uint64_t wanted)
{
	const struct av_flight_record r = last_refusal();

	assert_int_equal(ret, -EINVAL);
	assert_int_equal(r.error, EINVAL);
	assert_string_equal(av_check_row(r.check)->name, av_check_row(check)->name);
	assert_int_equal(r.wanted, wanted);
}

TEST_WITH(ids_have_their_types, set_up, tear_down)
{
	struct rdma_ucm_create_id body = {.uid = 1, .ps = 0x7777, .qp_type = 77};

	says(cm_do(fd, RDMA_USER_CM_CMD_CREATE_ID, &body, sizeof(body),
		   sizeof(struct rdma_ucm_create_id_resp)),
	     AV_CHECK_CM_QP_TYPE, 77);
}

/* As write(2) fails. */
TEST_WITH(commands_have_a_header, set_up, tear_down)
{
	errno = 0;
	assert_int_equal(cm_put(fd, "", 1), -1);
	assert_int_equal(errno, EINVAL);
}

TEST_WITH(addresses_have_their_lengths, set_up, tear_down)
{
	struct rdma_ucm_bind bind = {.id = id, .addr_size = 500};
	struct rdma_ucm_resolve_addr resolve = {.id = id, .dst_size = 0};
	struct rdma_ucm_join_mcast join = {.id = id};

	says(cm_do(fd, RDMA_USER_CM_CMD_BIND, &bind, sizeof(bind), 0), AV_CHECK_CM_ADDRESS, 0);
	says(cm_do(fd, RDMA_USER_CM_CMD_RESOLVE_ADDR, &resolve, sizeof(resolve), 0),
	     AV_CHECK_CM_ADDRESS, 0);
	for (uint16_t bytes = 0; bytes <= 500; bytes += 500) {
		join.addr_size = bytes;
		says(cm_do(fd, RDMA_USER_CM_CMD_JOIN_MCAST, &join, sizeof(join),
			   sizeof(struct rdma_ucm_create_id_resp)),
		     AV_CHECK_CM_ADDRESS, bytes);
	}
}

TEST_WITH(link_local_addresses_need_an_interface, set_up, tear_down)
{
	struct rdma_ucm_bind_ip bind = {.id = id};

	bind.addr = (struct sockaddr_in6){.sin6_family = AF_INET6,
					  .sin6_addr.s6_addr = {0xfe, 0x80, [15] = 1}};
	says(cm_do(fd, RDMA_USER_CM_CMD_BIND_IP, &bind, sizeof(bind), 0), AV_CHECK_CM_LINK, 0);
}

TEST_WITH(options_have_their_values, set_up, tear_down)
{
	uint32_t value = 99;

	says(cm_option(fd, id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &value, 4), AV_CHECK_CM_OPTION,
	     4);
	says(cm_option(fd, id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &value, 1),
	     AV_CHECK_CM_ACK_TIMEOUT, 99);
}

TEST_WITH(ids_belong_to_a_channel, set_up, tear_down)
{
	int other = channel(0), plain = open("/dev/null", O_RDWR | O_CLOEXEC);

	says(cm_listen(other, id, 1), AV_CHECK_CM_CHANNEL, 0);
	says(cm_migrate(fd, id, plain), AV_CHECK_CM_NO_CHANNEL, (uint64_t)plain);
	close(plain);
	close(other);
}

TEST_WITH(reasons_events_and_states, set_up, tear_down)
{
	struct rdma_ucm_init_qp_attr attr = {.id = id, .qp_state = 77};
	struct rdma_ucm_notify notify = {.id = id, .event = IBV_EVENT_CQ_ERR};

	says(cm_reject(fd, id, 5, NULL, 0), AV_CHECK_CM_REASON, 5);
	says(cm_write_event(fd, id, CM_ESTABLISHED, 0, 0), AV_CHECK_CM_EVENT, CM_ESTABLISHED);
	says(cm_do(fd, RDMA_USER_CM_CMD_NOTIFY, &notify, sizeof(notify), 0), AV_CHECK_CM_EVENT,
	     IBV_EVENT_CQ_ERR);
	says(cm_do(fd, RDMA_USER_CM_CMD_INIT_QP_ATTR, &attr, sizeof(attr),
		   sizeof(struct ib_uverbs_qp_attr)),
	     AV_CHECK_CM_QP_STATE, 77);
}

TEST_WITH(groups_are_of_datagrams, set_up, tear_down)
{
	struct rdma_ucm_join_mcast join = {.id = id, .addr_size = sizeof(struct sockaddr_in)};
	struct sockaddr_in group = cm_address("224.1.2.3", 0);

	memcpy(&join.addr, &group, sizeof(group));
	join.join_flags = RDMA_MC_JOIN_FLAG_RESERVED;
	says(cm_do(fd, RDMA_USER_CM_CMD_JOIN_MCAST, &join, sizeof(join),
		   sizeof(struct rdma_ucm_create_id_resp)),
	     AV_CHECK_FLAGS, RDMA_MC_JOIN_FLAG_RESERVED);
	join.join_flags = 0;
	says(cm_do(fd, RDMA_USER_CM_CMD_JOIN_MCAST, &join, sizeof(join),
		   sizeof(struct rdma_ucm_create_id_resp)),
	     AV_CHECK_CM_GROUP, 0);
}

TEST_WITH(connections_have_parameters, set_up, tear_down)
{
	struct ends e;
	struct end x;
	struct rdma_ucm_connect connect;
	char data[256] = "";

	ends_open(&e);
	x = ends_come_to(&e, ROUTED);
	connect = (struct rdma_ucm_connect){.id = x.id};
	says(cm_do(x.fd, RDMA_USER_CM_CMD_CONNECT, &connect, sizeof(connect), 0),
	     AV_CHECK_CM_PARAMETERS, 0);
	says(cm_connect(x.fd, x.id, data, 200), AV_CHECK_CM_PRIVATE, 200);
	ends_close(&e);
}

int main(void)
{
	return run_cases(commands_setup, commands_teardown);
}
