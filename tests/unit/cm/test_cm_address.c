/* SPDX-License-Identifier: MIT */
/*
 * Whose an address is, and from where another one is reached: on this host, as far as its addresses
 * tell; and in the network of lib/own_network.sh, whose addresses are known.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "cm/cm_address.h"
#include "lib/own_directory.h"
#include "lib/unit.h"

#define PORT 7174

/* As a person writes it; NULL: AF_UNIX, which means nothing here */
static struct sockaddr_storage address_of(const char *text, uint16_t port)
{
	struct sockaddr_storage ss = {.ss_family = AF_UNIX};
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

	if (text && inet_pton(AF_INET, text, &v4.sin_addr) == 1)
		memcpy(&ss, &v4, sizeof(v4));
	else if (text && inet_pton(AF_INET6, text, &v6.sin6_addr) == 1)
		memcpy(&ss, &v6, sizeof(v6));
	else
		assert_null(text);
	return ss;
}

static bool where(const struct sockaddr_storage *ss, struct av_cm_where *w)
{
	struct av_cm_name name;
	bool found;

	errno = EXDEV;
	found = av_cm_name((const struct sockaddr *)ss, &name) && av_cm_where(&name, w);
	assert_int_equal(errno, EXDEV);
	return found;
}

static int source_of_names(const struct sockaddr_storage *dst, const struct sockaddr_storage *src,
			   struct sockaddr_storage *chosen)
{
	struct av_cm_name to, from, got;
	int ret;

	if (!av_cm_name((const struct sockaddr *)dst, &to) ||
	    (src && !av_cm_name((const struct sockaddr *)src, &from)))
		return -EAFNOSUPPORT;
	ret = av_cm_source(&to, src ? &from : NULL, &got);
	if (ret == 0)
		(void)av_cm_sockaddr_ip(&got, chosen);
	return ret;
}

/* It leaves no descriptor behind, and errno as it was. */
static int source(const struct sockaddr_storage *dst, const struct sockaddr_storage *src,
		  struct sockaddr_storage *chosen)
{
	int before = dup(STDIN_FILENO), after, ret;

	assert_int_equal(close(before), 0);
	errno = EXDEV;
	ret = source_of_names(dst, src, chosen);
	assert_int_equal(errno, EXDEV);
	after = dup(STDIN_FILENO);
	assert_int_equal(close(after), 0);
	assert_int_equal(before, after);
	return ret;
}

/* --- anywhere --------------------------------------------------------------------- */

static const struct {
	const char *text, *address;
	bool v6;
} names[] = {
	{"192.0.2.1", "::ffff:192.0.2.1", false},
	{"0.0.0.0", "::ffff:0.0.0.0", false},
	{"::", "::", true},
	{"fd00::1", "fd00::1", true},
	{"::ffff:192.0.2.1", "::ffff:192.0.2.1", true},
};

TEST(what_a_name_says)
{
	struct sockaddr_storage ss = address_of(NULL, 0);
	struct sockaddr_in6 scoped = {.sin6_family = AF_INET6, .sin6_scope_id = 7};
	struct av_cm_name name;
	uint8_t expected[16];

	(void)state;
	assert_false(av_cm_name((struct sockaddr *)&ss, &name));
	for (size_t i = 0; i < AV_ARRAY_SIZE(names); i++) {
		ss = address_of(names[i].text, PORT);
		assert_true(av_cm_name((struct sockaddr *)&ss, &name));
		assert_int_equal(inet_pton(AF_INET6, names[i].address, expected), 1);
		assert_memory_equal(name.address, expected, sizeof(expected));
		assert_int_equal(name.port, PORT);
		assert_int_equal(name.v6, names[i].v6);
		assert_int_equal(name.ifindex, 0);
	}
	assert_true(av_cm_name((struct sockaddr *)&scoped, &name));
	assert_int_equal(name.ifindex, 7);
}

/* The IPv4 addresses that this host has. Each is reached from itself, and one of the device's. */
TEST(the_hosts_own)
{
	struct ifaddrs *all;

	(void)state;
	assert_int_equal(getifaddrs(&all), 0);
	for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
		struct sockaddr_storage ss = {0}, chosen;
		struct av_cm_where w;
		struct av_cm_name name;

		if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || !(i->ifa_flags & IFF_UP))
			continue;
		memcpy(&ss, i->ifa_addr, sizeof(struct sockaddr_in));
		assert_int_equal(source(&ss, NULL, &chosen), 0);
		assert_memory_equal(&chosen, &ss, sizeof(ss));
		if (i->ifa_flags & IFF_LOOPBACK)
			continue;
		assert_true(where(&ss, &w));
		assert_true(av_cm_name(i->ifa_addr, &name));
		assert_memory_equal(w.gid, name.address, sizeof(w.gid));
		assert_int_equal(w.ifindex, if_nametoindex(i->ifa_name));
		assert_int_equal(w.type, IBV_GID_TYPE_ROCE_V2);
		assert_non_null(w.dev);
	}
	freeifaddrs(all);
}

TEST(other_families)
{
	struct sockaddr_storage none = address_of(NULL, 0), v4 = address_of("127.0.0.1", 0), chosen;
	struct av_cm_where w;

	(void)state;
	assert_false(where(&none, &w));
	assert_int_equal(source(&none, NULL, &chosen), -EAFNOSUPPORT);
	assert_int_equal(source(&v4, &none, &chosen), -EAFNOSUPPORT);
}

/* --- in a network of its own ------------------------------------------------------- */

static bool network_is_known(void)
{
	const char *own = getenv("OWN_NETWORK");

	return own && strcmp(own, "yes") == 0;
}

static const struct {
	const char *text, *gid; /* NULL: none of ours */
} wheres[] = {
	{"192.0.2.1", "::ffff:192.0.2.1"},
	{"::ffff:192.0.2.1", "::ffff:192.0.2.1"},
	{"fd00::1", "fd00::1"},
	{"127.0.0.1", NULL},
	{"127.1.2.3", NULL},
	{"::1", NULL},
	{"192.0.2.2", NULL},
	{"fd00::2", NULL},
	{"fe80::dead", NULL},
	{"0.0.0.0", NULL},
	{"::", NULL},
};

TEST(whose_an_address_is)
{
	uint8_t expected[16];
	struct av_cm_where w;

	(void)state;
	if (!network_is_known())
		skip();
	for (size_t i = 0; i < AV_ARRAY_SIZE(wheres); i++) {
		struct sockaddr_storage ss = address_of(wheres[i].text, PORT);
		bool found = where(&ss, &w);

		if (found != (wheres[i].gid != NULL))
			fail_msg("%s: %s", wheres[i].text, found ? "found" : "not found");
		if (!found)
			continue;
		assert_int_equal(inet_pton(AF_INET6, wheres[i].gid, expected), 1);
		assert_memory_equal(w.gid, expected, sizeof(expected));
		assert_int_equal(w.ifindex, if_nametoindex("v0"));
	}
}

/* By which this host is reached from itself: one of the family. */
TEST(where_any_address_is)
{
	static const char *const gid[] = {"::ffff:192.0.2.1", "fd00::1"};
	uint8_t expected[16];
	struct av_cm_where w;

	(void)state;
	if (!network_is_known())
		skip();
	for (int v6 = 0; v6 < 2; v6++) {
		assert_true(av_cm_where_any(v6, &w));
		assert_int_equal(inet_pton(AF_INET6, gid[v6], expected), 1);
		assert_memory_equal(w.gid, expected, sizeof(expected));
		assert_int_equal(w.type, IBV_GID_TYPE_ROCE_V2);
		assert_non_null(w.dev);
	}
}

static const struct {
	const char *dst, *src; /* @src: NULL: none */
	int ret;
	const char *chosen;
} sources[] = {
	{"192.0.2.9", NULL, 0, "192.0.2.1"},
	{"192.0.2.9", "0.0.0.0", 0, "192.0.2.1"},
	{"192.0.2.9", "192.0.2.1", 0, "192.0.2.1"},
	{"192.0.2.1", NULL, 0, "192.0.2.1"},
	{"127.0.0.1", NULL, 0, "127.0.0.1"},
	{"127.0.0.1", "127.0.0.5", 0, "127.0.0.5"},
	{"fd00::9", NULL, 0, "fd00::1"},
	{"fd00::9", "::", 0, "fd00::1"},
	{"fd00::1", NULL, 0, "fd00::1"},
	{"::1", NULL, 0, "::1"},
	{"::ffff:192.0.2.9", NULL, 0, "::ffff:192.0.2.1"},
	{"198.51.100.1", NULL, -ENETUNREACH, NULL},
	{"2001:db8::1", NULL, -ENETUNREACH, NULL},
	{"192.0.2.9", "203.0.113.1", -EADDRNOTAVAIL, NULL},
	{"fd00::9", "fd00::77", -EADDRNOTAVAIL, NULL},
	{"192.0.2.9", "::", -EINVAL, NULL},
	{"fd00::9", "0.0.0.0", -EINVAL, NULL},
	{"fe80::9", NULL, -EINVAL, NULL},
};

TEST(from_where_it_is_reached)
{
	(void)state;
	if (!network_is_known())
		skip();
	for (size_t i = 0; i < AV_ARRAY_SIZE(sources); i++) {
		struct sockaddr_storage dst = address_of(sources[i].dst, PORT + 1), chosen, src,
					expected;
		int ret;

		if (sources[i].src)
			src = address_of(sources[i].src, PORT);
		ret = source(&dst, sources[i].src ? &src : NULL, &chosen);
		if (ret != sources[i].ret)
			fail_msg("to %s: %s", sources[i].dst, strerror(-ret));
		if (ret)
			continue;
		expected = address_of(sources[i].chosen, sources[i].src ? PORT : 0);
		assert_memory_equal(&chosen, &expected, sizeof(expected));
	}
}

/* A host that has addresses of one family only is reached by that. The last case: it takes those of
 * the other family away. */
TEST(where_no_such_family_is)
{
	struct av_cm_where w;

	(void)state;
	if (!network_is_known())
		skip();
	assert_int_equal(system("ip -6 addr flush dev v0 && ip -6 addr flush dev v1"), 0);
	assert_true(av_cm_where_any(true, &w));
	assert_int_equal(w.gid[12], 192);
}

int main(void)
{
	return run_cases(own_directory_join, own_directory_leave);
}
