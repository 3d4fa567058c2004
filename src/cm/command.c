/* SPDX-License-Identifier: MIT */
/* What a write(2) to the device says, and who carries it out. Source: rdma_user_cm.h, ABI 4. */
#include "cm/command.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/uncancelled.h"
#include "cm/cm_lock.h"
#include "cm/cm_file.h"
#include "cm/newer_command.h"
#include "copy/copy.h"
#include "observe/diagnosis.h"
#include "observe/log.h"

static av_cm_command get_event;

#define BYTES(name) sizeof(struct rdma_ucm_##name)
#define ROW(command, verb, run, least, locking) \
	[RDMA_USER_CM_CMD_##command] = {run, AV_VERB_CM_##verb, least, locking}
#define NEWER_ROW(command, verb, run) \
	[AV_CM_CMD_##command] = {run, AV_VERB_CM_##verb, sizeof(struct run), LOCKED}

/* A command that waits, or opens sockets, locks by itself. */
enum locking { LOCKED, UNLOCKED };

/* clang-format off */
static const struct row {
	av_cm_command *run;
	enum av_verb verb;
	uint16_t least; /* bytes that it must have */
	enum locking locking;
} rows[] = {
	ROW(CREATE_ID, CREATE_ID, av_cm_create_id, BYTES(create_id), LOCKED),
	ROW(DESTROY_ID, DESTROY_ID, av_cm_destroy_id, BYTES(destroy_id), LOCKED),
	ROW(BIND_IP, BIND_ADDR, av_cm_bind_ip, BYTES(bind_ip), LOCKED),
	ROW(RESOLVE_IP, RESOLVE_ADDR, av_cm_resolve_ip, BYTES(resolve_ip), LOCKED),
	ROW(RESOLVE_ROUTE, RESOLVE_ROUTE, av_cm_resolve_route, BYTES(resolve_route), LOCKED),
	ROW(QUERY_ROUTE, QUERY, av_cm_query_route, BYTES(query), LOCKED),
	ROW(CONNECT, CONNECT, av_cm_connect, offsetof(struct rdma_ucm_connect, ece), UNLOCKED),
	ROW(LISTEN, LISTEN, av_cm_listen, BYTES(listen), UNLOCKED),
	ROW(ACCEPT, ACCEPT, av_cm_accept, offsetof(struct rdma_ucm_accept, ece), LOCKED),
	ROW(REJECT, REJECT, av_cm_reject, BYTES(reject), LOCKED),
	ROW(DISCONNECT, DISCONNECT, av_cm_disconnect, BYTES(disconnect), LOCKED),
	ROW(INIT_QP_ATTR, INIT_QP_ATTR, av_cm_init_qp_attr, BYTES(init_qp_attr), LOCKED),
	ROW(GET_EVENT, GET_EVENT, get_event, BYTES(get_event), UNLOCKED),
	ROW(SET_OPTION, SET_OPTION, av_cm_set_option, BYTES(set_option), LOCKED),
	ROW(NOTIFY, NOTIFY, av_cm_notify, BYTES(notify), LOCKED),
	ROW(JOIN_IP_MCAST, JOIN_MULTICAST, av_cm_join_ip_mcast, BYTES(join_ip_mcast), LOCKED),
	ROW(LEAVE_MCAST, LEAVE_MULTICAST, av_cm_leave_mcast, BYTES(destroy_id), LOCKED),
	ROW(MIGRATE_ID, MIGRATE_ID, av_cm_migrate_id, BYTES(migrate_id), UNLOCKED),
	ROW(QUERY, QUERY, av_cm_query, BYTES(query), LOCKED),
	ROW(BIND, BIND_ADDR, av_cm_bind, BYTES(bind), LOCKED),
	ROW(RESOLVE_ADDR, RESOLVE_ADDR, av_cm_resolve_addr, BYTES(resolve_addr), LOCKED),
	ROW(JOIN_MCAST, JOIN_MULTICAST, av_cm_join_mcast, BYTES(join_mcast), LOCKED),
	NEWER_ROW(RESOLVE_IB_SERVICE, RESOLVE_ADDRINFO, av_cm_resolve_ib_service),
	NEWER_ROW(WRITE_EVENT, WRITE_EVENT, av_cm_write_event),
};
/* clang-format on */
#define ROWS (sizeof(rows) / sizeof(*rows))

int av_cm_respond(const struct av_cm_call *call, uint64_t to, const void *answer, size_t least,
		  size_t bytes)
{
	if (call->out_bytes < least)
		return -ENOSPC;
	if (bytes > call->out_bytes)
		bytes = call->out_bytes;
	return av_copy((void *)(uintptr_t)to, answer, bytes) == AV_COPY_OK ? 0 : -EFAULT;
}

/* --- events ---------------------------------------------------------------------------- */

static void count(const struct av_cm_event *e)
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
static int deliver(struct av_cm_call *call)
{
	const struct rdma_ucm_get_event *command = AV_CM_BODY(call, struct rdma_ucm_get_event);
	const struct av_cm_event *e = TAILQ_FIRST(&call->channel->events);
	int ret;

	if (!e) {
		av_cm_channel_settle(call->channel, call->fd);
		return -EAGAIN;
	}
	ret = av_cm_respond(call, command->response, &e->body,
			    offsetof(struct rdma_ucm_event_resp, reserved), sizeof(e->body));
	if (ret)
		return ret;
	count(e);
	av_cm_channel_fetched(call->channel, call->fd);
	return 0;
}

static int get_event(struct av_cm_call *call)
{
	int ret;

	do {
		ret = av_cm_channel_wait(call->channel, call->fd, call->cancel);
		if (ret)
			return ret;
		av_cm_lock();
		ret = deliver(call);
		av_cm_unlock();
	} while (ret == -EAGAIN);
	return ret;
}

/* --- write(2) -------------------------------------------------------------------------- */

/* @call: filled in from the program's bytes. Return: its row, or NULL and why */
static const struct row *read_command(struct av_cm_call *call, const void *bytes, size_t count,
				      int *err)
{
	struct rdma_ucm_cmd_hdr header;
	const struct row *row;
	size_t body;

	*err = -EINVAL;
	if (count < sizeof(header))
		return NULL;
	if (av_copy(&header, bytes, sizeof(header)) != AV_COPY_OK) {
		*err = -EFAULT;
		return NULL;
	}
	if (header.cmd >= ROWS || header.in + sizeof(header) > count)
		return NULL;
	row = &rows[header.cmd];
	if (!row->run) {
		*err = -ENOSYS;
		return NULL;
	}
	if (header.in < row->least)
		return NULL;
	body = header.in < AV_CM_COMMAND_BYTES ? header.in : AV_CM_COMMAND_BYTES;
	memset(call->body + body, 0, AV_CM_COMMAND_BYTES - body);
	*err = av_copy(call->body, (const uint8_t *)bytes + sizeof(header), body) == AV_COPY_OK
		       ? 0
		       : -EFAULT;
	call->in_bytes = header.in;
	call->out_bytes = header.out;
	return *err ? NULL : row;
}

static int refuse_inherited(void)
{
	av_warn_once("an event channel of rdma_cm was inherited over fork(), and cannot be "
		     "used here: open one in each process");
	return -av_refused(AV_VERB_CM_CREATE_EVENT_CHANNEL,
			   av_refuse(EACCES, AV_CHECK_CM_INHERITED, 0, 0));
}

/* Context: locked; unlocked meanwhile, if the command wants that */
static int run(const struct row *row, struct av_cm_call *call)
{
	int ret;

	if (row->locking == LOCKED)
		return row->run(call);
	av_cm_unlock();
	ret = row->run(call);
	av_cm_lock();
	return ret;
}

static int carry_out(int fd, uint32_t number, const void *bytes, size_t count)
{
	AV_UNCANCELLED;
	struct av_cm_call call = {.fd = fd, .cancel = av_cancel};
	uint32_t now;
	int ret;
	const struct row *row = read_command(&call, bytes, count, &ret);

	if (!row)
		return ret;
	av_cm_lock();
	call.channel = av_cm_channel_get(number);
	if (call.channel) {
		ret = run(row, &call);
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
