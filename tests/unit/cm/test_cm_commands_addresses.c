/* SPDX-License-Identifier: MIT */
/*
 * Which addresses an id may be bound to and resolve, and who is reached there. Rules: Linux,
 * drivers/infiniband/core/cma.c (rdma_bind_addr(), rdma_listen(), rdma_resolve_addr()).
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <infiniband/ib.h>

#include "base/compiler.h"
#include "cm_commands_fixture.h"
#include "device/port.h"
#include "lib/few_descriptors.h"
#include "lib/own_directory.h"
#include "lib/unit.h"
#include "observe/check.h"
#include "registry/tables.h"
#include "wire/cm_message.h"

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

static uint32_t new_id(void)
{
	uint32_t id;

	assert_int_equal(cm_create(fd, 1, RDMA_PS_TCP, &id), 0);
	return id;
}

/* An address of either family. @text: NULL: none. Return: its bytes */
static uint16_t put(const char *text, uint16_t port, struct __kernel_sockaddr_storage *to)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

	memset(to, 0, sizeof(*to));
	if (!text)
		return 0;
	if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
		memcpy(to, &v4, sizeof(v4));
		return sizeof(v4);
	}
	assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
	memcpy(to, &v6, sizeof(v6));
	return sizeof(v6);
}

static int bind_at(uint32_t id, const char *text, uint16_t port)
{
	struct rdma_ucm_bind c = {.id = id};

	c.addr_size = put(text, port, &c.addr);
	return cm_do(fd, RDMA_USER_CM_CMD_BIND, &c, sizeof(c), 0);
}

static int resolve(uint32_t id, const char *src, const char *dst, uint16_t port)
{
	struct rdma_ucm_resolve_addr c = {.id = id};

	c.src_size = put(src, 0, &c.src_addr);
	c.dst_size = put(dst, port, &c.dst_addr);
	return cm_do(fd, RDMA_USER_CM_CMD_RESOLVE_ADDR, &c, sizeof(c), 0);
}

/* A port whose row in the registry is the first one. 0: that space has none */
static uint16_t port_of_first_row(uint16_t ps)
{
	struct av_cm_port p = {.netns = av_netns_of_thread(), .ps = ps};
	int handle;

	for (p.port = UINT16_MAX; p.port >= 1024; p.port--) {
		handle = av_cm_port_bind(&p);
		assert_true(handle >= 0);
		av_cm_port_release(handle);
		if (handle == 0)
			return p.port;
	}
	return 0;
}

/* The port of an id that ends is free again, wherever the registry has it. */
TEST_WITH(free_again, set_up, tear_down)
{
	static const uint16_t spaces[] = {RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IPOIB, RDMA_PS_IB};
	struct sockaddr_in at;
	uint16_t port = 0;
	uint32_t id[3], i;

	for (i = 0; i < AV_ARRAY_SIZE(spaces) && !port; i++)
		port = port_of_first_row(spaces[i]);
	if (!port)
		skip(); /* one network namespace of fifty, four times */
	at = cm_address("0.0.0.0", port);
	for (int k = 0; k < 3; k++)
		assert_int_equal(cm_create(fd, 1, spaces[i - 1], &id[k]), 0);
	assert_int_equal(cm_bind(fd, id[0], &at), 0);
	assert_int_equal(cm_bind(fd, id[1], &at), -EADDRNOTAVAIL);
	assert_int_equal(cm_destroy(fd, id[0]), 0);
	assert_int_equal(cm_bind(fd, id[1], &at), 0);
	assert_int_equal(cm_bind(fd, id[2], &at), -EADDRNOTAVAIL);
}

static const struct {
	const char *address;
	int ret;
} bindings[] = {
	{"0.0.0.0", 0},
	{"127.0.0.1", 0},
	{"::", 0},
	{"::ffff:127.0.0.1", 0},
	{"203.0.113.1", -EADDRNOTAVAIL},
	{"2001:db8::77", -EADDRNOTAVAIL},
	{"fe80::1", -EINVAL}, /* on which link? */
};

TEST_WITH(bound, set_up, tear_down)
{
	for (size_t i = 0; i < sizeof(bindings) / sizeof(*bindings); i++) {
		int ret = bind_at(new_id(), bindings[i].address, 0);

		if (ret != bindings[i].ret)
			print_message("%s: %d\n", bindings[i].address, ret);
		assert_int_equal(ret, bindings[i].ret);
	}
}

/* The host has that address, but no device has: rdma_bind_addr(), cma_translate_addr(). */
TEST_WITH(of_no_device, set_up, tear_down)
{
	const char *own = getenv("OWN_NETWORK");

	if (!own || strcmp(own, "yes") != 0)
		skip();
	assert_int_equal(bind_at(new_id(), "198.51.100.1", 0), -EADDRNOTAVAIL);
	assert_int_equal(system("ip addr add 198.51.100.1/32 dev lo"), 0);
	assert_int_equal(bind_at(new_id(), "198.51.100.1", 0), -ENODEV);
	assert_int_equal(last_refusal().check, AV_CHECK_CM_NOT_OURS);
	assert_int_equal(system("ip addr del 198.51.100.1/32 dev lo"), 0);
}

/* Both addresses are of one family, whether the source is named with the destination or before. */
static const struct {
	const char *src, *dst;
	int ret;
} ways[] = {
	{NULL, "127.0.0.1", 0},
	{"0.0.0.0", "127.0.0.1", 0},
	{"127.0.0.1", "127.0.0.1", 0},
	{"::", "127.0.0.1", -EINVAL},
	{"::ffff:127.0.0.1", "127.0.0.1", -EINVAL},
	{"0.0.0.0", "::1", -EINVAL},
	{"127.0.0.1", "::1", -EINVAL},
	{"fe80::1", "fe80::2", -EINVAL},
};

TEST_WITH(of_one_family, set_up, tear_down)
{
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		uint32_t together = new_id(), before = new_id();
		int ret = resolve(together, ways[i].src, ways[i].dst, 7174);

		if (ret != ways[i].ret)
			print_message("from %s to %s: %d\n", ways[i].src, ways[i].dst, ret);
		assert_int_equal(ret, ways[i].ret);
		if (ways[i].src && bind_at(before, ways[i].src, 0) == 0)
			assert_int_equal(resolve(before, NULL, ways[i].dst, 7174), ways[i].ret);
		assert_int_equal(cm_destroy(fd, together), 0);
		assert_int_equal(cm_destroy(fd, before), 0);
		assert_false(cm_pending(fd));
	}
}

/* To where no address of the host leads: no event comes, and another one can be named. */
TEST_WITH(no_way, set_up, tear_down)
{
	uint32_t id = new_id();
	int ret = resolve(id, NULL, "255.255.255.255", 7174);

	assert_true(ret == -ENETUNREACH || ret == -EACCES);
	assert_false(cm_pending(fd));
	assert_int_equal(resolve(id, NULL, "127.0.0.1", 7174), 0);
	assert_int_equal(heard(fd, CM_ADDR_RESOLVED).status, 0);
}

/* Without a descriptor nobody knows the way, which may be there: that is not to blame. */
TEST_WITH(no_descriptor, set_up, tear_down)
{
	const struct sockaddr_in at = device_address(0);
	const char *text = inet_ntoa(at.sin_addr);
	uint32_t id = new_id(), other = new_id();
	struct rlimit all = few_descriptors(0);
	int ret = resolve(id, NULL, text, 7174);

	setrlimit(RLIMIT_NOFILE, &all);
	assert_int_equal(ret, -EMFILE);
	assert_int_equal(last_refusal().check, AV_CHECK_NO_DESCRIPTOR);
	assert_int_equal(bind_at(other, "203.0.113.1", 0), -EADDRNOTAVAIL);
	assert_int_equal(last_refusal().check, AV_CHECK_CM_NOT_OURS);
	all = few_descriptors(0);
	ret = bind_at(other, "203.0.113.1", 0);
	setrlimit(RLIMIT_NOFILE, &all);
	assert_int_equal(ret, -EMFILE);
	assert_int_equal(last_refusal().check, AV_CHECK_NO_DESCRIPTOR);
	assert_false(cm_pending(fd));
	assert_int_equal(resolve(id, NULL, text, 7174), 0);
	assert_int_equal(heard(fd, CM_ADDR_RESOLVED).status, 0);
}

/* An address of IPv4 that is written as one of IPv6 is the same one. */
TEST_WITH(mapped, set_up, tear_down)
{
	char text[sizeof("::ffff:255.255.255.255")];
	struct ends e;
	struct sockaddr_in at;
	uint32_t listener;

	ends_open(&e);
	at = cm_source(e.passive_fd, e.listener);
	snprintf(text, sizeof(text), "::ffff:%s", inet_ntoa(at.sin_addr));
	assert_int_equal(bind_at(new_id(), text, ntohs(at.sin_port)), -EADDRINUSE);
	assert_int_equal(cm_destroy(e.passive_fd, e.listener), 0);
	listener = new_id();
	assert_int_equal(bind_at(listener, text, ntohs(at.sin_port)), 0);
	assert_int_equal(cm_listen(fd, listener, 0), 0);
	(void)ends_come_to(&e, REQUESTING);
	(void)heard(fd, CM_CONNECT_REQUEST);
	ends_close(&e);
}

/* Who asks this host by an address that stands for any does so from a loopback address. */
static const struct {
	bool ib; /* AF_IB, whose addresses are GIDs */
	const char *dst, *src;
} anywhere[] = {
	{false, "0.0.0.0", "127.0.0.1"},
	{false, "::", "::1"},
	{true, "::ffff:0.0.0.0", "::ffff:127.0.0.1"},
	{true, "::", "::1"},
};

/* The address lies where that of IPv6 does. */
static void become_ib(struct __kernel_sockaddr_storage *address)
{
	struct sockaddr_ib ib;

	memcpy(&ib, address, sizeof(ib));
	ib.sib_family = AF_IB;
	ib.sib_sid = htobe64(av_cm_service_id(RDMA_PS_TCP, 7174));
	memcpy(address, &ib, sizeof(ib));
}

TEST_WITH(this_host, set_up, tear_down)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(anywhere); i++) {
		struct rdma_ucm_query_addr_resp a = {0};
		struct rdma_ucm_resolve_addr r = {.id = new_id()};
		struct rdma_ucm_query q = {.response = (uintptr_t)&a, .id = r.id};
		struct __kernel_sockaddr_storage src;
		uint16_t bytes = put(anywhere[i].src, 0, &src);
		size_t at = bytes == sizeof(struct sockaddr_in)
				    ? offsetof(struct sockaddr_in, sin_addr)
				    : offsetof(struct sockaddr_in6, sin6_addr);

		r.dst_size = put(anywhere[i].dst, 7174, &r.dst_addr);
		if (anywhere[i].ib) {
			become_ib(&r.dst_addr);
			r.dst_size = sizeof(struct sockaddr_ib);
		}
		assert_int_equal(cm_do(fd, RDMA_USER_CM_CMD_RESOLVE_ADDR, &r, sizeof(r), 0), 0);
		(void)heard(fd, CM_ADDR_RESOLVED);
		assert_int_equal(cm_do(fd, RDMA_USER_CM_CMD_QUERY, &q, sizeof(q), sizeof(a)), 0);
		assert_memory_equal((uint8_t *)&a.src_addr + at, (uint8_t *)&src + at,
				    at == offsetof(struct sockaddr_in, sin_addr) ? 4 : 16);
	}
}

/* Who listens without an address listens at all of IPv4. */
TEST_WITH(not_bound, set_up, tear_down)
{
	uint32_t id = new_id();
	struct sockaddr_in at;

	assert_int_equal(cm_listen(fd, id, 0), 0);
	at = cm_source(fd, id);
	assert_int_equal(at.sin_family, AF_INET);
	assert_int_equal(at.sin_addr.s_addr, INADDR_ANY);
	assert_int_not_equal(at.sin_port, 0);
}

int main(void)
{
	return run_cases(commands_setup, commands_teardown);
}
