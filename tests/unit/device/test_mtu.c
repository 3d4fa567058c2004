/* SPDX-License-Identifier: MIT */
/* Which path MTU fits an interface: each limit, and one byte less. */
#include "device/port.h"
#include "lib/unit.h"
#include "wire/packet.h"

#define HEADERS 88u

TEST(limits)
{
	for (enum ibv_mtu mtu = IBV_MTU_512; mtu <= IBV_MTU_4096; mtu++) {
		assert_int_equal(av_mtu_within((128u << mtu) + HEADERS), mtu);
		assert_int_equal(av_mtu_within((128u << mtu) + HEADERS - 1), mtu - 1);
	}
	assert_int_equal(av_mtu_within(0), IBV_MTU_256);
	assert_int_equal(av_mtu_within(UINT32_MAX), IBV_MTU_4096);
}

TEST(interfaces_that_are_not_there_do_not_count)
{
	const struct av_gid rows[] = {
		{.ifname = "lo"}, {.ifname = "nosuchinterface"}, {.ifname = ""}};

	assert_int_equal(av_mtu_of_rows(rows, 0), IBV_MTU_4096);
	assert_int_equal(av_mtu_of_rows(rows + 1, 2), IBV_MTU_4096);
	assert_int_equal(av_mtu_of_rows(rows, 3), av_mtu_of_rows(rows, 1));
}

int main(void)
{
	return run_cases(NULL, NULL);
}
