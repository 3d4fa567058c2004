/* SPDX-License-Identifier: MIT */
/*
 * Exported verbs that this device lacks. Our objects get the documented "not supported"; other
 * devices get the system's verb.
 */
#include <string.h>

#include "verbs/fail.h"
#include "verbs/next.h"

/*
 * For a DMA handle or a completion counter. We never create one, so any object here belongs to
 * another device.
 */
static bool is_ours(const void *object)
{
	return av_ours(((const struct av_newer_object *)object)->context);
}

AV_EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
					  uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
	return av_ours(context) ? av_fail_errno(AV_VERB_RESOLVE_ETH_L2_FROM_GID, EOPNOTSUPP)
				: AV_NEXT(ibv_resolve_eth_l2_from_gid, "IBVERBS_1.1")(context, attr,
										      eth_mac, vid);
}

AV_EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	if (!av_ours(qp->context))
		return AV_NEXT(ibv_query_ece, "IBVERBS_1.10")(qp, ece);
	memset(ece, 0, sizeof(*ece));
	return av_fail_errno(AV_VERB_QUERY_ECE, EOPNOTSUPP);
}

AV_EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	return av_ours(qp->context) ? av_fail_errno(AV_VERB_SET_ECE, EOPNOTSUPP)
				    : AV_NEXT(ibv_set_ece, "IBVERBS_1.10")(qp, ece);
}

/* --- DMA handles ----------------------------------------------------------------- */

AV_EXPORT struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *context,
					  struct ibv_dmah_init_attr *attr)
{
	if (av_ours(context))
		return av_fail_null(AV_VERB_ALLOC_DMAH, EOPNOTSUPP);
	return AV_NEXT_OR(av_fail_null(AV_VERB_ALLOC_DMAH, EOPNOTSUPP), ibv_alloc_dmah,
			  "IBVERBS_1.15", context, attr);
}

AV_EXPORT int ibv_dealloc_dmah(struct ibv_dmah *dmah)
{
	if (is_ours(dmah))
		return av_fail_errno(AV_VERB_DEALLOC_DMAH, EOPNOTSUPP);
	return AV_NEXT_OR(av_fail_errno(AV_VERB_DEALLOC_DMAH, EOPNOTSUPP), ibv_dealloc_dmah,
			  "IBVERBS_1.15", dmah);
}

/* --- completion counters --------------------------------------------------------- */

AV_EXPORT int _ibv_query_comp_cntr_caps(struct ibv_context *context,
					struct ibv_comp_cntr_caps *caps, size_t size)
{
	memset(caps, 0, size);
	if (av_ours(context))
		return av_fail_errno(AV_VERB_QUERY_COMP_CNTR_CAPS, EOPNOTSUPP);
	return AV_NEXT_OR(av_fail_errno(AV_VERB_QUERY_COMP_CNTR_CAPS, EOPNOTSUPP),
			  _ibv_query_comp_cntr_caps, "IBVERBS_1.18", context, caps, size);
}

AV_EXPORT struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *context,
						     struct ibv_comp_cntr_init_attr *attr)
{
	if (av_ours(context))
		return av_fail_null(AV_VERB_CREATE_COMP_CNTR, EOPNOTSUPP);
	return AV_NEXT_OR(av_fail_null(AV_VERB_CREATE_COMP_CNTR, EOPNOTSUPP), ibv_create_comp_cntr,
			  "IBVERBS_1.18", context, attr);
}

AV_EXPORT int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *counter,
				      struct ibv_qp_attach_comp_cntr_attr *attr)
{
	if (av_ours(qp->context))
		return av_fail_errno(AV_VERB_QP_ATTACH_COMP_CNTR, EOPNOTSUPP);
	return AV_NEXT_OR(av_fail_errno(AV_VERB_QP_ATTACH_COMP_CNTR, EOPNOTSUPP),
			  ibv_qp_attach_comp_cntr, "IBVERBS_1.18", qp, counter, attr);
}

/* Calls a verb on an existing counter. */
#define ON_COUNTER(id, name, counter, ...)                                            \
	(is_ours(counter) ? av_fail_errno(AV_VERB_##id, EOPNOTSUPP)                   \
			  : AV_NEXT_OR(av_fail_errno(AV_VERB_##id, EOPNOTSUPP), name, \
				       "IBVERBS_1.18", counter __VA_OPT__(, ) __VA_ARGS__))

AV_EXPORT int ibv_destroy_comp_cntr(struct ibv_comp_cntr *counter)
{
	return ON_COUNTER(DESTROY_COMP_CNTR, ibv_destroy_comp_cntr, counter);
}

AV_EXPORT int ibv_set_comp_cntr(struct ibv_comp_cntr *counter, uint64_t value)
{
	return ON_COUNTER(SET_COMP_CNTR, ibv_set_comp_cntr, counter, value);
}

AV_EXPORT int ibv_set_err_comp_cntr(struct ibv_comp_cntr *counter, uint64_t value)
{
	return ON_COUNTER(SET_ERR_COMP_CNTR, ibv_set_err_comp_cntr, counter, value);
}

AV_EXPORT int ibv_inc_comp_cntr(struct ibv_comp_cntr *counter, uint64_t amount)
{
	return ON_COUNTER(INC_COMP_CNTR, ibv_inc_comp_cntr, counter, amount);
}

AV_EXPORT int ibv_inc_err_comp_cntr(struct ibv_comp_cntr *counter, uint64_t amount)
{
	return ON_COUNTER(INC_ERR_COMP_CNTR, ibv_inc_err_comp_cntr, counter, amount);
}

AV_EXPORT int ibv_read_comp_cntr(struct ibv_comp_cntr *counter, uint64_t *value)
{
	return ON_COUNTER(READ_COMP_CNTR, ibv_read_comp_cntr, counter, value);
}

AV_EXPORT int ibv_read_err_comp_cntr(struct ibv_comp_cntr *counter, uint64_t *value)
{
	return ON_COUNTER(READ_ERR_COMP_CNTR, ibv_read_err_comp_cntr, counter, value);
}

/* --- device memory as a dma-buf -------------------------------------------------- */

AV_EXPORT int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm)
{
	if (av_ours(dm->context))
		return av_fail_fd(AV_VERB_DM_EXPORT_DMABUF_FD, EOPNOTSUPP);
	return AV_NEXT_OR(av_fail_fd(AV_VERB_DM_EXPORT_DMABUF_FD, EOPNOTSUPP),
			  ibv_dm_export_dmabuf_fd, "IBVERBS_1.16", dm);
}
