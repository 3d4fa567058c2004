/* SPDX-License-Identifier: MIT */
/* Which GIDs name a multicast group. */
#include <arpa/inet.h>
#include <stdio.h>

#include "base/compiler.h"
#include "lib/unit.h"
#include "wire/address.h"

static const struct {
	const char *gid;
	bool group;
} rows[] = {
	{"ff00::", true},
	{"ff02::1", true},
	{"ff0e::ffff:224.1.2.3", true},
	{"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", true},
	{"feff::1", false},
	{"fe80::1", false},
	{"::", false},
	{"::ffff:223.255.255.255", false},
	{"::ffff:224.0.0.0", true},
	{"::ffff:239.255.255.255", true},
	{"::ffff:240.0.0.0", false},
	{"::224.0.0.1", false},
	{"2001:db8::ffff:224.0.0.1", false},
};

static void groups(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		union ibv_gid gid;

		assert_int_equal(inet_pton(AF_INET6, rows[i].gid, gid.raw), 1);
		if (av_net_is_group(gid.raw) != rows[i].group)
			fail_msg("%s: %s", rows[i].gid,
				 rows[i].group ? "names a group" : "names none");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(groups)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
