/* SPDX-License-Identifier: MIT */
/* Putting send requests into the ring: the checks of ibv_post_send(3) that fail at once. */
#include "queue/qp.h"

struct av_sq_wqe *av_sq_slot(const struct av_qp_ref *end, uint32_t number)
{
	const struct av_qp_shared *qp = end->qp;
	uint64_t place = number & qp->sq_mask;

	return av_seg_piece(end->seg, qp->sq_ring + place * qp->sq_stride, AV_SQ_STRIDE_MAX);
}

struct av_atomic *av_sq_operands(const struct av_qp_ref *end, const struct av_sq_wqe *wqe)
{
	uint32_t stride = end->qp->sq_stride;

	if (!end->qp->max_operand || stride < sizeof(*wqe) + AV_SQ_OPERANDS ||
	    stride > AV_SQ_STRIDE_MAX)
		return NULL;
	/* @stride may have changed since it led to this slot, so the address is checked again. */
	return av_seg_at(end->seg,
			 (uintptr_t)wqe - (uintptr_t)end->seg->head + stride - AV_SQ_OPERANDS,
			 AV_SQ_OPERANDS);
}

static uint64_t total(const struct ibv_send_wr *wr)
{
	uint64_t bytes = 0;

	for (int i = 0; i < wr->num_sge; i++)
		bytes += wr->sg_list[i].length;
	return bytes;
}

static int check_operands(const struct av_qp_shared *qp, const struct ibv_send_wr *wr,
			  uint32_t bytes)
{
	return wr->num_sge > 0 && av_atomic_size_valid(bytes) && bytes <= qp->max_operand
		       ? 0
		       : av_refuse(EINVAL, AV_CHECK_POST_OPERANDS, bytes, qp->max_operand);
}

/* It has no data, so its list may be anything. */
static int check_local(const struct ibv_send_wr *wr, enum av_wr_form form)
{
	if (wr->send_flags & IBV_SEND_INLINE)
		return av_refuse(EINVAL, AV_CHECK_POST_INLINE_OP, wr->opcode, 0);
	if (form == AV_FORM_BIND && !wr->bind_mw.mw)
		return av_refuse(EINVAL, AV_CHECK_BIND_WINDOW, 0, 0);
	return 0;
}

/* @operands: as for av_sq_post(), of this request; @bytes: out, the sum of the elements */
static int check_send_wr(const struct av_qp_shared *qp, const struct ibv_send_wr *wr,
			 const struct av_wr_opcode *o, const struct av_atomic *operands,
			 uint64_t *bytes)
{
	if (o->form == AV_FORM_NONE || (av_unlikely(o->form == AV_FORM_OPERANDS) && !operands))
		return av_refuse(EINVAL, AV_CHECK_POST_OPCODE, (uint64_t)(int)wr->opcode, 0);
	*bytes = 0;
	if (av_unlikely(o->form == AV_FORM_OPERANDS)) {
		int ret = check_operands(qp, wr, operands->bytes);

		if (ret)
			return ret;
	}
	if (av_unlikely(o->local))
		return check_local(wr, o->form);
	if (wr->num_sge < 0 ||
	    (!(wr->send_flags & IBV_SEND_INLINE) && (uint32_t)wr->num_sge > qp->sq_max_sge))
		return av_refuse(EINVAL, AV_CHECK_POST_SEND_SGE, (uint64_t)wr->num_sge,
				 qp->sq_max_sge);
	if (AV_LIST_MISSING(wr->num_sge, wr->sg_list))
		return av_refuse(EINVAL, AV_CHECK_POST_SEND_LIST, (uint32_t)wr->num_sge, 0);
	*bytes = av_likely(wr->num_sge == 1) ? wr->sg_list[0].length : total(wr);
	if (!(wr->send_flags & IBV_SEND_INLINE))
		return 0;
	if (!o->may_inline)
		return av_refuse(EINVAL, AV_CHECK_POST_INLINE_OP, wr->opcode, 0);
	return *bytes > qp->max_inline
		       ? av_refuse(EINVAL, AV_CHECK_POST_INLINE, *bytes, qp->max_inline)
		       : 0;
}

void av_sq_fill_bind(struct av_sq_wqe *wqe, const struct ibv_mw *mw, uint32_t rkey,
		     const struct ibv_mw_bind_info *info)
{
	wqe->window = mw->rkey;
	wqe->rkey = (mw->rkey & ~0xffu) | (rkey & 0xff);
	wqe->remote_addr = info->addr;
	wqe->compare_add = info->length;
	wqe->region = info->mr ? info->mr->lkey : 0;
	wqe->access = info->mw_access_flags;
}

void av_sq_fill_ud(struct av_sq_wqe *wqe, const struct ibv_ah_attr *ah, uint32_t qpn, uint32_t qkey)
{
	wqe->ud.dgid = ah->grh.dgid;
	wqe->ud.qpn = qpn;
	wqe->ud.qkey = qkey;
	wqe->route.flow_label = ah->grh.flow_label & 0xfffff;
	wqe->route.traffic_class = ah->grh.traffic_class;
	wqe->route.sl = ah->sl & 15;
	wqe->route.dlid = ah->dlid;
	wqe->route.sgid_index = ah->grh.sgid_index & 0x7f;
	wqe->route.is_global = ah->is_global != 0;
	wqe->route.hop_limit = ah->grh.hop_limit;
}

/* The target of what is neither a message nor RDMA. */
static void fill_target(struct av_sq_wqe *wqe, const struct ibv_send_wr *wr, enum av_wr_form form)
{
	switch (form) {
	case AV_FORM_ATOMIC:
		wqe->compare_add = wr->wr.atomic.compare_add;
		wqe->swap = wr->wr.atomic.swap;
		__attribute__((fallthrough));
	case AV_FORM_OPERANDS:
		wqe->remote_addr = wr->wr.atomic.remote_addr;
		wqe->rkey = wr->wr.atomic.rkey;
		break;
	case AV_FORM_BIND:
		av_sq_fill_bind(wqe, wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
		wr->bind_mw.mw->rkey = wqe->rkey; /* as soon as the bind is posted */
		break;
	default:
		break;
	}
}

/* Copy inline data. A bad address faults here, as in any library's post function. */
static void copy_inline_data(struct av_sq_wqe *wqe, const struct ibv_send_wr *wr)
{
	uint8_t *to = wqe->data;

	wqe->count = 0;
	for (int i = 0; i < wr->num_sge; i++) {
		if (wr->sg_list[i].length == 0)
			continue;
		memcpy(to, (const void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
		to += wr->sg_list[i].length;
	}
}

static int fill_operands(const struct av_qp_ref *end, const struct av_sq_wqe *wqe,
			 const struct av_atomic *operands)
{
	struct av_atomic *to = av_sq_operands(end, wqe);

	if (!to || !operands)
		return av_refuse(EINVAL, AV_CHECK_POST_DAMAGED, 0, 0);
	*to = *operands;
	return 0;
}

static void fill_send_wqe(struct av_sq_wqe *wqe, const struct ibv_send_wr *wr,
			  const struct av_wr_opcode *o, uint64_t bytes)
{
	wqe->wr_id = wr->wr_id;
	wqe->opcode = wr->opcode;
	wqe->flags = wr->send_flags;
	wqe->imm = wr->imm_data;
	wqe->bytes = bytes;
	wqe->srqn = wr->qp_type.xrc.remote_srqn;
	if (av_likely(o->form == AV_FORM_RDMA)) {
		wqe->remote_addr = wr->wr.rdma.remote_addr;
		wqe->rkey = wr->wr.rdma.rkey;
	} else if (o->form != AV_FORM_MESSAGE) {
		fill_target(wqe, wr, o->form);
	}
	if (av_unlikely(o->local)) {
		wqe->bytes = wqe->count = 0;
		return;
	}
	if (wr->send_flags & IBV_SEND_INLINE) {
		copy_inline_data(wqe, wr);
		return;
	}
	wqe->count = (uint32_t)wr->num_sge;
	if (av_likely(wr->num_sge == 1)) {
		wqe->sge[0] = wr->sg_list[0];
		return;
	}
	for (int i = 0; i < wr->num_sge; i++)
		wqe->sge[i] = wr->sg_list[i];
}

/* Fill in what few requests have: an extended atomic's operands, a datagram's destination. */
static int fill_more(const struct av_qp_ref *end, struct av_sq_wqe *wqe,
		     const struct ibv_send_wr *wr, const struct av_wr_opcode *o,
		     av_ah_lookup *find_ah, const struct av_atomic *operands)
{
	const struct ibv_ah_attr *ah;

	if (o->form == AV_FORM_OPERANDS)
		return fill_operands(end, wqe, operands);
	if (end->qp->type != IBV_QPT_UD || !av_wr_opcode_is_of(o, IBV_QPT_UD))
		return 0;
	ah = find_ah(wr->wr.ud.ah);
	if (!ah)
		return av_refuse(EINVAL, AV_CHECK_POST_AH, 0, 0);
	av_sq_fill_ud(wqe, ah, wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey);
	return 0;
}

static int full(const struct av_qp_shared *qp)
{
	return av_refuse(ENOMEM, AV_CHECK_POST_SEND_FULL, qp->sq_capacity, qp->sq_capacity);
}

int av_sq_post(const struct av_qp_ref *end, struct ibv_send_wr *wr, struct ibv_send_wr **bad,
	       av_ah_lookup *find_ah, const struct av_atomic *operands)
{
	struct av_qp_shared *qp = end->qp;
	uint32_t tail = atomic_load_explicit(&qp->sq_tail, memory_order_relaxed);
	uint32_t freed = atomic_load_explicit(&qp->sq_freed, memory_order_acquire);
	int ret = 0;

	for (; wr; wr = wr->next, tail++) {
		const struct av_wr_opcode *o = av_wr_opcode(wr->opcode);
		struct av_sq_wqe *wqe = av_sq_slot(end, tail);
		uint64_t bytes;

		ret = tail - freed >= qp->sq_capacity ? full(qp)
						      : check_send_wr(qp, wr, o, operands, &bytes);
		if (av_likely(!ret) && av_unlikely(!wqe))
			ret = av_refuse(EINVAL, AV_CHECK_POST_DAMAGED, 0, 0);
		if (av_likely(!ret))
			fill_send_wqe(wqe, wr, o, bytes);
		if (av_unlikely(operands || qp->type == IBV_QPT_UD) && !ret)
			ret = fill_more(end, wqe, wr, o, find_ah, operands);
		if (av_unlikely(ret)) {
			*bad = wr;
			break;
		}
		operands += operands != NULL;
	}
	av_publish_before_try(&qp->sq_tail, tail); /* first: see av_sq_progress() */
	return ret;
}

/* Does a slot hold @count elements of a UMR key's list? */
static bool holds(const struct av_qp_shared *qp, uint32_t count)
{
	uint32_t stride = qp->sq_stride;

	return stride <= AV_SQ_STRIDE_MAX && stride >= sizeof(struct av_sq_wqe) &&
	       count <= (stride - sizeof(struct av_sq_wqe)) / sizeof(struct av_klm_entry);
}

const struct av_klm_entry *av_sq_list(const struct av_qp_ref *end, const struct av_sq_wqe *wqe)
{
	if (wqe->count > AV_MAX_KLMS)
		return NULL;
	if (wqe->umr.list)
		return av_seg_at(end->seg, wqe->umr.list, wqe->count * sizeof(wqe->list[0]));
	return holds(end->qp, wqe->count) ? wqe->list : NULL;
}

static int fill_special(const struct av_qp_shared *qp, struct av_sq_wqe *wqe,
			const struct av_sq_special *req)
{
	if (!wqe || (req->inlined && !holds(qp, req->count)))
		return av_refuse(EINVAL, AV_CHECK_POST_DAMAGED, 0, 0);
	memset(wqe, 0, sizeof(*wqe));
	wqe->wr_id = req->wr_id;
	wqe->opcode = req->opcode;
	wqe->flags = req->flags;
	wqe->rkey = req->key;
	wqe->rights = req->rights;
	wqe->umr.base = req->base;
	wqe->umr.rounds = req->rounds;
	wqe->umr.list = req->list;
	wqe->count = req->count;
	if (req->inlined)
		memcpy(wqe->list, req->inlined, req->count * sizeof(wqe->list[0]));
	return 0;
}

int av_sq_post_special(const struct av_qp_ref *end, const struct av_sq_special *req)
{
	struct av_qp_shared *qp = end->qp;
	uint32_t tail = atomic_load_explicit(&qp->sq_tail, memory_order_relaxed);
	uint32_t freed = atomic_load_explicit(&qp->sq_freed, memory_order_acquire);
	int ret = tail - freed >= qp->sq_capacity ? full(qp) : 0;

	if (ret == 0)
		ret = fill_special(qp, av_sq_slot(end, tail), req);
	if (ret == 0)
		atomic_store(&qp->sq_tail, tail + 1); /* as in av_sq_post() */
	return ret;
}

/* --- completions ------------------------------------------------------------------- */

int av_sq_complete(const struct av_qp_ref *end, const struct av_sq_wqe *wqe,
		   enum ibv_wc_status status)
{
	struct av_qp_shared *qp = end->qp;
	struct av_cqe cqe;
	int ret;

	AV_ASSERT_HELD(&end->qp->req_lock);
	if (status == IBV_WC_SUCCESS && !(wqe->flags & IBV_SEND_SIGNALED) && !qp->sig_all) {
		qp->sq_next++;
		return 0;
	}
	memset(&cqe, 0, offsetof(struct av_cqe, data));
	cqe.wr_id = wqe->wr_id;
	cqe.status = (uint8_t)status;
	cqe.opcode = av_wr_opcode(__atomic_load_n(&wqe->opcode, __ATOMIC_RELAXED))->completion;
	cqe.byte_len = (uint32_t)wqe->bytes;
	cqe.qpn = atomic_load_explicit(&qp->qpn, memory_order_relaxed);
	cqe.queue = qp->index;
	cqe.wqe = qp->sq_next;
	ret = av_cq_push(end->seg, qp->send_cq, &cqe, NULL);
	qp->sq_next++; /* last: a death in between leaves a completion too many, not too few */
	return ret;
}
