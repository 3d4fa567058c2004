/* SPDX-License-Identifier: MIT */
/* Commands, by value, that Linux 6.1's <rdma/rdma_user_cm.h> lacks, and librdmacm 60 gives. */
#ifndef AV_CM_NEWER_COMMAND_H
#define AV_CM_NEWER_COMMAND_H

#include <stdint.h>

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

#endif
