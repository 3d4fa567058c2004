/* SPDX-License-Identifier: MIT */
/*
 * Options of an id: which there are, of which length and value, and what they change. Rules:
 * rdma_set_option(3); Linux, drivers/infiniband/core/ucma.c and cma.c.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#include "cm_commands_fixture.h"
#include "lib/own_directory.h"
#include "lib/unit.h"

static const struct option {
	uint32_t level, name, bytes;
} options[] = {
	{RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 1},
	{RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 4},
	{RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, 4},
	{RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, 1},
};
#define OPTIONS (sizeof(options) / sizeof(*options))

static int fd;

static uint32_t new_id(uint16_t ps)
{
	uint32_t id;

	assert_int_equal(cm_create(fd, 1, ps, &id), 0);
	return id;
}

static int set_up(void **state)
{
	fd = channel(0);
	return 0;
}

static int tear_down(void **state)
{
	return close(fd);
}

static const struct option *known(uint32_t level, uint32_t name)
{
	for (size_t i = 0; i < OPTIONS; i++)
		if (options[i].level == level && options[i].name == name)
			return &options[i];
	return NULL;
}

/* The path's lengths are those of whole records, of which an id without an address takes none. */
static int wanted(uint32_t level, uint32_t name, uint32_t bytes)
{
	const struct option *o = known(level, name);

	if (level == RDMA_OPTION_IB && name == RDMA_OPTION_IB_PATH)
		return -EINVAL;
	return !o ? -ENOSYS : o->bytes == bytes ? 0 : -EINVAL;
}

TEST_WITH(every_one, set_up, tear_down)
{
	static const uint8_t value[80] = {1};
	uint32_t id = new_id(RDMA_PS_TCP);

	for (uint32_t level = 0; level < 4; level++)
		for (uint32_t name = 0; name < 6; name++)
			for (uint32_t bytes = 0; bytes < sizeof(value); bytes++)
				assert_int_equal(cm_option(fd, id, level, name, value, bytes),
						 wanted(level, name, bytes));
}

TEST_WITH(bad_pointer, set_up, tear_down)
{
	uint32_t id = new_id(RDMA_PS_TCP);

	for (size_t i = 0; i < OPTIONS; i++)
		assert_int_equal(cm_option(fd, id, options[i].level, options[i].name, NULL,
					   options[i].bytes),
				 -EFAULT);
}

/* 5 bits, of reliable connections. */
TEST_WITH(ack_timeout, set_up, tear_down)
{
	uint32_t id = new_id(RDMA_PS_TCP), ud = new_id(RDMA_PS_UDP);

	for (unsigned int value = 0; value < 256; value++) {
		const uint8_t byte = (uint8_t)value;

		assert_int_equal(
			cm_option(fd, id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &byte, 1),
			value < 32 ? 0 : -EINVAL);
		assert_int_equal(
			cm_option(fd, ud, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &byte, 1),
			-EINVAL);
	}
}

static struct ib_uverbs_qp_attr attr_of(struct end x, enum ibv_qp_state state)
{
	struct ib_uverbs_qp_attr a;

	assert_int_equal(end_attr(x, state, &a), 0);
	return a;
}

#define TIMEOUT 21
#define TOS	0x68

static void expect_both(struct end x)
{
	assert_int_equal(attr_of(x, IBV_QPS_RTS).timeout, TIMEOUT);
	assert_int_equal(attr_of(x, IBV_QPS_RTR).ah_attr.grh.traffic_class, TOS);
}

static void set_byte(const struct ends *e, uint32_t name, uint8_t value)
{
	assert_int_equal(cm_option(e->active_fd, e->active, RDMA_OPTION_ID, name, &value, 1), 0);
}

/* Both ends use the requester's timeout and class of traffic. */
TEST(reach_the_queue_pair)
{
	struct ends e;

	ends_open(&e);
	set_byte(&e, RDMA_OPTION_ID_ACK_TIMEOUT, TIMEOUT);
	set_byte(&e, RDMA_OPTION_ID_TOS, TOS);
	expect_both(ends_come_to(&e, ESTABLISHED));
	expect_both((struct end){e.active_fd, e.active});
	ends_close(&e);
}

/* An end with a timeout of its own uses that, whenever it was set. */
TEST(own_timeout)
{
	const uint8_t own = 12;
	struct ends e;
	struct end passive;

	ends_open(&e);
	set_byte(&e, RDMA_OPTION_ID_ACK_TIMEOUT, TIMEOUT);
	passive = ends_come_to(&e, REQUESTED);
	assert_int_equal(attr_of(passive, IBV_QPS_RTS).timeout, TIMEOUT);
	assert_int_equal(cm_option(passive.fd, passive.id, RDMA_OPTION_ID,
				   RDMA_OPTION_ID_ACK_TIMEOUT, &own, 1),
			 0);
	assert_int_equal(attr_of(passive, IBV_QPS_RTS).timeout, own);
	ends_close(&e);
}

/* --- addresses ---------------------------------------------------------------------------- */

static int set_number(uint32_t id, uint32_t name, int value)
{
	return cm_option(fd, id, RDMA_OPTION_ID, name, &value, sizeof(value));
}

static uint32_t sharing(int reuse)
{
	uint32_t id = new_id(RDMA_PS_TCP);

	assert_int_equal(set_number(id, RDMA_OPTION_ID_REUSEADDR, reuse), 0);
	return id;
}

/* Two share a port if both say so, until one listens. */
TEST_WITH(reuse, set_up, tear_down)
{
	struct sockaddr_in at = device_address(0);
	uint32_t first = sharing(1), second = sharing(1), third = sharing(0);

	assert_int_equal(cm_bind(fd, first, &at), 0);
	at = cm_source(fd, first);
	assert_int_equal(cm_bind(fd, second, &at), 0);
	assert_int_equal(cm_bind(fd, third, &at), -EADDRINUSE);
	assert_int_equal(cm_listen(fd, first, 0), -EADDRINUSE);
	assert_int_equal(cm_destroy(fd, second), 0);
	assert_int_equal(cm_listen(fd, first, 0), 0);
	assert_int_equal(cm_bind(fd, sharing(1), &at), -EADDRINUSE);
}

/* Who is bound may begin to share, until it listens. */
TEST_WITH(reuse_once_bound, set_up, tear_down)
{
	struct sockaddr_in at = device_address(0);
	uint32_t first = sharing(0), second = sharing(1);

	assert_int_equal(cm_bind(fd, first, &at), 0);
	at = cm_source(fd, first);
	assert_int_equal(cm_bind(fd, second, &at), -EADDRINUSE);
	assert_int_equal(set_number(first, RDMA_OPTION_ID_REUSEADDR, 1), 0);
	assert_int_equal(cm_bind(fd, second, &at), 0);
	assert_int_equal(cm_destroy(fd, second), 0);
	assert_int_equal(cm_listen(fd, first, 0), 0);
	assert_int_equal(set_number(first, RDMA_OPTION_ID_REUSEADDR, 1), -EINVAL);
	assert_int_equal(cm_bind(fd, sharing(1), &at), -EADDRINUSE);
}

static int bind_any6(uint32_t id, uint16_t port)
{
	struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = port};
	struct rdma_ucm_bind c = {.id = id, .addr_size = sizeof(any)};

	memcpy(&c.addr, &any, sizeof(any));
	return cm_do(fd, RDMA_USER_CM_CMD_BIND, &c, sizeof(c), 0);
}

/* All of IPv6 is all of IPv4, too, unless an id is of one family only. */
TEST_WITH(family, set_up, tear_down)
{
	struct sockaddr_in any = cm_address("0.0.0.0", 0);
	uint32_t v4 = new_id(RDMA_PS_TCP), v6 = new_id(RDMA_PS_TCP);

	assert_int_equal(cm_bind(fd, v4, &any), 0);
	any = cm_source(fd, v4);
	assert_int_equal(bind_any6(v6, any.sin_port), -EADDRNOTAVAIL);
	assert_int_equal(set_number(v6, RDMA_OPTION_ID_AFONLY, 1), 0);
	assert_int_equal(bind_any6(v6, any.sin_port), 0);
}

/* IPv4 is of one family unless an id says that it is not. */
TEST_WITH(family_of_v4, set_up, tear_down)
{
	struct sockaddr_in any = cm_address("127.0.0.1", 0);
	uint32_t v4 = new_id(RDMA_PS_TCP), only = new_id(RDMA_PS_TCP), v6 = new_id(RDMA_PS_TCP);

	assert_int_equal(set_number(only, RDMA_OPTION_ID_AFONLY, 1), 0);
	assert_int_equal(cm_bind(fd, v4, &any), 0);
	assert_int_equal(bind_any6(only, cm_source(fd, v4).sin_port), 0);
	assert_int_equal(cm_destroy(fd, only), 0);
	assert_int_equal(set_number(v4, RDMA_OPTION_ID_AFONLY, 0), 0);
	assert_int_equal(set_number(v6, RDMA_OPTION_ID_AFONLY, 1), 0);
	assert_int_equal(bind_any6(v6, cm_source(fd, v4).sin_port), -EADDRNOTAVAIL);
}

/* The same of one that is bound: what it says last holds. */
TEST_WITH(family_once_bound, set_up, tear_down)
{
	uint32_t v6 = new_id(RDMA_PS_TCP), v4 = new_id(RDMA_PS_TCP), late = new_id(RDMA_PS_TCP);
	struct sockaddr_in any = cm_address("0.0.0.0", 0);

	assert_int_equal(bind_any6(v6, 0), 0);
	any.sin_port = cm_source(fd, v6).sin_port;
	assert_int_equal(cm_bind(fd, v4, &any), -EADDRNOTAVAIL);
	assert_int_equal(set_number(v6, RDMA_OPTION_ID_AFONLY, 1), 0);
	assert_int_equal(cm_bind(fd, v4, &any), 0);
	assert_int_equal(cm_destroy(fd, v4), 0);
	assert_int_equal(set_number(v6, RDMA_OPTION_ID_AFONLY, 0), 0);
	assert_int_equal(cm_bind(fd, late, &any), -EADDRNOTAVAIL);
}

/* Port spaces have numbers of their own. */
TEST_WITH(spaces, set_up, tear_down)
{
	struct sockaddr_in any = cm_address("0.0.0.0", 0);
	uint32_t tcp = new_id(RDMA_PS_TCP);

	assert_int_equal(cm_bind(fd, tcp, &any), 0);
	any = cm_source(fd, tcp);
	assert_int_equal(cm_bind(fd, new_id(RDMA_PS_UDP), &any), 0);
	assert_int_equal(cm_bind(fd, new_id(RDMA_PS_IPOIB), &any), 0);
	assert_int_equal(cm_bind(fd, new_id(RDMA_PS_TCP), &any), -EADDRNOTAVAIL);
}

int main(void)
{
	return run_cases(commands_setup, commands_teardown);
}
