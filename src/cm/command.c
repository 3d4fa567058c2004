/* SPDX-License-Identifier: MIT */
#include "cm/id.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "cm/cm.h"
#include "copy/copy.h"
#include "net/address.h"
#include "observe/check.h"
#include "observe/flight.h"
#include "registry/tables.h"

/* What a write(2) to the device says, and who carries it out. Source: rdma_user_cm.h, ABI 4. */

int av_cm_respond(const struct av_cm_call *call, uint64_t to, const void *answer, size_t bytes)
{
	if (bytes > call->out_bytes)
		bytes = call->out_bytes;
	return av_copy((void *)(uintptr_t)to, answer, bytes) == AV_COPY_OK ? 0 : -EFAULT;
}

/* --- events ---------------------------------------------------------------------------- */

static void count_cm_event(const struct av_cm_event *e)
{
	e->id->reported++;
	if (e->group)
		e->group->reported++;
	if (!e->fresh)
		return;
	e->fresh->hidden = false;
	e->id->backlog++;
}

/* Return: 0; -EAGAIN: another thread was faster; what cannot be delivered stays */
static int deliver_cm_event(struct av_cm_call *call)
{
	const struct rdma_ucm_get_event *command = AV_CM_BODY(call, struct rdma_ucm_get_event);
	const struct av_cm_event *e = TAILQ_FIRST(&call->channel->events);
	int ret;

	if (!e) {
		av_cm_channel_settle(call->channel, call->fd);
		return -EAGAIN;
	}
	if (call->out_bytes < offsetof(struct rdma_ucm_event_resp, reserved))
		return -ENOSPC;
	ret = av_cm_respond(call, command->response, &e->body, sizeof(e->body));
	if (ret)
		return ret;
	count_cm_event(e);
	av_cm_channel_fetched(call->channel, call->fd);
	return 0;
}

static int get_event(struct av_cm_call *call)
{
	int ret;

	do {
		av_cm_unlock();
		ret = av_cm_channel_wait(call->channel, call->fd, call->cancel);
		av_cm_lock();
		if (ret)
			return ret;
		ret = deliver_cm_event(call);
	} while (ret == -EAGAIN);
	return ret;
}

/* --- write(2) -------------------------------------------------------------------------- */

static const struct av_cm_row get_event_row[] = {
	AV_CM_ROW_NO_ID(GET_EVENT, GET_EVENT, get_event, 0, get_event), {0}};
static const struct av_cm_row *const tables[] = {get_event_row, av_cm_id_rows,
						 av_cm_connection_rows, av_cm_query_rows};

/* Return: NULL: there is no such command */
static const struct av_cm_row *find_command(uint32_t number)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(tables); i++)
		for (const struct av_cm_row *row = tables[i]; row->run; row++)
			if (row->number == number)
				return row;
	return NULL;
}

/* Fill in @call, which is zeros, from the program's bytes. Return: 0, and @row; or -errno */
static int read_command(struct av_cm_call *call, const void *bytes, size_t count,
			const struct av_cm_row **row)
{
	struct rdma_ucm_cmd_hdr header;
	size_t body;

	if (count < sizeof(header))
		return -EINVAL;
	if (av_copy(&header, bytes, sizeof(header)) != AV_COPY_OK)
		return -EFAULT;
	if (header.cmd > AV_CM_CMD_WRITE_EVENT || header.in + sizeof(header) > count)
		return -EINVAL;
	*row = find_command(header.cmd);
	if (!*row)
		return -ENOSYS;
	if (header.in < (*row)->least)
		return -EINVAL;
	body = header.in < AV_CM_COMMAND_BYTES ? header.in : AV_CM_COMMAND_BYTES;
	call->out_bytes = header.out;
	return av_copy(call->body, (const uint8_t *)bytes + sizeof(header), body) == AV_COPY_OK
		       ? 0
		       : -EFAULT;
}

static int refuse_inherited(void)
{
	av_warn_once("an event channel of rdma_cm was inherited over fork(), and cannot be "
		     "used here: open one in each process");
	return -av_refused(AV_VERB_CM_CREATE_EVENT_CHANNEL,
			   av_refuse(EACCES, AV_CHECK_CM_INHERITED, 0, 0));
}

/* Context: locked; the command may unlock meanwhile */
static int run_cm_command(const struct av_cm_row *row, struct av_cm_call *call)
{
	uint32_t number;
	int ret = 0;

	if (call->out_bytes < row->room)
		return -ENOSPC;
	if (row->id_at != AV_CM_NO_ID) {
		memcpy(&number, call->body + row->id_at, sizeof(number));
		ret = av_cm_id_find(call->channel, number, &call->id);
	}
	return ret ? ret : row->run(call);
}

static int carry_out(int fd, uint32_t number, const void *bytes, size_t count)
{
	AV_UNCANCELLED;
	struct av_cm_call call = {.fd = fd, .cancel = av_cancel};
	const struct av_cm_row *row;
	uint32_t now;
	int ret = read_command(&call, bytes, count, &row);

	if (ret)
		return ret;
	av_cm_lock();
	call.channel = av_cm_channel_get(number);
	if (call.channel) {
		ret = run_cm_command(row, &call);
		av_cm_channel_put(call.channel);
	}
	av_cm_unlock();
	if (!call.channel) /* else another thread has closed it meanwhile */
		return av_cm_channel_is(fd, &now) && now == number ? refuse_inherited() : -EBADF;
	if (ret && ret != -EAGAIN && ret != -EINTR)
		(void)av_refused(row->verb, -ret);
	return ret;
}

ssize_t av_cm_write(int fd, uint32_t number, const void *bytes, size_t count)
{
	int saved = errno, ret;

	pthread_testcancel(); /* as in write(2), before anything is done */
	ret = carry_out(fd, number, bytes, count);
	errno = ret ? -ret : saved;
	return ret ? -1 : (ssize_t)count;
}

/* Commands about an id itself: its life, its channel, its options, what it is told. */

/* The kind of queue pair of a port space. Return: false: no such space */
static bool qp_type_of(const struct rdma_ucm_create_id *command, uint8_t *type)
{
	switch (command->ps) {
	case RDMA_PS_TCP:
		*type = IBV_QPT_RC;
		return true;
	case RDMA_PS_UDP:
	case RDMA_PS_IPOIB:
		*type = IBV_QPT_UD;
		return true;
	case RDMA_PS_IB:
		*type = command->qp_type;
		return true;
	default:
		return false;
	}
}

static int create_id(struct av_cm_call *call)
{
	const struct rdma_ucm_create_id *command = AV_CM_BODY(call, struct rdma_ucm_create_id);
	struct rdma_ucm_create_id_resp answer;
	struct av_cm_id *id;
	uint8_t type;
	int ret;

	if (!qp_type_of(command, &type))
		return -av_refuse(EINVAL, AV_CHECK_CM_QP_TYPE, command->qp_type, command->ps);
	id = av_cm_id_new(call->channel, command->uid, command->ps, type);
	if (!id)
		return -ENOMEM;
	answer.id = id->number;
	ret = av_cm_respond(call, command->response, &answer, sizeof(answer));
	if (ret)
		av_cm_id_destroy(id);
	return ret;
}

/* How many events the program has fetched: the answer to a command that ends what they are of. */
static int respond_reported(struct av_cm_call *call, uint64_t to, uint32_t reported)
{
	const struct rdma_ucm_destroy_id_resp answer = {.events_reported = reported};

	return av_cm_respond(call, to, &answer, sizeof(answer));
}

static int destroy_id(struct av_cm_call *call)
{
	const struct rdma_ucm_destroy_id *command = AV_CM_BODY(call, struct rdma_ucm_destroy_id);
	struct av_cm_id *id;
	int ret = av_cm_id_find_any(call->channel, command->id, &id);
	uint32_t reported;

	if (ret)
		return ret;
	reported = id->reported;
	av_cm_id_destroy(id);
	av_cm_channel_settle(call->channel, call->fd);
	return respond_reported(call, command->response, reported);
}

/* --- another channel ------------------------------------------------------------------- */

static int migrate(struct av_cm_call *call, struct av_cm_channel *from)
{
	const struct rdma_ucm_migrate_id *command = AV_CM_BODY(call, struct rdma_ucm_migrate_id);
	struct av_cm_id *id;
	int ret = av_cm_id_find(from, command->id, &id);

	if (ret)
		return ret;
	if (from != call->channel) {
		av_cm_id_migrate(id, call->channel);
		av_cm_channel_settle(from, (int)command->fd);
	}
	return respond_reported(call, command->response, id->reported);
}

static int migrate_id(struct av_cm_call *call)
{
	const struct rdma_ucm_migrate_id *command = AV_CM_BODY(call, struct rdma_ucm_migrate_id);
	struct av_cm_channel *from = NULL;
	uint32_t number;
	int ret;

	if (av_cm_channel_is((int)command->fd, &number))
		from = av_cm_channel_get(number);
	if (!from)
		return -av_refuse(EINVAL, AV_CHECK_CM_NO_CHANNEL, (uint64_t)(int)command->fd, 0);
	ret = migrate(call, from);
	av_cm_channel_put(from);
	return ret;
}

/* --- options --------------------------------------------------------------------------- */

static int set_tos(struct av_cm_id *id, const uint8_t *value)
{
	id->tos = *value;
	return 0;
}

/* Values of int: the kernel takes any that is not 0 for yes. */
static int load_int_option(const uint8_t *value)
{
	int number;

	memcpy(&number, value, sizeof(number));
	return number;
}

/* Whoever shares its port number, or wants to, learns of it. */
static void publish_port_options(const struct av_cm_id *id)
{
	if (id->port >= 0)
		av_cm_port_options(id->port, id->afonly, id->reuse);
}

/* Once bound it may begin to share, but not cease to. Who listens is alone. */
static int set_reuse(struct av_cm_id *id, const uint8_t *value)
{
	bool reuse = load_int_option(value) != 0;

	if (id->state == AV_CM_ID_LISTENS || (id->state != AV_CM_ID_IDLE && !reuse))
		return av_cm_id_refuse(id, AV_CM_IN(IDLE) | (reuse ? AV_CM_IN(ADDR_BOUND) : 0));
	id->reuse = reuse;
	publish_port_options(id);
	return 0;
}

static int set_afonly(struct av_cm_id *id, const uint8_t *value)
{
	if (id->state != AV_CM_ID_IDLE && id->state != AV_CM_ID_BOUND)
		return av_cm_id_refuse(id, AV_CM_IN(IDLE) | AV_CM_IN(ADDR_BOUND));
	id->afonly = load_int_option(value) != 0;
	id->afonly_set = true;
	publish_port_options(id);
	return 0;
}

/* 5 bits, and only of reliable connections. */
static int set_ack_timeout(struct av_cm_id *id, const uint8_t *value)
{
	if ((id->qp_type != IBV_QPT_RC && id->qp_type != IBV_QPT_XRC_SEND) || *value > 31)
		return -av_refuse(EINVAL, AV_CHECK_CM_ACK_TIMEOUT, *value, 0);
	id->ack_timeout = *value;
	id->ack_timeout_set = true;
	return 0;
}

static const struct option {
	uint32_t level, name, bytes;
	int (*set)(struct av_cm_id *id, const uint8_t *value);
} options[] = {
	{RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, sizeof(uint8_t), set_tos},
	{RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, sizeof(int), set_reuse},
	{RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, sizeof(int), set_afonly},
	{RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, sizeof(uint8_t), set_ack_timeout},
};

/* Paths are the kernel's routes: a program's own record is checked, and changes nothing. */
static int set_path(struct av_cm_id *id, uint32_t bytes)
{
	if (bytes == 0 || bytes % sizeof(struct ib_path_rec_data))
		return -av_refuse(EINVAL, AV_CHECK_CM_OPTION, bytes,
				  sizeof(struct ib_path_rec_data));
	return av_cm_id_route(id);
}

static int set_option(struct av_cm_call *call)
{
	const struct rdma_ucm_set_option *command = AV_CM_BODY(call, struct rdma_ucm_set_option);
	uint8_t value[sizeof(int)];

	if (command->level == RDMA_OPTION_IB && command->optname == RDMA_OPTION_IB_PATH)
		return set_path(call->id, command->optlen);
	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++) {
		const struct option *o = &options[i];

		if (o->level != command->level || o->name != command->optname)
			continue;
		if (command->optlen != o->bytes)
			return -av_refuse(EINVAL, AV_CHECK_CM_OPTION, command->optlen, o->bytes);
		if (av_copy(value, (const void *)(uintptr_t)command->optval, o->bytes) !=
		    AV_COPY_OK)
			return -EFAULT;
		return o->set(call->id, value);
	}
	return -ENOSYS;
}

/* --- what it is told ------------------------------------------------------------------- */

static int notify_id(struct av_cm_call *call)
{
	const struct rdma_ucm_notify *command = AV_CM_BODY(call, struct rdma_ucm_notify);
	struct av_cm_id *id = call->id;
	int ret;

	if (command->event != IBV_EVENT_COMM_EST)
		return -av_refuse(EINVAL, AV_CHECK_CM_EVENT, command->event, 0);
	ret = id->conn ? av_cm_conn_established(id->conn) : 1;
	if (ret && ret != -EISCONN)
		return av_cm_id_refuse(id, AV_CM_IN(REP_SENT));
	if (ret == 0)
		ret = av_cm_id_heard(id, AV_CM_EVENT_ESTABLISHED, 0, NULL);
	return ret;
}

/* Before it is accepted it has no name of the program's, by which librdmacm finds it. */
static int write_event(struct av_cm_call *call)
{
	const struct av_cm_write_event *command = AV_CM_BODY(call, struct av_cm_write_event);
	struct av_cm_id *id;
	int ret;

	if (command->event != AV_CM_EVENT_USER && command->event != AV_CM_EVENT_INTERNAL)
		return -av_refuse(EINVAL, AV_CHECK_CM_EVENT, command->event, 0);
	ret = av_cm_id_find(call->channel, command->id, &id);
	if (ret)
		return ret;
	if (!id->uid)
		return av_cm_id_refuse(id, AV_CM_IN(REP_SENT) | AV_CM_IN(ESTABLISHED));
	return av_cm_id_told(id, command->event, command->status, command->arg);
}

/* Commands about multicast groups. On RoCE nobody is asked: queue pairs attach themselves. */

#define GROUP_QPN 0xffffffu

static void fill_group_ud_param(const struct av_cm_id *id, const struct av_cm_name *name,
				struct rdma_ucm_ud_param *ud)
{
	memset(ud, 0, sizeof(*ud));
	ud->qp_num = GROUP_QPN;
	ud->qkey = AV_CM_UDP_QKEY;
	ud->ah_attr.is_global = 1;
	ud->ah_attr.port_num = 1;
	ud->ah_attr.grh.sgid_index = (uint8_t)id->where.gid_index;
	ud->ah_attr.grh.hop_limit = 1;
	ud->ah_attr.grh.traffic_class = id->tos;
	memcpy(ud->ah_attr.grh.dgid, name->address, sizeof(ud->ah_attr.grh.dgid));
}

/* An id may join that has a device: it is bound to an address, or has resolved one. */
static bool may_join(const struct av_cm_id *id)
{
	return id->where.dev && (id->state == AV_CM_ID_BOUND || id->state == AV_CM_ID_RESOLVED);
}

static int join_cm_group(struct av_cm_call *call, uint32_t number, uint64_t uid, uint64_t response,
			 const struct sockaddr *address)
{
	struct rdma_ucm_create_id_resp answer;
	struct rdma_ucm_ud_param ud;
	struct av_cm_name name;
	struct av_cm_group *g;
	struct av_cm_id *id;
	int ret;

	if (call->out_bytes < sizeof(answer))
		return -ENOSPC;
	ret = av_cm_id_find(call->channel, number, &id);
	if (ret)
		return ret;
	if (!av_cm_name(address, &name) || !av_net_is_group(name.address) || !av_cm_id_is_ud(id))
		return -av_refuse(EINVAL, AV_CHECK_CM_GROUP, 0, 0);
	if (!may_join(id))
		return av_cm_id_refuse(id, (id->where.dev ? AV_CM_IN(ADDR_BOUND) : 0) |
						   AV_CM_IN(ADDR_RESOLVED));
	g = av_cm_group_new(id, uid);
	if (!g)
		return -ENOMEM;
	answer.id = g->number;
	ret = av_cm_respond(call, response, &answer, sizeof(answer));
	if (ret) {
		av_cm_group_destroy(g);
		return ret;
	}
	fill_group_ud_param(id, &name, &ud);
	ret = av_cm_group_heard(g, AV_CM_EVENT_MULTICAST_JOIN, 0, &ud);
	if (ret)
		av_cm_group_destroy(g);
	return ret;
}

static int join_ip_mcast(struct av_cm_call *call)
{
	const struct rdma_ucm_join_ip_mcast *command =
		AV_CM_BODY(call, struct rdma_ucm_join_ip_mcast);

	return join_cm_group(call, command->id, command->uid, command->response,
			     (const struct sockaddr *)&command->addr);
}

static int join_mcast(struct av_cm_call *call)
{
	const struct rdma_ucm_join_mcast *command = AV_CM_BODY(call, struct rdma_ucm_join_mcast);

	if (!command->addr_size || command->addr_size > sizeof(command->addr))
		return -av_refuse(EINVAL, AV_CHECK_CM_ADDRESS, command->addr_size, 0);
	if (command->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return -av_refuse(EINVAL, AV_CHECK_FLAGS, command->join_flags,
				  RDMA_MC_JOIN_FLAG_RESERVED - 1);
	return join_cm_group(call, command->id, command->uid, command->response,
			     (const struct sockaddr *)&command->addr);
}

static int leave_mcast(struct av_cm_call *call)
{
	const struct rdma_ucm_destroy_id *command = AV_CM_BODY(call, struct rdma_ucm_destroy_id);
	struct av_cm_group *g;
	int ret = av_cm_group_find(call->channel, command->id, &g);
	uint32_t reported;

	if (ret)
		return ret;
	reported = g->reported;
	av_cm_group_destroy(g);
	av_cm_channel_settle(call->channel, call->fd);
	return respond_reported(call, command->response, reported);
}

#define ROOM(type) sizeof(struct rdma_ucm_##type)

/* clang-format off */
const struct av_cm_row av_cm_id_rows[] = {
	AV_CM_ROW_NO_ID(CREATE_ID, CREATE_ID, create_id, ROOM(create_id_resp), create_id),
	AV_CM_ROW_NO_ID(DESTROY_ID, DESTROY_ID, destroy_id, ROOM(destroy_id_resp), destroy_id),
	AV_CM_ROW_NO_ID(MIGRATE_ID, MIGRATE_ID, migrate_id, ROOM(migrate_resp), migrate_id),
	AV_CM_ROW(SET_OPTION, SET_OPTION, set_option, 0, set_option),
	AV_CM_ROW(NOTIFY, NOTIFY, notify, 0, notify_id),
	{AV_CM_CMD_WRITE_EVENT, AV_VERB_CM_WRITE_EVENT, sizeof(struct av_cm_write_event), 0,
	 AV_CM_NO_ID, write_event},
	AV_CM_ROW_NO_ID(JOIN_IP_MCAST, JOIN_MULTICAST, join_ip_mcast, 0, join_ip_mcast),
	AV_CM_ROW_NO_ID(JOIN_MCAST, JOIN_MULTICAST, join_mcast, 0, join_mcast),
	AV_CM_ROW_NO_ID(LEAVE_MCAST, LEAVE_MULTICAST, destroy_id, ROOM(destroy_id_resp), leave_mcast),
	{0},
};
/* clang-format on */
