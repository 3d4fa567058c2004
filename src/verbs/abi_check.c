/* SPDX-License-Identifier: MIT */
/*
 * The layouts of <infiniband/verbs.h> that inline verbs and other libraries rely on. Structures
 * grow at their ends only, so offsets hold for newer headers, too; whole sizes are those of
 * rdma-core 39 to 44.
 */
#include <stddef.h>
#include <infiniband/verbs.h>

#include "verbs/objects.h"

#define AT(type, member, offset) \
	_Static_assert(offsetof(type, member) == (offset), #type "." #member)

/* struct verbs_context grows at its front, so check the distance from its end. */
#define FROM_END(member, distance)                                                              \
	_Static_assert(sizeof(struct verbs_context) - offsetof(struct verbs_context, member) == \
			       (distance),                                                      \
		       #member)

AT(struct ibv_context, device, 0);
AT(struct ibv_context, ops, 8);
AT(struct ibv_context, cmd_fd, 264);
AT(struct ibv_context, async_fd, 268);
AT(struct ibv_context, num_comp_vectors, 272);
AT(struct ibv_context, mutex, 280);
AT(struct ibv_context, abi_compat, sizeof(struct ibv_context) - 8);
AT(struct ibv_context_ops, alloc_mw, 56);
AT(struct ibv_context_ops, bind_mw, 64);
AT(struct ibv_context_ops, dealloc_mw, 72);
AT(struct ibv_context_ops, poll_cq, 88);
AT(struct ibv_context_ops, req_notify_cq, 96);
AT(struct ibv_context_ops, post_srq_recv, 160);
AT(struct ibv_context_ops, post_send, 200);
AT(struct ibv_context_ops, post_recv, 208);
_Static_assert(sizeof(struct ibv_context_ops) == 256, "ibv_context_ops");
_Static_assert(offsetof(struct verbs_context, context) + sizeof(struct ibv_context) ==
		       sizeof(struct verbs_context),
	       "the public context is the last member");

#if defined(__x86_64__)
FROM_END(context, 328);
FROM_END(sz, 336);
FROM_END(close_xrcd, 352);
FROM_END(open_xrcd, 360);
FROM_END(create_srq_ex, 368);
FROM_END(get_srq_num, 376);
FROM_END(create_qp_ex, 384);
FROM_END(open_qp, 392);
FROM_END(query_device_ex, 432);
FROM_END(priv, 440);
FROM_END(create_cq_ex, 448);
FROM_END(alloc_dm, 584);
FROM_END(alloc_null_mr, 632);
FROM_END(advise_mr, 640);
FROM_END(query_port, 648);
_Static_assert(sizeof(struct ibv_device) == 664, "ibv_device");
_Static_assert(sizeof(struct ibv_qp) == 160, "ibv_qp");
_Static_assert(sizeof(struct ibv_cq) == 128, "ibv_cq");
#endif

AT(struct ibv_mr, lkey, 36);
AT(struct ibv_mr, rkey, 40);
AT(struct ibv_pd, handle, 8);
AT(struct ibv_comp_channel, fd, 8);
AT(struct ibv_comp_channel, refcnt, 12);
AT(struct ibv_wc, imm_data, 24);
AT(struct ibv_wc, qp_num, 28);
_Static_assert(sizeof(struct ibv_sge) == 16, "ibv_sge");
_Static_assert(sizeof(struct ibv_wc) == 48, "ibv_wc");
_Static_assert(sizeof(struct ibv_send_wr) == 128, "ibv_send_wr");
_Static_assert(sizeof(struct ibv_recv_wr) == 32, "ibv_recv_wr");
_Static_assert(sizeof(struct ibv_device_attr) == 232, "ibv_device_attr");
AT(struct ibv_port_attr, flags, 47);
AT(struct ibv_port_attr, port_cap_flags2, 48);

/* Our objects begin with the public struct; a verbs_context ends with the public context. */
AT(struct av_pd, ibv, 0);
AT(struct av_mr, ibv, 0);
AT(struct av_cq, ibv, 0);
AT(struct av_qp, ibv, 0);
AT(struct av_channel, ibv, 0);

/* Values of newer headers that the library defines itself must match if the header has them. */
#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
#ifdef AV_HEADER_HAS_ATOMIC_WRITE
SAME(AV_WR_ATOMIC_WRITE, IBV_WR_ATOMIC_WRITE);
SAME(AV_WC_ATOMIC_WRITE, IBV_WC_ATOMIC_WRITE);
SAME(AV_QP_EX_WITH_ATOMIC_WRITE, IBV_QP_EX_WITH_ATOMIC_WRITE);
AT(struct ibv_qp_ex, wr_atomic_write, AV_WR_ATOMIC_WRITE_SLOT);
#endif
AT(struct av_qp, newer.wr_atomic_write, AV_WR_ATOMIC_WRITE_SLOT);
#ifdef AV_HEADER_HAS_FLUSH
SAME(AV_WR_FLUSH, IBV_WR_FLUSH);
SAME(AV_WC_FLUSH, IBV_WC_FLUSH);
SAME(AV_QP_EX_WITH_FLUSH, IBV_QP_EX_WITH_FLUSH);
SAME(AV_ACCESS_FLUSH_GLOBAL, IBV_ACCESS_FLUSH_GLOBAL);
SAME(AV_ACCESS_FLUSH_PERSISTENT, IBV_ACCESS_FLUSH_PERSISTENT);
SAME(AV_FLUSH_GLOBAL, IBV_FLUSH_GLOBAL);
SAME(AV_FLUSH_PERSISTENT, IBV_FLUSH_PERSISTENT);
SAME(AV_FLUSH_RANGE, IBV_FLUSH_RANGE);
SAME(AV_FLUSH_MR, IBV_FLUSH_MR);
AT(struct ibv_qp_ex, wr_flush, AV_WR_FLUSH_SLOT);
#endif
AT(struct av_qp, newer.wr_flush, AV_WR_FLUSH_SLOT);
#ifdef AV_HEADER_HAS_REG_MR_EX
#define SAME_ATTR(member) \
	AT(struct ibv_mr_init_attr, member, offsetof(struct av_mr_init_attr, member))
SAME(AV_REG_MR_IOVA, IBV_REG_MR_MASK_IOVA);
SAME(AV_REG_MR_ADDR, IBV_REG_MR_MASK_ADDR);
SAME(AV_REG_MR_FD, IBV_REG_MR_MASK_FD);
SAME(AV_REG_MR_FD_OFFSET, IBV_REG_MR_MASK_FD_OFFSET);
SAME(AV_REG_MR_DMAH, IBV_REG_MR_MASK_DMAH);
SAME_ATTR(length);
SAME_ATTR(access);
SAME_ATTR(comp_mask);
SAME_ATTR(iova);
SAME_ATTR(addr);
SAME_ATTR(fd);
SAME_ATTR(fd_offset);
SAME_ATTR(dmah);
AT(struct ibv_dmah, context, offsetof(struct av_newer_object, context));
#endif
#ifdef AV_HEADER_HAS_BUF
SAME(AV_REG_MR_BUF, IBV_REG_MR_MASK_BUF);
SAME(AV_PARENT_DOMAIN_MAY_BE_UNPROTECTED, IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC);
SAME_ATTR(buf);
#endif
#ifdef AV_HEADER_HAS_COMP_CNTR
AT(struct ibv_comp_cntr, context, offsetof(struct av_newer_object, context));
#endif
