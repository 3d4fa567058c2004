/* SPDX-License-Identifier: MIT */
#include "transport/transport.h"
#include "verbs/misuse.h"

static const struct av_page_object cq_pages = {
	.name = "CQ", .huge_variable = "HUGE_CQ", .fallback = AV_ALLOC_PREFER_CONTIG};

static int check_cq_size(const struct av_context *ctx, int cqe)
{
	if (cqe >= 1 && cqe <= ctx->dev->attr.max_cqe)
		return 0;
	return av_refuse(EINVAL, AV_CHECK_CQ_SIZE, (uint64_t)cqe, (uint64_t)ctx->dev->attr.max_cqe);
}

static int check_cq_create(struct av_context *ctx, int cqe, const struct ibv_comp_channel *channel,
			   int vector)
{
	const int vectors = ctx->verbs.context.num_comp_vectors;
	int err = check_cq_size(ctx, cqe);

	if (err)
		return err;
	if (vector < 0 || vector >= vectors)
		return av_refuse(EINVAL, AV_CHECK_CQ_VECTOR, (uint64_t)vector, (uint64_t)vectors);
	if (channel && channel->context != &ctx->verbs.context)
		return av_refuse(EINVAL, AV_CHECK_CQ_CHANNEL, 0, 0);
	return av_verb_err(ctx, AV_VERB_CREATE_CQ);
}

static void hold_channel(struct ibv_comp_channel *channel, int by)
{
	if (!channel)
		return;
	AV_LOCKED(&channel->context->mutex);
	channel->refcnt += by;
}

struct ibv_cq *av_cq_create(struct av_context *ctx, int cqe, void *cq_context,
			    struct ibv_comp_channel *channel, int comp_vector)
{
	int err = check_cq_create(ctx, cqe, channel, comp_vector);
	struct av_cq *cq = av_object_new(AV_VERB_CREATE_CQ, err, sizeof(*cq));
	struct av_page_policy policy;
	uint32_t index;

	if (!cq)
		return NULL;
	policy = av_environment_pages(ctx, &cq_pages);
	cq->id = atomic_fetch_add(&ctx->cq_ids, 1) + 1;
	index = av_cq_init(ctx->seg, (uint32_t)cqe,
			   channel ? av_container_of(channel, struct av_channel, ibv)->doorbell : 0,
			   cq->id, (uint32_t)ctx->dev->attr.max_cq, &policy);
	if (!index || av_table_set(&ctx->cqs, index, cq)) {
		if (index)
			av_cq_fini(ctx->seg, index);
		return av_object_fail(AV_VERB_CREATE_CQ, cq, ENOMEM);
	}
	cq->shared = av_cq_at(ctx->seg, index);
	cq->ibv.context = &ctx->verbs.context;
	cq->ibv.channel = channel;
	cq->ibv.cq_context = cq_context;
	cq->ibv.handle = index;
	cq->ibv.cqe = cqe;
	pthread_mutex_init(&cq->ibv.mutex, NULL);
	pthread_cond_init(&cq->ibv.cond, NULL);
	pthread_mutex_init(&cq->batch, NULL);
	hold_channel(channel, 1);
	return &cq->ibv;
}

AV_EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
				       struct ibv_comp_channel *channel, int comp_vector)
{
	AV_BEGIN_OR_PASS_ON(context, ibv_create_cq, "IBVERBS_1.1", context, cqe, cq_context,
			    channel, comp_vector);
	return AV_MADE_HERE(struct av_cq, av_cq_create(av_context_of(context), cqe, cq_context,
						       channel, comp_vector));
}

AV_EXPORT int ibv_destroy_cq(struct ibv_cq *ibv)
{
	AV_OURS_OR_NEXT(av_fail_errno, DESTROY_CQ, ibv_destroy_cq, "IBVERBS_1.1", ibv);
	AV_FAIL_ON_DEMAND(av_fail_errno, DESTROY_CQ, ibv->context, 0, 0);
	struct av_context *ctx = av_context_of(ibv->context);
	struct av_cq *cq = av_cq_find(ibv);

	if (!cq)
		return av_fail_errno(AV_VERB_DESTROY_CQ, ENOENT);
	if (atomic_load(&cq->users) || atomic_load(&cq->waiting)) {
		if (atomic_load(&cq->users))
			(void)av_refuse(EBUSY, AV_CHECK_CQ_BUSY, atomic_load(&cq->users), 0);
		return av_misuse_busy(AV_VERB_DESTROY_CQ, AV_MISUSE_OF("CQ", cq, cq->ibv.handle));
	}
	av_misuse_ends(AV_MISUSE_OF("CQ", cq, cq->ibv.handle), cq);
	av_unlist(ctx, &ctx->cqs, ibv->handle);
	if (!ctx->forked) {
		av_channel_forget(cq);
		av_event_wait(&ibv->mutex, &ibv->cond, &ibv->comp_events_completed,
			      &cq->comp_delivered, AV_MISUSE_OF("CQ", cq, cq->ibv.handle));
		av_event_wait(&ibv->mutex, &ibv->cond, &ibv->async_events_completed,
			      &cq->async_delivered, AV_MISUSE_OF("CQ", cq, cq->ibv.handle));
		av_timer_forget_cq(ctx->seg, ibv->handle);
		av_cq_fini(ctx->seg, ibv->handle);
	}
	hold_channel(ibv->channel, -1);
	pthread_mutex_destroy(&ibv->mutex);
	pthread_cond_destroy(&ibv->cond);
	pthread_mutex_destroy(&cq->batch);
	free(cq);
	return 0;
}

static int modify_cq(struct ibv_cq *ibv, struct ibv_modify_cq_attr *attr)
{
	AV_BEGIN(av_fail_errno, MODIFY_CQ, ibv->context);
	struct av_context *ctx = av_context_of(ibv->context);
	bool moderate = attr->attr_mask & IBV_CQ_ATTR_MODERATE;
	int err = av_cq_find(ibv) ? av_verb_err(ctx, AV_VERB_MODIFY_CQ) : ENOENT;

	if (err == 0 && attr->attr_mask >= IBV_CQ_ATTR_RESERVED)
		err = av_refuse(EINVAL, AV_CHECK_CQ_MODIFY, attr->attr_mask, IBV_CQ_ATTR_MODERATE);
	if (err == 0 && moderate && attr->moderate.cq_period)
		err = av_timer_arm_cq(ctx->seg, ibv->handle);
	if (err)
		return av_fail_errno(AV_VERB_MODIFY_CQ, err);
	if (moderate)
		av_cq_moderate(ctx->seg, ibv->handle, attr->moderate.cq_count,
			       attr->moderate.cq_period);
	return 0;
}

/* Two threads may resize the CQ. The last to store here stores the size in force. */
static void store_size(struct av_cq *cq)
{
	int cqe;

	do {
		cqe = (int)atomic_load(&cq->shared->capacity);
		__atomic_store_n(&cq->ibv.cqe, cqe, __ATOMIC_SEQ_CST);
	} while (cqe != (int)atomic_load(&cq->shared->capacity));
}

AV_EXPORT int ibv_resize_cq(struct ibv_cq *ibv, int cqe)
{
	AV_OURS_OR_NEXT(av_fail_errno, RESIZE_CQ, ibv_resize_cq, "IBVERBS_1.1", ibv, cqe);
	struct av_context *ctx = av_context_of(ibv->context);
	int err = av_cq_find(ibv) ? av_verb_err(ctx, AV_VERB_RESIZE_CQ) : ENOENT;
	struct av_page_policy policy;

	if (err == 0)
		err = check_cq_size(ctx, cqe);
	if (err == 0) {
		policy = av_environment_pages(ctx, &cq_pages);
		err = av_cq_resize_retry(ctx->seg, ibv->handle, (uint32_t)cqe, &policy);
	}
	if (err)
		return av_fail_errno(AV_VERB_RESIZE_CQ, err);
	store_size(av_container_of(ibv, struct av_cq, ibv));
	return 0;
}

static int req_notify_cq(struct ibv_cq *ibv, int solicited_only)
{
	struct av_context *ctx = av_context_of(ibv->context);
	struct av_cq *cq = av_cq_find(ibv);

	if (av_unlikely(!cq || av_is_unusual(ctx))) {
		int err = !cq		? ENOENT
			  : ctx->forked ? EPERM
					: av_verb_injected(ctx, AV_VERB_REQ_NOTIFY_CQ, 0, 0);

		if (err)
			return av_fail_errno(AV_VERB_REQ_NOTIFY_CQ, err);
	}
	av_cq_arm(ctx->seg, ibv->handle, solicited_only ? AV_CQ_ARMED_SOLICITED : AV_CQ_ARMED_ANY);
	av_rnr_polled(ctx->seg, cq->shared, true);
	return 0;
}

/* Extended CQs. One thread has a batch, ibv_start_poll() to ibv_end_poll(), and holds @batch. */

static struct av_cq *cq_of(struct ibv_cq_ex *ex)
{
	return av_container_of(ex, struct av_cq, ex);
}

/* Takes the next completion. Return: 0; ENOENT: there is none; others: the CQ is broken */
static int poll_next_cqe(struct av_cq *cq)
{
	int n = av_poll(av_context_of(cq->ibv.context)->seg, cq->shared, 1, &cq->current,
			&cq->stamp_ns);

	if (n == 0)
		return ENOENT;
	if (n < 0)
		return -n;
	cq->ex.wr_id = cq->current.wr_id;
	cq->ex.status = cq->current.status;
	return 0;
}

/* Without an open batch it does nothing: programs also call it after an empty ibv_start_poll(). */
static void end_poll(struct ibv_cq_ex *ex)
{
	struct av_cq *cq = cq_of(ex);

	if (!cq->in_batch)
		return;
	cq->in_batch = false;
	if (!cq->single_threaded)
		pthread_mutex_unlock(&cq->batch);
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct av_cq *cq = cq_of(ex);
	int err = 0;

	if (attr && attr->comp_mask)
		err = av_refuse(EINVAL, AV_CHECK_COMP_MASK, attr->comp_mask, 0);
	else if (av_unlikely(av_is_unusual(av_context_of(ex->context))))
		err = av_post_injected(av_context_of(ex->context), AV_VERB_START_POLL, 0);
	if (err)
		return av_fail_errno(AV_VERB_START_POLL, err);
	if (!cq->single_threaded)
		pthread_mutex_lock(&cq->batch);
	cq->in_batch = true;
	err = poll_next_cqe(cq);
	if (err)
		end_poll(ex);
	return err;
}

static int next_poll(struct ibv_cq_ex *ex)
{
	return poll_next_cqe(cq_of(ex));
}

/* Defines read_NAME(), which reads that field of the current completion. */
#define READ(type, name)                              \
	static type read_##name(struct ibv_cq_ex *ex) \
	{                                             \
		return cq_of(ex)->current.name;       \
	}

READ(enum ibv_wc_opcode, opcode)
READ(uint32_t, vendor_err)
READ(uint32_t, byte_len)
READ(__be32, imm_data)
READ(uint32_t, qp_num)
READ(uint32_t, src_qp)
READ(unsigned int, wc_flags)
READ(uint32_t, slid)
READ(uint8_t, sl)
READ(uint8_t, dlid_path_bits)

/* No frame has a VLAN tag here, no flow a number, and no queue matches tags. */
static uint16_t read_cvlan(struct ibv_cq_ex *ex)
{
	return 0;
}

static uint32_t read_flow_tag(struct ibv_cq_ex *ex)
{
	return 0;
}

static void read_tm_info(struct ibv_cq_ex *ex, struct ibv_wc_tm_info *info)
{
	*info = (struct ibv_wc_tm_info){0};
}

static uint64_t read_completion_ts(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->stamp_ns;
}

/* Entries have monotonic time. The clocks' difference changes only when somebody sets the time. */
static uint64_t read_wallclock(struct ibv_cq_ex *ex)
{
	return av_now_real_ns() - (av_now_ns() - cq_of(ex)->stamp_ns);
}

static void fill_readers(struct ibv_cq_ex *ex, uint64_t flags)
{
#define READER(flag, member) (ex->member = flags & (flag) ? (member) : NULL)
	ex->start_poll = start_poll;
	ex->next_poll = next_poll;
	ex->end_poll = end_poll;
	ex->read_opcode = read_opcode;
	ex->read_vendor_err = read_vendor_err;
	ex->read_wc_flags = read_wc_flags;
	READER(IBV_WC_EX_WITH_BYTE_LEN, read_byte_len);
	READER(IBV_WC_EX_WITH_IMM, read_imm_data);
	READER(IBV_WC_EX_WITH_QP_NUM, read_qp_num);
	READER(IBV_WC_EX_WITH_SRC_QP, read_src_qp);
	READER(IBV_WC_EX_WITH_SLID, read_slid);
	READER(IBV_WC_EX_WITH_SL, read_sl);
	READER(IBV_WC_EX_WITH_DLID_PATH_BITS, read_dlid_path_bits);
	READER(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, read_completion_ts);
	READER(IBV_WC_EX_WITH_CVLAN, read_cvlan);
	READER(IBV_WC_EX_WITH_FLOW_TAG, read_flow_tag);
	READER(IBV_WC_EX_WITH_TM_INFO, read_tm_info);
#undef READER
	ex->read_completion_wallclock_ns =
		flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK ? read_wallclock : NULL;
}

static uint32_t get_cq_create_flags(const struct ibv_cq_init_attr_ex *attr)
{
	return attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? attr->flags : 0;
}

static int check_cq_init_attr(const struct ibv_context *context,
			      const struct ibv_cq_init_attr_ex *attr)
{
	const uint32_t mask = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
	const uint32_t flags =
		IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
	const struct av_pd *parent = attr->comp_mask & mask & IBV_CQ_INIT_ATTR_MASK_PD
					     ? av_pd_in(context, attr->parent_domain)
					     : NULL;

	if (attr->comp_mask & ~mask)
		return av_refuse(EINVAL, AV_CHECK_CQ_MASK, attr->comp_mask, mask);
	if (get_cq_create_flags(attr) & ~flags)
		return av_refuse(EINVAL, AV_CHECK_CQ_FLAGS, attr->flags, flags);
	if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) && !(parent && parent->contains))
		return av_refuse(EINVAL, AV_CHECK_CQ_PARENT, 0, 0);
	if (attr->wc_flags & ~(uint64_t)IBV_CREATE_CQ_SUP_WC_FLAGS)
		return av_refuse(EOPNOTSUPP, AV_CHECK_CQ_WC_FLAGS, attr->wc_flags,
				 IBV_CREATE_CQ_SUP_WC_FLAGS);
	return 0;
}

static struct ibv_cq_ex *create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	AV_BEGIN(av_fail_null, CREATE_CQ_EX, context);
	struct ibv_cq *ibv;
	struct av_cq *cq;
	int err = check_cq_init_attr(context, attr);

	if (err)
		return av_fail_null(AV_VERB_CREATE_CQ_EX, err);
	ibv = av_cq_create(av_context_of(context), (int)attr->cqe, attr->cq_context, attr->channel,
			   (int)attr->comp_vector);
	if (!ibv)
		return NULL;
	cq = av_container_of(ibv, struct av_cq, ibv);
	cq->made_at = __builtin_return_address(0);
	cq->single_threaded = get_cq_create_flags(attr) & IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	if (get_cq_create_flags(attr) & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN)
		atomic_store(&cq->shared->drops, 1);
	if (attr->wc_flags &
	    (IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK))
		atomic_store(&cq->shared->stamped, 1);
	fill_readers(&cq->ex, attr->wc_flags);
	av_strict_fill_cq(cq);
	return &cq->ex;
}

/* Reads the clock of the time stamps, in nanoseconds: hca_core_clock is 1 GHz. */
static int query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
	AV_FAIL_IF_LACKING(av_fail_errno, QUERY_RT_VALUES_EX, context);
	AV_FAIL_ON_DEMAND(av_fail_errno, QUERY_RT_VALUES_EX, context, 0, 0);
	if (values->comp_mask & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK)
		return av_fail_errno(AV_VERB_QUERY_RT_VALUES_EX,
				     av_refuse(EINVAL, AV_CHECK_COMP_MASK, values->comp_mask,
					       IBV_VALUES_MASK_RAW_CLOCK));
	if (values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK) {
		values->raw_clock.tv_sec = 0;
		values->raw_clock.tv_nsec = (long)av_now_ns();
	}
	return 0;
}

void av_cq_fill_ops(struct verbs_context *verbs)
{
	verbs->create_cq_ex = create_cq_ex;
	verbs->modify_cq = modify_cq;
	verbs->query_rt_values = query_rt_values;
	verbs->context.ops.req_notify_cq = req_notify_cq;
}
