/* SPDX-License-Identifier: MIT */
#include "exp/exp.h"

/* What a context offers beside its objects, what it lacks, and queries of its device and port. */

/* --- the clock: the host's monotonic one; a cycle is a nanosecond ---------------- */

AV_EXPORT int ibv_exp_query_values(struct ibv_context *context, int q_values,
				   struct ibv_exp_values *values)
{
	const int known = IBV_EXP_VALUES_RESERVED - 1;
	const uint64_t now = av_now_ns();
	int err = av_ours(context) ? 0 : ENOSYS;

	if (err == 0 && (q_values & ~known))
		err = av_refuse(EINVAL, AV_CHECK_FLAGS, (uint32_t)q_values, (uint32_t)known);
	if (err)
		return -av_fail_errno(AV_VERB_EXP_QUERY_VALUES, err);
	values->comp_mask = (uint32_t)q_values;
	if (q_values & IBV_EXP_VALUES_HW_CLOCK_NS)
		values->hwclock_ns = now;
	if (q_values & IBV_EXP_VALUES_HW_CLOCK)
		values->hwclock = now;
	if (q_values & IBV_EXP_VALUES_CLOCK_INFO)
		values->clock_info = (struct ibv_exp_clock_info){
			.cycles = now,
			.nsec = now,
			.mask = UINT64_MAX,
			.mult = 1,
		};
	return 0;
}

/* Takes the shorter way round the counter, so a time stamp may precede the reading of the clock. */
AV_EXPORT uint64_t ibv_exp_cqe_ts_to_ns(struct ibv_exp_clock_info *info, uint64_t cqe_ts)
{
	uint64_t after = (cqe_ts - info->cycles) & info->mask;

	IBV_EXP_RET_ZERO_ON_INVALID_COMP_MASK(info->comp_mask, 0);
	if (after <= info->mask / 2)
		return info->nsec + ((after * info->mult + info->frac) >> info->shift);
	return info->nsec -
	       ((((info->cycles - cqe_ts) & info->mask) * info->mult - info->frac) >> info->shift);
}

/* --- settings: its own once it has asked for them, until then the process's ------ */

AV_EXPORT int ibv_exp_use_priv_env(struct ibv_context *context)
{
	int err = av_ours(context) ? av_environment_detach(av_context_of(context)) : ENOSYS;

	return err ? av_fail_fd(AV_VERB_EXP_USE_PRIV_ENV, err) : 0;
}

AV_EXPORT int ibv_exp_setenv(struct ibv_context *context, const char *name, const char *value,
			     int overwrite)
{
	if (!av_ours(context))
		return setenv(name, value, overwrite);
	int err = av_environment_set(av_context_of(context), name, value, overwrite);

	return err ? av_fail_fd(AV_VERB_EXP_SETENV, err) : 0;
}

/* --- functions: the verbs themselves --------------------------------------------- */

AV_EXPORT void *ibv_exp_get_provider_func(struct ibv_context *context, enum ibv_exp_func_name name)
{
	if (!av_ours(context))
		return av_fail_null(AV_VERB_EXP_GET_PROVIDER_FUNC, ENOSYS);
	switch (name) {
	case IBV_EXP_POST_SEND_FUNC:
		return (void *)ibv_exp_post_send;
	case IBV_EXP_POLL_CQ_FUNC:
		return (void *)ibv_exp_poll_cq;
	case IBV_POST_SEND_FUNC:
		return (void *)context->ops.post_send;
	case IBV_POLL_CQ_FUNC:
		return (void *)context->ops.poll_cq;
	case IBV_POST_RECV_FUNC:
		return (void *)context->ops.post_recv;
	}
	return av_fail_null(AV_VERB_EXP_GET_PROVIDER_FUNC, ENOSYS);
}

/* --- what the device lacks: DCT, cross-channel, families of verbs ---------------- */

#define ABSENT(type, fail, id, name, ...)              \
	AV_EXPORT type name(__VA_ARGS__)               \
	{                                              \
		return fail(AV_VERB_EXP_##id, ENOSYS); \
	}

ABSENT(struct ibv_exp_dct *, av_fail_null, CREATE_DCT, ibv_exp_create_dct,
       struct ibv_context *context, struct ibv_exp_dct_init_attr *attr)
ABSENT(int, av_fail_errno, DESTROY_DCT, ibv_exp_destroy_dct, struct ibv_exp_dct *dct)
ABSENT(int, av_fail_errno, QUERY_DCT, ibv_exp_query_dct, struct ibv_exp_dct *dct,
       struct ibv_exp_dct_attr *attr)
ABSENT(int, av_fail_errno, ARM_DCT, ibv_exp_arm_dct, struct ibv_exp_dct *dct,
       struct ibv_exp_arm_attr *attr)
ABSENT(int, av_fail_fd, POLL_DC_INFO, ibv_exp_poll_dc_info, struct ibv_context *context,
       struct ibv_exp_dc_info_ent *ents, int nent, int port)
ABSENT(int, av_fail_errno, POST_TASK, ibv_exp_post_task, struct ibv_context *context,
       struct ibv_exp_task *task, struct ibv_exp_task **bad_task)
ABSENT(int, av_fail_errno, RELEASE_INTF, ibv_exp_release_intf, struct ibv_context *context,
       void *intf, struct ibv_exp_release_intf_params *params)

/* Programs print @status without checking errno. Other providers leave it alone. */
AV_EXPORT void *ibv_exp_query_intf(struct ibv_context *context,
				   struct ibv_exp_query_intf_params *params,
				   enum ibv_exp_query_intf_status *status)
{
	if (av_ours(context) && status)
		*status = IBV_EXP_INTF_STAT_INTF_NOT_SUPPORTED;
	return av_fail_null(AV_VERB_EXP_QUERY_INTF, ENOSYS);
}

/* Queries of a device, one row per field that it has, and of its port. */

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

#define LARGEST_OPERAND_LOG ((uint32_t)__builtin_ctz(AV_ATOMIC_MAX_BYTES))
#define OPERAND_SIZES	    (2ull * AV_ATOMIC_MAX_BYTES - 1) /* a bit for each power of two */

/* The transport bits have the values of the plain ones, which are more. */
static struct ibv_exp_odp_caps odp_caps(const struct ibv_device_attr_ex *now)
{
	const uint64_t known = IBV_EXP_ODP_SUPPORT | IBV_EXP_ODP_SUPPORT_IMPLICIT;
	const struct ibv_odp_caps *plain = &now->odp_caps;
	struct ibv_exp_odp_caps caps = {.general_odp_caps = plain->general_caps & known};

	caps.per_transport_caps.rc_odp_caps =
		plain->per_transport_caps.rc_odp_caps & TRANSPORT_BITS;
	caps.per_transport_caps.uc_odp_caps =
		plain->per_transport_caps.uc_odp_caps & TRANSPORT_BITS;
	caps.per_transport_caps.ud_odp_caps =
		plain->per_transport_caps.ud_odp_caps & TRANSPORT_BITS;
	caps.per_transport_caps.xrc_odp_caps = now->xrc_odp_caps & TRANSPORT_BITS;
	return caps;
}

/*
 * Carries of atomics propagate up to the operand's size; replies are in host byte order. They are
 * not atomic with respect to the processor's (IBV_ATOMIC_HCA, as in the plain attributes).
 */
static void fill_exp_device_attr(const struct av_seg *seg, const struct ibv_device_attr_ex *now,
				 struct ibv_exp_device_attr *all)
{
	*all = (struct ibv_exp_device_attr){
		.timestamp_mask = now->completion_timestamp_mask,
		.hca_core_clock = now->hca_core_clock,
		.exp_device_cap_flags = cap_flags(now),
		.inline_recv_sz = AV_MAX_INLINE_RECV,
		.ext_atom = {.log_atomic_arg_sizes = OPERAND_SIZES,
			     .max_fa_bit_boundary = 8 * AV_ATOMIC_MAX_BYTES,
			     .log_max_atomic_inline = LARGEST_OPERAND_LOG},
		.masked_atomic = {.max_fa_bit_boundary = 8 * AV_ATOMIC_MAX_BYTES,
				  .log_max_atomic_inline = LARGEST_OPERAND_LOG,
				  .masked_log_atomic_arg_sizes = OPERAND_SIZES},
		.umr_caps = {.max_klm_list_size = AV_MAX_KLMS,
			     .max_send_wqe_inline_klms = AV_MAX_INLINE_KLMS,
			     .max_umr_recursion_depth = AV_KLM_DEPTH,
			     .max_umr_stride_dimension = 1},
		.odp_caps = odp_caps(now),
		.max_ctx_res_domain = now->orig_attr.max_pd, /* thread domains: alloc_td() */
		.odp_mr_max_size = now->orig_attr.max_mr_size,
		.max_dm_size = now->max_dm_size,
		.pci_atomic_caps = {.fetch_add = now->pci_atomic_caps.fetch_add,
				    .swap = now->pci_atomic_caps.swap,
				    .compare_swap = now->pci_atomic_caps.compare_swap},
		.umr_fixed_size_caps = {.max_entity_size = AV_MAX_ENTITY_BYTES},
	};
	if (av_switch_on(seg, AV_SWITCH_CAPI))
		all->exp_device_cap_flags |= IBV_EXP_DEVICE_CAPI;
	if (av_switch_on(seg, AV_SWITCH_TUNNELED_ATOMIC))
		all->tunneled_atomic_caps = IBV_EXP_TUNNELED_ATOMIC_SUPPORTED;
}

#define FIELD(mask, bit, member)                                                               \
	{                                                                                      \
		IBV_EXP_DEVICE_ATTR_##bit, mask, offsetof(struct ibv_exp_device_attr, member), \
			sizeof(((struct ibv_exp_device_attr *)NULL)->member)                   \
	}

/* The fields that a program asks for by a bit of comp_mask, mask 0, or of comp_mask_2, mask 1. */
static const struct field {
	uint32_t bit, mask;
	size_t offset, size;
} fields[] = {
	FIELD(0, CALC_CAP, calc_cap),
	FIELD(0, WITH_TIMESTAMP_MASK, timestamp_mask),
	FIELD(0, WITH_HCA_CORE_CLOCK, hca_core_clock),
	FIELD(0, EXP_CAP_FLAGS, exp_device_cap_flags),
	FIELD(0, INLINE_RECV_SZ, inline_recv_sz),
	FIELD(0, EXT_ATOMIC_ARGS, ext_atom),
	FIELD(0, UMR, umr_caps),
	FIELD(0, ODP, odp_caps),
	FIELD(0, MAX_CTX_RES_DOMAIN, max_ctx_res_domain),
	FIELD(0, MASKED_ATOMICS, masked_atomic),
	FIELD(0, ODP_MAX_SIZE, odp_mr_max_size),
	FIELD(0, MAX_DM_SIZE, max_dm_size),
	FIELD(0, TUNNELED_ATOMIC, tunneled_atomic_caps),
	FIELD(1, PCI_ATOMIC_CAPS, pci_atomic_caps),
	FIELD(1, UMR_FIXED_SIZE_CAPS, umr_fixed_size_caps),
};

/* Fields that the program did not ask for may be beyond its structure. */
AV_EXPORT int ibv_exp_query_device(struct ibv_context *context, struct ibv_exp_device_attr *attr)
{
	AV_UNCANCELLED;
	const uint32_t second = (uint32_t)IBV_EXP_DEVICE_ATTR_COMP_MASK_2;
	uint32_t wanted[2] = {attr->comp_mask, 0}, copied[2] = {attr->comp_mask & second, 0};
	struct ibv_exp_device_attr all;
	struct ibv_device_attr_ex now;
	int err;

	if (!av_ours(context))
		return ENOSYS;
	if (wanted[0] & second) {
		AV_EXP_KNOWN(EINVAL, EXP_QUERY_DEVICE, attr->comp_mask_2,
			     IBV_EXP_DEVICE_ATTR_RESERVED_2);
		wanted[1] = attr->comp_mask_2;
	}
	err = ibv_query_device_ex(context, NULL, &now);
	if (err)
		return err;
	memcpy(attr, &now.orig_attr, offsetof(struct ibv_exp_device_attr, comp_mask));
	fill_exp_device_attr(av_context_of(context)->seg, &now, &all);
	for (const struct field *f = fields; f < fields + AV_ARRAY_SIZE(fields); f++) {
		if (!(wanted[f->mask] & f->bit))
			continue;
		memcpy((char *)attr + f->offset, (const char *)&all + f->offset, f->size);
		copied[f->mask] |= f->bit;
	}
	attr->comp_mask = copied[0];
	if (wanted[0] & second)
		attr->comp_mask_2 = copied[1];
	return 0;
}

AV_EXPORT struct ibv_device **ibv_exp_get_device_list(int *num_devices)
{
	return (ibv_get_device_list)(num_devices);
}

/* MLNX_OFED's only attribute is for memory of other devices. */
AV_EXPORT struct ibv_context *ibv_exp_open_device(struct ibv_device *device,
						  struct ibv_exp_open_device_attr *attr)
{
	AV_UNCANCELLED;

	return av_fail_null(AV_VERB_EXP_OPEN_DEVICE,
			    attr->comp_mask == IBV_EXP_SET_ATTR_PEER_INFO
				    ? ENOSYS
				    : av_refuse(EINVAL, AV_CHECK_COMP_MASK, attr->comp_mask, 0));
}

/* --- the port -------------------------------------------------------------------- */

#define ALL_FIELDS (2 * IBV_EXP_QUERY_PORT_LINK_LAYER - 1)

/* Fills in all fields: the mask names those that must be. */
AV_EXPORT int ibv_exp_query_port(struct ibv_context *context, uint8_t port_num,
				 struct ibv_exp_port_attr *port_attr)
{
	AV_UNCANCELLED;
	const uint32_t mask = port_attr->comp_mask;
	int err = 0;

	if (mask && !av_ours(context))
		err = ENOSYS;
	else if (mask & ~(uint32_t)IBV_EXP_QUERY_PORT_ATTR_MASK1)
		err = av_refuse(EINVAL, AV_CHECK_COMP_MASK, mask, IBV_EXP_QUERY_PORT_ATTR_MASK1);
	else if (mask && (port_attr->mask1 & ~(uint32_t)ALL_FIELDS))
		err = av_refuse(EINVAL, AV_CHECK_FLAGS, port_attr->mask1, ALL_FIELDS);
	return err ? -av_fail_errno(AV_VERB_EXP_QUERY_PORT, err)
		   : ibv_query_port(context, port_num, &port_attr->port_attr);
}

/* An empty row of the table reads as zeros, as with ibv_query_gid(). */
AV_EXPORT int ibv_exp_query_gid_attr(struct ibv_context *context, uint8_t port_num,
				     unsigned int index, struct ibv_exp_gid_attr *attr)
{
	if (!av_ours(context))
		return ENOSYS;
	AV_EXP_KNOWN(EINVAL, EXP_QUERY_GID_ATTR, attr->comp_mask, IBV_EXP_QUERY_GID_ATTR_RESERVED);
	struct ibv_gid_entry entry;
	int err = ibv_query_gid_ex(context, port_num, index, &entry, 0);

	if (err == ENODATA)
		memset(&entry, 0, sizeof(entry));
	else if (err)
		return err;
	if (attr->comp_mask & IBV_EXP_QUERY_GID_ATTR_TYPE)
		attr->type = entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? IBV_EXP_ROCE_V2_GID_TYPE
								    : IBV_EXP_IB_ROCE_V1_GID_TYPE;
	if (attr->comp_mask & IBV_EXP_QUERY_GID_ATTR_GID)
		attr->gid = entry.gid;
	return 0;
}
