/* SPDX-License-Identifier: MIT */
/*
 * Offsets, sizes and values of <infiniband/verbs_exp.h> as programs were compiled with them, for
 * 64-bit machines: each row that is not so does not compile. For C99 and C++11, too; compile.sh
 * does so, and chooses what is included. The rows are a file for each part of the header, in
 * layout/.
 */
#include INCLUDE_FIRST
#ifdef INCLUDE_SECOND
#include INCLUDE_SECOND
#endif
#include <stddef.h>

#define PASTE_(a, b)		 a##b
#define PASTE(a, b)		 PASTE_(a, b)
#define HOLDS(cond)		 extern char PASTE(row_, __COUNTER__)[(cond) ? 1 : -1]
#define OFFSET(type, member, at) HOLDS(offsetof(struct type, member) == (at))
#define SIZE(type, bytes)	 HOLDS(sizeof(struct type) == (bytes))
#define VALUE(name, value)	 HOLDS((unsigned long long)(name) == (unsigned long long)(value))
#define ALIKE(type, plain, member) \
	HOLDS(offsetof(struct type, member) == offsetof(struct plain, member))

/* Types that C++ programs rely on: fields that enumerators are assigned to. */
void assign(struct ibv_exp_device_attr *device, struct ibv_exp_send_wr *wr, struct ibv_exp_wc *wc,
	    struct ibv_exp_qp_init_attr *qp, struct ibv_exp_res_domain_init_attr *domain,
	    struct ibv_exp_memcpy_dm_attr *copy, struct ibv_exp_gid_attr *gid);
void assign(struct ibv_exp_device_attr *device, struct ibv_exp_send_wr *wr, struct ibv_exp_wc *wc,
	    struct ibv_exp_qp_init_attr *qp, struct ibv_exp_res_domain_init_attr *domain,
	    struct ibv_exp_memcpy_dm_attr *copy, struct ibv_exp_gid_attr *gid)
{
	device->exp_atomic_cap = IBV_EXP_ATOMIC_HCA;
	device->comp_mask = (uint32_t)(IBV_EXP_DEVICE_ATTR_RESERVED - 1);
	wr->exp_opcode = IBV_EXP_WR_UMR_FILL;
	wr->op.calc.calc_op = IBV_EXP_CALC_OP_BOR;
	wc->exp_opcode = IBV_EXP_WC_UMR;
	qp->qp_type = IBV_EXP_QPT_DC_INI;
	qp->qp_type = IBV_QPT_XRC;
	domain->thread_model = IBV_EXP_THREAD_SINGLE;
	domain->msg_model = IBV_EXP_MSG_HIGH_BW;
	copy->memcpy_dir = IBV_EXP_DM_CPY_TO_HOST;
	gid->type = IBV_EXP_ROCE_V2_GID_TYPE;
}

/* Both forms of the call, in C and in C++. */
int bind_twice(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_exp_mw_bind *mw_bind);
int bind_twice(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_exp_mw_bind *mw_bind)
{
	int (*call)(struct ibv_exp_mw_bind *) = ibv_exp_bind_mw;

	return ibv_exp_bind_mw(qp, mw, mw_bind) + ibv_exp_bind_mw(mw_bind) + call(mw_bind);
}

#include "layout/base.h"
#include "layout/clock.h"
#include "layout/cq.h"
#include "layout/dct.h"
#include "layout/device.h"
#include "layout/dm.h"
#include "layout/domain.h"
#include "layout/environment.h"
#include "layout/interface.h"
#include "layout/mr.h"
#include "layout/mw.h"
#include "layout/plain.h"
#include "layout/port.h"
#include "layout/provider.h"
#include "layout/qp.h"
#include "layout/send.h"
#include "layout/srq.h"
#include "layout/task.h"
#include "layout/tunneled_atomic.h"
#include "layout/umr.h"
