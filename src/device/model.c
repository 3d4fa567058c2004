/* SPDX-License-Identifier: MIT */
#include "device/model.h"

#include "base/newer_verbs.h"
#include "device/device.h"
#include "observe/faults.h"

const struct av_model av_model_own = {
	.firmware = AV_VERSION,
	.type = "anyverbs",
	.board = "anyverbs",
	.vendor = 0x00a5e7, /* made up: programs want something other than 0 */
	.part = 1,
	.revision = 1,
	.bus_vendor = 0xa5e7,
};

_Static_assert(AV_VERB_N <= UINT8_MAX, "no_verb[] has bytes");

#define TYPE(name) (1u << IBV_QPT_##name)
#define XRC	   (TYPE(XRC_SEND) | TYPE(XRC_RECV))
#define OPCODE(op) (1ull << ((op)&63)) /* av_faults_opcode(), which is no constant */
#define ATOMICS	   (OPCODE(IBV_WR_ATOMIC_CMP_AND_SWP) | OPCODE(IBV_WR_ATOMIC_FETCH_AND_ADD))
#define WINDOWS	   (OPCODE(IBV_WR_BIND_MW) | OPCODE(IBV_WR_LOCAL_INV))
#define PERSISTENT (OPCODE(AV_WR_FLUSH) | OPCODE(AV_WR_ATOMIC_WRITE))
#define IMMEDIATES (OPCODE(IBV_WR_SEND_WITH_IMM) | OPCODE(IBV_WR_RDMA_WRITE_WITH_IMM))
#define NO_FLUSH   (AV_ACCESS_FLUSH_GLOBAL | AV_ACCESS_FLUSH_PERSISTENT)
#define NO_ODP	   (IBV_ACCESS_ON_DEMAND | NO_FLUSH)
#define V(id)	   AV_VERB_##id
#define UNSAID	   .firmware = "", .type = "", .board = ""

/*
 * Sources: the tables of struct verbs_context_ops of rdma-core's providers say which verbs there
 * are, and its libibverbs/dummy_ops.c how the others fail; further files stand in each row.
 */
/* clang-format off */

/* Verbs that only mlx5 has, and some that go together. */
#define OF_MLX5    V(ALLOC_DM), V(ALLOC_NULL_MR), V(IMPORT_PD), V(IMPORT_MR), V(IMPORT_DM), V(QUERY_RT_VALUES_EX)
#define OF_DOMAINS V(ALLOC_TD), V(ALLOC_PARENT_DOMAIN)
#define OF_XRC     V(OPEN_XRCD), V(CREATE_SRQ_EX)
#define OF_FEW     V(ADVISE_MR), V(ALLOC_MW), V(ATTACH_MCAST)
#define OF_IWARP   V(REG_DMABUF_MR), V(REREG_MR), V(RESIZE_CQ), V(MODIFY_CQ), V(CREATE_AH), V(CREATE_CQ_EX), V(CREATE_QP_EX)

static const struct av_model models[] = {
	{	/* ConnectX-6 Dx, 100 Gb/s, of 2023. Verbs have the vendor's OUI, the bus its PCI number. */
		.name = "mlx5", .profile = "connectx", .prefix = "mlx5_",
		.source = "providers/mlx5/{mlx5,verbs,qp}.c; ibv_devinfo: openucx/ucx#9830; inline data: ofiwg/libfabric#3790",
		.firmware = "22.39.1002", .type = "MT4125", .board = "MT_0000000359",
		.vendor = 0x02c9, .part = 4125, .bus_vendor = 0x15b3, .gids_paired = true, .names_host = true,
		.limits = {.max_sge = 30, .max_sge_rd = 30, .max_srq_sge = 31, .max_qp_rd_atom = 16,
			   .max_qp_init_rd_atom = 16, .max_mcast_qp_attach = 240},
		.max_inline = 988,
		.no_access = NO_FLUSH,
		.no_opcodes = PERSISTENT, .no_opcode_ret = EINVAL,
	},
	{
		.name = "rxe", .prefix = "rxe",
		.source = "providers/rxe/rxe.c; drivers/infiniband/sw/rxe/rxe_{param.h,qp.c}",
		UNSAID, .vendor = 0xffffff,
		.limits = {.max_cqe = 32767, .max_srq_sge = 27, .max_mcast_qp_attach = 56},
		.max_inline = 512,
		.no_types = XRC, .no_type_err = EOPNOTSUPP,
		.no_verb = {OF_MLX5, OF_DOMAINS, V(OPEN_XRCD), V(REG_DMABUF_MR), V(REREG_MR), V(MODIFY_CQ)},
	},
	{
		.name = "siw", .prefix = "siw", .node_type = IBV_NODE_RNIC, .transport = IBV_TRANSPORT_IWARP,
		.source = "providers/siw/siw.c; kernel-headers/rdma/siw-abi.h; drivers/infiniband/sw/siw/siw{.h,_verbs.c}",
		UNSAID, .vendor = 0x626d74,
		.limits = {.max_sge = 6, .max_sge_rd = 1, .max_srq_sge = 6},
		.max_inline = 80, .gids = 1,
		.no_types = TYPE(UC) | TYPE(UD) | XRC, .no_type_err = EOPNOTSUPP,
		.no_access = NO_ODP,
		.no_opcodes = IMMEDIATES | ATOMICS | WINDOWS | PERSISTENT, .no_opcode_ret = -EINVAL,
		.no_verb = {OF_MLX5, OF_DOMAINS, OF_XRC, OF_FEW, OF_IWARP, V(QUERY_SRQ)},
	},
	{	/* E810, with RoCE version 2. */
		.name = "irdma", .prefix = "irdma",
		.source = "providers/irdma/{umain,uverbs}.c, user.h; drivers/infiniband/hw/irdma/verbs.c; ibv_devinfo: deepseek-ai/3FS#192",
		UNSAID, .vendor = 0x8086, .part = 0x1592, .revision = 2, .bus_vendor = 0x8086,
		.limits = {.max_qp = 4092, .max_qp_wr = 8127, .max_sge = 13, .max_sge_rd = 13, .max_cq = 8189,
			   .max_cqe = 1048574, .max_qp_rd_atom = 8, .max_qp_init_rd_atom = 8, .max_mcast_qp_attach = 8},
		.max_inline = 101, .gids = 32,
		.no_types = TYPE(UC) | XRC, .no_type_err = EOPNOTSUPP,
		.no_access = NO_ODP,
		.no_opcodes = ATOMICS | PERSISTENT, .no_opcode_ret = EINVAL,
		.no_verb = {OF_MLX5, OF_DOMAINS, OF_XRC, V(CREATE_SRQ), V(MODIFY_CQ), V(ADVISE_MR), V(CREATE_QP_EX)},
	},
	{	/* SRD, its other type of queue pair, we lack. */
		.name = "efa", .prefix = "efa_",
		.node_type = IBV_NODE_UNSPECIFIED, .transport = IBV_TRANSPORT_UNSPECIFIED,
		.source = "providers/efa/{efa,verbs}.c, efa_io_defs.h; drivers/infiniband/hw/efa/efa_verbs.c",
		UNSAID, .vendor = 0x1d0f, .part = 0xefa1, .revision = 0xefa1, .bus_vendor = 0x1d0f,
		.limits = {.max_sge = 2, .max_sge_rd = 1},
		.max_inline = 32, .gids = 1,
		.no_types = TYPE(RC) | TYPE(UC) | XRC, .no_type_err = EOPNOTSUPP,
		.no_access = NO_ODP | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED,
		.no_opcodes = ~(OPCODE(IBV_WR_SEND) | OPCODE(IBV_WR_SEND_WITH_IMM)), .no_opcode_ret = EINVAL,
		.no_verb = {OF_MLX5, OF_XRC, OF_FEW, V(CREATE_SRQ), V(REREG_MR), V(MODIFY_CQ), V(RESIZE_CQ)},
	},
	{	/* BCM57508. */
		.name = "bnxt", .prefix = "bnxt_re",
		.source = "providers/bnxt_re/{main,verbs}.c, bnxt_re-abi.h; drivers/infiniband/hw/bnxt_re/{bnxt_re,qplib_sp,qplib_fp}.h",
		UNSAID, .vendor = 0x14e4, .part = 0x1750, .bus_vendor = 0x14e4,
		.limits = {.max_sge = 13, .max_sge_rd = 13, .max_mr = 262144, .max_qp_rd_atom = 126, .max_qp_init_rd_atom = 126},
		.max_inline = 96,
		.no_types = TYPE(UC) | XRC, .no_type_err = EINVAL,
		.no_access = NO_ODP,
		.no_opcodes = WINDOWS | PERSISTENT, .no_opcode_ret = -EINVAL,
		.no_verb = {OF_MLX5, OF_DOMAINS, OF_XRC, OF_FEW, V(REREG_MR), V(MODIFY_CQ), V(CREATE_CQ_EX)},
	},
	{	/* HIP09. */
		.name = "hns", .prefix = "hns_",
		.source = "providers/hns/hns_roce_u{,_verbs,_hw_v2}.c; drivers/infiniband/hw/hns/hns_roce_hw_v2.h",
		UNSAID, .vendor = 0x19e5, .part = 0xa222, .bus_vendor = 0x19e5,
		.limits = {.max_qp = 4096},
		.max_inline = 1024,
		.no_types = TYPE(UC), .no_type_err = EOPNOTSUPP,
		.no_access = NO_ODP,
		.no_opcodes = WINDOWS | PERSISTENT, .no_opcode_ret = EINVAL,
		.no_verb = {OF_MLX5, OF_FEW, V(REG_DMABUF_MR), V(RESIZE_CQ)},
	},
	{
		.name = "erdma", .prefix = "erdma_", .node_type = IBV_NODE_RNIC, .transport = IBV_TRANSPORT_IWARP,
		.source = "providers/erdma/erdma{,_verbs}.c, erdma_hw.h; drivers/infiniband/hw/erdma/erdma_verbs.{c,h}",
		UNSAID, .vendor = 0x1ded, .part = 0x107f, .bus_vendor = 0x1ded,
		.limits = {.max_qp_wr = 8192, .max_sge = 1, .max_sge_rd = 1},
		.max_inline = 96, .send_sge = 6, .gids = 1,
		.no_types = TYPE(UC) | TYPE(UD) | XRC, .no_type_err = EOPNOTSUPP,
		.no_access = NO_ODP,
		.no_opcodes = WINDOWS | PERSISTENT, .no_opcode_ret = -EINVAL,
		.no_verb = {OF_MLX5, OF_DOMAINS, OF_XRC, OF_FEW, OF_IWARP, V(CREATE_SRQ)},
	},
};
/* clang-format on */

/*
 * The least of those that have RC, but for erdma's one element, which is of receives only. One READ
 * or atomic in flight is what any device has.
 */
const struct av_model av_model_least = {
	.limits = {.max_qp = 4092,
		   .max_qp_wr = 8127,
		   .max_sge = 6,
		   .max_sge_rd = 1,
		   .max_cq = 8189,
		   .max_cqe = 32767,
		   .max_mr = 262144,
		   .max_qp_rd_atom = 1,
		   .max_qp_init_rd_atom = 1,
		   .max_srq_sge = 6,
		   .max_mcast_qp_attach = 8},
};

const struct av_model *av_model_at(unsigned int number)
{
	return number < AV_ARRAY_SIZE(models) ? &models[number] : NULL;
}

/* --- limits ----------------------------------------------------------------------- */

#define LIMIT(name)                                           \
	{                                                     \
#name, offsetof(struct ibv_device_attr, name) \
	}
const struct av_model_limit av_model_limits[] = {
	LIMIT(max_qp),
	LIMIT(max_qp_wr),
	LIMIT(max_sge),
	LIMIT(max_sge_rd),
	LIMIT(max_cq),
	LIMIT(max_cqe),
	LIMIT(max_mr),
	LIMIT(max_mw),
	LIMIT(max_pd),
	LIMIT(max_ah),
	LIMIT(max_qp_rd_atom),
	LIMIT(max_qp_init_rd_atom),
	LIMIT(max_srq),
	LIMIT(max_srq_wr),
	LIMIT(max_srq_sge),
	LIMIT(max_mcast_grp),
	LIMIT(max_mcast_qp_attach),
	LIMIT(max_total_mcast_qp_attach),
	{NULL, 0},
};
#undef LIMIT

static void lower_limit(int *limit, int to)
{
	if (to && to < *limit)
		*limit = to;
}

/* Take away what goes with objects that the model lacks. */
static void drop_lacking(const struct av_model *as, struct ibv_device_attr *attr)
{
	if (!av_model_has_verb(as, V(ALLOC_MW))) {
		attr->max_mw = 0;
		attr->device_cap_flags &=
			~(unsigned int)(IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B);
	}
	if (!av_model_has_verb(as, V(CREATE_SRQ))) {
		attr->max_srq = attr->max_srq_wr = attr->max_srq_sge = 0;
		attr->device_cap_flags &= ~(unsigned int)IBV_DEVICE_SRQ_RESIZE;
	}
	if (!av_model_has_verb(as, V(ATTACH_MCAST)))
		attr->max_mcast_grp = attr->max_mcast_qp_attach = attr->max_total_mcast_qp_attach =
			0;
	if (!av_model_has_verb(as, V(CREATE_AH)))
		attr->max_ah = 0;
	if (!av_model_has_verb(as, V(OPEN_XRCD)))
		attr->device_cap_flags &= ~(unsigned int)IBV_DEVICE_XRC;
	if (!av_model_has_opcode(as, IBV_WR_ATOMIC_FETCH_AND_ADD))
		attr->atomic_cap = IBV_ATOMIC_NONE;
}

void av_model_lower(const struct av_model *as, struct ibv_device_attr *attr)
{
	for (const struct av_model_limit *l = av_model_limits; l->name; l++)
		lower_limit((int *)((char *)attr + l->offset),
			    *(const int *)((const char *)&as->limits + l->offset));
	drop_lacking(as, attr);
}

/* --- what it lacks ---------------------------------------------------------------- */

bool av_model_has_verb(const struct av_model *as, enum av_verb verb)
{
	if (as)
		for (const uint8_t *v = as->no_verb; *v; v++)
			if (*v == verb)
				return false;
	return true;
}

bool av_model_has_opcode(const struct av_model *as, uint32_t opcode)
{
	return !as || !(as->no_opcodes & av_faults_opcode(opcode));
}

/* Return: @err */
static int refuse_lacking(const struct av_device *dev, int err, enum av_check check,
			  uint64_t wanted, uint64_t limit)
{
	(void)av_refuse_device(err, check, dev->ibv.name);
	av_diag_pending()->wanted = wanted;
	av_diag_pending()->limit = limit;
	av_diag_detail("%s", dev->as->name);
	return err;
}

int av_model_check_verb(const struct av_device *dev, enum av_verb verb)
{
	if (av_model_has_verb(dev->as, verb))
		return 0;
	return refuse_lacking(dev, EOPNOTSUPP, AV_CHECK_MODEL_VERB, verb, 0);
}

int av_model_check_type(const struct av_device *dev, enum ibv_qp_type type)
{
	if (!dev->as || (unsigned int)type >= 32 || !(dev->as->no_types >> type & 1))
		return 0;
	return refuse_lacking(dev, dev->as->no_type_err, AV_CHECK_MODEL_TYPE, type, 0);
}

int av_model_check_access(const struct av_device *dev, uint32_t access)
{
	access &= dev->as ? dev->as->no_access : 0;
	return access ? refuse_lacking(dev, EOPNOTSUPP, AV_CHECK_MODEL_ACCESS, access, 0) : 0;
}

int av_model_check_request(const struct av_device *dev, uint32_t opcode, int elements)
{
	int most = dev->attr.max_sge_rd;

	if (!av_model_has_opcode(dev->as, opcode))
		return refuse_lacking(dev, EINVAL, AV_CHECK_MODEL_OPCODE, opcode, 0);
	if (dev->as && opcode == IBV_WR_RDMA_READ && elements > most)
		return refuse_lacking(dev, EINVAL, AV_CHECK_MODEL_READ, (uint64_t)elements,
				      (uint64_t)most);
	return 0;
}
