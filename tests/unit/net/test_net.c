/* SPDX-License-Identifier: MIT */
/* A packet's way from one address to another of the same process. */
#include "net_fixture.h"

#include <errno.h>

#include "base/compiler.h"
#include "lib/few_descriptors.h"

TEST(a_burst_arrives)
{
	static const uint32_t bytes[] = {1024, 1024, 1024, 7, 0, 1, 4096, 4096, 2, 4096};
	struct av_net_path path = {.traffic_class = 0x22, .hop_limit = 9};
	uint32_t ref = enter(), qpn = new_qpn(ref);

	own_address(path.src, 0);
	own_address(path.dst, 1);
	assert_int_equal(av_net_open(path.src, true), 0);
	assert_int_equal(av_net_open(path.dst, true), 0);
	assert_int_equal(send_burst(&path, qpn, bytes, AV_ARRAY_SIZE(bytes)), 0);
	wait_kept(AV_ARRAY_SIZE(bytes));
	for (unsigned int i = 0; i < AV_ARRAY_SIZE(bytes); i++) {
		assert_kept(i, qpn, i, bytes[i]);
		assert_path(i, &path);
		assert_false(av_net_is_congested(&kept[i].p.path));
	}
	av_net_close(path.dst, true, NULL);
	av_net_close(path.src, true, NULL);
	assert_false(atomic_load(&av_net_is_open));
	leave(ref);
}

/* What the host could not be asked is not said of the address. */
TEST(without_descriptors)
{
	uint32_t ref = enter();
	uint8_t own[16];
	struct rlimit all;
	int ret;

	own_address(own, 0);
	all = few_descriptors(0);
	ret = av_net_open(own, true);
	setrlimit(RLIMIT_NOFILE, &all);
	assert_int_equal(ret, -EMFILE);
	assert_int_equal(av_net_open(own, true), 0);
	av_net_close(own, true, NULL);
	leave(ref);
}

int main(void)
{
	return run_cases(make_folder, remove_folder);
}
