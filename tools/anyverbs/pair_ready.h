/* SPDX-License-Identifier: MIT */
/* Can a server be connected to? */
#pragma once

#include <stdbool.h>

/**
 * av_pair_is_ready() - does a process of the tool's family listen: at a TCP port, or by rdma_cm?
 * @port: if not 0, only this port counts, and a UDP socket there counts as well
 */
bool av_pair_is_ready(unsigned int port);
