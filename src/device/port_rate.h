/* SPDX-License-Identifier: MIT */
/* The nominal speed of a port. */
#ifndef AV_DEVICE_PORT_RATE_H
#define AV_DEVICE_PORT_RATE_H

#include <infiniband/verbs.h>

struct av_port_rate {
	unsigned int lanes;
	unsigned int rate; /* of all lanes, in 100 Mb/s */
	const char *name;  /* of a lane's speed */
};

/* Decode the width and the speed of @port. */
struct av_port_rate av_port_rate(const struct ibv_port_attr *port);

#endif
