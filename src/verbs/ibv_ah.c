/* SPDX-License-Identifier: MIT */

#include "device/port.h"
#include "registry/tables.h"
#include "transport/transport.h"
#include "verbs/next.h"
#include "wire/address.h"

/* Address handles, created from attributes or from a received datagram. */

struct av_ah {
	struct ibv_ah ibv;
	uint8_t peek_pad[AV_PEEK_PAD];
	struct av_pd *pd;
	struct ibv_ah_attr attr;
};

AV_FIND(ah, ahs.table)

const struct ibv_ah_attr *av_ah_attr(const struct ibv_ah *ah)
{
	const struct av_ah *found = ah && av_ours(ah->context) ? av_ah_find(ah) : NULL;

	return found ? &found->attr : NULL;
}

/* Programs that know only LIDs rarely say why they end, so this does. */
static int refuse_local(const struct av_device *dev)
{
	av_warn_once("%s: a peer was addressed without a GID, which Ethernet needs. Tell the "
		     "program which row of the GID table to use (often -g 0; anyverbs info shows "
		     "the rows), or, if it knows only LIDs, run it with "
		     "ANYVERBS_DEVICES=%s:link=infiniband",
		     dev->ibv.name, dev->ibv.name);
	return av_refuse_device(EINVAL, AV_CHECK_AV_GLOBAL, dev->ibv.name);
}

int av_check_ah_attr(const struct av_context *ctx, const struct ibv_ah_attr *attr)
{
	struct av_gid gids[AV_GID_MAX];
	unsigned int count;

	if (attr->port_num != 1)
		return av_refuse(EINVAL, AV_CHECK_AV_PORT, attr->port_num, 1);
	if (!attr->is_global)
		return ctx->dev->port.link_layer == IBV_LINK_LAYER_ETHERNET ? refuse_local(ctx->dev)
									    : 0;
	if (av_port_has_row(ctx->seg->head->port, attr->grh.sgid_index))
		return 0;
	count = av_port_gids(ctx->dev, gids);
	if (count == 0)
		return ENOMEM;
	return av_gid_there(gids, count, attr->grh.sgid_index)
		       ? 0
		       : av_refuse(EINVAL, AV_CHECK_AV_SGID, attr->grh.sgid_index, count);
}

AV_EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *ibv_pd, struct ibv_ah_attr *attr)
{
	AV_OURS_OR_NEXT(av_fail_null, CREATE_AH, ibv_create_ah, "IBVERBS_1.1", ibv_pd, attr);
	struct av_context *ctx = av_context_of(ibv_pd->context);
	struct av_pd *pd = av_pd_find(ibv_pd);
	int err = av_check_ah_attr(ctx, attr);
	struct av_ah *ah;

	if (err == 0 && !pd)
		err = ENOENT;
	if (err == 0 && !ctx->forked)
		err = av_verb_err(ctx, AV_VERB_CREATE_AH);
	ah = av_object_new(AV_VERB_CREATE_AH, err, sizeof(*ah));
	if (!ah)
		return NULL;
	ah->pd = pd;
	ah->attr = *attr;
	ah->ibv.context = ibv_pd->context;
	ah->ibv.pd = ibv_pd;
	ah->ibv.handle = av_handles_add(&ctx->ahs, ah, AV_MAX_AH);
	if (!ah->ibv.handle)
		return av_object_fail(AV_VERB_CREATE_AH, ah, ENOMEM);
	av_pd_count(pd, AV_PD_AH, 1);
	return &ah->ibv;
}

AV_EXPORT int ibv_destroy_ah(struct ibv_ah *ibv)
{
	AV_OURS_OR_NEXT(av_fail_errno, DESTROY_AH, ibv_destroy_ah, "IBVERBS_1.1", ibv);
	AV_FAIL_ON_DEMAND(av_fail_errno, DESTROY_AH, ibv->context, 0, 0);
	struct av_ah *ah = av_ah_find(ibv);

	if (!ah)
		return av_fail_errno(AV_VERB_DESTROY_AH, ENOENT);
	av_handles_remove(&av_context_of(ibv->context)->ahs, ibv->handle);
	av_pd_count(ah->pd, AV_PD_AH, -1);
	free(ah);
	return 0;
}

/*
 * The row of our GID table that a datagram came to: with its GID and its header's version; else
 * with its GID; else, as for multicast, with the version; else 0. Return: 0 or ENOMEM
 */
static int find_sgid(const struct av_device *dev, const struct av_grh_fields *f, uint8_t *index)
{
	const uint32_t type = f->iba ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2;
	struct av_gid gids[AV_GID_MAX];
	unsigned int count = av_port_gids(dev, gids), best = 0;

	*index = 0;
	for (unsigned int i = 0; i < count; i++) {
		unsigned int fit = gids[i].type == type;

		if (memcmp(&gids[i].gid, &f->dgid, sizeof(f->dgid)) == 0)
			fit += 2;
		if (fit <= best)
			continue;
		best = fit;
		*index = (uint8_t)i;
	}
	return count ? 0 : ENOMEM;
}

static int init_from_wc(struct av_context *ctx, uint8_t port, const struct ibv_wc *wc,
			const struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	struct av_grh_fields f;

	memset(attr, 0, sizeof(*attr));
	if (port != 1)
		return av_refuse(EINVAL, AV_CHECK_QUERY_PORT, port, 1);
	attr->dlid = wc->slid;
	attr->sl = wc->sl;
	attr->src_path_bits = wc->dlid_path_bits;
	attr->port_num = port;
	if (!(wc->wc_flags & IBV_WC_GRH))
		return 0;
	if (!av_grh_read((const uint8_t *)grh, &f))
		return av_refuse(EINVAL, AV_CHECK_AH_GRH, ((const uint8_t *)grh)[0],
				 ((const uint8_t *)grh)[20]);
	attr->is_global = 1;
	attr->grh.dgid = f.sgid;
	attr->grh.flow_label = f.flow_label;
	attr->grh.hop_limit = 0xff;
	attr->grh.traffic_class = f.traffic_class;
	return find_sgid(ctx->dev, &f, &attr->grh.sgid_index);
}

AV_EXPORT int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc,
				  struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	AV_PASS_ON(context, ibv_init_ah_from_wc, "IBVERBS_1.1", context, port, wc, grh, attr);
	AV_FAIL_ON_DEMAND(av_fail_errno, INIT_AH_FROM_WC, context, 0, 0);
	int err = init_from_wc(av_context_of(context), port, wc, grh, attr);

	return err ? av_fail_errno(AV_VERB_INIT_AH_FROM_WC, err) : 0;
}

AV_EXPORT struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc,
					       struct ibv_grh *grh, uint8_t port)
{
	AV_OURS_OR_NEXT(av_fail_null, CREATE_AH_FROM_WC, ibv_create_ah_from_wc, "IBVERBS_1.1", pd,
			wc, grh, port);
	struct ibv_ah_attr attr;

	if (ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr))
		return NULL;
	return ibv_create_ah(pd, &attr);
}

/* --- multicast groups ------------------------------------------------------------ */

static int check_mcast_group(const struct av_qp *qp, const union ibv_gid *gid)
{
	if (!qp)
		return ENOENT;
	if (av_context_of(qp->ibv.context)->forked)
		return EPERM;
	if (qp->ibv.qp_type != IBV_QPT_UD)
		return av_refuse(EINVAL, AV_CHECK_MCAST_SERVICE, qp->ibv.qp_type, IBV_QPT_UD);
	return av_net_is_group(gid->raw) ? 0
					 : av_refuse(EINVAL, AV_CHECK_MCAST_GID, gid->raw[0], 0xff);
}

AV_EXPORT int ibv_attach_mcast(struct ibv_qp *ibv, const union ibv_gid *gid, uint16_t lid)
{
	AV_OURS_OR_NEXT(av_fail_errno, ATTACH_MCAST, ibv_attach_mcast, "IBVERBS_1.1", ibv, gid,
			lid);
	AV_FAIL_ON_DEMAND(av_fail_errno, ATTACH_MCAST, ibv->context, ibv->qp_num, 0);
	struct av_multicast_member there, member = {.gid = *gid, .qpn = ibv->qp_num};
	uint32_t at = 0;
	struct av_qp *qp = av_qp_find(ibv);
	int err = check_mcast_group(qp, gid);

	if (err == 0)
		err = av_context_err(av_context_of(ibv->context));
	if (err)
		return av_fail_errno(AV_VERB_ATTACH_MCAST, err);
	member.location = (struct av_qp_location){qp->end.seg->ref, qp->end.qp->index};
	pthread_mutex_lock(&qp->changes_mutex);
	if (!av_multicast_next(gid, member.qpn, &at, &there)) {
		err = -av_multicast_attach(&member);
		if (err == 0) {
			atomic_fetch_add(&qp->groups, 1);
			av_wire_join(&qp->end, gid);
		}
	}
	pthread_mutex_unlock(&qp->changes_mutex);
	return err ? av_fail_errno(AV_VERB_ATTACH_MCAST, err) : 0;
}

AV_EXPORT int ibv_detach_mcast(struct ibv_qp *ibv, const union ibv_gid *gid, uint16_t lid)
{
	AV_OURS_OR_NEXT(av_fail_errno, DETACH_MCAST, ibv_detach_mcast, "IBVERBS_1.1", ibv, gid,
			lid);
	AV_FAIL_ON_DEMAND(av_fail_errno, DETACH_MCAST, ibv->context, ibv->qp_num, 0);
	struct av_qp *qp = av_qp_find(ibv);
	int err = check_mcast_group(qp, gid);

	if (err)
		return av_fail_errno(AV_VERB_DETACH_MCAST, err);
	pthread_mutex_lock(&qp->changes_mutex);
	err = -av_multicast_detach(gid, ibv->qp_num);
	if (err == 0) {
		atomic_fetch_sub(&qp->groups, 1);
		av_wire_leave(&qp->end, gid);
	}
	pthread_mutex_unlock(&qp->changes_mutex);
	if (err == EINVAL)
		av_refuse(EINVAL, AV_CHECK_MCAST_NOT_ATTACHED, 0, 0);
	return err ? av_fail_errno(AV_VERB_DETACH_MCAST, err) : 0;
}
