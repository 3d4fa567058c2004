/* SPDX-License-Identifier: MIT */

#include <endian.h>
#include <rdma/rdma_netlink.h>
#include <rdma/rdma_user_cm.h>
#include <sys/sysmacros.h>

#include "device/port.h"
#include "host/vsysfs.h"
#include "memory/key.h"
#include "memory/region.h"
#include "queue/objects.h"
#include "segment/pages.h"

/* A request of the kind RDMA_NL_NLDEV. */
struct request {
	const struct nlmsghdr *header;
	unsigned int number;				/* enum rdma_nldev_command, unchecked */
	const struct command *command;			/* NULL: there is no such request */
	bool dump;					/* for all, not for one */
	const struct nlattr *attr[RDMA_NLDEV_ATTR_MAX]; /* numbers have their four bytes */
	const struct av_device *dev; /* ours that it names, or that a dump has come to; or NULL */
};

static void begin_answer(const struct request *r, struct av_nl_out *out)
{
	av_nl_begin(out, r->header->nlmsg_type, r->dump ? NLM_F_MULTI : 0);
	av_nl_put_u32(out, RDMA_NLDEV_ATTR_DEV_INDEX, av_instance_number(r->dev));
	av_nl_put_text(out, RDMA_NLDEV_ATTR_DEV_NAME, r->dev->ibv.name);
}

#define ONLY_PORT      1
#define SHARED_NETNS   1 /* every network namespace sees the devices */
#define COPY_ON_FORK   1 /* a child has memory of its own whatever is registered */
#define DRIVER_UNKNOWN 0 /* rdma/ib_user_ioctl_verbs.h: RDMA_DRIVER_UNKNOWN */

static bool is_infiniband(const struct av_device *dev)
{
	return dev->port.link_layer == IBV_LINK_LAYER_INFINIBAND;
}

/* write_*() answer about the request's device; a dump calls them for each. Return: 0 or -errno */
static int write_device(const struct request *r, struct av_nl_out *out)
{
	const struct av_device *dev = r->dev;

	begin_answer(r, out);
	av_nl_put_u32(out, RDMA_NLDEV_ATTR_PORT_INDEX, dev->attr.phys_port_cnt);
	av_nl_put_u64(out, RDMA_NLDEV_ATTR_CAP_FLAGS, dev->attr.device_cap_flags);
	av_nl_put_text(out, RDMA_NLDEV_ATTR_FW_VERSION, dev->attr.fw_ver);
	av_nl_put_u64(out, RDMA_NLDEV_ATTR_NODE_GUID, dev->guid);
	av_nl_put_u64(out, RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, dev->guid);
	av_nl_put_u8(out, RDMA_NLDEV_ATTR_DEV_NODE_TYPE, (uint8_t)dev->ibv.node_type);
	av_nl_put_u8(out, RDMA_NLDEV_ATTR_DEV_DIM, 0);
	av_nl_put_text(out, RDMA_NLDEV_ATTR_DEV_PROTOCOL, is_infiniband(dev) ? "ib" : "roce");
	av_nl_end(out);
	return 0;
}

/* --- ports ------------------------------------------------------------------------- */

/* The first interface that the port's addresses come from. */
static void put_interface(const struct av_device *dev, struct av_nl_out *out)
{
	struct av_gid gids[AV_GID_MAX];
	unsigned int count = av_port_gids(dev, gids);

	for (unsigned int i = 0; i < count; i++) {
		if (!av_gid_there(gids, count, i) || !gids[i].ifname[0])
			continue;
		av_nl_put_u32(out, RDMA_NLDEV_ATTR_NDEV_INDEX, gids[i].ifindex);
		av_nl_put_text(out, RDMA_NLDEV_ATTR_NDEV_NAME, gids[i].ifname);
		return;
	}
}

/* What only an InfiniBand port has. */
static void put_subnet(const struct av_device *dev, const struct ibv_port_attr *port,
		       struct av_nl_out *out)
{
	struct av_gid row;

	av_gid_from_guid(dev->guid, &row);
	av_nl_put_u64(out, RDMA_NLDEV_ATTR_CAP_FLAGS, port->port_cap_flags);
	av_nl_put_u64(out, RDMA_NLDEV_ATTR_SUBNET_PREFIX, be64toh(row.gid.global.subnet_prefix));
	av_nl_put_u32(out, RDMA_NLDEV_ATTR_LID, port->lid);
	av_nl_put_u32(out, RDMA_NLDEV_ATTR_SM_LID, port->sm_lid);
	av_nl_put_u8(out, RDMA_NLDEV_ATTR_LMC, port->lmc);
}

static int write_port(const struct request *r, struct av_nl_out *out)
{
	struct ibv_port_attr port;

	av_port_attr(r->dev, &port);
	begin_answer(r, out);
	av_nl_put_u32(out, RDMA_NLDEV_ATTR_PORT_INDEX, ONLY_PORT);
	if (is_infiniband(r->dev))
		put_subnet(r->dev, &port, out);
	av_nl_put_u8(out, RDMA_NLDEV_ATTR_PORT_STATE, (uint8_t)port.state);
	av_nl_put_u8(out, RDMA_NLDEV_ATTR_PORT_PHYS_STATE, port.phys_state);
	put_interface(r->dev, out);
	av_nl_end(out);
	return 0;
}

/* --- statistics -------------------------------------------------------------------- */

/* Add a counter to a list of the type STAT_HWCOUNTERS. */
static void put_counter(struct av_nl_out *out, const char *name, uint64_t value)
{
	size_t entry = av_nl_nest(out, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY);

	av_nl_put_text(out, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, name);
	av_nl_put_u64(out, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE, value);
	av_nl_nest_end(out, entry);
}

/* The counters of the sysfs folder "hw_counters". */
static int write_port_counters(const struct request *r, struct av_nl_out *out)
{
	struct av_counted counted = {0};
	size_t table;

	if (!r->attr[RDMA_NLDEV_ATTR_PORT_INDEX])
		return -EINVAL;
	av_totals_read(r->dev->ibv.name, &counted.total, &counted.link_downed);
	begin_answer(r, out);
	av_nl_put_u32(out, RDMA_NLDEV_ATTR_PORT_INDEX, ONLY_PORT);
	table = av_nl_nest(out, RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
	for (unsigned int i = 0; i < av_counter_count; i++)
		if (av_counter_info[i].scope & AV_SCOPE_HW)
			put_counter(out, av_counter_info[i].name,
				    av_counter_value(&av_counter_info[i], &counted));
	av_nl_nest_end(out, table);
	av_nl_end(out);
	return 0;
}

/* --- device nodes ------------------------------------------------------------------ */

static bool is_text(const struct nlattr *attr, const char *text)
{
	return attr && av_nl_length(attr) > strlen(text) &&
	       !memcmp(av_nl_payload(attr), text, strlen(text) + 1);
}

static void put_node(struct av_nl_out *out, dev_t number, uint64_t abi, const char *name)
{
	av_nl_put_u64(out, RDMA_NLDEV_ATTR_CHARDEV, number);
	av_nl_put_u64(out, RDMA_NLDEV_ATTR_CHARDEV_ABI, abi);
	av_nl_put_text(out, RDMA_NLDEV_ATTR_CHARDEV_NAME, name);
	av_nl_end(out);
}

/* Of a device it is the verbs' node, of none in particular the connection manager's. */
static int write_node(const struct request *r, struct av_nl_out *out)
{
	const struct nlattr *type = r->attr[RDMA_NLDEV_ATTR_CHARDEV_TYPE];

	if (!type)
		return -EINVAL;
	if (r->dev && is_text(type, "uverbs")) {
		av_nl_begin(out, r->header->nlmsg_type, 0);
		av_nl_put_u32(out, RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID, DRIVER_UNKNOWN);
		put_node(out, av_vsysfs_rdev(r->dev), AV_VSYSFS_UVERBS_ABI, r->dev->ibv.dev_name);
		return 0;
	}
	if (!r->attr[RDMA_NLDEV_ATTR_DEV_INDEX] && is_text(type, "rdma_cm")) {
		av_nl_begin(out, r->header->nlmsg_type, 0);
		put_node(out, AV_VSYSFS_CM_RDEV, RDMA_USER_CM_ABI_VERSION, "rdma_cm");
		return 0;
	}
	return -ENOENT;
}

/* --- the system -------------------------------------------------------------------- */

static int write_system(const struct request *r, struct av_nl_out *out)
{
	av_nl_begin(out, r->header->nlmsg_type, 0);
	av_nl_put_u8(out, RDMA_NLDEV_SYS_ATTR_NETNS_MODE, SHARED_NETNS);
	av_nl_put_u8(out, RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, COPY_ON_FORK);
	av_nl_end(out);
	return 0;
}

/*
 * A table of kinds of objects. As in the kernel, an object's number is unique among all processes
 * of a device: it is the context's place in the directory, and the object's in its context.
 */

#define INDEX_BITS 20 /* of an object in its context */
_Static_assert(AV_SLAB_CHUNKS *AV_KEY_CHUNK <= 1u << INDEX_BITS, "regions, the most numerous");
_Static_assert(AV_IMPORT_PDS + AV_MAX_PD < 1u << INDEX_BITS, "protection domains");
_Static_assert(AV_REF_SLOT_BITS + INDEX_BITS <= 32, "numbers");

/* The most bytes of an entry; lists of queue pairs are cut. */
#define ENTRY_BYTES 1024u

struct kind {
	const char *name; /* in summaries; NULL: in none, and the last row */
	unsigned int command;
	unsigned int table, entry; /* attributes of a dump: for all objects, for each */
	unsigned int id;	   /* attribute that names one object */
	void (*walk)(const char *device, void *arg);
};

/* Writes the objects that the walk of a kind visits. */
struct listing {
	const struct kind *kind;
	const struct request *r;
	struct av_nl_out *out; /* NULL: they are only counted */
	bool one;	       /* only @wanted */
	uint32_t wanted;
	uint64_t count;
	bool open; /* a message has begun */
	size_t table, entry;
};

static uint32_t pack_resource_id(uint32_t context, uint32_t index)
{
	return AV_REF_SLOT(context) << INDEX_BITS | (index & ((1u << INDEX_BITS) - 1));
}

/* --- messages and entries ---------------------------------------------------------- */

static void begin_message(struct listing *l)
{
	begin_answer(l->r, l->out);
	if (!l->one)
		l->table = av_nl_nest(l->out, l->kind->table);
	l->open = true;
}

static void end_message(struct listing *l)
{
	if (!l->open)
		return;
	if (!l->one)
		av_nl_nest_end(l->out, l->table);
	av_nl_end(l->out);
	l->open = false;
}

/* Begin the entry of an object. Return: false: it is not asked for */
static bool begin_entry(struct listing *l, uint32_t id)
{
	if (l->one && (id != l->wanted || l->count))
		return false;
	l->count++;
	if (!l->out)
		return false;
	if (l->open && av_nl_size(l->out) + ENTRY_BYTES > AV_NL_DATAGRAM)
		end_message(l);
	if (!l->open)
		begin_message(l);
	if (!l->one)
		l->entry = av_nl_nest(l->out, l->kind->entry);
	return true;
}

static void end_entry(struct listing *l, int32_t pid)
{
	av_nl_put_u32(l->out, RDMA_NLDEV_ATTR_RES_PID, (uint32_t)pid);
	if (!l->one)
		av_nl_nest_end(l->out, l->entry);
}

/* --- each kind --------------------------------------------------------------------- */

static void list_qp(const struct av_qp_info *qp, void *arg)
{
	struct listing *l = arg;
	const struct nlattr *port = l->r->attr[RDMA_NLDEV_ATTR_PORT_INDEX];

	if ((port && av_nl_u32(port) != qp->port) || !begin_entry(l, qp->qpn))
		return;
	if (qp->port)
		av_nl_put_u32(l->out, RDMA_NLDEV_ATTR_PORT_INDEX, qp->port);
	av_nl_put_u32(l->out, RDMA_NLDEV_ATTR_RES_LQPN, qp->qpn);
	if (qp->pd) /* the target end of XRC has none */
		av_nl_put_u32(l->out, RDMA_NLDEV_ATTR_RES_PDN,
			      pack_resource_id(qp->context, qp->pd));
	if (qp->type == IBV_QPT_RC || qp->type == IBV_QPT_UC) {
		av_nl_put_u32(l->out, RDMA_NLDEV_ATTR_RES_RQPN, qp->dest_qpn);
		av_nl_put_u32(l->out, RDMA_NLDEV_ATTR_RES_RQ_PSN, qp->rq_psn);
	}
	av_nl_put_u32(l->out, RDMA_NLDEV_ATTR_RES_SQ_PSN, qp->sq_psn);
	if (qp->type != IBV_QPT_UD) /* whose requests name their paths */
		av_nl_put_u8(l->out, RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE, qp->path_mig_state);
	av_nl_put_u8(l->out, RDMA_NLDEV_ATTR_RES_TYPE, (uint8_t)qp->type);
	av_nl_put_u8(l->out, RDMA_NLDEV_ATTR_RES_STATE, (uint8_t)qp->state);
	end_entry(l, qp->pid);
}

static void list_cq(const struct av_cq_info *cq, void *arg)
{
	struct listing *l = arg;
	uint32_t id = pack_resource_id(cq->context, cq->number);

	if (!begin_entry(l, id))
		return;
	av_nl_put_u32(l->out, RDMA_NLDEV_ATTR_RES_CQE,
		      (uint32_t)cq->counted.gauge[AV_GAUGE_CAPACITY]);
	av_nl_put_u64(l->out, RDMA_NLDEV_ATTR_RES_USECNT, cq->users);
	av_nl_put_u8(l->out, RDMA_NLDEV_ATTR_DEV_DIM, 0);
	av_nl_put_u32(l->out, RDMA_NLDEV_ATTR_RES_CQN, id);
	av_nl_put_u32(l->out, RDMA_NLDEV_ATTR_RES_CTXN, AV_REF_SLOT(cq->context));
	end_entry(l, cq->pid);
}

static void put_driver(struct listing *l, const char *name, const char *value)
{
	size_t nest = av_nl_nest(l->out, RDMA_NLDEV_ATTR_DRIVER);

	av_nl_put_text(l->out, RDMA_NLDEV_ATTR_DRIVER_STRING, name);
	av_nl_put_text(l->out, RDMA_NLDEV_ATTR_DRIVER_STRING, value);
	av_nl_nest_end(l->out, nest);
}

static void list_mr(const struct av_region_info *mr, void *arg)
{
	struct listing *l = arg;
	uint32_t id = pack_resource_id(mr->context, AV_KEY_INDEX(mr->key));

	if (!begin_entry(l, id))
		return;
	av_nl_put_u32(l->out, RDMA_NLDEV_ATTR_RES_RKEY, mr->key);
	av_nl_put_u32(l->out, RDMA_NLDEV_ATTR_RES_LKEY, mr->key);
	av_nl_put_u64(l->out, RDMA_NLDEV_ATTR_RES_IOVA, mr->addr);
	av_nl_put_u64(l->out, RDMA_NLDEV_ATTR_RES_MRLEN, mr->length);
	av_nl_put_u32(l->out, RDMA_NLDEV_ATTR_RES_MRN, id);
	av_nl_put_u32(l->out, RDMA_NLDEV_ATTR_RES_PDN, pack_resource_id(mr->context, mr->pd));
	put_driver(l, "memory", av_region_memory_name(mr->memory));
	end_entry(l, mr->pid);
}

/* As mlx5: they count pages, whatever their names say. */
static void list_mr_stat(const struct av_region_info *mr, void *arg)
{
	struct listing *l = arg;
	uint32_t id = pack_resource_id(mr->context, AV_KEY_INDEX(mr->key));
	size_t table;

	if (mr->memory != AV_REGION_ON_DEMAND || !begin_entry(l, id))
		return;
	av_nl_put_u32(l->out, RDMA_NLDEV_ATTR_RES_MRN, id);
	table = av_nl_nest(l->out, RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
	put_counter(l->out, "page_faults", mr->counted[AV_MR_FAULT_PAGES]);
	put_counter(l->out, "page_invalidations", mr->counted[AV_MR_INVALIDATION_PAGES]);
	put_counter(l->out, "page_prefetch", mr->counted[AV_MR_PREFETCH_PAGES]);
	av_nl_nest_end(l->out, table);
	end_entry(l, mr->pid);
}

static void list_pd(const struct av_pd_info *pd, void *arg)
{
	struct listing *l = arg;
	uint32_t id = pack_resource_id(pd->context, pd->number);

	if (!begin_entry(l, id))
		return;
	av_nl_put_u64(l->out, RDMA_NLDEV_ATTR_RES_USECNT, pd->users);
	av_nl_put_u32(l->out, RDMA_NLDEV_ATTR_RES_PDN, id);
	av_nl_put_u32(l->out, RDMA_NLDEV_ATTR_RES_CTXN, AV_REF_SLOT(pd->context));
	end_entry(l, pd->pid);
}

static void list_context(const struct av_context_info *context, void *arg)
{
	struct listing *l = arg;
	uint32_t id = AV_REF_SLOT(context->context);

	if (!begin_entry(l, id))
		return;
	av_nl_put_u32(l->out, RDMA_NLDEV_ATTR_RES_CTXN, id);
	end_entry(l, context->pid);
}

/* The queue pairs that receive from a shared queue, as far as the entry has room. */
static void put_srq_users(struct listing *l, const struct av_srq_info *srq)
{
	size_t begin = l->out->len, table = av_nl_nest(l->out, RDMA_NLDEV_ATTR_RES_QP);
	uint32_t at = 0, qpn;

	while (l->out->len - begin < ENTRY_BYTES / 2 && (qpn = av_srq_qp(srq, &at))) {
		size_t entry = av_nl_nest(l->out, RDMA_NLDEV_ATTR_RES_QP_ENTRY);

		av_nl_put_u32(l->out, RDMA_NLDEV_ATTR_RES_LQPN, qpn);
		av_nl_nest_end(l->out, entry);
	}
	av_nl_nest_end(l->out, table);
}

static void list_srq(const struct av_srq_info *srq, void *arg)
{
	struct listing *l = arg;
	uint32_t id = pack_resource_id(srq->context, srq->number);

	if (!begin_entry(l, id))
		return;
	av_nl_put_u32(l->out, RDMA_NLDEV_ATTR_RES_SRQN, id);
	av_nl_put_u8(l->out, RDMA_NLDEV_ATTR_RES_TYPE, srq->xrc ? IBV_SRQT_XRC : IBV_SRQT_BASIC);
	av_nl_put_u32(l->out, RDMA_NLDEV_ATTR_RES_PDN, pack_resource_id(srq->context, srq->pd));
	if (srq->xrc)
		av_nl_put_u32(l->out, RDMA_NLDEV_ATTR_RES_CQN,
			      pack_resource_id(srq->context, srq->cq));
	put_srq_users(l, srq);
	end_entry(l, srq->pid);
}

/* Defines walk_KIND(): visit all objects of a kind, in all processes. */
#define WALK(kind, report)                                         \
	static void walk_##kind(const char *device, void *listing) \
	{                                                          \
		report(device, list_##kind, listing);              \
	}

WALK(qp, av_report_qps)
WALK(cq, av_report_cqs)
WALK(mr, av_region_report)
WALK(mr_stat, av_region_report)
WALK(pd, av_report_pds)
WALK(context, av_report_contexts)
WALK(srq, av_report_srqs)

/* The connection manager's identifiers are in no device. */
static void walk_none(const char *device, void *arg)
{
}

#define KIND(name, command, NAME, id, walk)                                                \
	{                                                                                  \
		name, RDMA_NLDEV_CMD_##command##_GET, RDMA_NLDEV_ATTR_RES_##NAME,          \
			RDMA_NLDEV_ATTR_RES_##NAME##_ENTRY, RDMA_NLDEV_ATTR_RES_##id, walk \
	}

static const struct kind kinds[] = {
	KIND("pd", RES_PD, PD, PDN, walk_pd),
	KIND("cq", RES_CQ, CQ, CQN, walk_cq),
	KIND("qp", RES_QP, QP, LQPN, walk_qp),
	KIND("cm_id", RES_CM_ID, CM_ID, CM_IDN, walk_none),
	KIND("mr", RES_MR, MR, MRN, walk_mr),
	KIND("ctx", RES_CTX, CTX, CTXN, walk_context),
	KIND("srq", RES_SRQ, SRQ, SRQN, walk_srq),
	KIND(NULL, STAT, MR, MRN, walk_mr_stat),
};

/* --- requests ---------------------------------------------------------------------- */

/* The objects of the kind that the command names: the one that the request names, or all. */
static int write_objects(const struct request *r, struct av_nl_out *out)
{
	struct listing l = {.kind = kinds, .r = r, .out = out, .one = !r->dump};
	const struct nlattr *id;

	while (l.kind->command != r->number)
		l.kind++;
	id = r->attr[l.kind->id];
	if (l.one && !id)
		return -EINVAL;
	l.wanted = l.one ? av_nl_u32(id) : 0;
	l.kind->walk(r->dev->ibv.name, &l);
	end_message(&l);
	return l.one && !l.count ? -ENOENT : 0;
}

/* Counters of the port, or page faults of on-demand regions, as mlx5; queue pairs have none. */
static int write_counters(const struct request *r, struct av_nl_out *out)
{
	const struct nlattr *kind = r->attr[RDMA_NLDEV_ATTR_STAT_RES];

	if (!kind && !r->dump)
		return write_port_counters(r, out);
	if (kind && av_nl_u32(kind) == RDMA_NLDEV_ATTR_RES_QP)
		return r->dump ? 0 : -ENOENT;
	if (!kind || av_nl_u32(kind) != RDMA_NLDEV_ATTR_RES_MR)
		return -EINVAL;
	return write_objects(r, out);
}

static int write_summary(const struct request *r, struct av_nl_out *out)
{
	size_t table;

	begin_answer(r, out);
	table = av_nl_nest(out, RDMA_NLDEV_ATTR_RES_SUMMARY);
	for (const struct kind *k = kinds; k->name; k++) {
		size_t entry = av_nl_nest(out, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY);
		struct listing l = {.kind = k, .r = r};

		k->walk(r->dev->ibv.name, &l);
		av_nl_put_text(out, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME, k->name);
		av_nl_put_u64(out, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR, l.count);
		av_nl_nest_end(out, entry);
	}
	av_nl_nest_end(out, table);
	av_nl_end(out);
	return 0;
}

/*
 * The commands. We answer requests that name a device of ours, the kernel those of others. A dump
 * of all devices has ours first, then the kernel's. Bad requests get the kernel's errors. Source:
 * drivers/infiniband/core/netlink.c and nldev.c, as they behave.
 */

enum {
	DUMPS = 1,	 /* there is a dump, too */
	ALL_DEVICES = 2, /* which is of all devices, whatever it names */
	NEEDS_PORT = 4,	 /* unless it is a dump */
};

static const struct command {
	int (*write)(const struct request *r, struct av_nl_out *out);
	unsigned int flags; /* of the above */
} commands[RDMA_NLDEV_NUM_OPS] = {
	[RDMA_NLDEV_CMD_GET] = {write_device, DUMPS | ALL_DEVICES},
	[RDMA_NLDEV_CMD_PORT_GET] = {write_port, DUMPS | NEEDS_PORT},
	[RDMA_NLDEV_CMD_SYS_GET] = {write_system, 0},
	[RDMA_NLDEV_CMD_GET_CHARDEV] = {write_node, 0},
	[RDMA_NLDEV_CMD_RES_GET] = {write_summary, DUMPS | ALL_DEVICES},
	[RDMA_NLDEV_CMD_RES_QP_GET] = {write_objects, DUMPS},
	[RDMA_NLDEV_CMD_RES_CM_ID_GET] = {write_objects, DUMPS},
	[RDMA_NLDEV_CMD_RES_CQ_GET] = {write_objects, DUMPS},
	[RDMA_NLDEV_CMD_RES_MR_GET] = {write_objects, DUMPS},
	[RDMA_NLDEV_CMD_RES_PD_GET] = {write_objects, DUMPS},
	[RDMA_NLDEV_CMD_RES_CTX_GET] = {write_objects, DUMPS},
	[RDMA_NLDEV_CMD_RES_SRQ_GET] = {write_objects, DUMPS},
	[RDMA_NLDEV_CMD_STAT_GET] = {write_counters, DUMPS},
};

/* --- reading a request ----------------------------------------------------------------- */

static const uint16_t numbers[] = {
	RDMA_NLDEV_ATTR_DEV_INDEX,  RDMA_NLDEV_ATTR_PORT_INDEX, RDMA_NLDEV_ATTR_RES_LQPN,
	RDMA_NLDEV_ATTR_RES_PDN,    RDMA_NLDEV_ATTR_RES_CQN,	RDMA_NLDEV_ATTR_RES_MRN,
	RDMA_NLDEV_ATTR_RES_CM_IDN, RDMA_NLDEV_ATTR_RES_CTXN,	RDMA_NLDEV_ATTR_RES_SRQN,
	RDMA_NLDEV_ATTR_STAT_RES,
};

static const struct av_device *device_named(const struct nlattr *index)
{
	unsigned int count;
	struct av_device *const *list = av_devices(&count);

	for (unsigned int i = 0; index && i < count; i++)
		if (av_instance_number(list[i]) == av_nl_u32(index))
			return list[i];
	return NULL;
}

static const struct command *command_of(const struct request *r)
{
	const struct command *c = r->number < RDMA_NLDEV_NUM_OPS ? &commands[r->number] : NULL;

	return c && c->write && (!r->dump || (c->flags & DUMPS)) ? c : NULL;
}

/* Return: 0, or -EINVAL as the kernel: a number is too short */
static int parse_request(const struct nlmsghdr *header, struct request *r)
{
	r->header = header;
	r->number = RDMA_NL_GET_OP(header->nlmsg_type);
	r->dump = header->nlmsg_flags & NLM_F_DUMP;
	r->command = command_of(r);
	av_nl_attrs(header, r->attr, AV_ARRAY_SIZE(r->attr));
	for (size_t i = 0; i < AV_ARRAY_SIZE(numbers); i++) {
		const struct nlattr *attr = r->attr[numbers[i]];

		if (attr && av_nl_length(attr) < sizeof(uint32_t))
			return -EINVAL;
	}
	r->dev = device_named(r->attr[RDMA_NLDEV_ATTR_DEV_INDEX]);
	return 0;
}

static int check_nldev_port(const struct request *r)
{
	const struct nlattr *port = r->attr[RDMA_NLDEV_ATTR_PORT_INDEX];

	if (port ? !av_nl_u32(port) || av_nl_u32(port) > r->dev->attr.phys_port_cnt
		 : (r->command->flags & NEEDS_PORT) && !r->dump)
		return -EINVAL;
	return 0;
}

/* --- answering --------------------------------------------------------------------- */

/* Add the result of a request that is carried out, as the kernel does for all kinds of netlink. */
static void add_nl_result(const struct nlmsghdr *request, int result, struct av_nl_out *out)
{
	if (result || (request->nlmsg_flags & NLM_F_ACK))
		av_nl_result(out, request, result);
}

/* A dump reports its errors at its end. */
static void finish(const struct request *r, int result, struct av_nl_out *out)
{
	if (r->command && r->dump)
		av_nl_done(out, result);
	else
		add_nl_result(r->header, result, out);
}

/* Ours, then the kernel's. */
static void answer_for_all_devices(struct request *r, struct av_nl_out *out)
{
	unsigned int count;
	struct av_device *const *list = av_devices(&count);

	for (unsigned int i = 0; i < count; i++) {
		r->dev = list[i];
		(void)r->command->write(r, out);
	}
	if (!av_netlink_ask_kernel(r->header, out))
		finish(r, 0, out);
}

static void answer_for_device(const struct request *r, struct av_nl_out *out)
{
	int result = r->command ? check_nldev_port(r) : -EOPNOTSUPP;

	finish(r, result ? result : r->command->write(r, out), out);
}

/*
 * A request for no device of ours. The connection manager's node is always ours, the system the
 * kernel's if it has devices.
 */
static void answer_for_others(const struct request *r, struct av_nl_out *out)
{
	int result = r->command ? -EINVAL : -EOPNOTSUPP;

	if (r->command && r->command->write == write_node)
		result = write_node(r, out);
	if (result && av_netlink_ask_kernel(r->header, out))
		return;
	if (r->command && r->command->write == write_system)
		result = write_system(r, out);
	finish(r, result, out);
}

static void answer_nldev(const struct nlmsghdr *header, struct av_nl_out *out)
{
	struct request r;
	int result = parse_request(header, &r);

	if (result)
		add_nl_result(header, result, out);
	else if (r.command && r.dump && (r.command->flags & ALL_DEVICES))
		answer_for_all_devices(&r, out);
	else if (r.dev)
		answer_for_device(&r, out);
	else
		answer_for_others(&r, out);
}

static void answer_one(const struct nlmsghdr *request, struct av_nl_out *out)
{
	out->seq = request->nlmsg_seq;
	if (!(request->nlmsg_flags & NLM_F_REQUEST) || request->nlmsg_type < NLMSG_MIN_TYPE)
		add_nl_result(request, 0, out);
	else if (RDMA_NL_GET_CLIENT(request->nlmsg_type) == RDMA_NL_NLDEV)
		answer_nldev(request, out);
	else if (!av_netlink_ask_kernel(request, out))
		add_nl_result(request, -EINVAL, out);
}

void av_netlink_answer(const void *datagram, size_t len, struct av_nl_out *out)
{
	const struct nlmsghdr *request;
	size_t at = 0;

	while ((request = av_nl_next(datagram, len, &at)))
		answer_one(request, out);
}
