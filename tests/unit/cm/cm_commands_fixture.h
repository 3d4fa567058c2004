/* SPDX-License-Identifier: MIT */
/* Two ends of a connection in this process, each at a channel of its own, at any stage. */
#ifndef AV_TESTS_CM_COMMANDS_FIXTURE_H
#define AV_TESTS_CM_COMMANDS_FIXTURE_H

#include <stdint.h>

#include "lib/cm_command.h"
#include "observe/flight.h"

#define SOON 10000 /* ms: longer than anything takes */

enum stage {
	IDLE,
	BOUND,
	RESOLVED,
	ROUTED,
	LISTENING,
	REQUESTING,   /* the active end: REQ sent */
	REQUESTED,    /* the passive end: REQ received */
	ACCEPTED,     /* the passive end: REP sent */
	ANSWERED,     /* the active end: REP received */
	CONNECTED,    /* the active end */
	ESTABLISHED,  /* the passive end */
	LEAVING,      /* the active end: DREQ sent */
	LEFT,	      /* the passive end: DREQ received */
	DISCONNECTED, /* the active end: DREP received */
	REMOVED,      /* the active end, once connected: its device is gone */
	STAGES,
};

struct ends {
	int active_fd, passive_fd;
	struct sockaddr_in at; /* of the listener */
	uint32_t active, listener, passive;
};

struct av_seg;

/* An id of a stage and its channel. Which of both ends it is: see above. */
struct end {
	int fd;
	uint32_t id;
};

/* Group setup: a directory of its own, in whose processes cm_command.h speaks to the module. */
int commands_setup(void **state);

/* Group teardown: the module's thread has ended, too, which LeakSanitizer would look into. */
int commands_teardown(void **state);

/* A new channel. */
int channel(int flags);

/* Open channels and a listener, and come to that stage. Without passive end, @passive is 0. */
void ends_open(struct ends *e);
struct end ends_come_to(struct ends *e, enum stage stage);
void ends_close(struct ends *e);

/* What the queue pair of an end is to be given in a state. @state: enum ibv_qp_state */
int end_attr(struct end x, uint32_t state, struct ib_uverbs_qp_attr *attr);

/*
 * The address that the device has, of IPv4, with that port. The rest of the test is skipped on a
 * host without a network: its loopback address stands for any.
 */
struct sockaddr_in device_address(uint16_t port);

/*
 * What has failed last, as the flight recorder says; and which command has. The former may be that
 * a peer has refused something or has not answered, which can happen at any moment.
 */
struct av_flight_record last_record(void);
struct av_flight_record last_refusal(void);

/* A context of the device in this process, and its failure; and both at once. */
struct av_seg *device_open(void);
void device_fail(struct av_seg *seg);
void device_fails(void);

/* The next event, which is of that kind. */
struct rdma_ucm_event_resp heard(int fd, enum cm_kind kind);

#endif
