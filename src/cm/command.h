/* SPDX-License-Identifier: MIT */
/* Commands of librdmacm: what one says, and who carries it out. */
#ifndef AV_CM_COMMAND_H
#define AV_CM_COMMAND_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "cm/id.h"

/* Commands, by value, that Linux 6.1's <rdma/rdma_user_cm.h> lacks, and librdmacm 60 gives. */

enum {
	AV_CM_CMD_RESOLVE_IB_SERVICE = 23,
	AV_CM_CMD_WRITE_EVENT = 24,
};

struct av_cm_resolve_ib_service {
	uint32_t id;
	uint64_t service_id;
	uint8_t name[64];
	uint32_t flags, reserved;
};

/* Behind the argument, the program's structure has room for what the device's own events bring. */
struct av_cm_write_event {
	uint32_t id, reserved;
	uint32_t event; /* enum av_cm_event_type */
	uint32_t status;
	uint64_t arg;
};

/* Commands of <rdma/rdma_user_cm.h>, which write(2) brings: one function each. */

#define AV_CM_COMMAND_BYTES 512 /* of the longest, and more */

/* A command that is being carried out. */
struct av_cm_call {
	struct av_cm_channel *channel;
	int fd;					       /* by which it came */
	int cancel;				       /* the thread's state of cancellation */
	uint16_t in_bytes, out_bytes;		       /* as its header says */
	_Alignas(8) uint8_t body[AV_CM_COMMAND_BYTES]; /* zeroes behind what was written */
};

/* The command's structure. */
#define AV_CM_BODY(call, type) ((const type *)(const void *)(call)->body)

/*
 * Write the answer where the program wants it. @least: bytes that it must have room for; more are
 * written as far as there is room. Return: 0, -ENOSPC, -EFAULT
 */
AV_MUST_USE int av_cm_respond(const struct av_cm_call *call, uint64_t to, const void *answer,
			      size_t least, size_t bytes);

/* Context: locked, except where said. Return: 0 or -errno */
typedef int av_cm_command(struct av_cm_call *call);

/* command.c */
av_cm_command av_cm_create_id, av_cm_destroy_id, av_cm_set_option, av_cm_notify;
av_cm_command av_cm_write_event;
av_cm_command av_cm_migrate_id; /* not locked */

/* command_connect.c: addresses */
av_cm_command av_cm_bind_ip, av_cm_bind, av_cm_resolve_ip, av_cm_resolve_addr;
av_cm_command av_cm_resolve_route, av_cm_resolve_ib_service;

/* command_query.c */
av_cm_command av_cm_query_route, av_cm_query, av_cm_init_qp_attr;

/* The same: connections. The first two open sockets: not locked */
av_cm_command av_cm_connect, av_cm_listen;
av_cm_command av_cm_accept, av_cm_reject, av_cm_disconnect;

/* command.c: groups */
av_cm_command av_cm_join_ip_mcast, av_cm_join_mcast, av_cm_leave_mcast;

/* An id that is not bound yet gets any port. */
AV_MUST_USE int av_cm_id_bind(struct av_cm_id *id, const struct av_cm_name *name);

/* Its route is there. Return: 0, -EINVAL, -ENOMEM */
AV_MUST_USE int av_cm_id_route(struct av_cm_id *id);

/* The MTU that the path from an id's address has. */
enum ibv_mtu av_cm_id_mtu(const struct av_cm_id *id);

#endif
