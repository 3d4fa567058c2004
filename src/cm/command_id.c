/* SPDX-License-Identifier: MIT */
/* Commands about an id itself: its life, its channel, its options, what it is told. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm/cm_lock.h"
#include "cm/command.h"
#include "cm/newer_command.h"
#include "copy/copy.h"
#include "registry/cm_ports.h"
#include "observe/diagnosis.h"

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

int av_cm_create_id(struct av_cm_call *call)
{
	const struct rdma_ucm_create_id *command = AV_CM_BODY(call, struct rdma_ucm_create_id);
	struct rdma_ucm_create_id_resp answer;
	struct av_cm_id *id;
	uint8_t type;
	int ret;

	if (call->out_bytes < sizeof(answer))
		return -ENOSPC;
	if (!qp_type_of(command, &type))
		return -av_refuse(EINVAL, AV_CHECK_CM_QP_TYPE, command->qp_type, command->ps);
	id = av_cm_id_new(call->channel, command->uid, command->ps, type);
	if (!id)
		return -ENOMEM;
	answer.id = id->number;
	ret = av_cm_respond(call, command->response, &answer, sizeof(answer), sizeof(answer));
	if (ret)
		av_cm_id_destroy(id);
	return ret;
}

int av_cm_destroy_id(struct av_cm_call *call)
{
	const struct rdma_ucm_destroy_id *command = AV_CM_BODY(call, struct rdma_ucm_destroy_id);
	struct rdma_ucm_destroy_id_resp answer;
	struct av_cm_id *id;
	int ret;

	if (call->out_bytes < sizeof(answer))
		return -ENOSPC;
	ret = av_cm_id_find_any(call->channel, command->id, &id);
	if (ret)
		return ret;
	answer.events_reported = id->reported;
	av_cm_id_destroy(id);
	av_cm_channel_settle(call->channel, call->fd);
	return av_cm_respond(call, command->response, &answer, sizeof(answer), sizeof(answer));
}

/* --- another channel ------------------------------------------------------------------- */

static int migrate(struct av_cm_call *call, struct av_cm_channel *from, uint32_t number)
{
	const struct rdma_ucm_migrate_id *command = AV_CM_BODY(call, struct rdma_ucm_migrate_id);
	struct rdma_ucm_migrate_resp answer;
	struct av_cm_id *id;
	int ret = av_cm_id_find(from, number, &id);

	if (ret)
		return ret;
	answer.events_reported = id->reported;
	if (from != call->channel) {
		av_cm_id_migrate(id, call->channel);
		av_cm_channel_settle(from, (int)command->fd);
	}
	return av_cm_respond(call, command->response, &answer, sizeof(answer), sizeof(answer));
}

int av_cm_migrate_id(struct av_cm_call *call)
{
	const struct rdma_ucm_migrate_id *command = AV_CM_BODY(call, struct rdma_ucm_migrate_id);
	struct av_cm_channel *from;
	uint32_t number;
	int ret;

	if (call->out_bytes < sizeof(struct rdma_ucm_migrate_resp))
		return -ENOSPC;
	if (!av_cm_channel_is((int)command->fd, &number))
		return -av_refuse(EINVAL, AV_CHECK_CM_NO_CHANNEL, (uint64_t)(int)command->fd, 0);
	av_cm_lock();
	from = av_cm_channel_get(number);
	ret = from ? migrate(call, from, command->id)
		   : -av_refuse(EINVAL, AV_CHECK_CM_NO_CHANNEL, (uint64_t)(int)command->fd, 0);
	if (from)
		av_cm_channel_put(from);
	av_cm_unlock();
	return ret;
}

/* --- options --------------------------------------------------------------------------- */

static int set_tos(struct av_cm_id *id, const uint8_t *value)
{
	id->tos = *value;
	return 0;
}

/* Values of int: the kernel takes any that is not 0 for yes. */
static int number_of(const uint8_t *value)
{
	int number;

	memcpy(&number, value, sizeof(number));
	return number;
}

/* Whoever shares its port number, or wants to, learns of it. */
static void publish(const struct av_cm_id *id)
{
	if (id->port >= 0)
		av_cm_port_options(id->port, id->afonly, id->reuse);
}

/* Once bound it may begin to share, but not cease to. Who listens is alone. */
static int set_reuse(struct av_cm_id *id, const uint8_t *value)
{
	bool reuse = number_of(value) != 0;

	if (id->state == AV_CM_ID_LISTENS || (id->state != AV_CM_ID_IDLE && !reuse))
		return av_cm_id_refuse(id, AV_CM_IN(IDLE) | (reuse ? AV_CM_IN(ADDR_BOUND) : 0));
	id->reuse = reuse;
	publish(id);
	return 0;
}

static int set_afonly(struct av_cm_id *id, const uint8_t *value)
{
	if (id->state != AV_CM_ID_IDLE && id->state != AV_CM_ID_BOUND)
		return av_cm_id_refuse(id, AV_CM_IN(IDLE) | AV_CM_IN(ADDR_BOUND));
	id->afonly = number_of(value) != 0;
	id->afonly_set = true;
	publish(id);
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

int av_cm_set_option(struct av_cm_call *call)
{
	const struct rdma_ucm_set_option *command = AV_CM_BODY(call, struct rdma_ucm_set_option);
	uint8_t value[sizeof(int)];
	struct av_cm_id *id;
	int ret = av_cm_id_find(call->channel, command->id, &id);

	if (ret)
		return ret;
	if (command->level == RDMA_OPTION_IB && command->optname == RDMA_OPTION_IB_PATH)
		return set_path(id, command->optlen);
	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++) {
		const struct option *o = &options[i];

		if (o->level != command->level || o->name != command->optname)
			continue;
		if (command->optlen != o->bytes)
			return -av_refuse(EINVAL, AV_CHECK_CM_OPTION, command->optlen, o->bytes);
		if (av_copy(value, (const void *)(uintptr_t)command->optval, o->bytes) !=
		    AV_COPY_OK)
			return -EFAULT;
		return o->set(id, value);
	}
	return -ENOSYS;
}

/* --- what it is told ------------------------------------------------------------------- */

int av_cm_notify(struct av_cm_call *call)
{
	const struct rdma_ucm_notify *command = AV_CM_BODY(call, struct rdma_ucm_notify);
	struct av_cm_id *id;
	int ret = av_cm_id_find(call->channel, command->id, &id);

	if (ret)
		return ret;
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
int av_cm_write_event(struct av_cm_call *call)
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
