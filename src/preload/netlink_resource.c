/* SPDX-License-Identifier: MIT */
#include "preload/hooks.h"

#include <endian.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_user_cm.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "device/device.h"
#include "device/port.h"
#include "memory/key.h"
#include "memory/region.h"
#include "observe/counters.h"
#include "preload/vsysfs.h"
#include "queue/qp.h"
#include "registry/directory.h"
#include "segment/pages.h"

static bool nldev_is_dump(const struct av_nldev_request *r)
{
	return r->header->nlmsg_flags & NLM_F_DUMP;
}

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

/* Return: 0, or -EINVAL as the kernel: a number is too short */
static int nldev_parse(const struct nlmsghdr *header, struct av_nldev_request *r)
{
	r->header = header;
	r->command = RDMA_NL_GET_OP(header->nlmsg_type);
	av_nl_attrs(header, r->attr, AV_ARRAY_SIZE(r->attr));
	for (size_t i = 0; i < AV_ARRAY_SIZE(numbers); i++) {
		const struct nlattr *attr = r->attr[numbers[i]];

		if (attr && av_nl_length(attr) < sizeof(uint32_t))
			return -EINVAL;
	}
	r->dev = device_named(r->attr[RDMA_NLDEV_ATTR_DEV_INDEX]);
	return 0;
}

/* The attributes that every answer about a device begins with. */
static void nldev_put_handle(struct av_nl_out *out, const struct av_device *dev)
{
	av_nl_put_u32(out, RDMA_NLDEV_ATTR_DEV_INDEX, av_instance_number(dev));
	av_nl_put_text(out, RDMA_NLDEV_ATTR_DEV_NAME, dev->ibv.name);
}

#define ONLY_PORT      1
#define SHARED_NETNS   1 /* every network namespace sees the devices */
#define COPY_ON_FORK   1 /* a child has memory of its own whatever is registered */
#define DRIVER_UNKNOWN 0 /* rdma/ib_user_ioctl_verbs.h: RDMA_DRIVER_UNKNOWN */

static bool is_infiniband(const struct av_device *dev)
{
	return dev->port.link_layer == IBV_LINK_LAYER_INFINIBAND;
}

/* --- devices ----------------------------------------------------------------------- */

static void put_device(const struct av_nldev_request *r, const struct av_device *dev,
		       uint16_t flags, struct av_nl_out *out)
{
	av_nl_begin(out, r->header->nlmsg_type, flags);
	nldev_put_handle(out, dev);
	av_nl_put_u32(out, RDMA_NLDEV_ATTR_PORT_INDEX, dev->attr.phys_port_cnt);
	av_nl_put_u64(out, RDMA_NLDEV_ATTR_CAP_FLAGS, dev->attr.device_cap_flags);
	av_nl_put_text(out, RDMA_NLDEV_ATTR_FW_VERSION, dev->attr.fw_ver);
	av_nl_put_u64(out, RDMA_NLDEV_ATTR_NODE_GUID, dev->guid);
	av_nl_put_u64(out, RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, dev->guid);
	av_nl_put_u8(out, RDMA_NLDEV_ATTR_DEV_NODE_TYPE, (uint8_t)dev->ibv.node_type);
	av_nl_put_u8(out, RDMA_NLDEV_ATTR_DEV_DIM, 0);
	av_nl_put_text(out, RDMA_NLDEV_ATTR_DEV_PROTOCOL, is_infiniband(dev) ? "ib" : "roce");
	av_nl_end(out);
}

/* Each writes the answer to one kind of request. Return: 0 or -errno */
static int nldev_device(const struct av_nldev_request *r, struct av_nl_out *out)
{
	put_device(r, r->dev, 0, out);
	return 0;
}

static int nldev_devices(const struct av_nldev_request *r, struct av_nl_out *out)
{
	unsigned int count;
	struct av_device *const *list = av_devices(&count);

	for (unsigned int i = 0; i < count; i++)
		put_device(r, list[i], NLM_F_MULTI, out);
	return 0;
}

/* --- ports ------------------------------------------------------------------------- */

/* The first interface that its addresses come from. */
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

static void put_port(const struct av_nldev_request *r, uint16_t flags, struct av_nl_out *out)
{
	struct ibv_port_attr port;

	av_port_attr(r->dev, &port);
	av_nl_begin(out, r->header->nlmsg_type, flags);
	nldev_put_handle(out, r->dev);
	av_nl_put_u32(out, RDMA_NLDEV_ATTR_PORT_INDEX, ONLY_PORT);
	if (is_infiniband(r->dev))
		put_subnet(r->dev, &port, out);
	av_nl_put_u8(out, RDMA_NLDEV_ATTR_PORT_STATE, (uint8_t)port.state);
	av_nl_put_u8(out, RDMA_NLDEV_ATTR_PORT_PHYS_STATE, port.phys_state);
	put_interface(r->dev, out);
	av_nl_end(out);
}

static int nldev_port(const struct av_nldev_request *r, struct av_nl_out *out)
{
	put_port(r, 0, out);
	return 0;
}

static int nldev_ports(const struct av_nldev_request *r, struct av_nl_out *out)
{
	put_port(r, NLM_F_MULTI, out);
	return 0;
}

/* --- statistics -------------------------------------------------------------------- */

/* Add a counter to a list of the type STAT_HWCOUNTERS. */
static void nldev_put_counter(struct av_nl_out *out, const char *name, uint64_t value)
{
	size_t entry = av_nl_nest(out, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY);

	av_nl_put_text(out, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, name);
	av_nl_put_u64(out, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE, value);
	av_nl_nest_end(out, entry);
}

/* The counters of the sysfs folder "hw_counters". */
static int nldev_counters(const struct av_nldev_request *r, struct av_nl_out *out)
{
	struct av_counted counted = {0};
	size_t table;

	if (!r->attr[RDMA_NLDEV_ATTR_PORT_INDEX])
		return -EINVAL;
	av_totals_read(r->dev->ibv.name, &counted.total, &counted.link_downed);
	av_nl_begin(out, r->header->nlmsg_type, 0);
	nldev_put_handle(out, r->dev);
	av_nl_put_u32(out, RDMA_NLDEV_ATTR_PORT_INDEX, ONLY_PORT);
	table = av_nl_nest(out, RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
	for (unsigned int i = 0; i < av_counter_count; i++)
		if (av_counter_info[i].scope & AV_SCOPE_HW)
			nldev_put_counter(out, av_counter_info[i].name,
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
static int nldev_chardev(const struct av_nldev_request *r, struct av_nl_out *out)
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

static int nldev_system(const struct av_nldev_request *r, struct av_nl_out *out)
{
	av_nl_begin(out, r->header->nlmsg_type, 0);
	av_nl_put_u8(out, RDMA_NLDEV_SYS_ATTR_NETNS_MODE, SHARED_NETNS);
	av_nl_put_u8(out, RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, COPY_ON_FORK);
	av_nl_end(out);
	return 0;
}

/*
 * A table of kinds of objects. Their numbers are the kernel's kind: one for all processes of a
 * device. Ours are the context's place in the directory and the object's in its context.
 */

#define INDEX_BITS 20 /* of an object in its context */
_Static_assert(AV_SLAB_CHUNKS *AV_KEY_CHUNK <= 1u << INDEX_BITS, "regions, the most numerous");
_Static_assert(AV_IMPORT_PDS + AV_MAX_PD < 1u << INDEX_BITS, "protection domains");
_Static_assert(AV_REF_SLOT_BITS + INDEX_BITS <= 32, "numbers");

/* The most bytes of an entry; lists of queue pairs are cut. */
#define ENTRY_BYTES 1024u

/* A kind of objects. */
struct kind {
	const char *name; /* in summaries */
	unsigned int command;
	unsigned int table, entry; /* attributes of a dump: for all objects, for each */
	unsigned int id;	   /* attribute that names one object */
	void (*walk)(const char *device, void *arg);
};

/* Writes the objects that the walk of a kind visits. */
struct listing {
	const struct kind *kind;
	const struct av_nldev_request *r;
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
	av_nl_begin(l->out, l->r->header->nlmsg_type, l->one ? 0 : NLM_F_MULTI);
	nldev_put_handle(l->out, l->r->dev);
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

static bool is_connected(uint32_t type)
{
	return type == IBV_QPT_RC || type == IBV_QPT_UC;
}

static bool has_path(uint32_t type)
{
	return is_connected(type) || type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV;
}

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
	if (is_connected(qp->type)) {
		av_nl_put_u32(l->out, RDMA_NLDEV_ATTR_RES_RQPN, qp->dest_qpn);
		av_nl_put_u32(l->out, RDMA_NLDEV_ATTR_RES_RQ_PSN, qp->rq_psn);
	}
	av_nl_put_u32(l->out, RDMA_NLDEV_ATTR_RES_SQ_PSN, qp->sq_psn);
	if (has_path(qp->type))
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

/* As drivers say what only they know: a name, then its value. */
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

/* mlx5 counts pages, whatever the names say. */
static void list_mr_counters(const struct av_region_info *mr, void *arg)
{
	struct listing *l = arg;
	uint32_t id = pack_resource_id(mr->context, AV_KEY_INDEX(mr->key));
	size_t table;

	if (mr->memory != AV_REGION_ON_DEMAND || !begin_entry(l, id))
		return;
	av_nl_put_u32(l->out, RDMA_NLDEV_ATTR_RES_MRN, id);
	table = av_nl_nest(l->out, RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
	nldev_put_counter(l->out, "page_faults", mr->counted[AV_MR_FAULT_PAGES]);
	nldev_put_counter(l->out, "page_invalidations", mr->counted[AV_MR_INVALIDATION_PAGES]);
	nldev_put_counter(l->out, "page_prefetch", mr->counted[AV_MR_PREFETCH_PAGES]);
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

static void walk_qps(const char *device, void *arg)
{
	av_report_qps(device, list_qp, arg);
}

static void walk_cqs(const char *device, void *arg)
{
	av_report_cqs(device, list_cq, arg);
}

static void walk_mrs(const char *device, void *arg)
{
	av_region_report(device, list_mr, arg);
}

static void walk_mr_counters(const char *device, void *arg)
{
	av_region_report(device, list_mr_counters, arg);
}

static void walk_pds(const char *device, void *arg)
{
	av_report_pds(device, list_pd, arg);
}

static void walk_contexts(const char *device, void *arg)
{
	av_report_contexts(device, list_context, arg);
}

static void walk_srqs(const char *device, void *arg)
{
	av_report_srqs(device, list_srq, arg);
}

/* Identifiers of the connection manager are not the device's. */
static void walk_none(const char *device, void *arg)
{
}

#define KIND(name, NAME, id, walk)                                                         \
	{                                                                                  \
		name, RDMA_NLDEV_CMD_RES_##NAME##_GET, RDMA_NLDEV_ATTR_RES_##NAME,         \
			RDMA_NLDEV_ATTR_RES_##NAME##_ENTRY, RDMA_NLDEV_ATTR_RES_##id, walk \
	}

static const struct kind kinds[] = {
	KIND("pd", PD, PDN, walk_pds),	   KIND("cq", CQ, CQN, walk_cqs),
	KIND("qp", QP, LQPN, walk_qps),	   KIND("cm_id", CM_ID, CM_IDN, walk_none),
	KIND("mr", MR, MRN, walk_mrs),	   KIND("ctx", CTX, CTXN, walk_contexts),
	KIND("srq", SRQ, SRQN, walk_srqs),
};

static const struct kind mr_counters = {
	"mr",
	RDMA_NLDEV_CMD_STAT_GET,
	RDMA_NLDEV_ATTR_RES_MR,
	RDMA_NLDEV_ATTR_RES_MR_ENTRY,
	RDMA_NLDEV_ATTR_RES_MRN,
	walk_mr_counters,
};

/* --- requests ---------------------------------------------------------------------- */

static const struct kind *kind_of(const struct av_nldev_request *r)
{
	const struct kind *k = kinds;

	while (k->command != r->command)
		k++;
	return k;
}

static int list_all(const struct kind *kind, const struct av_nldev_request *r,
		    struct av_nl_out *out)
{
	struct listing l = {.kind = kind, .r = r, .out = out};

	kind->walk(r->dev->ibv.name, &l);
	end_message(&l);
	return 0;
}

static int list_one(const struct kind *kind, const struct av_nldev_request *r,
		    struct av_nl_out *out)
{
	struct listing l = {.kind = kind, .r = r, .out = out, .one = true};
	const struct nlattr *id = r->attr[kind->id];

	if (!id)
		return -EINVAL;
	l.wanted = av_nl_u32(id);
	kind->walk(r->dev->ibv.name, &l);
	end_message(&l);
	return l.count ? 0 : -ENOENT;
}

static int nldev_resources(const struct av_nldev_request *r, struct av_nl_out *out)
{
	return list_all(kind_of(r), r, out);
}

/* The objects of the kind that the command names: the one that the request names, or all. */
static int nldev_resource(const struct av_nldev_request *r, struct av_nl_out *out)
{
	return list_one(kind_of(r), r, out);
}

/*
 * Counters of objects of the kind that STAT_RES names: page faults of regions that are on demand,
 * as mlx5 has them, and nothing of queue pairs, to which no counters can be bound.
 */
static int nldev_object_counters(const struct av_nldev_request *r, struct av_nl_out *out)
{
	const struct nlattr *kind = r->attr[RDMA_NLDEV_ATTR_STAT_RES];
	bool dump = nldev_is_dump(r);

	if (kind && av_nl_u32(kind) == RDMA_NLDEV_ATTR_RES_QP)
		return dump ? 0 : -ENOENT;
	if (!kind || av_nl_u32(kind) != RDMA_NLDEV_ATTR_RES_MR)
		return -EINVAL;
	return dump ? list_all(&mr_counters, r, out) : list_one(&mr_counters, r, out);
}

static void put_summary(const struct av_nldev_request *r, const struct av_device *dev,
			uint16_t flags, struct av_nl_out *out)
{
	size_t table;

	av_nl_begin(out, r->header->nlmsg_type, flags);
	nldev_put_handle(out, dev);
	table = av_nl_nest(out, RDMA_NLDEV_ATTR_RES_SUMMARY);
	for (size_t i = 0; i < AV_ARRAY_SIZE(kinds); i++) {
		size_t entry = av_nl_nest(out, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY);
		struct listing l = {.kind = &kinds[i], .r = r};

		kinds[i].walk(dev->ibv.name, &l);
		av_nl_put_text(out, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME, kinds[i].name);
		av_nl_put_u64(out, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR, l.count);
		av_nl_nest_end(out, entry);
	}
	av_nl_nest_end(out, table);
	av_nl_end(out);
}

/* How many objects of each kind: of one device, of all. Return: 0 or -errno */
static int nldev_summary(const struct av_nldev_request *r, struct av_nl_out *out)
{
	put_summary(r, r->dev, 0, out);
	return 0;
}

static int nldev_summaries(const struct av_nldev_request *r, struct av_nl_out *out)
{
	unsigned int count;
	struct av_device *const *list = av_devices(&count);

	for (unsigned int i = 0; i < count; i++)
		put_summary(r, list[i], NLM_F_MULTI, out);
	return 0;
}

/*
 * A table of commands. What names a device of ours is answered here, and what names another one by
 * the kernel; a dump of all devices has ours first, then the kernel's. What cannot be understood
 * gets the kernel's errors. Source: drivers/infiniband/core/netlink.c and nldev.c as they behave.
 */

enum needs {
	NEEDS_PORT = 1,
	ALL_DEVICES = 2, /* its dump is of all devices, whatever it names */
};

typedef int writer(const struct av_nldev_request *r, struct av_nl_out *out);

/* Those of a port, or of an object of the kind that it names. */
static int statistics(const struct av_nldev_request *r, struct av_nl_out *out)
{
	return r->attr[RDMA_NLDEV_ATTR_STAT_RES] ? nldev_object_counters(r, out)
						 : nldev_counters(r, out);
}

/* A request for one thing, or for a dump. NULL: there is no such request */
static const struct command {
	writer *one, *dump;
	unsigned int needs; /* bits of enum needs */
} commands[RDMA_NLDEV_NUM_OPS] = {
	[RDMA_NLDEV_CMD_GET] = {nldev_device, nldev_devices, ALL_DEVICES},
	[RDMA_NLDEV_CMD_PORT_GET] = {nldev_port, nldev_ports, NEEDS_PORT},
	[RDMA_NLDEV_CMD_SYS_GET] = {nldev_system, NULL, 0},
	[RDMA_NLDEV_CMD_GET_CHARDEV] = {nldev_chardev, NULL, 0},
	[RDMA_NLDEV_CMD_RES_GET] = {nldev_summary, nldev_summaries, ALL_DEVICES},
	[RDMA_NLDEV_CMD_RES_QP_GET] = {nldev_resource, nldev_resources, 0},
	[RDMA_NLDEV_CMD_RES_CM_ID_GET] = {nldev_resource, nldev_resources, 0},
	[RDMA_NLDEV_CMD_RES_CQ_GET] = {nldev_resource, nldev_resources, 0},
	[RDMA_NLDEV_CMD_RES_MR_GET] = {nldev_resource, nldev_resources, 0},
	[RDMA_NLDEV_CMD_RES_PD_GET] = {nldev_resource, nldev_resources, 0},
	[RDMA_NLDEV_CMD_RES_CTX_GET] = {nldev_resource, nldev_resources, 0},
	[RDMA_NLDEV_CMD_RES_SRQ_GET] = {nldev_resource, nldev_resources, 0},
	[RDMA_NLDEV_CMD_STAT_GET] = {statistics, nldev_object_counters, 0},
};

/* --- understanding ----------------------------------------------------------------- */

static const struct command *command_of(const struct av_nldev_request *r)
{
	const struct command *c = r->command < RDMA_NLDEV_NUM_OPS ? &commands[r->command] : NULL;

	return c && (nldev_is_dump(r) ? c->dump : c->one) ? c : NULL;
}

/* --- answering --------------------------------------------------------------------- */

/* Add the result of a request that is carried out, as the kernel does for all kinds of netlink. */
static void say(const struct nlmsghdr *request, int result, struct av_nl_out *out)
{
	if (result || (request->nlmsg_flags & NLM_F_ACK))
		av_nl_result(out, request, result);
}

static int check_nldev_port(const struct av_nldev_request *r, const struct command *c)
{
	const struct nlattr *port = r->attr[RDMA_NLDEV_ATTR_PORT_INDEX];

	if (port ? !r->dev || !av_nl_u32(port) || av_nl_u32(port) > r->dev->attr.phys_port_cnt
		 : (c->needs & NEEDS_PORT) && !nldev_is_dump(r))
		return -EINVAL;
	return 0;
}

/* A dump reports its errors at its end. */
static void dump_ours(const struct av_nldev_request *r, const struct command *c,
		      struct av_nl_out *out)
{
	int result = check_nldev_port(r, c);

	av_nl_done(out, result ? result : c->dump(r, out));
}

static void answer_ours(const struct av_nldev_request *r, const struct command *c,
			struct av_nl_out *out)
{
	int result = c ? check_nldev_port(r, c) : -EOPNOTSUPP;

	if (c && nldev_is_dump(r))
		dump_ours(r, c, out);
	else
		say(r->header, result || !c ? result : c->one(r, out), out);
}

/* The connection manager's node is ours, whatever devices the kernel has. */
static bool is_of_cm(const struct av_nldev_request *r, const struct command *c,
		     struct av_nl_out *out)
{
	if (!c || c->one != nldev_chardev || nldev_is_dump(r) || c->one(r, out))
		return false;
	say(r->header, 0, out);
	return true;
}

/* A request that names no device of ours. */
static void answer_others(const struct av_nldev_request *r, const struct command *c,
			  struct av_nl_out *out)
{
	if (c && nldev_is_dump(r) && (c->needs & ALL_DEVICES)) {
		(void)c->dump(r, out);
		if (!av_netlink_ask_kernel(r->header, out))
			av_nl_done(out, 0);
		return;
	}
	if (is_of_cm(r, c, out) || av_netlink_ask_kernel(r->header, out))
		return;
	if (c && nldev_is_dump(r))
		av_nl_done(out, -EINVAL);
	else if (c && (c->one == nldev_system || c->one == nldev_chardev))
		say(r->header, c->one(r, out), out);
	else
		say(r->header, c ? -EINVAL : -EOPNOTSUPP, out); /* of nobody's device, or none */
}

static void answer_nldev(const struct nlmsghdr *request, struct av_nl_out *out)
{
	struct av_nldev_request r;
	const struct command *c;
	int result = nldev_parse(request, &r);

	if (result) {
		say(request, result, out);
		return;
	}
	c = command_of(&r);
	if (r.dev && !(c && nldev_is_dump(&r) && (c->needs & ALL_DEVICES)))
		answer_ours(&r, c, out);
	else
		answer_others(&r, c, out);
}

static void answer_one(const struct nlmsghdr *request, struct av_nl_out *out)
{
	out->seq = request->nlmsg_seq;
	if (!(request->nlmsg_flags & NLM_F_REQUEST) || request->nlmsg_type < NLMSG_MIN_TYPE)
		say(request, 0, out);
	else if (RDMA_NL_GET_CLIENT(request->nlmsg_type) == RDMA_NL_NLDEV)
		answer_nldev(request, out);
	else if (!av_netlink_ask_kernel(request, out))
		say(request, -EINVAL, out);
}

void av_netlink_answer(const void *datagram, size_t len, struct av_nl_out *out)
{
	const struct nlmsghdr *request;
	size_t at = 0;

	while ((request = av_nl_next(datagram, len, &at)))
		answer_one(request, out);
}
