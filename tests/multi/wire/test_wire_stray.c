/* SPDX-License-Identifier: MIT */
/*
 * Packets for a queue pair whose peer is on this host, and is stopped (SIGSTOP, a debugger) in the
 * middle of a request: they are nobody's, and keep no other queue pair's waiting.
 */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/forge.h"
#include "lib/stopped_peer.h"
#include "lib/two_hosts.h"
#include "lib/wait.h"

#define ROUNDS	  20
#define MAX_WAIT  3000u /* us before it is stopped */
#define PATIENCE  10000 /* ms */
#define FIRST_PSN 0xfffffcu
#define PEER_QPN  0x4711u
#define TO	  0x100000u

enum { BESIDE, REMOTE }; /* the peer of b's queue pair is on its host, or on the other one */

static struct side b, c; /* on host 1; host 0 is this process, with a socket */

static uint32_t connect_to_forge(void)
{
	struct node_qp_spec spec = spec_default();
	struct node_link link = link_default();
	uint32_t qpn;

	link.dest_qpn = PEER_QPN;
	link.dgid = forge_gid;
	link.rq_psn = link.sq_psn = FIRST_PSN;
	NEED(side_create_qp(&b, REMOTE, &spec, &qpn) == 0);
	NEED(side_connect(&b, REMOTE, &link) == 0);
	return qpn;
}

static void connect_beside(void)
{
	struct node_link link = link_default();

	pair_create(&b, BESIDE, &c, 0, NULL);
	pair_connect(&b, BESIDE, &link, &c, 0, &link);
}

/* A request, an answer, and one that is damaged. */
static void send_strays(void)
{
	uint32_t qpn = side_qpn(&b, BESIDE);
	const struct av_packet request = {.opcode = WRITE_ONLY, .psn = FIRST_PSN},
			       answer = {.opcode = ACKNOWLEDGE, .psn = FIRST_PSN, .syndrome = ACK};

	forge_send(qpn, request, NONE);
	forge_send(qpn, answer, NONE);
	forge_send(qpn, request, ICRC);
}

/* Return: does b answer the READ of that round? */
static bool answers(uint32_t qpn, uint32_t round)
{
	struct av_packet p = {.opcode = READ_REQUEST,
			      .psn = FIRST_PSN + round,
			      .ack_request = true,
			      .addr = b.info.base[KEY_FULL],
			      .rkey = b.info.key[KEY_FULL],
			      .length = 8};

	forge_send(qpn, p, NONE);
	return forge_receive(&p, PATIENCE) && p.opcode == READ_ONLY;
}

int main(int argc, char **argv)
{
	bool go_on = true;
	uint32_t qpn;

	side_work = access_on_and_on;
	two_hosts_open(argc, argv);
	forge_open();
	two_hosts_start(&b, 1, "");
	two_hosts_start(&c, 1, "");
	qpn = connect_to_forge();
	connect_beside();
	side_begin(&c, &(struct side_job){{b.info.base[KEY_FULL] + TO, b.info.key[KEY_FULL],
					   IBV_WR_RDMA_WRITE, STOPPED_BYTES}});
	side_await(&c);
	for (uint32_t i = 0; go_on && i < ROUNDS; i++) {
		row("round %u", i);
		let_go_on((unsigned int)rand() % MAX_WAIT);
		side_suspend(&c);
		send_strays();
		go_on = EXPECT(answers(qpn, i), "no answer");
		kill(c.pid, SIGCONT);
	}
	side_kill(&c);
	side_stop(&b);
	return summary();
}
