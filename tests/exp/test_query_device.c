/* SPDX-License-Identifier: MIT */
/* What the experimental verbs say of the device, its port and its clock, mask by mask. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <infiniband/verbs_exp.h>

#include "lib/expect.h"
#include "lib/node.h"
#include "lib/sandbox.h"

#define FILLER 0xa5

static struct ibv_context *ctx;
static struct ibv_device_attr_ex plain;

/* --- ibv_exp_query_device -------------------------------------------------------- */

#define GROUP(bit, field)                                                             \
	{                                                                             \
#field, (uint32_t)(bit), offsetof(struct ibv_exp_device_attr, field), \
			sizeof(((struct ibv_exp_device_attr *)0)->field)              \
	}

static const struct {
	const char *name;
	uint32_t bit;
	size_t offset, bytes;
} groups[] = {
	GROUP(IBV_EXP_DEVICE_ATTR_CALC_CAP, calc_cap),
	GROUP(IBV_EXP_DEVICE_ATTR_WITH_TIMESTAMP_MASK, timestamp_mask),
	GROUP(IBV_EXP_DEVICE_ATTR_WITH_HCA_CORE_CLOCK, hca_core_clock),
	GROUP(IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS, exp_device_cap_flags),
	GROUP(IBV_EXP_DEVICE_ATTR_INLINE_RECV_SZ, inline_recv_sz),
	GROUP(IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS, ext_atom),
	GROUP(IBV_EXP_DEVICE_ATTR_UMR, umr_caps),
	GROUP(IBV_EXP_DEVICE_ATTR_ODP, odp_caps),
	GROUP(IBV_EXP_DEVICE_ATTR_MAX_CTX_RES_DOMAIN, max_ctx_res_domain),
	GROUP(IBV_EXP_DEVICE_ATTR_MASKED_ATOMICS, masked_atomic),
	GROUP(IBV_EXP_DEVICE_ATTR_ODP_MAX_SIZE, odp_mr_max_size),
	GROUP(IBV_EXP_DEVICE_ATTR_MAX_DM_SIZE, max_dm_size),
	GROUP(IBV_EXP_DEVICE_ATTR_TUNNELED_ATOMIC, tunneled_atomic_caps),
};

static struct ibv_exp_device_attr query(uint32_t mask)
{
	struct ibv_exp_device_attr attr;
	int ret;

	memset(&attr, FILLER, sizeof(attr));
	attr.comp_mask = mask;
	attr.comp_mask_2 = IBV_EXP_DEVICE_ATTR_RESERVED_2 - 1;
	ret = ibv_exp_query_device(ctx, &attr);
	EXPECT(ret == 0, "returned %d", ret);
	return attr;
}

/* Has any byte been written? A value may have bytes of the filler, but none here has all. */
static bool untouched(const struct ibv_exp_device_attr *attr, size_t offset, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (((const uint8_t *)attr)[offset + i] != FILLER)
			return false;
	return true;
}

/* Each group alone: the bit comes back, the field is filled, and nothing else behind the mask is.
 */
static void group_rows(void)
{
	for (size_t i = 0; i < COUNT_OF(groups); i++) {
		struct ibv_exp_device_attr attr;
		size_t begin = offsetof(struct ibv_exp_device_attr, calc_cap),
		       end = groups[i].offset;

		row("ibv_exp_query_device: %s alone", groups[i].name);
		attr = query(groups[i].bit);
		EXPECT(attr.comp_mask == groups[i].bit, "mask 0x%x", attr.comp_mask);
		EXPECT(!untouched(&attr, groups[i].offset, groups[i].bytes), "not filled");
		EXPECT(untouched(&attr, begin, end - begin), "something before it was filled");
		begin = end + groups[i].bytes;
		end = offsetof(struct ibv_exp_device_attr, comp_mask_2);
		EXPECT(untouched(&attr, begin, end - begin), "something behind it was filled");
	}
}

static void every_bit(void)
{
	uint32_t known = 1u << 31;

	for (size_t i = 0; i < COUNT_OF(groups); i++)
		known |= groups[i].bit;
	for (unsigned int bit = 0; bit < 32; bit++) {
		row("ibv_exp_query_device: bit %u", bit);
		EXPECT(query(1u << bit).comp_mask == (known & (1u << bit)), "returned otherwise");
	}
	row("ibv_exp_query_device: all bits");
	EXPECT(query(UINT32_MAX).comp_mask == known, "0x%x", query(UINT32_MAX).comp_mask);
}

static void mask_rows(void)
{
	struct ibv_exp_device_attr attr = query(0);

	row("ibv_exp_query_device: no group");
	EXPECT(memcmp(&attr, &plain.orig_attr, offsetof(struct ibv_exp_device_attr, comp_mask)) ==
		       0,
	       "the plain part is not what ibv_query_device says");
	EXPECT(attr.comp_mask == 0 && untouched(&attr, 232, 576 - 232),
	       "more than the plain part was filled");
	row("ibv_exp_query_device: unknown bit of the second mask");
	attr.comp_mask = (uint32_t)IBV_EXP_DEVICE_ATTR_COMP_MASK_2;
	attr.comp_mask_2 = IBV_EXP_DEVICE_ATTR_RESERVED_2;
	EXPECT_RET(ibv_exp_query_device(ctx, &attr), EINVAL);
	row("ibv_exp_query_device: the same, not asked for");
	attr.comp_mask = 0;
	EXPECT(ibv_exp_query_device(ctx, &attr) == 0, "refused");
}

static void value_rows(void)
{
	struct ibv_exp_device_attr attr = query(UINT32_MAX);
	const struct {
		const char *name;
		uint64_t got, want;
	} rows[] = {
		{"exp_atomic_cap", attr.exp_atomic_cap, plain.orig_attr.atomic_cap},
		{"ordinary capabilities", (uint32_t)attr.exp_device_cap_flags,
		 plain.orig_attr.device_cap_flags},
		{"extended capabilities", attr.exp_device_cap_flags >> 32,
		 ((uint64_t)IBV_EXP_DEVICE_ODP | IBV_EXP_DEVICE_MEM_WINDOW |
		  IBV_EXP_DEVICE_MW_TYPE_2B | IBV_EXP_DEVICE_MEM_MGT_EXTENSIONS |
		  IBV_EXP_DEVICE_EXT_ATOMICS | IBV_EXP_DEVICE_EXT_MASKED_ATOMICS |
		  IBV_EXP_DEVICE_MR_ALLOCATE | IBV_EXP_DEVICE_SHARED_MR | IBV_EXP_DEVICE_NOP |
		  IBV_EXP_DEVICE_UMR | IBV_EXP_DEVICE_UMR_FIXED_SIZE) >>
			 32},
		{"max_dm_size", attr.max_dm_size, plain.max_dm_size},
		{"timestamp_mask", attr.timestamp_mask, plain.completion_timestamp_mask},
		{"hca_core_clock", attr.hca_core_clock, plain.hca_core_clock},
		{"general_odp_caps", attr.odp_caps.general_odp_caps,
		 IBV_EXP_ODP_SUPPORT | IBV_EXP_ODP_SUPPORT_IMPLICIT},
		{"rc_odp_caps", attr.odp_caps.per_transport_caps.rc_odp_caps,
		 plain.odp_caps.per_transport_caps.rc_odp_caps & 0x3f},
		{"uc_odp_caps", attr.odp_caps.per_transport_caps.uc_odp_caps,
		 plain.odp_caps.per_transport_caps.uc_odp_caps & 0x3f},
		{"ud_odp_caps", attr.odp_caps.per_transport_caps.ud_odp_caps,
		 plain.odp_caps.per_transport_caps.ud_odp_caps & 0x3f},
		{"xrc_odp_caps", attr.odp_caps.per_transport_caps.xrc_odp_caps,
		 plain.xrc_odp_caps & 0x3f},
		{"dc_odp_caps", attr.odp_caps.per_transport_caps.dc_odp_caps, 0},
		{"inline_recv_sz", (uint64_t)attr.inline_recv_sz, 1024},
		{"tunneled_atomic_caps", attr.tunneled_atomic_caps, 0},
		{"odp_mr_max_size", attr.odp_mr_max_size, plain.orig_attr.max_mr_size},
		{"comp_mask_2", attr.comp_mask_2,
		 IBV_EXP_DEVICE_ATTR_PCI_ATOMIC_CAPS | IBV_EXP_DEVICE_ATTR_UMR_FIXED_SIZE_CAPS},
		{"pci_atomic_caps.fetch_add", attr.pci_atomic_caps.fetch_add, 0},
		{"pci_atomic_caps.swap", attr.pci_atomic_caps.swap, 0},
		{"pci_atomic_caps.compare_swap", attr.pci_atomic_caps.compare_swap, 0},
		{"log_atomic_arg_sizes", attr.ext_atom.log_atomic_arg_sizes, 0x3f},
		{"ext_atom.max_fa_bit_boundary", attr.ext_atom.max_fa_bit_boundary, 256},
		{"ext_atom.log_max_atomic_inline", attr.ext_atom.log_max_atomic_inline, 5},
		{"masked_atomic.max_fa_bit_boundary", attr.masked_atomic.max_fa_bit_boundary, 256},
		{"masked_atomic.log_max_atomic_inline", attr.masked_atomic.log_max_atomic_inline,
		 5},
		{"masked_log_atomic_arg_sizes", attr.masked_atomic.masked_log_atomic_arg_sizes,
		 0x3f},
		{"masked_log_atomic_arg_sizes_network_endianness",
		 attr.masked_atomic.masked_log_atomic_arg_sizes_network_endianness, 0},
		{"umr_caps.max_klm_list_size", attr.umr_caps.max_klm_list_size, 65536},
		{"umr_caps.max_send_wqe_inline_klms", attr.umr_caps.max_send_wqe_inline_klms, 20},
		{"umr_caps.max_umr_recursion_depth", attr.umr_caps.max_umr_recursion_depth, 4},
		{"umr_caps.max_umr_stride_dimension", attr.umr_caps.max_umr_stride_dimension, 1},
		{"umr_fixed_size_caps.max_entity_size", attr.umr_fixed_size_caps.max_entity_size,
		 1ull << 31},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		row("ibv_exp_query_device: %s", rows[i].name);
		EXPECT(rows[i].got == rows[i].want, "0x%llx, not 0x%llx",
		       (unsigned long long)rows[i].got, (unsigned long long)rows[i].want);
	}
}

/* --- port, GIDs ------------------------------------------------------------------ */

static void port_rows(void)
{
	static const struct {
		const char *name;
		uint32_t comp_mask, mask1;
		uint8_t port;
		int want;
	} rows[] = {
		{"plain", 0, 0, 1, 0},
		{"all fields", 1, (1u << 20) - 1, 1, 0},
		{"unknown field", 1, 1u << 20, 1, -EINVAL},
		{"unknown mask", 2, 0, 1, -EINVAL},
		{"port 2, plain", 0, 0, 2, EINVAL},
		{"port 2", 1, 1, 2, EINVAL},
	};
	struct ibv_port_attr port;

	EXPECT(ibv_query_port(ctx, 1, &port) == 0, "ibv_query_port");
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_exp_port_attr attr = {.comp_mask = rows[i].comp_mask,
						 .mask1 = rows[i].mask1};
		int ret;

		row("ibv_exp_query_port: %s", rows[i].name);
		errno = 0;
		ret = ibv_exp_query_port(ctx, rows[i].port, &attr);
		EXPECT(ret == rows[i].want && errno == abs(rows[i].want), "%d, errno %d", ret,
		       errno);
		EXPECT(ret || (attr.state == port.state && attr.gid_tbl_len == port.gid_tbl_len &&
			       attr.link_layer == port.link_layer &&
			       attr.active_mtu == port.active_mtu),
		       "other values than ibv_query_port");
	}
}

static void gid_rows(void)
{
	struct ibv_gid_entry entry;
	struct ibv_exp_gid_attr attr = {.comp_mask = IBV_EXP_QUERY_GID_ATTR_TYPE |
						     IBV_EXP_QUERY_GID_ATTR_GID};
	int ret = ibv_query_gid_ex(ctx, 1, 0, &entry, 0);
	struct ibv_port_attr port;
	uint32_t last;

	EXPECT(ibv_query_port(ctx, 1, &port) == 0, "ibv_query_port");
	last = (uint32_t)port.gid_tbl_len - 1;
	row("ibv_exp_query_gid_attr");
	EXPECT(ret == 0 && ibv_exp_query_gid_attr(ctx, 1, 0, &attr) == 0, "refused");
	EXPECT(memcmp(&attr.gid, &entry.gid, sizeof(attr.gid)) == 0, "another GID");
	EXPECT(attr.type == IBV_EXP_ROCE_V2_GID_TYPE, "type %d", attr.type);
	row("ibv_exp_query_gid_attr: only the type");
	memset(&attr, FILLER, sizeof(attr));
	attr.comp_mask = IBV_EXP_QUERY_GID_ATTR_TYPE;
	EXPECT(ibv_exp_query_gid_attr(ctx, 1, 0, &attr) == 0 && attr.gid.raw[0] == FILLER,
	       "the GID was filled");
	row("ibv_exp_query_gid_attr: an empty row");
	memset(&attr, FILLER, sizeof(attr));
	attr.comp_mask = IBV_EXP_QUERY_GID_ATTR_TYPE | IBV_EXP_QUERY_GID_ATTR_GID;
	EXPECT(ibv_query_gid_ex(ctx, 1, last, &entry, 0) == ENODATA, "not empty");
	EXPECT(ibv_exp_query_gid_attr(ctx, 1, last, &attr) == 0, "refused");
	EXPECT(!attr.gid.global.subnet_prefix && !attr.gid.global.interface_id &&
		       attr.type == IBV_EXP_IB_ROCE_V1_GID_TYPE,
	       "not zeros");
	row("ibv_exp_query_gid_attr: an index beyond the table");
	EXPECT(ibv_exp_query_gid_attr(ctx, 1, 100000, &attr) == EINVAL, "accepted");
	row("ibv_exp_query_gid_attr: unknown mask");
	attr.comp_mask = IBV_EXP_QUERY_GID_ATTR_RESERVED;
	EXPECT(ibv_exp_query_gid_attr(ctx, 1, 0, &attr) == EINVAL, "accepted");
}

/* --- clock ----------------------------------------------------------------------- */

static void clock_rows(void)
{
	struct ibv_exp_clock_info info = {
		.cycles = 1000, .nsec = 50000, .frac = 1, .mask = 0xffff, .shift = 1, .mult = 3};
	struct ibv_exp_values first, second;

	row("ibv_exp_query_values");
	EXPECT(ibv_exp_query_values(ctx, IBV_EXP_VALUES_RESERVED - 1, &first) == 0, "refused");
	EXPECT(ibv_exp_query_values(ctx, IBV_EXP_VALUES_RESERVED - 1, &second) == 0, "refused");
	EXPECT(first.comp_mask == IBV_EXP_VALUES_RESERVED - 1, "mask 0x%x", first.comp_mask);
	EXPECT(first.hwclock && second.hwclock >= first.hwclock, "the clock does not run");
	EXPECT(ibv_exp_cqe_ts_to_ns(&first.clock_info, second.hwclock) == second.hwclock_ns,
	       "other nanoseconds");
	EXPECT(ibv_exp_cqe_ts_to_ns(&second.clock_info, first.hwclock) == first.hwclock_ns,
	       "backwards");
	row("ibv_exp_query_values: one value");
	second.hwclock = 5;
	EXPECT(ibv_exp_query_values(ctx, IBV_EXP_VALUES_HW_CLOCK_NS, &second) == 0 &&
		       second.hwclock == 5 && second.comp_mask == IBV_EXP_VALUES_HW_CLOCK_NS,
	       "another was filled");
	row("ibv_exp_query_values: unknown value");
	EXPECT(ibv_exp_query_values(ctx, IBV_EXP_VALUES_RESERVED, &first) == -EINVAL, "accepted");
	row("ibv_exp_cqe_ts_to_ns");
	EXPECT(ibv_exp_cqe_ts_to_ns(&info, 1010) == 50015, "10 cycles later");
	EXPECT(ibv_exp_cqe_ts_to_ns(&info, 990) == 50000 - 14, "10 cycles earlier");
	EXPECT(ibv_exp_cqe_ts_to_ns(&info, 0x10000 + 1010) == 50015, "beyond the mask");
	EXPECT(ibv_exp_cqe_ts_to_ns(&info, 1000 + 0x7fff) == 50000 + (0x7fff * 3 + 1) / 2,
	       "as far ahead as can be");
	EXPECT(ibv_exp_cqe_ts_to_ns(&info, 1000 + 0x8000) == 50000 - (0x8000 * 3 - 1) / 2,
	       "half way round");
	info.comp_mask = 1;
	EXPECT(ibv_exp_cqe_ts_to_ns(&info, 1010) == 0, "an unknown mask");
}

/* --- the rest -------------------------------------------------------------------- */

static void list_rows(void)
{
	int count = 0, plain_count = 0;
	struct ibv_device **list = ibv_exp_get_device_list(&count),
			  **other = ibv_get_device_list(&plain_count);

	row("ibv_exp_get_device_list");
	EXPECT(list && other && count == plain_count && count > 0 && list[0] == other[0],
	       "not the plain list");
	ibv_free_device_list(list);
	ibv_free_device_list(other);
}

static void provider_rows(void)
{
	row("ibv_exp_get_provider_func");
	EXPECT(ibv_exp_get_provider_func(ctx, IBV_EXP_POST_SEND_FUNC) == (void *)ibv_exp_post_send,
	       "post send");
	EXPECT(ibv_exp_get_provider_func(ctx, IBV_EXP_POLL_CQ_FUNC) == (void *)ibv_exp_poll_cq,
	       "poll");
	EXPECT(ibv_exp_get_provider_func(ctx, IBV_POST_SEND_FUNC) == (void *)ctx->ops.post_send,
	       "plain post send");
	EXPECT(ibv_exp_get_provider_func(ctx, IBV_POLL_CQ_FUNC) == (void *)ctx->ops.poll_cq,
	       "plain poll");
	EXPECT(ibv_exp_get_provider_func(ctx, IBV_POST_RECV_FUNC) == (void *)ctx->ops.post_recv,
	       "plain post receive");
	EXPECT_NULL(ibv_exp_get_provider_func(ctx, (enum ibv_exp_func_name)5), ENOSYS);
}

static void absent_rows(void)
{
	struct ibv_exp_open_device_attr open = {.comp_mask = 0};
	struct ibv_exp_query_intf_params family = {.intf = IBV_EXP_INTF_CQ};
	enum ibv_exp_query_intf_status status = IBV_EXP_INTF_STAT_OK;

	row("verbs that the device does not have");
	EXPECT_NULL(ibv_exp_create_dct(ctx, NULL), ENOSYS);
	EXPECT(ibv_exp_query_dct(NULL, NULL) == ENOSYS, "ibv_exp_query_dct");
	EXPECT(ibv_exp_arm_dct(NULL, NULL) == ENOSYS, "ibv_exp_arm_dct");
	EXPECT(ibv_exp_destroy_dct(NULL) == ENOSYS, "ibv_exp_destroy_dct");
	EXPECT_MINUS_ONE(ibv_exp_poll_dc_info(ctx, NULL, 1, 1), ENOSYS);
	EXPECT(ibv_exp_post_task(ctx, NULL, NULL) == ENOSYS, "ibv_exp_post_task");
	errno = 0;
	EXPECT(!ibv_exp_query_intf(ctx, &family, &status) && errno == ENOSYS &&
		       status == IBV_EXP_INTF_STAT_INTF_NOT_SUPPORTED,
	       "ibv_exp_query_intf");
	EXPECT_RET(ibv_exp_release_intf(ctx, NULL, NULL), ENOSYS);
	EXPECT_NULL(ibv_exp_open_device(ctx->device, &open), EINVAL);
	open.comp_mask = IBV_EXP_SET_ATTR_PEER_INFO;
	EXPECT_NULL(ibv_exp_open_device(ctx->device, &open), ENOSYS);
}

int main(void)
{
	sandbox_begin(200);
	ctx = node_open_device();
	EXPECT(ibv_query_device_ex(ctx, NULL, &plain) == 0, "ibv_query_device_ex");
	group_rows();
	every_bit();
	mask_rows();
	value_rows();
	port_rows();
	gid_rows();
	clock_rows();
	list_rows();
	provider_rows();
	absent_rows();
	EXPECT(ibv_close_device(ctx) == 0, "ibv_close_device");
	return sandbox_end();
}
