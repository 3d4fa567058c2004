/* SPDX-License-Identifier: MIT */
/* Exported verbs that this device lacks. Other devices get the system's verb. */
#include <string.h>

#include "verbs/fail.h"
#include "verbs/next.h"

/* We never make a DMA handle or completion counter: any is another device's. */
static bool is_ours(const void *object)
{
	return av_ours(((const struct av_newer_object *)object)->context);
}

/* The verb @id: refused if @ours, or if the system's library is too old to have it. */
#define LACKED(fail, ours, id, name, version, ...) \
	((ours) ? fail(AV_VERB_##id, EOPNOTSUPP)   \
		: AV_NEXT_OR(fail(AV_VERB_##id, EOPNOTSUPP), name, version, __VA_ARGS__))

AV_EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
					  uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
	return LACKED(av_fail_errno, av_ours(context), RESOLVE_ETH_L2_FROM_GID,
		      ibv_resolve_eth_l2_from_gid, "IBVERBS_1.1", context, attr, eth_mac, vid);
}

/* librdmacm asks about enhanced connections each time; without them is the normal case. */
static int without_record(enum av_verb verb, int err)
{
	return err;
}

AV_EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	if (av_ours(qp->context))
		memset(ece, 0, sizeof(*ece));
	return LACKED(without_record, av_ours(qp->context), QUERY_ECE, ibv_query_ece,
		      "IBVERBS_1.10", qp, ece);
}

AV_EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	return LACKED(without_record, av_ours(qp->context), SET_ECE, ibv_set_ece, "IBVERBS_1.10",
		      qp, ece);
}

/* --- DMA handles ----------------------------------------------------------------- */

AV_EXPORT struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *context,
					  struct ibv_dmah_init_attr *attr)
{
	return LACKED(av_fail_null, av_ours(context), ALLOC_DMAH, ibv_alloc_dmah, "IBVERBS_1.15",
		      context, attr);
}

AV_EXPORT int ibv_dealloc_dmah(struct ibv_dmah *dmah)
{
	return LACKED(av_fail_errno, is_ours(dmah), DEALLOC_DMAH, ibv_dealloc_dmah, "IBVERBS_1.15",
		      dmah);
}

/* --- completion counters --------------------------------------------------------- */

AV_EXPORT int _ibv_query_comp_cntr_caps(struct ibv_context *context,
					struct ibv_comp_cntr_caps *caps, size_t size)
{
	memset(caps, 0, size);
	return LACKED(av_fail_errno, av_ours(context), QUERY_COMP_CNTR_CAPS,
		      _ibv_query_comp_cntr_caps, "IBVERBS_1.18", context, caps, size);
}

AV_EXPORT struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *context,
						     struct ibv_comp_cntr_init_attr *attr)
{
	return LACKED(av_fail_null, av_ours(context), CREATE_COMP_CNTR, ibv_create_comp_cntr,
		      "IBVERBS_1.18", context, attr);
}

AV_EXPORT int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *counter,
				      struct ibv_qp_attach_comp_cntr_attr *attr)
{
	return LACKED(av_fail_errno, av_ours(qp->context), QP_ATTACH_COMP_CNTR,
		      ibv_qp_attach_comp_cntr, "IBVERBS_1.18", qp, counter, attr);
}

/* Defines a verb on an existing counter. */
#define ON_COUNTER(id, name, type)                                                                \
	AV_EXPORT int name(struct ibv_comp_cntr *counter, type value)                             \
	{                                                                                         \
		return LACKED(av_fail_errno, is_ours(counter), id, name, "IBVERBS_1.18", counter, \
			      value);                                                             \
	}

ON_COUNTER(SET_COMP_CNTR, ibv_set_comp_cntr, uint64_t)
ON_COUNTER(SET_ERR_COMP_CNTR, ibv_set_err_comp_cntr, uint64_t)
ON_COUNTER(INC_COMP_CNTR, ibv_inc_comp_cntr, uint64_t)
ON_COUNTER(INC_ERR_COMP_CNTR, ibv_inc_err_comp_cntr, uint64_t)
ON_COUNTER(READ_COMP_CNTR, ibv_read_comp_cntr, uint64_t *)
ON_COUNTER(READ_ERR_COMP_CNTR, ibv_read_err_comp_cntr, uint64_t *)

AV_EXPORT int ibv_destroy_comp_cntr(struct ibv_comp_cntr *counter)
{
	return LACKED(av_fail_errno, is_ours(counter), DESTROY_COMP_CNTR, ibv_destroy_comp_cntr,
		      "IBVERBS_1.18", counter);
}

/* --- device memory as a dma-buf -------------------------------------------------- */

AV_EXPORT int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm)
{
	return LACKED(av_fail_fd, av_ours(dm->context), DM_EXPORT_DMABUF_FD,
		      ibv_dm_export_dmabuf_fd, "IBVERBS_1.16", dm);
}
