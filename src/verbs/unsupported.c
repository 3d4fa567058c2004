/* SPDX-License-Identifier: MIT */
/*
 * Exported verbs that this device does not have (yet): on our objects the documented "not
 * supported", on those of other devices the system's own.
 */
#include <string.h>

#include "verbs/ibv_context.h"

/* Of a DMA handle or a completion counter. Ours have none; what is found here is another device's.
 */
static bool is_ours(const void *object)
{
	return av_ours(((const struct av_newer_object *)object)->context);
}

AV_EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
					  uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
	return av_ours(context) ? av_fail_errno(EOPNOTSUPP)
				: AV_NEXT(ibv_resolve_eth_l2_from_gid, "IBVERBS_1.1")(context, attr,
										      eth_mac, vid);
}

AV_EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	if (!av_ours(qp->context))
		return AV_NEXT(ibv_query_ece, "IBVERBS_1.10")(qp, ece);
	memset(ece, 0, sizeof(*ece));
	return av_fail_errno(EOPNOTSUPP);
}

AV_EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	return av_ours(qp->context) ? av_fail_errno(EOPNOTSUPP)
				    : AV_NEXT(ibv_set_ece, "IBVERBS_1.10")(qp, ece);
}

/* --- DMA handles ----------------------------------------------------------------- */

AV_EXPORT struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *context,
					  struct ibv_dmah_init_attr *attr)
{
	if (av_ours(context))
		return av_fail_null(EOPNOTSUPP);
	return AV_NEXT_OR(av_fail_null(EOPNOTSUPP), ibv_alloc_dmah, "IBVERBS_1.15", context, attr);
}

AV_EXPORT int ibv_dealloc_dmah(struct ibv_dmah *dmah)
{
	if (is_ours(dmah))
		return av_fail_errno(EOPNOTSUPP);
	return AV_NEXT_OR(av_fail_errno(EOPNOTSUPP), ibv_dealloc_dmah, "IBVERBS_1.15", dmah);
}

/* --- completion counters --------------------------------------------------------- */

AV_EXPORT int _ibv_query_comp_cntr_caps(struct ibv_context *context,
					struct ibv_comp_cntr_caps *caps, size_t size)
{
	memset(caps, 0, size);
	if (av_ours(context))
		return av_fail_errno(EOPNOTSUPP);
	return AV_NEXT_OR(av_fail_errno(EOPNOTSUPP), _ibv_query_comp_cntr_caps, "IBVERBS_1.18",
			  context, caps, size);
}

AV_EXPORT struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *context,
						     struct ibv_comp_cntr_init_attr *attr)
{
	if (av_ours(context))
		return av_fail_null(EOPNOTSUPP);
	return AV_NEXT_OR(av_fail_null(EOPNOTSUPP), ibv_create_comp_cntr, "IBVERBS_1.18", context,
			  attr);
}

AV_EXPORT int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *counter,
				      struct ibv_qp_attach_comp_cntr_attr *attr)
{
	if (av_ours(qp->context))
		return av_fail_errno(EOPNOTSUPP);
	return AV_NEXT_OR(av_fail_errno(EOPNOTSUPP), ibv_qp_attach_comp_cntr, "IBVERBS_1.18", qp,
			  counter, attr);
}

/* What is done with a counter itself. */
#define ON_COUNTER(name, counter, ...)                                                  \
	(is_ours(counter) ? av_fail_errno(EOPNOTSUPP)                                   \
			  : AV_NEXT_OR(av_fail_errno(EOPNOTSUPP), name, "IBVERBS_1.18", \
				       counter __VA_OPT__(, ) __VA_ARGS__))

AV_EXPORT int ibv_destroy_comp_cntr(struct ibv_comp_cntr *counter)
{
	return ON_COUNTER(ibv_destroy_comp_cntr, counter);
}

AV_EXPORT int ibv_set_comp_cntr(struct ibv_comp_cntr *counter, uint64_t value)
{
	return ON_COUNTER(ibv_set_comp_cntr, counter, value);
}

AV_EXPORT int ibv_set_err_comp_cntr(struct ibv_comp_cntr *counter, uint64_t value)
{
	return ON_COUNTER(ibv_set_err_comp_cntr, counter, value);
}

AV_EXPORT int ibv_inc_comp_cntr(struct ibv_comp_cntr *counter, uint64_t amount)
{
	return ON_COUNTER(ibv_inc_comp_cntr, counter, amount);
}

AV_EXPORT int ibv_inc_err_comp_cntr(struct ibv_comp_cntr *counter, uint64_t amount)
{
	return ON_COUNTER(ibv_inc_err_comp_cntr, counter, amount);
}

AV_EXPORT int ibv_read_comp_cntr(struct ibv_comp_cntr *counter, uint64_t *value)
{
	return ON_COUNTER(ibv_read_comp_cntr, counter, value);
}

AV_EXPORT int ibv_read_err_comp_cntr(struct ibv_comp_cntr *counter, uint64_t *value)
{
	return ON_COUNTER(ibv_read_err_comp_cntr, counter, value);
}

/* --- device memory as a dma-buf -------------------------------------------------- */

AV_EXPORT int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm)
{
	if (av_ours(dm->context))
		return av_fail_fd(EOPNOTSUPP);
	return AV_NEXT_OR(av_fail_fd(EOPNOTSUPP), ibv_dm_export_dmabuf_fd, "IBVERBS_1.16", dm);
}
