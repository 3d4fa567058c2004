/* SPDX-License-Identifier: MIT */
/* ibv_exp_query_device(): one row per group of attributes that this device has. */
#include <string.h>

#include "device/switches.h"
#include "verbs/query.h"
#include "exp/exp.h"

static_assert(offsetof(struct ibv_exp_device_attr, max_mw) ==
			      offsetof(struct ibv_device_attr, max_mw) &&
		      offsetof(struct ibv_exp_device_attr, comp_mask) <=
			      sizeof(struct ibv_device_attr),
	      "the part without comp_mask is struct ibv_device_attr");

#define TRANSPORT_BITS                                                                     \
	(IBV_EXP_ODP_SUPPORT_SEND | IBV_EXP_ODP_SUPPORT_RECV | IBV_EXP_ODP_SUPPORT_WRITE | \
	 IBV_EXP_ODP_SUPPORT_READ | IBV_EXP_ODP_SUPPORT_ATOMIC | IBV_EXP_ODP_SUPPORT_SRQ_RECV)

static uint64_t cap_flags(const struct ibv_device_attr_ex *now)
{
	uint64_t plain = now->orig_attr.device_cap_flags, caps = plain;

	if (now->odp_caps.general_caps & IBV_ODP_SUPPORT)
		caps |= IBV_EXP_DEVICE_ODP;
	if (plain & IBV_DEVICE_MEM_WINDOW)
		caps |= IBV_EXP_DEVICE_MEM_WINDOW;
	if (plain & IBV_DEVICE_MEM_WINDOW_TYPE_2B)
		caps |= IBV_EXP_DEVICE_MW_TYPE_2B;
	if (plain & IBV_DEVICE_MEM_MGT_EXTENSIONS)
		caps |= IBV_EXP_DEVICE_MEM_MGT_EXTENSIONS;
	if (now->orig_attr.atomic_cap != IBV_ATOMIC_NONE)
		caps |= IBV_EXP_DEVICE_EXT_ATOMICS | IBV_EXP_DEVICE_EXT_MASKED_ATOMICS;
	return caps | IBV_EXP_DEVICE_MR_ALLOCATE | IBV_EXP_DEVICE_SHARED_MR | IBV_EXP_DEVICE_NOP |
	       IBV_EXP_DEVICE_UMR | IBV_EXP_DEVICE_UMR_FIXED_SIZE;
}

static void fill_calc(struct ibv_exp_device_attr *attr, const struct ibv_device_attr_ex *now)
{
	memset(&attr->calc_cap, 0, sizeof(attr->calc_cap));
}

static void fill_timestamp_mask(struct ibv_exp_device_attr *attr,
				const struct ibv_device_attr_ex *now)
{
	attr->timestamp_mask = now->completion_timestamp_mask;
}

static void fill_clock(struct ibv_exp_device_attr *attr, const struct ibv_device_attr_ex *now)
{
	attr->hca_core_clock = now->hca_core_clock;
}

static void fill_cap_flags(struct ibv_exp_device_attr *attr, const struct ibv_device_attr_ex *now)
{
	attr->exp_device_cap_flags = cap_flags(now);
}

#define LARGEST_OPERAND_LOG ((uint32_t)__builtin_ctz(AV_ATOMIC_MAX_BYTES))
#define OPERAND_SIZES	    (2ull * AV_ATOMIC_MAX_BYTES - 1) /* a bit for each power of two */

/* Carries propagate up to the operand's size. */
static void fill_ext_atomics(struct ibv_exp_device_attr *attr, const struct ibv_device_attr_ex *now)
{
	attr->ext_atom = (struct ibv_exp_ext_atomics_params){
		.log_atomic_arg_sizes = OPERAND_SIZES,
		.max_fa_bit_boundary = 8 * AV_ATOMIC_MAX_BYTES,
		.log_max_atomic_inline = LARGEST_OPERAND_LOG,
	};
}

/* Replies of all sizes are in host byte order. */
static void fill_masked_atomics(struct ibv_exp_device_attr *attr,
				const struct ibv_device_attr_ex *now)
{
	attr->masked_atomic = (struct ibv_exp_masked_atomic_params){
		.max_fa_bit_boundary = 8 * AV_ATOMIC_MAX_BYTES,
		.log_max_atomic_inline = LARGEST_OPERAND_LOG,
		.masked_log_atomic_arg_sizes = OPERAND_SIZES,
	};
}

static void fill_inline_recv(struct ibv_exp_device_attr *attr, const struct ibv_device_attr_ex *now)
{
	attr->inline_recv_sz = AV_MAX_INLINE_RECV;
}

static void fill_umr(struct ibv_exp_device_attr *attr, const struct ibv_device_attr_ex *now)
{
	attr->umr_caps = (struct ibv_exp_umr_caps){
		.max_klm_list_size = AV_MAX_KLMS,
		.max_send_wqe_inline_klms = AV_MAX_INLINE_KLMS,
		.max_umr_recursion_depth = AV_KLM_DEPTH,
		.max_umr_stride_dimension = 1,
	};
}

/* The transport bits have the same values; upstream has additional ones. */
static void fill_odp(struct ibv_exp_device_attr *attr, const struct ibv_device_attr_ex *now)
{
	struct ibv_exp_odp_caps caps = {
		.general_odp_caps = now->odp_caps.general_caps &
				    (IBV_EXP_ODP_SUPPORT | IBV_EXP_ODP_SUPPORT_IMPLICIT),
	};

	caps.per_transport_caps.rc_odp_caps =
		now->odp_caps.per_transport_caps.rc_odp_caps & TRANSPORT_BITS;
	caps.per_transport_caps.uc_odp_caps =
		now->odp_caps.per_transport_caps.uc_odp_caps & TRANSPORT_BITS;
	caps.per_transport_caps.ud_odp_caps =
		now->odp_caps.per_transport_caps.ud_odp_caps & TRANSPORT_BITS;
	caps.per_transport_caps.xrc_odp_caps = now->xrc_odp_caps & TRANSPORT_BITS;
	attr->odp_caps = caps;
}

static void fill_res_domain(struct ibv_exp_device_attr *attr, const struct ibv_device_attr_ex *now)
{
	attr->max_ctx_res_domain =
		now->orig_attr.max_pd; /* they are thread domains, see av_alloc_td() */
}

static void fill_odp_size(struct ibv_exp_device_attr *attr, const struct ibv_device_attr_ex *now)
{
	attr->odp_mr_max_size = now->orig_attr.max_mr_size;
}

static void fill_dm_size(struct ibv_exp_device_attr *attr, const struct ibv_device_attr_ex *now)
{
	attr->max_dm_size = now->max_dm_size;
}

/* The value without the switch; add_switched() sets the bit. */
static void fill_tunneled_atomic(struct ibv_exp_device_attr *attr,
				 const struct ibv_device_attr_ex *now)
{
	attr->tunneled_atomic_caps = 0;
}

/*
 * The second mask. As in the plain attributes (IBV_ATOMIC_HCA), the device's atomics are not atomic
 * with respect to the processor's.
 */
static void fill_mask_2(struct ibv_exp_device_attr *attr, const struct ibv_device_attr_ex *now)
{
	attr->comp_mask_2 &=
		IBV_EXP_DEVICE_ATTR_PCI_ATOMIC_CAPS | IBV_EXP_DEVICE_ATTR_UMR_FIXED_SIZE_CAPS;
	if (attr->comp_mask_2 & IBV_EXP_DEVICE_ATTR_PCI_ATOMIC_CAPS)
		attr->pci_atomic_caps = (struct ibv_exp_pci_atomic_caps){
			.fetch_add = now->pci_atomic_caps.fetch_add,
			.swap = now->pci_atomic_caps.swap,
			.compare_swap = now->pci_atomic_caps.compare_swap,
		};
	if (attr->comp_mask_2 & IBV_EXP_DEVICE_ATTR_UMR_FIXED_SIZE_CAPS)
		attr->umr_fixed_size_caps.max_entity_size = AV_MAX_ENTITY_BYTES;
}

static const struct {
	uint32_t bit;
	void (*fill)(struct ibv_exp_device_attr *attr, const struct ibv_device_attr_ex *now);
} group[] = {
	{IBV_EXP_DEVICE_ATTR_CALC_CAP, fill_calc},
	{IBV_EXP_DEVICE_ATTR_WITH_TIMESTAMP_MASK, fill_timestamp_mask},
	{IBV_EXP_DEVICE_ATTR_WITH_HCA_CORE_CLOCK, fill_clock},
	{IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS, fill_cap_flags},
	{IBV_EXP_DEVICE_ATTR_INLINE_RECV_SZ, fill_inline_recv},
	{IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS, fill_ext_atomics},
	{IBV_EXP_DEVICE_ATTR_UMR, fill_umr},
	{IBV_EXP_DEVICE_ATTR_ODP, fill_odp},
	{IBV_EXP_DEVICE_ATTR_MAX_CTX_RES_DOMAIN, fill_res_domain},
	{IBV_EXP_DEVICE_ATTR_MASKED_ATOMICS, fill_masked_atomics},
	{IBV_EXP_DEVICE_ATTR_ODP_MAX_SIZE, fill_odp_size},
	{IBV_EXP_DEVICE_ATTR_MAX_DM_SIZE, fill_dm_size},
	{IBV_EXP_DEVICE_ATTR_TUNNELED_ATOMIC, fill_tunneled_atomic},
	{(uint32_t)IBV_EXP_DEVICE_ATTR_COMP_MASK_2, fill_mask_2},
};

/* Add what the device's switches enable. */
static void add_switched(struct ibv_exp_device_attr *attr, const struct av_seg *seg)
{
	if ((attr->comp_mask & IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS) &&
	    av_switch_on(seg, AV_SWITCH_CAPI))
		attr->exp_device_cap_flags |= IBV_EXP_DEVICE_CAPI;
	if ((attr->comp_mask & IBV_EXP_DEVICE_ATTR_TUNNELED_ATOMIC) &&
	    av_switch_on(seg, AV_SWITCH_TUNNELED_ATOMIC))
		attr->tunneled_atomic_caps |= IBV_EXP_TUNNELED_ATOMIC_SUPPORTED;
}

AV_EXPORT int ibv_exp_query_device(struct ibv_context *context, struct ibv_exp_device_attr *attr)
{
	struct ibv_device_attr_ex now;
	uint32_t wanted = attr->comp_mask;
	int err;

	if (!av_ours(context))
		return ENOSYS;
	if (wanted & (uint32_t)IBV_EXP_DEVICE_ATTR_COMP_MASK_2)
		IBV_EXP_RET_EINVAL_ON_INVALID_COMP_MASK(
			attr->comp_mask_2, (uint64_t)IBV_EXP_DEVICE_ATTR_RESERVED_2 - 1);
	err = av_query_device_ex(context, NULL, &now, sizeof(now));
	if (err)
		return err;
	memcpy(attr, &now.orig_attr, offsetof(struct ibv_exp_device_attr, comp_mask));
	attr->comp_mask = 0;
	for (size_t i = 0; i < AV_ARRAY_SIZE(group); i++) {
		if (!(wanted & group[i].bit))
			continue;
		group[i].fill(attr, &now);
		attr->comp_mask |= group[i].bit;
	}
	add_switched(attr, av_context_of(context)->seg);
	return 0;
}

AV_EXPORT struct ibv_device **ibv_exp_get_device_list(int *num_devices)
{
	return (ibv_get_device_list)(num_devices);
}

/* Its only attribute was for memory of other devices. */
AV_EXPORT struct ibv_context *ibv_exp_open_device(struct ibv_device *device,
						  struct ibv_exp_open_device_attr *attr)
{
	return av_fail_null(AV_VERB_EXP_OPEN_DEVICE,
			    attr->comp_mask == IBV_EXP_SET_ATTR_PEER_INFO ? ENOSYS : EINVAL);
}
