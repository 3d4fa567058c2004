/* SPDX-License-Identifier: MIT */
#include "device/device.h"

#include <endian.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/newer_verbs.h"
#include "base/random.h"
#include "observe/freedom.h"
#include "segment/observers.h"

#define MACHINE_ID_CHARS 32 /* number of digits in /etc/machine-id: machine-id(5) */
#define HOST_ID_BYTES	 256

/* Codes of PortInfo. 4 lanes of 25 Gb/s are about what one core can copy between two processes. */
#define ACTIVE_WIDTH_4X	   2
#define ACTIVE_SPEED_EDR   32
#define PHYS_STATE_LINK_UP 5

#define INFINIBAND_SM_LID 1

/* In the attributes, 0: there are no such objects. The port is up. */
const struct av_device av_device_default = {
	.ibv = {.name = "any0", .node_type = IBV_NODE_CA, .transport_type = IBV_TRANSPORT_IB},
	.model = &av_model_own,
	.mtu_follows = true,
	.attr =
		{
			.max_mr_size = UINT64_MAX,
			.page_size_cap = 0xfffff000, /* all powers of two from 4 KiB to 2 GiB */
			.max_qp = AV_MAX_QP,
			.max_qp_wr = AV_MAX_QP_WR,
			.device_cap_flags = IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN |
					    IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_XRC |
					    IBV_DEVICE_UD_AV_PORT_ENFORCE | IBV_DEVICE_MEM_WINDOW |
					    IBV_DEVICE_MEM_WINDOW_TYPE_2B |
					    IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_SRQ_RESIZE,
			.max_sge = AV_MAX_SGE,
			.max_cq = AV_MAX_CQ,
			.max_cqe = AV_MAX_CQE,
			.max_mr = AV_MAX_MR,
			.max_pd = AV_MAX_PD,
			.max_srq = AV_MAX_SRQ,
			.max_srq_wr = AV_MAX_SRQ_WR,
			.max_srq_sge = AV_MAX_SGE,
			.max_qp_rd_atom = AV_MAX_RD_ATOM,
			.max_qp_init_rd_atom = AV_MAX_RD_ATOM,
			.atomic_cap = IBV_ATOMIC_HCA,
			.max_mcast_grp = AV_MAX_MCAST_ATTACH,
			.max_mcast_qp_attach = AV_MAX_MCAST_ATTACH,
			.max_total_mcast_qp_attach = AV_MAX_MCAST_ATTACH,
			.max_ah = AV_MAX_AH,
			.max_pkeys = 1,
			.local_ca_ack_delay = 15, /* 4.096 us * 2^15 = 134 ms, to wait for a core */
			.phys_port_cnt = 1,
		},
	.port =
		{
			.state = IBV_PORT_ACTIVE,
			.max_mtu = IBV_MTU_4096,
			.gid_tbl_len = AV_GID_MAX,
			.max_msg_sz = AV_MAX_MSG_BYTES,
			.pkey_tbl_len = 1,
			.max_vl_num = 1,
			.active_width = ACTIVE_WIDTH_4X,
			.active_speed = ACTIVE_SPEED_EDR,
			.phys_state = PHYS_STATE_LINK_UP,
			.link_layer = IBV_LINK_LAYER_ETHERNET,
		},
};

static pthread_once_t devices_once = PTHREAD_ONCE_INIT;
static struct av_config config;			     /* both written under devices_once, */
static struct av_device *device_list[AV_DEVICE_MAX]; /* and constant afterwards */

_Static_assert(offsetof(struct av_device, ibv) == 0,
	       "a struct ibv_device is cast to a struct av_device");

/* Read /etc/machine-id. Return: false if it is not valid, as in an image made for copying. */
static bool read_machine_id(char id[HOST_ID_BYTES])
{
	int fd AV_CLOSED = open("/etc/machine-id", O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return false;
	do
		n = read(fd, id, MACHINE_ID_CHARS);
	while (n < 0 && errno == EINTR);
	if (n != MACHINE_ID_CHARS)
		return false;
	id[n] = '\0';
	return strspn(id, "0123456789abcdef") == MACHINE_ID_CHARS;
}

/* A text that is the same in all processes of this host, and if possible on no other host. */
static void read_host_id(char id[HOST_ID_BYTES])
{
	if (read_machine_id(id))
		return;
	if (gethostname(id, HOST_ID_BYTES))
		id[0] = '\0';
	id[HOST_ID_BYTES - 1] = '\0';
}

uint64_t av_device_guid(const char *host_id, const char *name)
{
	uint64_t guid = AV_FNV1A;

	/* With the NULs, so that the end of one text cannot pass for the start of the next. */
	guid = av_fnv1a(guid, host_id, strlen(host_id) + 1);
	guid = av_fnv1a(guid, name, strlen(name) + 1);
	/* FNV leaves the upper bits of similar texts alike: spread the lower bits over them. */
	guid ^= guid >> 32;
	guid *= 0x9e3779b97f4a7c15u;
	guid ^= guid >> 29;
	/* EUI-64: locally administered (so never 0), and individual. */
	return (guid | 0x02ull << 56) & ~(0x01ull << 56);
}

static void complete_ibv(struct ibv_device *ibv, unsigned int index)
{
	snprintf(ibv->dev_name, sizeof(ibv->dev_name), "uverbs%u", index);
	snprintf(ibv->dev_path, sizeof(ibv->dev_path), "/sys/class/infiniband_verbs/uverbs%u",
		 index);
	snprintf(ibv->ibdev_path, sizeof(ibv->ibdev_path), "/sys/class/infiniband/%s", ibv->name);
}

static void complete_attr(struct ibv_device_attr *attr, const struct av_device *dev)
{
	snprintf(attr->fw_ver, sizeof(attr->fw_ver), "%s", dev->model->firmware);
	attr->vendor_id = dev->model->vendor;
	attr->vendor_part_id = dev->model->part;
	attr->hw_ver = dev->model->revision;
	attr->node_guid = htobe64(dev->guid);
	attr->sys_image_guid = attr->node_guid;
	attr->max_sge_rd = attr->max_sge;
	attr->max_mw = attr->max_mr; /* they share a table of keys */
	if (dev->as)
		av_model_lower(dev->as, attr);
	if (dev->strict & AV_FREEDOM_BIT(AV_FREEDOM_LIMITS))
		av_model_lower(&av_model_least, attr);
	attr->max_res_rd_atom = attr->max_qp_rd_atom * attr->max_qp;
}

/* What a device behaves as, beside its attributes. */
static void complete_as(struct av_device *dev)
{
	const struct av_model *as = dev->as;

	dev->max_inline = as && as->max_inline ? as->max_inline : AV_MAX_INLINE;
	dev->max_send_sge = as && as->send_sge ? as->send_sge : (uint32_t)dev->attr.max_sge;
	if (as && as->gids && dev->port.gid_tbl_len > as->gids)
		dev->port.gid_tbl_len = as->gids;
	if (as && as->node_type) {
		dev->ibv.node_type = as->node_type;
		dev->ibv.transport_type = as->transport;
	}
}

void av_device_complete(struct av_device *dev, unsigned int index)
{
	complete_ibv(&dev->ibv, index);
	complete_attr(&dev->attr, dev);
	complete_as(dev);
	dev->index = index;
	snprintf(dev->pci_name, sizeof(dev->pci_name), "anyverbs.%u", index);
	dev->port.active_mtu = dev->port.max_mtu;
	if (dev->port.link_layer == IBV_LINK_LAYER_ETHERNET) {
		/* GIDs are IP addresses, so a path needs one. */
		dev->port.port_cap_flags = IBV_PORT_IP_BASED_GIDS;
		dev->port.flags = IBV_QPF_GRH_REQUIRED;
	} else {
		dev->port.sm_lid = INFINIBAND_SM_LID;
		dev->mtu_follows = false;
		dev->gids_paired = false;
	}
}

static void report_complaints(void)
{
	for (unsigned int i = 0; i < config.complaint_count && i < AV_COMPLAINT_MAX; i++)
		av_log(AV_LOG_WARN, "ANYVERBS_DEVICES: %s", config.complaint[i]);
	if (config.complaint_count > AV_COMPLAINT_MAX)
		av_log(AV_LOG_WARN, "ANYVERBS_DEVICES: %u more mistakes",
		       config.complaint_count - AV_COMPLAINT_MAX);
}

static void read_devices(void)
{
	char host_id[HOST_ID_BYTES];

	av_config_parse(secure_getenv("ANYVERBS_DEVICES"), &config);
	report_complaints();
	read_host_id(host_id);
	for (unsigned int i = 0; i < config.device_count; i++) {
		struct av_device *dev = &config.device[i];

		if (!dev->guid)
			dev->guid = av_device_guid(host_id, dev->ibv.name);
		av_device_complete(dev, i);
		device_list[i] = dev;
	}
}

struct av_device *const *av_devices(unsigned int *count)
{
	AV_ERRNO_KEPT;

	pthread_once(&devices_once, read_devices);
	*count = config.device_count;
	return device_list;
}

/* --- instances --------------------------------------------------------------------- */

/* NULL: the first one, which is the device itself. */
static struct av_device_instance *newest(const struct av_device *dev)
{
	return atomic_load_explicit(&dev->newest, memory_order_acquire);
}

/* The device's instance that has @ibv; NULL: none, or the first one. */
static const struct av_device_instance *find_instance(const struct av_device *dev,
						      const struct ibv_device *ibv)
{
	const struct av_device_instance *i = newest(dev);

	while (i && ibv != &i->ibv)
		i = i->older;
	return i;
}

static uint32_t number_of(const struct av_device *dev, const struct av_device_instance *i)
{
	return i ? i->number : AV_DEVICE_NUMBER_BASE + dev->index;
}

struct ibv_device *av_instance(struct av_device *dev)
{
	struct av_device_instance *i = newest(dev);

	return i ? &i->ibv : &dev->ibv;
}

uint32_t av_instance_number(const struct av_device *dev)
{
	return number_of(dev, newest(dev));
}

uint32_t av_instance_number_of(const struct ibv_device *ibv)
{
	const struct av_device *dev = av_device_of(ibv);

	return number_of(dev, find_instance(dev, ibv));
}

/* Only one thread makes them. */
void av_instance_renew(const char *name, uint32_t failure)
{
	struct av_device *dev = av_device_by_name(name);
	struct av_device_instance *older = dev ? newest(dev) : NULL, *i;

	if (!dev || (older && (int32_t)(failure - older->failures) <= 0))
		return;
	i = calloc(1, sizeof(*i));
	if (!i)
		return;
	i->ibv = dev->ibv;
	i->number = av_instance_number(dev) + AV_DEVICE_MAX;
	i->failures = av_dir_failures();
	i->older = older;
	atomic_store_explicit(&dev->newest, i, memory_order_release);
}

/* --- finding one ------------------------------------------------------------------- */

struct av_device *av_device_of(const struct ibv_device *dev)
{
	/* Does not call av_devices(): whoever has one of these pointers has already called it. */
	for (unsigned int i = 0; i < AV_DEVICE_MAX; i++)
		if (dev == &config.device[i].ibv || find_instance(&config.device[i], dev))
			return &config.device[i];
	return NULL;
}

struct av_device *av_device_by_name(const char *name)
{
	unsigned int count;
	struct av_device *const *list = av_devices(&count);

	for (unsigned int i = 0; i < count; i++)
		if (!strcmp(name, list[i]->ibv.name))
			return list[i];
	for (unsigned int i = 0; i < count; i++)
		if (!strcmp(name, list[i]->ibv.dev_name))
			return list[i];
	return NULL;
}

#define ODP_MESSAGES (IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV)
#define ODP_WRITE    IBV_ODP_SUPPORT_WRITE
#define ODP_READS                                                               \
	(IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC | AV_ODP_SUPPORT_FLUSH | \
	 AV_ODP_SUPPORT_ATOMIC_WRITE)

static void hide_lacking(const struct av_model *as, struct ibv_device_attr_ex *attr)
{
	if (as->no_access & IBV_ACCESS_ON_DEMAND)
		attr->odp_caps = (struct ibv_odp_caps){0};
	if (as->no_access & IBV_ACCESS_ON_DEMAND || as->no_types >> IBV_QPT_XRC_SEND & 1)
		attr->xrc_odp_caps = 0;
	if (!av_model_has_verb(as, AV_VERB_MODIFY_CQ))
		attr->cq_mod_caps = (struct ibv_cq_moderation_caps){0};
	if (!av_model_has_verb(as, AV_VERB_ALLOC_DM))
		attr->max_dm_size = 0;
	if (!av_model_has_verb(as, AV_VERB_QUERY_RT_VALUES_EX))
		attr->completion_timestamp_mask = attr->hca_core_clock = 0;
	if (!av_model_has_opcode(as, AV_WR_FLUSH))
		attr->device_cap_flags_ex &= ~AV_DEVICE_FLUSH_GLOBAL;
	if (!av_model_has_opcode(as, AV_WR_ATOMIC_WRITE))
		attr->device_cap_flags_ex &= ~AV_DEVICE_ATOMIC_WRITE;
}

int av_device_query_ex(const struct av_device *dev, struct ibv_device_attr_ex *attr,
		       size_t attr_size)
{
	struct ibv_device_attr_ex ours = {.orig_attr = dev->attr};
	size_t known = attr_size < sizeof(ours) ? attr_size : sizeof(ours);

	ours.odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
	ours.odp_caps.per_transport_caps.rc_odp_caps = ODP_MESSAGES | ODP_WRITE | ODP_READS;
	ours.odp_caps.per_transport_caps.uc_odp_caps = ODP_MESSAGES | ODP_WRITE;
	ours.odp_caps.per_transport_caps.ud_odp_caps = ODP_MESSAGES;
	ours.xrc_odp_caps = (ODP_MESSAGES & ~IBV_ODP_SUPPORT_RECV) | ODP_WRITE |
			    ODP_READS;		    /* no receive queue of its own */
	ours.cq_mod_caps.max_cq_count = UINT16_MAX; /* the most that the field can hold */
	ours.cq_mod_caps.max_cq_period = UINT16_MAX;
	ours.max_dm_size = AV_MAX_DM_BYTES;
	ours.completion_timestamp_mask = UINT64_MAX; /* nanoseconds of the monotonic clock: */
	ours.hca_core_clock = 1000000;		     /* 1 GHz, in kHz */
	ours.device_cap_flags_ex =
		dev->attr.device_cap_flags | AV_DEVICE_FLUSH_GLOBAL | AV_DEVICE_ATOMIC_WRITE;
	ours.phys_port_cnt_ex = dev->attr.phys_port_cnt;
	if (dev->as)
		hide_lacking(dev->as, &ours);
	memcpy(attr, &ours, known);
	memset((char *)attr + known, 0, attr_size - known);
	return 0;
}

/* --- words ----------------------------------------------------------------------- */

const char *av_link_name(const struct av_device *dev)
{
	return dev->port.link_layer == IBV_LINK_LAYER_INFINIBAND ? "InfiniBand" : "Ethernet";
}

const char *av_gid_type_name(uint32_t type)
{
	return type == IBV_GID_TYPE_ROCE_V2   ? "RoCE v2"
	       : type == IBV_GID_TYPE_ROCE_V1 ? "RoCE v1"
					      : "InfiniBand";
}

/* --- speed ----------------------------------------------------------------------- */

/* Number of lanes of a link width, by its code in PortInfo. */
static unsigned int lanes_of(uint8_t width)
{
	static const uint8_t lanes[] = {[1] = 1, [2] = 4, [4] = 8, [8] = 12, [16] = 2};

	return width < AV_ARRAY_SIZE(lanes) && lanes[width] ? lanes[width] : 1;
}

struct av_port_rate av_port_rate(const struct ibv_port_attr *port)
{
	static const struct {
		uint8_t code;	   /* in PortInfo */
		unsigned int rate; /* of a lane, in 100 Mb/s */
		const char *name;
	} speeds[] = {
		{1, 25, "SDR"},	  {2, 50, "DDR"},   {4, 100, "QDR"},  {8, 100, "FDR10"},
		{16, 140, "FDR"}, {32, 250, "EDR"}, {64, 500, "HDR"}, {128, 1000, "NDR"},
	};
	const unsigned int lanes = lanes_of(port->active_width);
	unsigned int i = 0;

	while (i < AV_ARRAY_SIZE(speeds) - 1 && speeds[i].code < port->active_speed)
		i++;
	return (struct av_port_rate){
		.lanes = lanes, .rate = speeds[i].rate * lanes, .name = speeds[i].name};
}

/* A forked child makes its own: another thread of the parent may have held the mutex. */
struct av_faults *av_device_faults(const struct av_device *dev)
{
	static _Atomic(struct av_faults *) all[AV_DEVICE_MAX];
	struct av_faults *f = atomic_load(&all[dev->index]), *fresh;

	if (!av_faults_there(dev->ibv.name))
		return NULL;
	if (!f || f->pid != getpid()) {
		fresh = malloc(sizeof(*fresh));
		if (!fresh)
			return NULL;
		av_faults_init(fresh, dev->ibv.name);
		if (atomic_compare_exchange_strong(&all[dev->index], &f, fresh))
			f = fresh;
		else
			free(fresh);
	}
	av_faults_refresh(f);
	return f;
}
