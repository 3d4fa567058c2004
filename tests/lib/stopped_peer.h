/* SPDX-License-Identifier: MIT */
/* A peer that accesses a region on and on, and is stopped in the middle of that. */
#ifndef TEST_STOPPED_PEER_H
#define TEST_STOPPED_PEER_H

#include "lib/side.h"

#define STOPPED_BYTES (16ul * 4096) /* that it accesses, at most */
#define STOPPED_BYTE  0x22	    /* what its WRITEs bring */

/* To be set as side_work: the other process posts requests until one is refused. */
uint64_t access_on_and_on(struct node *n, const struct side_job *job);

/* Begin that, by queue pair 0, and stop the process a moment after it has begun. */
void peer_begin_and_stop(struct side *peer, enum ibv_wr_opcode opcode, uint64_t addr, uint32_t rkey,
			 uint32_t bytes);

/* Let it go on. Return: what its last request ended with */
enum ibv_wc_status peer_go_on(struct side *peer);

#endif
