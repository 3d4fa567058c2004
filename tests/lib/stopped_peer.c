/* SPDX-License-Identifier: MIT */
#include "lib/stopped_peer.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/probe.h"
#include "lib/wait.h"

#define MAX_WAIT 3000u /* us before it is stopped */
#define PATIENCE 20000 /* ms */

enum { JOB_WHERE, JOB_KEY, JOB_OPCODE, JOB_BYTES };

uint64_t access_on_and_on(struct node *n, const struct side_job *job)
{
	struct node_send s =
		side_rdma((enum ibv_wr_opcode)job->arg[JOB_OPCODE],
			  (struct ibv_sge){(uintptr_t)n->arena + PROBE_AT,
					   (uint32_t)job->arg[JOB_BYTES], n->mr[KEY_FULL]->lkey},
			  job->arg[JOB_WHERE], (uint32_t)job->arg[JOB_KEY]);
	struct ibv_wc wc;

	memset(n->arena + PROBE_AT, STOPPED_BYTE, STOPPED_BYTES);
	side_note();
	do
		if (node_post_send(n, 0, &s, 1).ret || node_poll(n, 0, 1, PATIENCE, &wc) != 1)
			abort();
	while (wc.status == IBV_WC_SUCCESS);
	return wc.status;
}

void peer_begin_and_stop(struct side *peer, enum ibv_wr_opcode opcode, uint64_t addr, uint32_t rkey,
			 uint32_t bytes)
{
	side_begin(peer, &(struct side_job){{addr, rkey, opcode, bytes}});
	side_await(peer);
	let_go_on((unsigned int)rand() % MAX_WAIT);
	side_suspend(peer);
}

enum ibv_wc_status peer_go_on(struct side *peer)
{
	kill(peer->pid, SIGCONT);
	return (enum ibv_wc_status)side_end(peer);
}
