/* SPDX-License-Identifier: MIT */
/* Device memory: ibv_exp_alloc_dm() and the verbs for its result. */
#include "exp/exp.h"

#include "base/checked.h"
#include "base/uncancelled.h"
#include "verbs/between.h"
#include "verbs/ops.h"

AV_EXPORT struct ibv_exp_dm *ibv_exp_alloc_dm(struct ibv_context *context,
					      struct ibv_exp_alloc_dm_attr *attr)
{
	AV_UNCANCELLED;
	struct ibv_alloc_dm_attr plain = {.length = attr->length};
	struct ibv_dm *dm;

	AV_EXP_KNOWN_OR_NULL(EXP_ALLOC_DM, attr->comp_mask, IBV_EXP_ALLOC_DM_ATTR_RESERVED);
	if (!av_ours(context))
		return NULL;
	dm = av_alloc_dm(context, &plain);
	return dm ? &av_dm_find(dm)->exp : NULL;
}

AV_EXPORT int ibv_exp_free_dm(struct ibv_exp_dm *exp)
{
	AV_UNCANCELLED;
	struct av_dm *dm;

	if (!av_ours(exp->context))
		return ENOSYS;
	dm = av_dm_of_exp(exp);
	return dm ? av_free_dm(&dm->ibv) : av_fail_errno(AV_VERB_EXP_FREE_DM, ENOENT);
}

AV_EXPORT int ibv_exp_memcpy_dm(struct ibv_exp_dm *exp, struct ibv_exp_memcpy_dm_attr *attr)
{
	struct av_dm *dm;
	int err;

	AV_EXP_KNOWN_OR_EINVAL(EXP_MEMCPY_DM, attr->comp_mask, IBV_EXP_DM_CPY_COMP_MASK_RESERVED);
	if (!av_ours(exp->context))
		return ENOSYS;
	dm = av_dm_of_exp(exp);
	if (!dm)
		return av_fail_errno(AV_VERB_EXP_MEMCPY_DM, ENOENT);
	if (!av_range_within(attr->dm_offset, attr->length, 0, dm->length))
		return av_fail_errno(AV_VERB_EXP_MEMCPY_DM,
				     av_refuse(EINVAL, AV_CHECK_DM_RANGE,
					       attr->dm_offset + attr->length, dm->length));
	if (attr->memcpy_dir == IBV_EXP_DM_CPY_TO_DEVICE)
		err = av_dm_write(dm, attr->dm_offset, attr->host_addr, attr->length, 1);
	else if (attr->memcpy_dir == IBV_EXP_DM_CPY_TO_HOST)
		err = av_dm_read(attr->host_addr, dm, attr->dm_offset, attr->length, 1);
	else
		err = av_refuse(EINVAL, AV_CHECK_DM_DIRECTION, attr->memcpy_dir, 0);
	return err ? av_fail_errno(AV_VERB_EXP_MEMCPY_DM, err) : 0;
}
