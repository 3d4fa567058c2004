/* SPDX-License-Identifier: MIT */
/* The virtual sysfs without the C library: what each path is, what each file says, where each path
 * leads. */
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/port.h"
#include "host/vsysfs.h"
#include "lib/unit.h"

#define IB    "/sys/class/infiniband"
#define VERBS "/sys/class/infiniband_verbs"
#define BUS   "/sys/devices/platform"
#define ANY0  BUS "/anyverbs.0/infiniband/any0" /* where the links of the classes lead */
#define MLX5  BUS "/anyverbs.1/infiniband/mlx5_0"
#define DEBUG "/sys/kernel/debug/mlx5"

/* Three devices; the third has the longest name there can be. */
#define LONG_NAME "a123456789012345678901234567890123456789012345678901234567890.2"
#define DEVICES                                                                 \
	"any0:gids=64:guid=0200c0ffee001234,mlx5_0:link=infiniband:lid=7:guid=" \
	"0200000000000042," LONG_NAME

static struct av_vsysfs_node node_at(const char *path)
{
	static struct av_vsysfs_walk walk;

	if (av_vsysfs_walk(path, false, &walk) != 1)
		fail_msg("%s: not in the tree", path);
	return walk.node;
}

/* The content of a file or the target of a link, as a string. */
static const char *content_of(const struct av_vsysfs_node *node)
{
	static char bytes[AV_VSYSFS_CONTENT_BYTES + 1];
	ssize_t len = av_vsysfs_read(node, bytes);

	if (len < 0)
		return strerror((int)-len);
	assert_true(len <= AV_VSYSFS_CONTENT_BYTES);
	bytes[len] = '\0';
	return bytes;
}

static void each_file_says_what_the_kernels_would(void **state)
{
	static const struct {
		const char *path;
		const char *content;
	} rows[] = {
		{IB "/any0/node_type", "1: CA\n"},
		{IB "/any0/node_guid", "0200:c0ff:ee00:1234\n"},
		{IB "/any0/sys_image_guid", "0200:c0ff:ee00:1234\n"},
		{IB "/any0/fw_ver", AV_VERSION "\n"},
		{IB "/any0/hw_rev", "1\n"},
		{IB "/any0/hca_type", "anyverbs\n"},
		{IB "/any0/board_id", "anyverbs\n"},
		{IB "/any0/node_desc", "anyverbs any0\n"},
		{IB "/any0/uevent", "NAME=any0\n"},
		{IB "/any0/device", "../../../anyverbs.0"},
		{IB "/any0/ports/1/state", "4: ACTIVE\n"},
		{IB "/any0/ports/1/phys_state", "5: LinkUp\n"},
		{IB "/any0/ports/1/rate", "100 Gb/sec (4X EDR)\n"},
		{IB "/any0/ports/1/lid", "0x0\n"},
		{IB "/any0/ports/1/lid_mask_count", "0\n"},
		{IB "/any0/ports/1/sm_lid", "0x0\n"},
		{IB "/any0/ports/1/sm_sl", "0\n"},
		{IB "/any0/ports/1/cap_mask", "0x04000000\n"},
		{IB "/any0/ports/1/link_layer", "Ethernet\n"},
		{IB "/any0/ports/1/gid_attrs/types/0", "RoCE v2\n"},
		{IB "/any0/ports/1/pkeys/0", "0xffff\n"},
		{IB "/mlx5_0/node_guid", "0200:0000:0000:0042\n"},
		{IB "/mlx5_0/device", "../../../anyverbs.1"},
		{IB "/mlx5_0/ports/1/lid", "0x7\n"},
		{IB "/mlx5_0/ports/1/sm_lid", "0x1\n"},
		{IB "/mlx5_0/ports/1/link_layer", "InfiniBand\n"},
		{IB "/mlx5_0/ports/1/gids/0", "fe80:0000:0000:0000:0200:0000:0000:0042\n"},
		{IB "/mlx5_0/ports/1/gid_attrs/types/0", "IB/RoCE v1\n"},
		{VERBS "/abi_version", "6\n"},
		{VERBS "/uverbs0/ibdev", "any0\n"},
		{VERBS "/uverbs1/ibdev", "mlx5_0\n"},
		{VERBS "/uverbs1/abi_version", "1\n"},
		{VERBS "/uverbs1/dev", "231:193\n"},
		{VERBS "/uverbs1/uevent", "MAJOR=231\nMINOR=193\nDEVNAME=infiniband/uverbs1\n"},
		{VERBS "/uverbs1/device", "../../../anyverbs.1"},
		{"/sys/class/infiniband_mad/abi_version", "5\n"},
		{BUS "/anyverbs.0/vendor", "0xa5e7\n"},
		{BUS "/anyverbs.0/device", "0x0001\n"},
		{BUS "/anyverbs.0/numa_node", "-1\n"},
		{BUS "/anyverbs.0/uevent", "DRIVER=anyverbs\n"},
		/* Classes lead to devices, and devices to their classes. */
		{IB "/any0", "../../devices/platform/anyverbs.0/infiniband/any0"},
		{IB "/any0/subsystem", "../../../../../class/infiniband"},
		{VERBS "/uverbs1", "../../devices/platform/anyverbs.1/infiniband_verbs/uverbs1"},
		{VERBS "/uverbs1/subsystem", "../../../../../class/infiniband_verbs"},
		{"/sys/class/misc/rdma_cm", "../../devices/virtual/misc/rdma_cm"},
		{"/sys/class/misc/rdma_cm/subsystem", "../../../../class/misc"},
		{BUS "/anyverbs.1/subsystem", "../../../bus/platform"},
		/* A GID that is not populated is zero, and has no attributes. */
		{IB "/any0/ports/1/gids/63", "0000:0000:0000:0000:0000:0000:0000:0000\n"},
		{IB "/any0/ports/1/gid_attrs/types/63", "Invalid argument"},
		{IB "/any0/ports/1/gid_attrs/ndevs/63", "Invalid argument"},
		/* InfiniBand's come from no interface. */
		{IB "/mlx5_0/ports/1/gid_attrs/ndevs/0", "Invalid argument"},
	};

	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		struct av_vsysfs_node node = node_at(rows[i].path);

		if (strcmp(content_of(&node), rows[i].content))
			fail_msg("%s: \"%s\"", rows[i].path, content_of(&node));
	}
}

/* The names as the kernel's documentation has them; nothing runs here. */
static void each_device_has_its_odp_statistics(void **state)
{
	static const struct {
		const char *before, *after; /* the number of the device */
	} paths[] = {
		{VERBS "/uverbs", "/invalidations_faults_contentions"},
		{VERBS "/uverbs", "/num_invalidation_pages"},
		{VERBS "/uverbs", "/num_invalidations"},
		{VERBS "/uverbs", "/num_page_fault_pages"},
		{VERBS "/uverbs", "/num_page_faults"},
		{VERBS "/uverbs", "/num_prefetchs_handled"},
		{VERBS "/uverbs", "/num_prefetch_pages"},
		{DEBUG "/anyverbs.", "/odp_stats/num_failed_resolutions"},
		{DEBUG "/anyverbs.", "/odp_stats/num_mrs_not_found"},
		{DEBUG "/anyverbs.", "/odp_stats/num_odp_mr_pages"},
		{DEBUG "/anyverbs.", "/odp_stats/num_odp_mrs"},
	};
	char path[128];

	for (size_t i = 0; i < AV_ARRAY_SIZE(paths); i++)
		for (int dev = 0; dev < 3; dev++) {
			struct av_vsysfs_node node;

			snprintf(path, sizeof(path), "%s%d%s", paths[i].before, dev,
				 paths[i].after);
			node = node_at(path);
			assert_int_equal(node.kind, AV_VSYSFS_FILE);
			assert_string_equal(content_of(&node), "0\n");
		}
}

static void gid_files_are_the_gid_table(void **state)
{
	const struct av_device *dev = av_device_by_name("any0");
	struct av_vsysfs_node node = node_at(IB "/any0/ports/1/gids/0");
	char expected[64] = "", path[128];
	struct av_gid gids[AV_GID_MAX];

	assert_true(av_port_gids(dev, gids) >= 1);
	for (int i = 0; i < 16; i += 2)
		snprintf(expected + strlen(expected), 8, "%02x%02x%c", gids[0].gid.raw[i],
			 gids[0].gid.raw[i + 1], i == 14 ? '\n' : ':');
	assert_string_equal(content_of(&node), expected);
	node = node_at(IB "/any0/ports/1/gid_attrs/ndevs/0");
	snprintf(expected, sizeof(expected), "%s\n", gids[0].ifname);
	assert_string_equal(content_of(&node), expected);
	snprintf(path, sizeof(path), BUS "/anyverbs.0/net/%s", gids[0].ifname);
	node = node_at(path);
	snprintf(path, sizeof(path), "../../../../class/net/%s", gids[0].ifname);
	assert_string_equal(content_of(&node), path);
}

static void cpus_are_a_list_and_a_bitmap_of_the_same(void **state)
{
	struct av_vsysfs_node list = node_at(BUS "/anyverbs.0/local_cpulist");
	struct av_vsysfs_node bitmap = node_at(BUS "/anyverbs.0/local_cpus");
	unsigned int last = 0, bits = 0;

	if (sscanf(content_of(&list), "0-%u\n", &last) != 1)
		assert_string_equal(content_of(&list), "0\n");
	for (const char *p = content_of(&bitmap); *p; p++)
		if (*p != ',' && *p != '\n')
			bits += (unsigned int)__builtin_popcount(
				(unsigned int)strtoul((char[]){*p, 0}, NULL, 16));
	assert_int_equal(bits, last + 1);
	assert_int_equal(bits, sysconf(_SC_NPROCESSORS_CONF));
}

static void each_path_is_of_one_kind(void **state)
{
	static const struct {
		const char *path;
		enum av_vsysfs_kind kind;
		bool shared;
	} rows[] = {
		{IB, AV_VSYSFS_DIR, true},
		{VERBS, AV_VSYSFS_DIR, true},
		{VERBS "/abi_version", AV_VSYSFS_FILE, true},
		{"/sys/class/infiniband_mad", AV_VSYSFS_DIR, true},
		{DEBUG, AV_VSYSFS_DIR, true},
		{DEBUG "/anyverbs.0/odp_stats", AV_VSYSFS_DIR, false},
		{"/dev/infiniband", AV_VSYSFS_DIR, true},
		{"/dev/infiniband/uverbs2", AV_VSYSFS_CHAR, true},
		{IB "/any0", AV_VSYSFS_LINK, false},
		{VERBS "/uverbs2", AV_VSYSFS_LINK, false},
		{"/sys/class/misc/rdma_cm", AV_VSYSFS_LINK, false},
		{ANY0, AV_VSYSFS_DIR, false},
		{IB "/any0/ports/1/counters", AV_VSYSFS_DIR, false},
		{IB "/any0/ports/1/hw_counters", AV_VSYSFS_DIR, false},
		{IB "/any0/ports/1/counters/port_xmit_data", AV_VSYSFS_FILE, false},
		{IB "/mlx5_0/ports/1/counters/VL15_dropped", AV_VSYSFS_FILE, false},
		{IB "/any0/ports/1/hw_counters/out_of_buffer", AV_VSYSFS_FILE, false},
		{IB "/any0/device", AV_VSYSFS_LINK, false},
		{BUS "/anyverbs.0/net", AV_VSYSFS_DIR, false},
		{IB "/any0/ports/1/gids/10", AV_VSYSFS_FILE, false},
		{IB "/" LONG_NAME "/ports/1/gid_attrs/types/10", AV_VSYSFS_FILE, false},
	};

	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		struct av_vsysfs_node node = node_at(rows[i].path);

		if (node.kind != rows[i].kind || node.shared != rows[i].shared)
			fail_msg("%s", rows[i].path);
	}
}

static void no_other_path_is_in_the_tree(void **state)
{
	static const char *const paths[] = {
		"",
		"/",
		"/sys",
		"/sys/class",
		"/dev",
		"infiniband",
		IB "x",
		IB "/",
		IB "//any0",
		IB "/any",
		IB "/any00",
		IB "/uverbs0",
		IB "/any0/",
		IB "/any0/ports/0",
		IB "/any0/ports/2",
		IB "/any0/ports/1/gids/64",
		IB "/any0/ports/1/gids/00",
		IB "/any0/ports/1/gids/-1",
		IB "/any0/ports/1/gids/",
		IB "/any0/ports/1/pkeys/1",
		IB "/<dev>",
		IB "/any0/node_type/x",
		VERBS "/any0",
		VERBS "/uverbs3",
		VERBS "/uverbs0/num_odp_mrs",
		DEBUG "/anyverbs.0/odp_stats/num_page_faults",
		DEBUG "/anyverbs.0/num_odp_mrs",
		BUS "/anyverbs.0/infiniband/mlx5_0",
		BUS "/anyverbs.0/infiniband_verbs/uverbs1",
		BUS "/anyverbs.1/net", /* an InfiniBand link has no interface */
		BUS "/anyverbs.1/net/lo",
		"/dev/infiniband/any0",
	};
	struct av_vsysfs_node node;

	for (size_t i = 0; i < AV_ARRAY_SIZE(paths); i++)
		if (av_vsysfs_lookup(paths[i], &node))
			fail_msg("%s", paths[i]);
}

static void each_walk_ends_where_the_kernels_would(void **state)
{
	static const struct {
		const char *path;
		bool follow;
		int ret;
		const char *end; /* path of the node, or path outside */
	} rows[] = {
		{IB "/any0/node_guid", true, 1, ANY0 "/node_guid"},
		{ANY0 "/node_guid", true, 1, ANY0 "/node_guid"},
		{IB "//any0/./ports//1/../1/state", true, 1, ANY0 "/ports/1/state"},
		{IB "/", true, 1, IB},
		{IB "/any0/.", true, 1, ANY0},
		{IB "/../infiniband_verbs", true, 1, VERBS},
		/* Behind a link, ".." is the parent of what it leads to. */
		{IB "/any0/..", true, 1, BUS "/anyverbs.0/infiniband"},
		{IB "/any0/../../..", true, 0, BUS},
		{IB "/any0/../../../anyverbs.1/infiniband/mlx5_0/ports/1/lid", true, 1,
		 MLX5 "/ports/1/lid"},
		{IB "/any0/../mlx5_0", true, -ENOENT, NULL},
		/* A symbolic link is followed in the middle, before a slash, and if so asked. */
		{IB "/any0", false, 1, IB "/any0"},
		{IB "/any0", true, 1, ANY0},
		{IB "/any0/", false, 1, ANY0},
		{IB "/any0/subsystem", true, 1, IB},
		{IB "/any0/subsystem/mlx5_0", true, 1, MLX5},
		{VERBS "/uverbs1", true, 1, BUS "/anyverbs.1/infiniband_verbs/uverbs1"},
		{VERBS "/uverbs1/device/infiniband/mlx5_0", true, 1, MLX5},
		{"/sys/class/misc/rdma_cm", true, 1, "/sys/devices/virtual/misc/rdma_cm"},
		{"/sys/class/misc/rdma_cm/subsystem", true, 0, "/sys/class/misc"},
		{IB "/any0/device", false, 1, ANY0 "/device"},
		{IB "/any0/device", true, 1, BUS "/anyverbs.0"},
		{IB "/any0/device/", false, 1, BUS "/anyverbs.0"},
		{IB "/any0/device/vendor", false, 1, BUS "/anyverbs.0/vendor"},
		{IB "/any0/device/..", true, 0, BUS},
		{IB "/any0/device/infiniband/any0/device/infiniband/any0", true, 1, ANY0},
		/* Outside */
		{"/", true, 0, "/"},
		{IB "/..", true, 0, "/sys/class"},
		{IB "/../net/lo/address", true, 0, "/sys/class/net/lo/address"},
		{IB "/../../../../../tmp/x", true, 0, "/tmp/x"},
		{IB "/real0/../any0", true, 0, IB "/real0/../any0"},
		{IB "/any0/subsystem/real0//x/", true, 0, IB "/real0//x/"},
		{IB "x/any0", true, 0, IB "x/any0"},
		{"/dev/infiniband/umad0", true, 0, "/dev/infiniband/umad0"},
		{"/dev/infiniband/rdma_cm", true, 1, "/dev/infiniband/rdma_cm"},
		/* Nowhere */
		{IB "/any0/nix", true, -ENOENT, NULL},
		{IB "/any0/nix/../node_guid", true, -ENOENT, NULL},
		{IB "/any0/node_guid/", true, -ENOTDIR, NULL},
		{IB "/any0/node_guid/.", true, -ENOTDIR, NULL},
		{IB "/any0/node_guid/..", true, -ENOTDIR, NULL},
		{"/dev/infiniband/uverbs0/", true, -ENOTDIR, NULL},
	};
	struct av_vsysfs_walk walk;

	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		int ret = av_vsysfs_walk(rows[i].path, rows[i].follow, &walk);
		const char *end = ret == 1 ? walk.node.path : walk.path;

		if (ret != rows[i].ret || (rows[i].end && strcmp(end, rows[i].end)))
			fail_msg("%s: %d, %s", rows[i].path, ret, end);
	}
}

static void walk_refuses_what_is_too_long(void **state)
{
	static struct av_vsysfs_walk walk;
	char path[PATH_MAX + 100] = IB "/";
	size_t len = strlen(path);

	memset(path + len, 'x', NAME_MAX + 1);
	assert_int_equal(av_vsysfs_walk(path, true, &walk), -ENAMETOOLONG);
	memset(path + len, '/', sizeof(path) - 1 - len);
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(av_vsysfs_walk(path, true, &walk), -ENAMETOOLONG);
	path[PATH_MAX - 1] = '\0';
	assert_int_equal(av_vsysfs_walk(path, true, &walk), 1);
}

static void walk_tells_that_only_the_leaf_is_missing(void **state)
{
	struct av_vsysfs_walk walk;

	assert_int_equal(av_vsysfs_walk(IB "/any0/nix", true, &walk), -ENOENT);
	assert_true(walk.leaf_missing);
	assert_int_equal(av_vsysfs_walk(IB "/any0/nix/x", true, &walk), -ENOENT);
	assert_false(walk.leaf_missing);
}

struct census {
	const char *dir;
	unsigned int kinds[AV_VSYSFS_CHAR + 1];
};

static bool visit_all(void *arg, const char *name, enum av_vsysfs_kind kind)
{
	struct census *census = arg, below = {0};
	char path[2 * AV_VSYSFS_PATH_BYTES];
	struct av_vsysfs_node node;
	static struct av_vsysfs_walk walk;
	const char *content;

	snprintf(path, sizeof(path), "%s/%s", census->dir, name);
	node = node_at(path);
	assert_int_equal(node.kind, kind);
	assert_true(av_vsysfs_has_prefix(path));
	census->kinds[kind]++;
	if (kind == AV_VSYSFS_FILE) {
		content = content_of(&node);
		assert_true(content[strlen(content) - 1] == '\n' ||
			    !strcmp(content, strerror(EINVAL)));
	} else if (kind == AV_VSYSFS_LINK) {
		assert_true(av_vsysfs_walk(path, true, &walk) >= 0);
	} else if (kind == AV_VSYSFS_DIR) {
		below.dir = path;
		av_vsysfs_list(&node, visit_all, &below);
		for (size_t i = 0; i < AV_ARRAY_SIZE(below.kinds); i++)
			census->kinds[i] += below.kinds[i];
	}
	return true;
}

static void everything_listed_is_there(void **state)
{
	static const struct {
		const char *dir;
		unsigned int kinds[AV_VSYSFS_CHAR +
				   1]; /* directories, files, links, devices in all below */
	} rows[] = {
		{IB, {0, 0, 3, 0}},
		{VERBS, {0, 1, 3, 0}},
		/* 3 * 64 files of GIDs, the size of each device's table, and 21 and 37 counters */
		{BUS "/anyverbs.1", {13, 6 + 9 + 9 + 1 + 3 * 64 + 21 + 37 + 4 + 7, 1 + 2 + 2, 0}},
		{"/sys/class/infiniband_mad", {0, 1, 0, 0}},
		{DEBUG, {6, 3 * 4, 0, 0}},
		{"/dev/infiniband", {0, 0, 0, 4}},
		{"/sys/devices/virtual/misc/rdma_cm", {0, 3, 1, 0}},
	};

	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		struct census census = {.dir = rows[i].dir};
		struct av_vsysfs_node node = node_at(rows[i].dir);

		av_vsysfs_list(&node, visit_all, &census);
		for (size_t k = 0; k < AV_ARRAY_SIZE(census.kinds); k++)
			if (census.kinds[k] != rows[i].kinds[k])
				fail_msg("%s: %u of kind %zu", rows[i].dir, census.kinds[k], k);
	}
}

static bool visit_one(void *arg, const char *name, enum av_vsysfs_kind kind)
{
	++*(unsigned int *)arg;
	return false;
}

static void listing_stops_when_told(void **state)
{
	struct av_vsysfs_node node = node_at(IB "/any0/ports/1/gids");
	unsigned int visits = 0;

	av_vsysfs_list(&node, visit_one, &visits);
	assert_int_equal(visits, 1);
	node = node_at(ANY0);
	av_vsysfs_list(&node, visit_one, &visits);
	assert_int_equal(visits, 2);
}

static void other_paths_are_no_suspects(void **state)
{
	static const char *const paths[] = {
		"",
		"/",
		"x",
		"/usr/lib",
		"/sys",
		"/sys/class/net",
		"/sys/devices/virtual/net",
		"/dev/null",
		"/dev/infinib",
		"sys/class/infiniband",
	};

	for (size_t i = 0; i < AV_ARRAY_SIZE(paths); i++)
		if (av_vsysfs_suspects(paths[i]))
			fail_msg("%s", paths[i]);
	assert_true(av_vsysfs_suspects(IB));
	assert_true(av_vsysfs_suspects(ANY0));
	assert_true(av_vsysfs_suspects("/dev/infiniband/uverbs0"));
}

/* Those that begin at a directory above. */
static void relative_paths_of_the_tree_are_suspects(void **state)
{
	static const struct {
		const char *path;
		bool suspect;
	} rows[] = {
		{"sys/class/infiniband/any0", true},
		{"class/infiniband", true},
		{"infiniband/any0/device", true},
		{"infiniband_verbs", true},
		{"devices/platform/anyverbs.0", true},
		{"anyverbs.0/infiniband", true},
		{"misc/rdma_cm", true},
		{"dev/infiniband/uverbs0", true},
		{"kernel/debug/mlx5", true},
		{"", false},
		{".", false},
		{"infinib", false},
		{"class", false},
		{"sys/class/net", false},
		{"any0", false},
		{"/sys/class/infiniband", false},
	};

	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++)
		if (av_vsysfs_suspects_below(rows[i].path) != rows[i].suspect)
			fail_msg("%s", rows[i].path);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_file_says_what_the_kernels_would),
		cmocka_unit_test(each_device_has_its_odp_statistics),
		cmocka_unit_test(gid_files_are_the_gid_table),
		cmocka_unit_test(cpus_are_a_list_and_a_bitmap_of_the_same),
		cmocka_unit_test(each_path_is_of_one_kind),
		cmocka_unit_test(no_other_path_is_in_the_tree),
		cmocka_unit_test(each_walk_ends_where_the_kernels_would),
		cmocka_unit_test(walk_refuses_what_is_too_long),
		cmocka_unit_test(walk_tells_that_only_the_leaf_is_missing),
		cmocka_unit_test(everything_listed_is_there),
		cmocka_unit_test(listing_stops_when_told),
		cmocka_unit_test(other_paths_are_no_suspects),
		cmocka_unit_test(relative_paths_of_the_tree_are_suspects),
	};

	char dir[] = "/tmp/anyverbs-test-XXXXXX"; /* in which nothing runs */
	int status;

	if (!mkdtemp(dir))
		return 1;
	setenv("ANYVERBS_DIR", dir, 1);
	setenv("ANYVERBS_DEVICES", DEVICES, 1);
	status = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(dir);
	return status;
}
