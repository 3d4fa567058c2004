/* SPDX-License-Identifier: MIT */
/* The list of devices and what each says about itself. */
#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "device/device.h"
#include "device/port.h"
#include "lib/unit.h"

#define THREADS 4

/* What this process is configured with; the list is read once, so other settings are tried in
 * children. */
#define SETTING                                                                                    \
	"any0,mlx5_0:link=infiniband:lid=7:guid=0011223344556677,rxe0:mtu=1024:max_qp=100:gids=1," \
	"uverbs0,connectx"

static char self_command[4096]; /* this program, told to print the GUID of its first device */

static struct av_device *device(unsigned int index)
{
	unsigned int count;
	struct av_device *const *list = av_devices(&count);

	assert_true(index < count);
	return list[index];
}

/* The device that @setting alone gives. */
static void make(const char *setting, struct av_device *dev)
{
	static struct av_config config;

	av_config_parse(setting, &config);
	assert_int_equal(config.complaint_count, 0);
	config.device[0].guid = 0x0200000000000001;
	*dev = config.device[0];
	av_device_complete(dev, 3);
}

/* --- the list -------------------------------------------------------------------- */

static void list_is_in_order(void **state)
{
	unsigned int count;
	struct av_device *const *list = av_devices(&count);

	assert_int_equal(count, 5);
	assert_string_equal(list[0]->ibv.name, "any0");
	assert_string_equal(list[1]->ibv.name, "mlx5_0");
	assert_string_equal(list[2]->ibv.name, "rxe0");
	for (unsigned int i = 0; i < count; i++)
		assert_int_equal(list[i]->index, i);
}

static void list_stays_the_same(void **state)
{
	unsigned int first, second;
	struct av_device *const *list = av_devices(&first);

	setenv("ANYVERBS_DEVICES", "other", 1);
	assert_ptr_equal(av_devices(&second), list);
	assert_int_equal(first, second);
	setenv("ANYVERBS_DEVICES", SETTING, 1);
}

static void errno_survives(void **state)
{
	unsigned int count;

	errno = EXDEV;
	av_devices(&count);
	assert_int_equal(errno, EXDEV);
}

static void own_device_is_recognised(void **state)
{
	for (unsigned int i = 0; i < 4; i++)
		assert_ptr_equal(av_device_of(&device(i)->ibv), device(i));
}

static void other_pointers_are_not_ours(void **state)
{
	struct ibv_device copy = device(0)->ibv;

	assert_null(av_device_of(NULL));
	assert_null(av_device_of(&copy));
	assert_null(av_device_of((struct ibv_device *)((char *)device(0) + 8)));
	assert_null(av_device_of((struct ibv_device *)8));
	assert_null(av_device_of((struct ibv_device *)UINTPTR_MAX));
}

static void found_by_name(void **state)
{
	assert_ptr_equal(av_device_by_name("mlx5_0"), device(1));
	assert_ptr_equal(av_device_by_name("uverbs1"), device(1));
	assert_null(av_device_by_name("mlx5_"));
	assert_null(av_device_by_name("uverbs5"));
	assert_null(av_device_by_name(""));
}

static void own_name_goes_before_uverbs_name(void **state)
{
	assert_ptr_equal(av_device_by_name("uverbs0"), device(3));
}

static void *first_call(void *arg)
{
	unsigned int *count = arg;

	av_devices(count);
	return NULL;
}

static bool run_threads(void)
{
	unsigned int counts[THREADS] = {0};
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, first_call, &counts[i]))
			return false;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < THREADS; i++)
		if (counts[i] != 1)
			return false;
	return true;
}

static bool is_any0_alone(void)
{
	unsigned int count;
	struct av_device *const *list = av_devices(&count);

	return count == 1 && !strcmp(list[0]->ibv.name, "any0") && list[0]->guid;
}

/* True if @check holds in a process that begins with @setting; only while this one has no list yet.
 */
static bool in_child(const char *setting, bool (*check)(void))
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		if (setting)
			setenv("ANYVERBS_DEVICES", setting, 1);
		else
			unsetenv("ANYVERBS_DEVICES");
		setenv("ANYVERBS_LOG", "off", 1);
		_exit(check() ? 0 : 1);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static void no_setting_is_any0(void **state)
{
	assert_true(in_child(NULL, is_any0_alone));
}

static void unusable_setting_is_any0(void **state)
{
	assert_true(in_child("/,:", is_any0_alone));
}

static void threads_see_one_list(void **state)
{
	assert_true(in_child("x", run_threads));
}

/* --- names ----------------------------------------------------------------------- */

static void names_and_paths(void **state)
{
	struct av_device dev;

	make("mlx5_0", &dev);
	assert_string_equal(dev.ibv.name, "mlx5_0");
	assert_string_equal(dev.ibv.dev_name, "uverbs3");
	assert_string_equal(dev.ibv.dev_path, "/sys/class/infiniband_verbs/uverbs3");
	assert_string_equal(dev.ibv.ibdev_path, "/sys/class/infiniband/mlx5_0");
	assert_string_equal(dev.pci_name, "anyverbs.3");
	assert_int_equal(dev.ibv.node_type, IBV_NODE_CA);
	assert_int_equal(dev.ibv.transport_type, IBV_TRANSPORT_IB);
}

static void longest_name_is_whole(void **state)
{
	struct av_device dev;
	char name[64], path[96];

	memset(name, 'n', 63);
	name[63] = '\0';
	make(name, &dev);
	snprintf(path, sizeof(path), "/sys/class/infiniband/%s", name);
	assert_string_equal(dev.ibv.name, name);
	assert_string_equal(dev.ibv.ibdev_path, path);
}

static void behind_the_device_are_zeros(void **state)
{
	static const uint8_t zeros[sizeof(((struct av_device *)0)->peek_pad)];
	struct av_device dev;

	memset(&dev, 0xee, sizeof(dev));
	make("a", &dev);
	assert_memory_equal(dev.peek_pad, zeros, sizeof(zeros));
	assert_memory_equal(&dev.ibv._ops, zeros, sizeof(dev.ibv._ops));
}

/* --- GUIDs ----------------------------------------------------------------------- */

static void configured_guid_is_taken_over(void **state)
{
	assert_int_equal(device(1)->guid, 0x0011223344556677);
	assert_int_equal(be64toh(device(1)->attr.node_guid), 0x0011223344556677);
	assert_int_equal(be64toh(device(1)->attr.sys_image_guid), 0x0011223344556677);
}

static void guid_is_locally_administered(void **state)
{
	char host[16];

	for (unsigned int i = 0; i < 1000; i++) {
		snprintf(host, sizeof(host), "host%u", i);
		assert_int_equal(av_device_guid(host, "any0") >> 56 & 3, 2);
	}
}

static void guid_depends_on_host_and_name(void **state)
{
	uint64_t guid = av_device_guid("host", "any0");

	assert_int_equal(av_device_guid("host", "any0"), guid);
	assert_int_not_equal(av_device_guid("hosu", "any0"), guid);
	assert_int_not_equal(av_device_guid("", "any0"), guid);
	assert_int_not_equal(av_device_guid("host", "any1"), guid);
	assert_int_not_equal(av_device_guid("hosta", "ny0"), guid);
}

/* A process of its own, not a fork of this one: it inherits nothing but the host. */
static void guid_is_the_same_in_every_process(void **state)
{
	unsigned long long guid = 0;
	FILE *other = popen(self_command, "r");

	assert_non_null(other);
	assert_int_equal(fscanf(other, "%llx", &guid), 1);
	assert_int_equal(pclose(other), 0);
	assert_int_equal(guid, device(0)->guid);
}

static void guids_of_the_list_differ(void **state)
{
	assert_int_not_equal(device(0)->guid, 0);
	assert_int_not_equal(device(0)->guid, device(2)->guid);
	assert_int_not_equal(device(2)->guid, device(3)->guid);
}

/* --- attributes ------------------------------------------------------------------ */

struct number_row {
	const char *name;
	size_t offset;
	int64_t value;
};

#define ATTR(f, v)                                         \
	{                                                  \
#f, offsetof(struct ibv_device_attr, f), v \
	}

static const struct number_row attr_rows[] = {
	ATTR(max_qp, 65535),
	ATTR(max_qp_wr, 16384),
	ATTR(max_sge, 32),
	ATTR(max_sge_rd, 32),
	ATTR(max_cq, 65535),
	ATTR(max_cqe, 1048575),
	ATTR(max_mr, 1048575),
	ATTR(max_pd, 65536),
	ATTR(max_qp_rd_atom, 128),
	ATTR(max_qp_init_rd_atom, 128),
	ATTR(max_res_rd_atom, 128 * 65535),
	ATTR(max_ee_rd_atom, 0),
	ATTR(max_ee_init_rd_atom, 0),
	ATTR(atomic_cap, IBV_ATOMIC_HCA),
	ATTR(max_ee, 0),
	ATTR(max_rdd, 0),
	ATTR(max_raw_ipv6_qp, 0),
	ATTR(max_raw_ethy_qp, 0),
	ATTR(max_fmr, 0),
	ATTR(max_map_per_fmr, 0),
};

static void default_attribute(void **state)
{
	const struct number_row *row = *state;
	struct av_device dev;
	int value;

	make("a", &dev);
	memcpy(&value, (char *)&dev.attr + row->offset, sizeof(value));
	assert_int_equal(value, row->value);
}

static void attributes_that_test_suites_require(void **state)
{
	const struct ibv_device_attr *attr = &device(0)->attr;

	assert_string_equal(attr->fw_ver, AV_VERSION);
	assert_int_not_equal(attr->node_guid, 0);
	assert_int_not_equal(attr->sys_image_guid, 0);
	assert_true(attr->max_mr_size == UINT64_MAX);
	assert_true(attr->page_size_cap & 4096);
	assert_int_equal(attr->vendor_id, 0x00a5e7);
	assert_int_equal(attr->vendor_part_id, 1);
	assert_int_equal(attr->hw_ver, 1);
	assert_int_equal(attr->max_pkeys, 1);
	assert_int_equal(attr->phys_port_cnt, 1);
	assert_int_equal(attr->local_ca_ack_delay, 15);
}

static void configured_limits_are_reported(void **state)
{
	struct av_device dev;

	make("a:max_qp=2:max_qp_wr=3:max_sge=4:max_cq=5:max_cqe=6:max_mr=7:max_pd=8", &dev);
	assert_int_equal(dev.attr.max_qp, 2);
	assert_int_equal(dev.attr.max_qp_wr, 3);
	assert_int_equal(dev.attr.max_sge, 4);
	assert_int_equal(dev.attr.max_sge_rd, 4);
	assert_int_equal(dev.attr.max_cq, 5);
	assert_int_equal(dev.attr.max_cqe, 6);
	assert_int_equal(dev.attr.max_mr, 7);
	assert_int_equal(dev.attr.max_mw, 7);
	assert_int_equal(dev.attr.max_pd, 8);
	assert_int_equal(dev.attr.max_res_rd_atom, 2 * 128);
}

/* --- extended attributes --------------------------------------------------------- */

static void extended_attributes(void **state)
{
	const struct av_device *dev = device(0);
	struct ibv_device_attr_ex ex;

	memset(&ex, 0xee, sizeof(ex));
	assert_int_equal(av_device_query_ex(dev, &ex, sizeof(ex)), 0);
	assert_memory_equal(&ex.orig_attr, &dev->attr, sizeof(dev->attr));
	assert_int_equal(ex.comp_mask, 0);
	assert_int_equal(ex.phys_port_cnt_ex, ex.orig_attr.phys_port_cnt);
	assert_int_equal((uint32_t)ex.device_cap_flags_ex, ex.orig_attr.device_cap_flags);
	/* FLUSH_GLOBAL and ATOMIC_WRITE are offered, FLUSH_PERSISTENT is not. */
	assert_int_equal(ex.device_cap_flags_ex >> 38, 1 << 0 | 1 << 2);
}

/* Whatever size the caller's header gave the structure: filled up to there, zero beyond ours, not a
 * byte more. */
static void any_size_of_extended_attributes(void **state)
{
	const struct av_device *dev = device(0);
	struct ibv_device_attr_ex ex;
	uint8_t out[sizeof(ex) + 80];
	size_t size, i;

	av_device_query_ex(dev, &ex, sizeof(ex));
	for (size = 0; size <= sizeof(ex) + 64; size++) {
		memset(out, 0xee, sizeof(out));
		assert_int_equal(av_device_query_ex(dev, (void *)out, size), 0);
		assert_memory_equal(out, &ex, size < sizeof(ex) ? size : sizeof(ex));
		for (i = sizeof(ex); i < size; i++)
			assert_int_equal(out[i], 0);
		for (i = size; i < sizeof(out); i++)
			assert_int_equal(out[i], 0xee);
	}
}

/* --- the port -------------------------------------------------------------------- */

static void ethernet_port(void **state)
{
	struct av_device dev;

	make("a", &dev);
	assert_int_equal(dev.port.state, IBV_PORT_ACTIVE);
	assert_int_equal(dev.port.link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(dev.port.flags, IBV_QPF_GRH_REQUIRED);
	assert_int_equal(dev.port.port_cap_flags, IBV_PORT_IP_BASED_GIDS);
	assert_int_equal(dev.port.port_cap_flags2, 0);
	assert_int_equal(dev.port.lid, 0);
	assert_int_equal(dev.port.sm_lid, 0);
	assert_int_equal(dev.port.gid_tbl_len, AV_GID_MAX);
	assert_int_equal(dev.port.pkey_tbl_len, 1);
	assert_int_equal(dev.port.max_msg_sz, 1u << 30);
	assert_int_equal(dev.port.phys_state, 5);
	assert_int_equal(dev.port.max_mtu, IBV_MTU_4096);
	assert_int_equal(dev.port.active_mtu, IBV_MTU_4096);
}

static void infiniband_port(void **state)
{
	struct av_device dev;

	make("a:link=infiniband:lid=49151", &dev);
	assert_int_equal(dev.port.state, IBV_PORT_ACTIVE);
	assert_int_equal(dev.port.link_layer, IBV_LINK_LAYER_INFINIBAND);
	assert_int_equal(dev.port.flags, 0);
	assert_int_equal(dev.port.port_cap_flags, 0);
	assert_int_equal(dev.port.lid, 49151);
	assert_int_equal(dev.port.sm_lid, 1);
	assert_int_equal(dev.port.lmc, 0);
}

static void configured_mtu_and_table_length(void **state)
{
	struct av_device dev;

	make("a:mtu=512:gids=5", &dev);
	assert_int_equal(dev.port.max_mtu, IBV_MTU_512);
	assert_int_equal(dev.port.active_mtu, IBV_MTU_512);
	assert_int_equal(dev.port.gid_tbl_len, 5);
}

static void connectx_says_so(void **state)
{
	struct av_device dev, own;

	make("connectx", &dev);
	make("any0", &own);
	assert_string_equal(dev.ibv.name, "mlx5_0");
	assert_string_equal(dev.attr.fw_ver, "22.39.1002");
	assert_int_equal(dev.attr.vendor_id, 0x02c9);
	assert_int_equal(dev.attr.vendor_part_id, 4125);
	assert_int_equal(dev.attr.hw_ver, 0);
	assert_true(dev.gids_paired);
	/* What it can do is another matter. */
	memcpy(dev.attr.fw_ver, own.attr.fw_ver, sizeof(own.attr.fw_ver));
	dev.attr.vendor_id = own.attr.vendor_id;
	dev.attr.vendor_part_id = own.attr.vendor_part_id;
	dev.attr.hw_ver = own.attr.hw_ver;
	assert_memory_equal(&dev.attr, &own.attr, sizeof(own.attr));
	assert_memory_equal(&dev.port, &own.port, sizeof(own.port));
}

static void infiniband_has_no_paired_rows(void **state)
{
	struct av_device dev;

	make("connectx:link=infiniband", &dev);
	assert_false(dev.gids_paired);
	assert_int_equal(dev.attr.vendor_id, 0x02c9);
	assert_int_equal(dev.port.lid, 1);
}

/* --- GIDs ------------------------------------------------------------------------ */

static void ethernet_device_has_rows_of_the_host(void **state)
{
	struct av_gid gids[AV_GID_MAX];
	unsigned int rows = av_port_gids(device(0), gids);

	assert_in_range(rows, 1, AV_GID_MAX);
	for (unsigned int i = 0; i < rows; i++)
		assert_int_equal(gids[i].type, IBV_GID_TYPE_ROCE_V2);
}

static void paired_device_has_its_v4_address_in_rows_2_and_3(void **state)
{
	static const uint8_t prefix[8] = {0xfe, 0x80};
	struct av_gid gids[AV_GID_MAX], single[AV_GID_MAX];
	unsigned int rows = av_port_gids(device(4), gids), plain = av_port_gids(device(0), single);

	assert_in_range(rows, 2, AV_GID_MAX);
	for (unsigned int i = 0; i < rows; i++)
		assert_int_equal(gids[i].type, i % 2 ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_ROCE_V1);
	for (unsigned int i = 0; i + 1 < rows; i += 2)
		assert_memory_equal(&gids[i].gid, &gids[i + 1].gid, sizeof(gids[i].gid));
	assert_memory_equal(gids[0].gid.raw, prefix, sizeof(prefix));
	for (unsigned int i = 0; i < plain; i++)
		if (single[i].gid.raw[10] == 0xff && single[i].gid.raw[0] == 0) {
			assert_memory_equal(&gids[3].gid, &single[i].gid, sizeof(gids[3].gid));
			break;
		}
}

static void table_length_bounds_the_rows(void **state)
{
	struct av_gid gids[AV_GID_MAX];

	assert_int_equal(av_port_gids(device(2), gids), 1);
}

static void infiniband_device_has_one_row(void **state)
{
	struct av_gid gids[AV_GID_MAX];

	assert_int_equal(av_port_gids(device(1), gids), 1);
	assert_int_equal(be64toh(gids[0].gid.global.subnet_prefix), 0xfe80000000000000);
	assert_int_equal(be64toh(gids[0].gid.global.interface_id), device(1)->guid);
}

/* --- */

static int run_defaults(void)
{
	struct CMUnitTest tests[AV_ARRAY_SIZE(attr_rows)];

	for (size_t i = 0; i < AV_ARRAY_SIZE(attr_rows); i++)
		tests[i] = (struct CMUnitTest){
			.name = attr_rows[i].name,
			.test_func = default_attribute,
			.initial_state = (void *)(uintptr_t)&attr_rows[i],
		};
	return cmocka_run_group_tests_name("default attributes", tests, NULL, NULL);
}

/* Run before this process has a list of its own. */
static int run_children(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_setting_is_any0),
		cmocka_unit_test(unusable_setting_is_any0),
		cmocka_unit_test(threads_see_one_list),
	};

	return cmocka_run_group_tests_name("other settings", tests, NULL, NULL);
}

static int run_rest(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(list_is_in_order),
		cmocka_unit_test(list_stays_the_same),
		cmocka_unit_test(errno_survives),
		cmocka_unit_test(own_device_is_recognised),
		cmocka_unit_test(other_pointers_are_not_ours),
		cmocka_unit_test(found_by_name),
		cmocka_unit_test(own_name_goes_before_uverbs_name),
		cmocka_unit_test(names_and_paths),
		cmocka_unit_test(longest_name_is_whole),
		cmocka_unit_test(behind_the_device_are_zeros),
		cmocka_unit_test(configured_guid_is_taken_over),
		cmocka_unit_test(guid_is_locally_administered),
		cmocka_unit_test(guid_depends_on_host_and_name),
		cmocka_unit_test(guid_is_the_same_in_every_process),
		cmocka_unit_test(guids_of_the_list_differ),
		cmocka_unit_test(attributes_that_test_suites_require),
		cmocka_unit_test(configured_limits_are_reported),
		cmocka_unit_test(extended_attributes),
		cmocka_unit_test(any_size_of_extended_attributes),
		cmocka_unit_test(ethernet_port),
		cmocka_unit_test(infiniband_port),
		cmocka_unit_test(configured_mtu_and_table_length),
		cmocka_unit_test(connectx_says_so),
		cmocka_unit_test(infiniband_has_no_paired_rows),
		cmocka_unit_test(ethernet_device_has_rows_of_the_host),
		cmocka_unit_test(paired_device_has_its_v4_address_in_rows_2_and_3),
		cmocka_unit_test(table_length_bounds_the_rows),
		cmocka_unit_test(infiniband_device_has_one_row),
	};

	return cmocka_run_group_tests_name("devices", tests, NULL, NULL);
}

int main(int argc, char **argv)
{
	setenv("ANYVERBS_DEVICES", SETTING, 1);
	if (argc == 2 && !strcmp(argv[1], "guid"))
		return printf("%llx\n", (unsigned long long)device(0)->guid) < 0;
	/* Of the shell that runs it, /proc/self/exe is another program. */
	snprintf(self_command, sizeof(self_command), "exec /proc/%d/exe guid", (int)getpid());
	return run_children() + run_defaults() + run_rest();
}
