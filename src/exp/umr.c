/* SPDX-License-Identifier: MIT */
/* User-mode memory registration: not there; IBV_EXP_DEVICE_UMR is not set. */
#include "exp/exp.h"

AV_EXPORT struct ibv_mr *ibv_exp_create_mr(struct ibv_exp_create_mr_in *in)
{
	return av_exp_absent_null();
}

AV_EXPORT int ibv_exp_query_mkey(struct ibv_mr *mr, struct ibv_exp_mkey_attr *attr)
{
	return av_exp_absent();
}

AV_EXPORT struct ibv_exp_mkey_list_container *
ibv_exp_alloc_mkey_list_memory(struct ibv_exp_mkey_list_container_attr *attr)
{
	return av_exp_absent_null();
}

AV_EXPORT int ibv_exp_dealloc_mkey_list_memory(struct ibv_exp_mkey_list_container *mem)
{
	return av_exp_absent();
}
