/* SPDX-License-Identifier: MIT */
/*
 * Extended CQs: the current completion is in the private half, and read through functions. A batch,
 * from start to end, belongs to one thread, which holds @batch.
 */
#include <time.h>

#include "base/clock.h"
#include "base/uncancelled.h"
#include "transport/poll.h"
#include "verbs/between.h"
#include "verbs/fail.h"
#include "verbs/ops.h"

static struct av_cq *cq_of(struct ibv_cq_ex *ex)
{
	return av_container_of(ex, struct av_cq, ex);
}

/* Take the next completion. Return: 0, ENOENT (none), or another errno value (broken CQ). */
static int take(struct av_cq *cq)
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

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct av_cq *cq = cq_of(ex);
	int err;

	if (attr && attr->comp_mask)
		return av_fail_errno(AV_VERB_START_POLL,
				     av_refuse(EINVAL, AV_CHECK_COMP_MASK, attr->comp_mask, 0));
	if (av_context_of(ex->context)->forked)
		return av_fail_errno(AV_VERB_START_POLL,
				     av_refuse(EINVAL, AV_CHECK_POST_OBJECT, 0, 0));
	if (!cq->single_threaded)
		pthread_mutex_lock(&cq->batch);
	cq->in_batch = true;
	err = take(cq);
	if (err) {
		cq->in_batch = false;
		if (!cq->single_threaded)
			pthread_mutex_unlock(&cq->batch);
	}
	return err;
}

static int next_poll(struct ibv_cq_ex *ex)
{
	return take(cq_of(ex));
}

/* Harmless without an open batch, because programs also call it after an empty ibv_start_poll(). */
static void end_poll(struct ibv_cq_ex *ex)
{
	struct av_cq *cq = cq_of(ex);

	if (!cq->in_batch)
		return;
	cq->in_batch = false;
	if (!cq->single_threaded)
		pthread_mutex_unlock(&cq->batch);
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
	(void)ex;
	return 0;
}

static uint32_t read_flow_tag(struct ibv_cq_ex *ex)
{
	(void)ex;
	return 0;
}

static void read_tm_info(struct ibv_cq_ex *ex, struct ibv_wc_tm_info *info)
{
	(void)ex;
	*info = (struct ibv_wc_tm_info){0};
}

static uint64_t read_completion_ts(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->stamp_ns;
}

/* Entries have monotonic time. The clocks' difference changes only when the time is set. */
static uint64_t read_wallclock(struct ibv_cq_ex *ex)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec -
	       (av_now_ns() - cq_of(ex)->stamp_ns);
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

static bool is_parent_domain(const struct ibv_context *context, const struct ibv_pd *ibv)
{
	const struct av_pd *pd = av_pd_in(context, ibv);

	return pd && pd->contains;
}

static uint32_t flags_of(const struct ibv_cq_init_attr_ex *attr)
{
	return attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? attr->flags : 0;
}

static int check_attr(const struct ibv_context *context, const struct ibv_cq_init_attr_ex *attr)
{
	const uint32_t mask = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
	const uint32_t flags =
		IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;

	if (attr->comp_mask & ~mask)
		return av_refuse(EINVAL, AV_CHECK_CQ_MASK, attr->comp_mask, mask);
	if (flags_of(attr) & ~flags)
		return av_refuse(EINVAL, AV_CHECK_CQ_FLAGS, attr->flags, flags);
	if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) &&
	    !is_parent_domain(context, attr->parent_domain))
		return av_refuse(EINVAL, AV_CHECK_CQ_PARENT, 0, 0);
	if (attr->wc_flags & ~(uint64_t)IBV_CREATE_CQ_SUP_WC_FLAGS)
		return av_refuse(EOPNOTSUPP, AV_CHECK_CQ_WC_FLAGS, attr->wc_flags,
				 IBV_CREATE_CQ_SUP_WC_FLAGS);
	return 0;
}

struct ibv_cq_ex *av_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	AV_UNCANCELLED;
	struct ibv_cq *ibv;
	struct av_cq *cq;
	int err = check_attr(context, attr);

	if (err)
		return av_fail_null(AV_VERB_CREATE_CQ_EX, err);
	ibv = av_cq_create(av_context_of(context), (int)attr->cqe, attr->cq_context, attr->channel,
			   (int)attr->comp_vector);
	if (!ibv)
		return NULL;
	cq = av_container_of(ibv, struct av_cq, ibv);
	cq->made_at = __builtin_return_address(0);
	cq->single_threaded = flags_of(attr) & IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	if (flags_of(attr) & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN)
		atomic_store(&cq->shared->drops, 1);
	if (attr->wc_flags &
	    (IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK))
		atomic_store(&cq->shared->stamped, 1);
	fill_readers(&cq->ex, attr->wc_flags);
	return &cq->ex;
}

/* The clock of the time stamps, in nanoseconds: hca_core_clock is 1 GHz. */
int av_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
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
