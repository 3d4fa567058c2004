/* SPDX-License-Identifier: MIT */
/*
 * Commands to the connection manager's device, as librdmacm writes them (<rdma/rdma_user_cm.h>). So
 * a test needs no queue pair, and may say what that library never does.
 */
#ifndef TEST_CM_COMMAND_H
#define TEST_CM_COMMAND_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <rdma/rdma_user_cm.h>

/* What carries a command: write(2), unless a test says otherwise. */
extern ssize_t (*cm_put)(int fd, const void *bytes, size_t count);

/* A command with @in bytes behind its header, and room for @out. Return: 0 or -errno */
int cm_do(int fd, uint32_t command, const void *body, size_t in, size_t out);

/* The device. @flags: of open(2), more than O_RDWR. Return: a descriptor, or -errno */
int cm_open(int flags);

/* Return: 0 or -errno, where nothing else is said */
int cm_create(int fd, uint64_t uid, uint16_t ps, uint32_t *id);
int cm_destroy(int fd, uint32_t id); /* Return: events reported, or -errno */
int cm_bind(int fd, uint32_t id, const struct sockaddr_in *address);
int cm_resolve(int fd, uint32_t id, const struct sockaddr_in *address);
int cm_resolve_route(int fd, uint32_t id);
int cm_listen(int fd, uint32_t id, uint32_t backlog);
int cm_connect(int fd, uint32_t id, const void *data, size_t bytes);
int cm_accept(int fd, uint32_t id, uint64_t uid, const void *data, size_t bytes);
int cm_ready(int fd, uint32_t id); /* the active side's accept, which sends RTU */
int cm_reject(int fd, uint32_t id, uint8_t reason, const void *data, size_t bytes);
int cm_disconnect(int fd, uint32_t id);
int cm_migrate(int to, uint32_t id, int from); /* Return: events reported, or -errno */
int cm_option(int fd, uint32_t id, uint32_t level, uint32_t name, const void *value,
	      uint32_t bytes);
int cm_next(int fd, struct rdma_ucm_event_resp *event);

/* Commands that Debian's header does not have yet, and how long each is at least. */
#define CM_CMD_RESOLVE_IB_SERVICE 23u
#define CM_CMD_WRITE_EVENT	  24u
#define CM_RESOLVE_SERVICE_BYTES  88u
#define CM_WRITE_EVENT_BYTES	  24u /* with an argument alone */
#define CM_WRITE_EVENT_KIND_AT	  8u

/* An event of the program's own, and the argument that such an event has brought. */
int cm_write_event(int fd, uint32_t id, uint32_t kind, uint32_t status, uint64_t arg);
uint64_t cm_argument(const struct rdma_ucm_event_resp *event);
int cm_resolve_service(int fd, uint32_t id);

/* An address of IPv4; and what an id is bound to. */
struct sockaddr_in cm_address(const char *text, uint16_t port);
struct sockaddr_in cm_source(int fd, uint32_t id);

/*
 * The next event, which must come within @ms and be of that kind (enum rdma_cm_event_type).
 * Return: 0; -ETIMEDOUT: none has come; -EPROTO: another one
 */
int cm_expect(int fd, unsigned int ms, uint32_t kind, struct rdma_ucm_event_resp *event);

/* Is there an event to be fetched? Does not wait. */
int cm_pending(int fd);

/* enum rdma_cm_event_type, whose header does not go with <rdma/rdma_user_cm.h> */
enum cm_kind {
	CM_ADDR_RESOLVED,
	CM_ADDR_ERROR,
	CM_ROUTE_RESOLVED,
	CM_ROUTE_ERROR,
	CM_CONNECT_REQUEST,
	CM_CONNECT_RESPONSE,
	CM_CONNECT_ERROR,
	CM_UNREACHABLE,
	CM_REJECTED,
	CM_ESTABLISHED,
	CM_DISCONNECTED,
	CM_DEVICE_REMOVAL,
	CM_MULTICAST_JOIN,
	CM_MULTICAST_ERROR,
	CM_ADDR_CHANGE,
	CM_TIMEWAIT_EXIT,
	CM_ADDRINFO_RESOLVED,
	CM_ADDRINFO_ERROR,
	CM_USER,
	CM_INTERNAL, /* librdmacm's own */
};

#endif
