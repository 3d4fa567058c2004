/* SPDX-License-Identifier: MIT */
/* The adapters that a device can behave as: what each says about itself, and what it takes away. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "device/device.h"
#include "lib/unit.h"
#include "observe/check.h"

/* The device "a" of @setting; @dev: complete. */
static void make(const char *setting, struct av_device *dev)
{
	static struct av_config config;

	av_config_parse(setting, &config);
	assert_int_equal(config.complaint_count, 0);
	*dev = config.device[0];
	av_device_complete(dev, 0);
}

/* --- identity and limits ----------------------------------------------------------- */

struct says_row {
	const char *name;
	uint32_t vendor, part;
	enum ibv_node_type node_type;
	enum ibv_transport_type transport;
	int max_qp, max_qp_wr, max_sge, max_sge_rd, max_qp_rd_atom, max_srq, max_srq_sge, max_mw,
		max_mcast_qp_attach, max_ah;
	enum ibv_atomic_cap atomics;
	uint32_t max_inline, max_send_sge;
	int gids;
	bool paired, odp;
	uint64_t dm;
	uint16_t moderation;
};

#define CA    IBV_NODE_CA, IBV_TRANSPORT_IB
#define IWARP IBV_NODE_RNIC, IBV_TRANSPORT_IWARP
#define NODE7 IBV_NODE_UNSPECIFIED, IBV_TRANSPORT_UNSPECIFIED
#define HCA   IBV_ATOMIC_HCA
#define NONE  IBV_ATOMIC_NONE

/* clang-format off */
static const struct says_row says_rows[] = {
	{"mlx5",  0x02c9,   4125,   CA,    65535, 16384, 30, 30, 16,  65535, 31, 1048575, 240,  65535, HCA,  988,  30, 64, true,  true,  AV_MAX_DM_BYTES, UINT16_MAX},
	{"rxe",   0xffffff, 0,      CA,    65535, 16384, 32, 32, 128, 65535, 27, 1048575, 56,   65535, HCA,  512,  32, 64, false, true,  0, 0},
	{"siw",   0x626d74, 0,      IWARP, 65535, 16384, 6,  1,  128, 65535, 6,  0,       0,    0,     NONE, 80,   6,  1,  false, false, 0, 0},
	{"irdma", 0x8086,   0x1592, CA,    4092,  8127,  13, 13, 8,   0,     0,  1048575, 8,    65535, NONE, 101,  13, 32, false, false, 0, 0},
	{"efa",   0x1d0f,   0xefa1, NODE7, 65535, 16384, 2,  1,  128, 0,     0,  0,       0,    65535, NONE, 32,   2,  1,  false, false, 0, 0},
	{"bnxt",  0x14e4,   0x1750, CA,    65535, 16384, 13, 13, 126, 65535, 32, 0,       0,    65535, HCA,  96,   13, 64, false, false, 0, 0},
	{"hns",   0x19e5,   0xa222, CA,    4096,  16384, 32, 32, 128, 65535, 32, 0,       0,    65535, HCA,  1024, 32, 64, false, false, 0, UINT16_MAX},
	{"erdma", 0x1ded,   0x107f, IWARP, 65535, 8192,  1,  1,  128, 0,     0,  0,       0,    0,     HCA,  96,   6,  1,  false, false, 0, 0},
	{NULL,    0x00a5e7, 1,      CA,    65535, 16384, 32, 32, 128, 65535, 32, 1048575, 4096, 65535, HCA,  1024, 32, 64, false, true,  AV_MAX_DM_BYTES, UINT16_MAX},
};
/* clang-format on */

static void says(void **state)
{
	const struct says_row *row = *state;
	char setting[32] = "a";
	struct av_device dev;
	struct ibv_device_attr_ex ex;

	if (row->name)
		snprintf(setting, sizeof(setting), "a:as=%s,b", row->name);
	make(setting, &dev);
	(void)av_device_query_ex(&dev, &ex, sizeof(ex));
	assert_int_equal(dev.attr.vendor_id, row->vendor);
	assert_int_equal(dev.attr.vendor_part_id, row->part);
	assert_int_equal(dev.ibv.node_type, row->node_type);
	assert_int_equal(dev.ibv.transport_type, row->transport);
	assert_int_equal(dev.attr.max_qp, row->max_qp);
	assert_int_equal(dev.attr.max_qp_wr, row->max_qp_wr);
	assert_int_equal(dev.attr.max_sge, row->max_sge);
	assert_int_equal(dev.attr.max_sge_rd, row->max_sge_rd);
	assert_int_equal(dev.attr.max_qp_rd_atom, row->max_qp_rd_atom);
	assert_int_equal(dev.attr.max_srq, row->max_srq);
	assert_int_equal(dev.attr.max_srq_sge, row->max_srq_sge);
	assert_int_equal(dev.attr.max_mw, row->max_mw);
	assert_int_equal(dev.attr.max_mcast_qp_attach, row->max_mcast_qp_attach);
	assert_int_equal(dev.attr.max_ah, row->max_ah);
	assert_int_equal(dev.attr.atomic_cap, row->atomics);
	assert_int_equal(dev.max_inline, row->max_inline);
	assert_int_equal(dev.max_send_sge, row->max_send_sge);
	assert_int_equal(dev.port.gid_tbl_len, row->gids);
	assert_int_equal(dev.gids_paired, row->paired);
	assert_int_equal(ex.odp_caps.general_caps != 0, row->odp);
	assert_int_equal(ex.max_dm_size, row->dm);
	assert_int_equal(ex.cq_mod_caps.max_cq_count, row->moderation);
}

/* What is lacking has no capability bit, and no limit. */
static void capabilities_follow(void **state)
{
	const struct says_row *row = *state;
	struct av_device dev;
	char setting[32];

	if (!row->name)
		return;
	snprintf(setting, sizeof(setting), "a:as=%s", row->name);
	make(setting, &dev);
	assert_int_equal((dev.attr.device_cap_flags & IBV_DEVICE_XRC) != 0,
			 av_model_has_verb(dev.as, AV_VERB_OPEN_XRCD));
	assert_int_equal((dev.attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW) != 0,
			 row->max_mw != 0);
	assert_int_equal((dev.attr.device_cap_flags & IBV_DEVICE_SRQ_RESIZE) != 0,
			 row->max_srq != 0);
	assert_non_null(dev.as->source);
}

/* --- settings ----------------------------------------------------------------------- */

/* Lower limits hold, whichever key comes first. Rows of the GID table are the model's, or as said.
 */
static void other_keys_hold(void **state)
{
	struct av_device dev;

	make("a:as=mlx5:max_sge=4:gid_rows=single", &dev);
	assert_int_equal(dev.attr.max_sge, 4);
	assert_false(dev.gids_paired);
	make("a:gid_rows=single:max_sge=4:as=mlx5", &dev);
	assert_int_equal(dev.attr.max_sge, 4);
	assert_false(dev.gids_paired);
	make("a:max_sge=32:gids=5:as=irdma", &dev);
	assert_int_equal(dev.attr.max_sge, 13);
	assert_int_equal(dev.port.gid_tbl_len, 5);
}

static void profile_takes_the_identity_alone(void **state)
{
	struct av_device dev;

	make("connectx", &dev);
	assert_null(dev.as);
	assert_int_equal(dev.attr.vendor_id, 0x02c9);
	assert_int_equal(dev.attr.max_sge, AV_MAX_SGE);
	make("connectx:as=siw", &dev);
	assert_string_equal(dev.as->name, "siw");
	assert_int_equal(dev.attr.vendor_id, 0x626d74);
}

static void bystander_is_unchanged(void **state)
{
	static struct av_config alone, beside;

	av_config_parse("b", &alone);
	av_config_parse("a:as=siw,b,c:as=efa", &beside);
	assert_memory_equal(&alone.device[0], &beside.device[1], sizeof(alone.device[0]));
}

static void unknown_adapter_is_a_complaint(void **state)
{
	static struct av_config config;

	av_config_parse("a:as=mlx6", &config);
	assert_int_equal(config.complaint_count, 1);
	assert_non_null(
		strstr(config.complaint[0], "mlx5, rxe, siw, irdma, efa, bnxt, hns or erdma"));
	assert_null(config.device[0].as);
	assert_ptr_equal(config.device[0].model, &av_model_own);
}

/* --- refusals ----------------------------------------------------------------------- */

/* The pending record says that. */
static void is_noted(const struct av_device *dev, enum av_check check, int err, uint64_t wanted)
{
	const struct av_flight_record *r = av_diag_pending();

	assert_int_equal(r->check, check);
	assert_int_equal(r->error, err);
	assert_int_equal(r->wanted, wanted);
	assert_string_equal(r->device, dev->ibv.name);
	assert_string_equal(r->detail, dev->as->name);
	av_diag_drop();
}

/* Each thing that a model lacks is refused, with the model's name; nothing else is. */
static void lacking_is_refused(void **state)
{
	struct av_device dev = av_device_default;
	const struct av_model *as;

	dev.attr.max_sge_rd = 1;
	for (unsigned int i = 0; (as = av_model_at(i)); i++) {
		dev.as = as;
		for (enum av_verb v = 1; v < AV_VERB_N; v++) {
			bool lacks = memchr(as->no_verb, (int)v, sizeof(as->no_verb));

			assert_int_equal(av_model_check_verb(&dev, v), lacks ? EOPNOTSUPP : 0);
			if (lacks)
				is_noted(&dev, AV_CHECK_MODEL_VERB, EOPNOTSUPP, v);
		}
		for (unsigned int type = 0; type < 32; type++) {
			bool lacks = as->no_types >> type & 1;

			assert_int_equal(av_model_check_type(&dev, (enum ibv_qp_type)type),
					 lacks ? as->no_type_err : 0);
			if (lacks)
				is_noted(&dev, AV_CHECK_MODEL_TYPE, as->no_type_err, type);
		}
		for (unsigned int bit = 0; bit < 32; bit++) {
			bool lacks = as->no_access >> bit & 1;

			assert_int_equal(av_model_check_access(&dev, 1u << bit),
					 lacks ? EOPNOTSUPP : 0);
			if (lacks)
				is_noted(&dev, AV_CHECK_MODEL_ACCESS, EOPNOTSUPP, 1u << bit);
		}
		for (uint32_t op = 0; op < 64; op++) {
			bool lacks = as->no_opcodes >> op & 1;

			assert_int_equal(av_model_check_request(&dev, op, 1), lacks ? EINVAL : 0);
			if (lacks)
				is_noted(&dev, AV_CHECK_MODEL_OPCODE, EINVAL, op);
		}
	}
}

static void nobody_lacks_nothing(void **state)
{
	const struct av_device *dev = &av_device_default;

	for (enum av_verb v = 1; v < AV_VERB_N; v++)
		assert_int_equal(av_model_check_verb(dev, v), 0);
	assert_int_equal(av_model_check_type(dev, IBV_QPT_RC), 0);
	assert_int_equal(av_model_check_access(dev, UINT32_MAX), 0);
	assert_int_equal(av_model_check_request(dev, IBV_WR_RDMA_READ, 1000), 0);
}

int main(void)
{
	struct CMUnitTest says_tests[2 * AV_ARRAY_SIZE(says_rows)];
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(other_keys_hold),
		cmocka_unit_test(profile_takes_the_identity_alone),
		cmocka_unit_test(bystander_is_unchanged),
		cmocka_unit_test(unknown_adapter_is_a_complaint),
		cmocka_unit_test(lacking_is_refused),
		cmocka_unit_test(nobody_lacks_nothing),
	};
	size_t n = 0;

	for (size_t i = 0; i < AV_ARRAY_SIZE(says_rows); i++) {
		const char *name = says_rows[i].name ? says_rows[i].name : "any0";
		void *row = (void *)(uintptr_t)&says_rows[i];

		says_tests[n++] = (struct CMUnitTest){name, says, NULL, NULL, row};
		says_tests[n++] = (struct CMUnitTest){name, capabilities_follow, NULL, NULL, row};
	}
	return cmocka_run_group_tests_name("models", says_tests, NULL, NULL) +
	       cmocka_run_group_tests_name("settings and refusals", tests, NULL, NULL);
}
