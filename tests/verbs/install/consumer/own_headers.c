/* SPDX-License-Identifier: MIT */
/* A program that uses what only anyverbs has: <infiniband/verbs.h> is the wrapper here, and
 * <anyverbs/> is found. */
#include <stdio.h>
#include <infiniband/verbs.h>
#include <anyverbs/as_notify.h>
#include <anyverbs/tunneled_atomic.h>

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct ibv_exp_reg_mr_in in = {
		.pd = context ? ibv_alloc_pd(context) : NULL,
		.length = 4096,
		.exp_access = IBV_EXP_ACCESS_ALLOCATE_MR | IBV_EXP_ACCESS_LOCAL_WRITE,
	};
	struct ibv_mr *mr = in.pd ? ibv_exp_reg_mr(&in) : NULL;
	struct ibv_cq *cq = mr ? ibv_create_cq(context, 1, NULL, NULL, 0) : NULL;

	if (!cq || anyverbs_cq_wait(cq, NULL) == 0) /* it has no channel */
		return 1;
	printf("%zu bytes at no address of mine\n", mr->length);
	return ibv_dereg_mr(mr);
}
