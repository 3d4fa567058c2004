/* SPDX-License-Identifier: MIT */
#include "lib/cm_command.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define PUT(fd, command, body, out) \
	cm_do(fd, RDMA_USER_CM_CMD_##command, &(body), sizeof(body), out)
#define RESPONSE(answer) ((uintptr_t) & (answer))

ssize_t (*cm_put)(int fd, const void *bytes, size_t count) = write;

int cm_do(int fd, uint32_t command, const void *body, size_t in, size_t out)
{
	struct {
		struct rdma_ucm_cmd_hdr header;
		uint8_t body[1024];
	} message = {{.cmd = command, .in = (uint16_t)in, .out = (uint16_t)out}, {0}};

	if (in > sizeof(message.body))
		return -E2BIG;
	memcpy(message.body, body, in);
	return cm_put(fd, &message, sizeof(message.header) + in) < 0 ? -errno : 0;
}

int cm_open(int flags)
{
	int fd = open("/dev/infiniband/rdma_cm", O_RDWR | flags);

	return fd < 0 ? -errno : fd;
}

/* --- life ---------------------------------------------------------------------------- */

int cm_create(int fd, uint64_t uid, uint16_t ps, uint32_t *id)
{
	struct rdma_ucm_create_id_resp answer = {0};
	struct rdma_ucm_create_id c = {.uid = uid, .response = RESPONSE(answer), .ps = ps};
	int ret = PUT(fd, CREATE_ID, c, sizeof(answer));

	*id = answer.id;
	return ret;
}

int cm_destroy(int fd, uint32_t id)
{
	struct rdma_ucm_destroy_id_resp answer = {0};
	struct rdma_ucm_destroy_id c = {.response = RESPONSE(answer), .id = id};
	int ret = PUT(fd, DESTROY_ID, c, sizeof(answer));

	return ret ? ret : (int)answer.events_reported;
}

int cm_migrate(int to, uint32_t id, int from)
{
	struct rdma_ucm_migrate_resp answer = {0};
	struct rdma_ucm_migrate_id c = {
		.response = RESPONSE(answer), .id = id, .fd = (uint32_t)from};
	int ret = PUT(to, MIGRATE_ID, c, sizeof(answer));

	return ret ? ret : (int)answer.events_reported;
}

int cm_option(int fd, uint32_t id, uint32_t level, uint32_t name, const void *value, uint32_t bytes)
{
	struct rdma_ucm_set_option c = {.optval = (uintptr_t)value,
					.id = id,
					.level = level,
					.optname = name,
					.optlen = bytes};

	return PUT(fd, SET_OPTION, c, 0);
}

/* --- addresses ----------------------------------------------------------------------- */

struct sockaddr_in cm_address(const char *text, uint16_t port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};

	(void)inet_pton(AF_INET, text, &address.sin_addr);
	return address;
}

struct sockaddr_in cm_source(int fd, uint32_t id)
{
	struct rdma_ucm_query_addr_resp answer = {0};
	struct rdma_ucm_query c = {
		.response = RESPONSE(answer), .id = id, .option = RDMA_USER_CM_QUERY_ADDR};
	struct sockaddr_in address = {0};

	if (PUT(fd, QUERY, c, sizeof(answer)) == 0)
		memcpy(&address, &answer.src_addr, sizeof(address));
	return address;
}

int cm_bind(int fd, uint32_t id, const struct sockaddr_in *address)
{
	struct rdma_ucm_bind c = {.id = id, .addr_size = sizeof(*address)};

	memcpy(&c.addr, address, sizeof(*address));
	return PUT(fd, BIND, c, 0);
}

int cm_resolve(int fd, uint32_t id, const struct sockaddr_in *address)
{
	struct rdma_ucm_resolve_addr c = {
		.id = id, .timeout_ms = 2000, .dst_size = sizeof(*address)};

	memcpy(&c.dst_addr, address, sizeof(*address));
	return PUT(fd, RESOLVE_ADDR, c, 0);
}

int cm_resolve_route(int fd, uint32_t id)
{
	struct rdma_ucm_resolve_route c = {.id = id, .timeout_ms = 2000};

	return PUT(fd, RESOLVE_ROUTE, c, 0);
}

/* --- connections --------------------------------------------------------------------- */

int cm_listen(int fd, uint32_t id, uint32_t backlog)
{
	struct rdma_ucm_listen c = {.id = id, .backlog = backlog};

	return PUT(fd, LISTEN, c, 0);
}

static struct rdma_ucm_conn_param parameters(const void *data, size_t bytes)
{
	struct rdma_ucm_conn_param p = {.qp_num = 77,
					.private_data_len = (uint8_t)bytes,
					.responder_resources = 1,
					.initiator_depth = 1,
					.retry_count = 7,
					.rnr_retry_count = 7,
					.valid = 1};

	if (bytes)
		memcpy(p.private_data, data, bytes);
	return p;
}

int cm_connect(int fd, uint32_t id, const void *data, size_t bytes)
{
	struct rdma_ucm_connect c = {.conn_param = parameters(data, bytes), .id = id};

	return PUT(fd, CONNECT, c, 0);
}

int cm_accept(int fd, uint32_t id, uint64_t uid, const void *data, size_t bytes)
{
	struct rdma_ucm_accept c = {.uid = uid, .conn_param = parameters(data, bytes), .id = id};

	return PUT(fd, ACCEPT, c, 0);
}

int cm_ready(int fd, uint32_t id)
{
	struct rdma_ucm_accept c = {.id = id};

	return PUT(fd, ACCEPT, c, 0);
}

int cm_reject(int fd, uint32_t id, uint8_t reason, const void *data, size_t bytes)
{
	struct rdma_ucm_reject c = {.id = id, .private_data_len = (uint8_t)bytes, .reason = reason};

	if (bytes)
		memcpy(c.private_data, data, bytes);
	return PUT(fd, REJECT, c, 0);
}

int cm_disconnect(int fd, uint32_t id)
{
	struct rdma_ucm_disconnect c = {.id = id};

	return PUT(fd, DISCONNECT, c, 0);
}

/* --- events -------------------------------------------------------------------------- */

int cm_next(int fd, struct rdma_ucm_event_resp *event)
{
	struct rdma_ucm_get_event c = {.response = (uintptr_t)event};

	return PUT(fd, GET_EVENT, c, sizeof(*event));
}

int cm_write_event(int fd, uint32_t id, uint32_t kind, uint32_t status, uint64_t arg)
{
	const struct {
		uint32_t id, reserved, kind, status;
		uint64_t arg;
	} c = {.id = id, .kind = kind, .status = status, .arg = arg};

	_Static_assert(sizeof(c) == CM_WRITE_EVENT_BYTES, "without padding");
	return cm_do(fd, CM_CMD_WRITE_EVENT, &c, sizeof(c), 0);
}

uint64_t cm_argument(const struct rdma_ucm_event_resp *event)
{
	uint64_t arg;

	memcpy(&arg, &event->param, sizeof(arg));
	return arg;
}

int cm_resolve_service(int fd, uint32_t id)
{
	uint8_t c[CM_RESOLVE_SERVICE_BYTES] = {0};

	memcpy(c, &id, sizeof(id));
	return cm_do(fd, CM_CMD_RESOLVE_IB_SERVICE, c, sizeof(c), 0);
}

int cm_pending(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) > 0 && (p.revents & POLLIN);
}

int cm_expect(int fd, unsigned int ms, uint32_t kind, struct rdma_ucm_event_resp *event)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int ret;

	if (poll(&p, 1, (int)ms) <= 0)
		return -ETIMEDOUT;
	ret = cm_next(fd, event);
	if (ret)
		return ret;
	return event->event == kind ? 0 : -EPROTO;
}
