/* SPDX-License-Identifier: MIT */
/*
 * Addresses that stand for any: which device an id has, who collides, who is reached, and what each
 * end of a connection says of both addresses. In the network of lib/own_network.sh. Rules: Linux,
 * drivers/infiniband/core/cma.c (cma_any_addr(), rdma_bind_addr_dst(), cma_check_port(),
 * cma_match_private_data(), cma_bind_loopback(), cma_resolve_loopback(), cma_format_hdr()).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "cm_commands_fixture.h"
#include "lib/own_directory.h"
#include "lib/unit.h"
#include "observe/check.h"

#define PORT 7174

static int fd;

static int set_up(void **state)
{
	fd = channel(0);
	return 0;
}

static int tear_down(void **state)
{
	return close(fd);
}

static bool network_is_known(void)
{
	const char *own = getenv("OWN_NETWORK");

	return own && strcmp(own, "yes") == 0;
}

static uint32_t new_id(void)
{
	uint32_t id;

	assert_int_equal(cm_create(fd, 1, RDMA_PS_TCP, &id), 0);
	return id;
}

/* Return: its bytes */
static uint16_t put(const char *text, struct __kernel_sockaddr_storage *to)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(PORT)};

	memset(to, 0, sizeof(*to));
	if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
		memcpy(to, &v4, sizeof(v4));
		return sizeof(v4);
	}
	assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
	memcpy(to, &v6, sizeof(v6));
	return sizeof(v6);
}

static int bind_at(uint32_t id, const char *text)
{
	struct rdma_ucm_bind c = {.id = id};

	c.addr_size = put(text, &c.addr);
	return cm_do(fd, RDMA_USER_CM_CMD_BIND, &c, sizeof(c), 0);
}

static int resolve(uint32_t id, const char *dst)
{
	struct rdma_ucm_resolve_addr c = {.id = id};

	c.dst_size = put(dst, &c.dst_addr);
	return cm_do(fd, RDMA_USER_CM_CMD_RESOLVE_ADDR, &c, sizeof(c), 0);
}

static struct rdma_ucm_query_addr_resp ask(uint32_t id, uint32_t option)
{
	struct rdma_ucm_query_addr_resp answer = {0};
	struct rdma_ucm_query c = {.response = (uintptr_t)&answer, .id = id, .option = option};

	assert_int_equal(cm_do(fd, RDMA_USER_CM_CMD_QUERY, &c, sizeof(c), sizeof(answer)), 0);
	return answer;
}

static bool has_device(uint32_t id)
{
	return ask(id, RDMA_USER_CM_QUERY_ADDR).port_num == 1;
}

/* An address in an answer, of IP or a GID, as a person writes it. */
static const char *written(const struct __kernel_sockaddr_storage *from)
{
	static char text[INET6_ADDRSTRLEN];
	struct sockaddr_storage ss;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6; /* a GID lies where the address does: struct sockaddr_ib */
	const void *at;

	memcpy(&ss, from, sizeof(*from));
	memcpy(&v4, &ss, sizeof(v4));
	memcpy(&v6, &ss, sizeof(v6));
	at = ss.ss_family == AF_INET ? (const void *)&v4.sin_addr : (const void *)&v6.sin6_addr;
	assert_non_null(
		inet_ntop(ss.ss_family == AF_INET ? AF_INET : AF_INET6, at, text, sizeof(text)));
	return text;
}

static void route(uint32_t id, const char *dst)
{
	assert_int_equal(resolve(id, dst), 0);
	assert_int_equal(heard(fd, CM_ADDR_RESOLVED).status, 0);
	assert_int_equal(cm_resolve_route(fd, id), 0);
	(void)heard(fd, CM_ROUTE_RESOLVED);
}

/* --- bound ------------------------------------------------------------------------------ */

static const char *const to[] = {"192.0.2.1", "fd00::1", "127.0.0.1", "127.0.0.5",
				 "::1",	      "0.0.0.0", "::"};

/*
 * @with: binding to that of each row at the same port: '.' succeeds, 'U' EADDRINUSE, 'N'
 * EADDRNOTAVAIL. @reach: who listens there hears of a request to each address of to[]
 */
static const struct row {
	const char *address; /* NULL: not bound */
	bool device;
	const char *with, *reach;
} rows[] = {
	{NULL, false, "", "y-yy-y-"},
	{"0.0.0.0", false, "NNNNNNNNN", "y-yy-y-"},
	{"::", false, "NNNNNNNNN", "yyyyyyy"},
	{"127.0.0.1", false, "NNNNNNNNN", "y-yy-y-"},
	{"127.0.0.5", false, "NNNNNNNNN", "y-yy-y-"},
	{"::1", false, "NNNNNNNNN", "yyyyyyy"},
	{"192.0.2.1", true, "NNNNNU.UN", "y------"},
	{"fd00::1", true, "NNNNN.U.N", "-y-----"},
	{"::ffff:192.0.2.1", true, "NNNNNU.UN", "y------"},
	{"::ffff:127.0.0.1", false, "NNNNNNNNN", "y-yy-y-"},
};

TEST_WITH(which_device, set_up, tear_down)
{
	if (!network_is_known())
		skip();
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		struct rdma_ucm_query_addr_resp a;
		uint32_t id = new_id();

		if (!rows[i].address)
			continue;
		assert_int_equal(bind_at(id, rows[i].address), 0);
		a = ask(id, RDMA_USER_CM_QUERY_ADDR);
		assert_string_equal(written(&a.src_addr), rows[i].address);
		if (has_device(id) != rows[i].device)
			fail_msg("%s", rows[i].address);
		assert_int_equal(cm_listen(fd, id, 0), 0);
		assert_int_equal(has_device(id), rows[i].device);
		assert_int_equal(cm_destroy(fd, id), 0);
	}
}

static int outcome(char c)
{
	return c == 'U' ? -EADDRINUSE : c == 'N' ? -EADDRNOTAVAIL : 0;
}

TEST_WITH(who_collides, set_up, tear_down)
{
	if (!network_is_known())
		skip();
	for (size_t i = 1; i < AV_ARRAY_SIZE(rows); i++)
		for (size_t j = 1; j < AV_ARRAY_SIZE(rows); j++) {
			uint32_t first = new_id(), second = new_id();
			int ret;

			assert_int_equal(bind_at(first, rows[i].address), 0);
			ret = bind_at(second, rows[j].address);
			if (ret != outcome(rows[i].with[j - 1]))
				fail_msg("%s, then %s: %d", rows[i].address, rows[j].address, ret);
			assert_int_equal(cm_destroy(fd, first), 0);
			assert_int_equal(cm_destroy(fd, second), 0);
		}
}

/* Return: was it asked? Both ends are destroyed. */
static bool is_asked(const char *dst, uint16_t port)
{
	struct rdma_ucm_resolve_addr c = {.id = new_id()};
	struct rdma_ucm_event_resp e;
	bool asked;

	c.dst_size = put(dst, &c.dst_addr);
	memcpy((uint8_t *)&c.dst_addr + offsetof(struct sockaddr_in, sin_port), &port,
	       sizeof(port));
	assert_int_equal(cm_do(fd, RDMA_USER_CM_CMD_RESOLVE_ADDR, &c, sizeof(c), 0), 0);
	assert_int_equal(heard(fd, CM_ADDR_RESOLVED).status, 0);
	assert_int_equal(cm_resolve_route(fd, c.id), 0);
	(void)heard(fd, CM_ROUTE_RESOLVED);
	assert_int_equal(cm_connect(fd, c.id, "", 0), 0);
	asked = cm_expect(fd, SOON, CM_CONNECT_REQUEST, &e) == 0;
	if (asked)
		assert_int_equal(cm_destroy(fd, e.id), 0);
	else
		assert_int_equal(e.event, CM_REJECTED);
	assert_true(cm_destroy(fd, c.id) >= 0);
	return asked;
}

TEST_WITH(who_is_reached, set_up, tear_down)
{
	if (!network_is_known())
		skip();
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		uint32_t listener = new_id();

		if (rows[i].address)
			assert_int_equal(bind_at(listener, rows[i].address), 0);
		assert_int_equal(cm_listen(fd, listener, 0), 0);
		for (size_t k = 0; k < AV_ARRAY_SIZE(to); k++) {
			bool asked = is_asked(to[k], cm_source(fd, listener).sin_port);

			if (asked != (rows[i].reach[k] == 'y'))
				fail_msg("at %s, to %s: %d", rows[i].address, to[k], asked);
		}
		assert_true(cm_destroy(fd, listener) >= 0);
	}
}

/* --- resolved and connected -------------------------------------------------------------- */

static const struct {
	const char *bound, *dst; /* @bound: NULL: not bound */
	const char *src;	 /* as the requester's id has it then */
	const char *gid;	 /* of both ends */
} ways[] = {
	{NULL, "127.0.0.1", "127.0.0.1", "::ffff:192.0.2.1"},
	{NULL, "127.0.0.5", "127.0.0.1", "::ffff:192.0.2.1"},
	{"127.0.0.5", "127.0.0.1", "127.0.0.1", "::ffff:192.0.2.1"},
	{"0.0.0.0", "0.0.0.0", "127.0.0.1", "::ffff:192.0.2.1"},
	{"192.0.2.1", "127.0.0.1", "192.0.2.1", "::ffff:192.0.2.1"},
	{"127.0.0.1", "192.0.2.1", "127.0.0.1", "::ffff:192.0.2.1"},
	{NULL, "192.0.2.1", "192.0.2.1", "::ffff:192.0.2.1"},
	{NULL, "::1", "::1", "fd00::1"},
	{"::1", "::", "::1", "fd00::1"},
	{"fd00::1", "::1", "fd00::1", "fd00::1"},
	{"::1", "fd00::1", "::1", "fd00::1"},
	{NULL, "fd00::1", "fd00::1", "fd00::1"},
};

static void expect_ends(uint32_t id, const char *src, const char *dst, const char *gid)
{
	struct rdma_ucm_query_addr_resp a = ask(id, RDMA_USER_CM_QUERY_ADDR),
					g = ask(id, RDMA_USER_CM_QUERY_GID);

	assert_int_equal(a.port_num, 1);
	assert_string_equal(written(&a.src_addr), src);
	assert_string_equal(written(&a.dst_addr), dst);
	assert_string_equal(written(&g.src_addr), gid);
	assert_string_equal(written(&g.dst_addr), gid);
}

/* Each end has the addresses that the requester has named, and a device. */
TEST_WITH(what_each_end_says, set_up, tear_down)
{
	uint32_t listener = new_id();

	if (!network_is_known())
		skip();
	assert_int_equal(bind_at(listener, "::"), 0);
	assert_int_equal(cm_listen(fd, listener, 0), 0);
	for (size_t i = 0; i < AV_ARRAY_SIZE(ways); i++) {
		uint32_t id = new_id(), passive;

		if (ways[i].bound) {
			struct rdma_ucm_bind c = {.id = id};

			c.addr_size = put(ways[i].bound, &c.addr);
			memset((uint8_t *)&c.addr + offsetof(struct sockaddr_in, sin_port), 0, 2);
			assert_int_equal(cm_do(fd, RDMA_USER_CM_CMD_BIND, &c, sizeof(c), 0), 0);
		}
		route(id, ways[i].dst);
		expect_ends(id, ways[i].src, ways[i].dst, ways[i].gid);
		assert_int_equal(cm_connect(fd, id, "", 0), 0);
		passive = heard(fd, CM_CONNECT_REQUEST).id;
		expect_ends(passive, ways[i].dst, ways[i].src, ways[i].gid);
		assert_true(cm_destroy(fd, passive) >= 0);
		assert_true(cm_destroy(fd, id) >= 0);
	}
	assert_true(cm_destroy(fd, listener) >= 0);
}

/* A loopback address leads to no other host. */
TEST_WITH(to_another_host, set_up, tear_down)
{
	uint32_t id = new_id();

	if (!network_is_known())
		skip();
	assert_int_equal(bind_at(id, "127.0.0.1"), 0);
	assert_int_equal(resolve(id, "192.0.2.9"), -EINVAL);
	assert_int_equal(last_record().check, AV_CHECK_CM_NO_ROUTE);
	assert_false(cm_pending(fd));
	assert_int_equal(cm_destroy(fd, id), 0);
}

/* What the program has asked for, and what that was taken for. */
TEST_WITH(what_is_said, set_up, tear_down)
{
	struct av_flight_record r;
	char text[AV_EXPLAIN_MAX];
	uint32_t id = new_id();

	if (!network_is_known())
		skip();
	route(id, "127.0.0.5");
	assert_int_equal(cm_connect(fd, id, "", 0), 0);
	(void)heard(fd, CM_REJECTED);
	r = last_record();
	(void)av_explain(&r, text);
	if (!strstr(text, "nobody listens on port 7174 of 127.0.0.5 (taken for 192.0.2.1) ("))
		fail_msg("%s", text);
}

int main(void)
{
	return run_cases(commands_setup, commands_teardown);
}
