/* SPDX-License-Identifier: MIT */
/*
 * A peer that writes to and reads from a region all the time is stopped (SIGSTOP, a debugger) at
 * any moment, and the region is deregistered. That ends soon, whatever the peer was doing. When the
 * peer goes on, no byte changes that is not registered any more, and its request is refused.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/probe.h"
#include "lib/sandbox.h"
#include "lib/sanitized.h"
#include "lib/side.h"
#include "lib/wait.h"

#define ROUNDS	 (TEST_SANITIZED ? 20 : 40) /* of each row */
#define BYTES	 (16ul * 4096)
#define LIMIT	 (TEST_SANITIZED ? 3000u : 1000u) /* ms that a deregistration may take */
#define NEW	 0x22				  /* what the peer writes, */
#define LATER	 0x33				  /* and what the program stores afterwards */
#define MAX_WAIT 3000u				  /* us before the peer is stopped */

static struct side owner, peer;

enum { JOB_WHERE, JOB_KEY, JOB_OPCODE, JOB_BYTES };

/* In the peer, until the region is gone. Return: what the last request ended with */
static uint64_t copy_on_and_on(struct node *n, const struct side_job *job)
{
	struct node_send s = {
		.opcode = (enum ibv_wr_opcode)job->arg[JOB_OPCODE],
		.flags = IBV_SEND_SIGNALED,
		.remote_addr = job->arg[JOB_WHERE],
		.rkey = (uint32_t)job->arg[JOB_KEY],
		.num_sge = 1,
		.sge = {{(uintptr_t)n->arena + PROBE_AT, (uint32_t)job->arg[JOB_BYTES],
			 n->mr[KEY_FULL]->lkey}},
	};
	struct ibv_wc wc;

	memset(n->arena + PROBE_AT, NEW, BYTES);
	do
		if (node_post_send(n, 0, &s, 1).ret || node_poll(n, 0, 1, 20000, &wc) != 1)
			abort();
	while (wc.status == IBV_WC_SUCCESS);
	return wc.status;
}

static const struct test_row {
	const char *name;
	enum ibv_wr_opcode opcode;
	uint32_t bytes;
	uint32_t offset; /* of the memory, on its first page */
	unsigned int access;
	bool file; /* memory of a file is not adopted */
} rows[] = {
	{"WRITEs of 8 bytes by calls", IBV_WR_RDMA_WRITE, 8, 0, 0, true},
	{"WRITEs of 64 KiB by calls", IBV_WR_RDMA_WRITE, BYTES, 0, 0, true},
	{"WRITEs of 64 KiB by calls, aligned as no source", IBV_WR_RDMA_WRITE, BYTES, 8, 0, true},
	{"WRITEs to ODP memory", IBV_WR_RDMA_WRITE, 4096, 0, IBV_ACCESS_ON_DEMAND, false},
	{"READs of 64 KiB by calls", IBV_WR_RDMA_READ, BYTES, 0, 0, true},
	{"atomics by calls", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 0, 0, true},
	{"WRITEs of 64 KiB to adopted memory", IBV_WR_RDMA_WRITE, BYTES, 0, 0, false},
};

static uint8_t *map(bool file)
{
	int fd = file ? memfd_create("memory", MFD_CLOEXEC) : -1;
	uint8_t *p;

	NEED(!file || (fd >= 0 && ftruncate(fd, BYTES + 4096) == 0));
	p = mmap(NULL, BYTES + 4096, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | (file ? 0 : MAP_ANONYMOUS), fd, 0);
	NEED(p != MAP_FAILED);
	if (file)
		close(fd);
	return p;
}

static bool all(const uint8_t *p, uint8_t value)
{
	return p[0] == value && memcmp(p, p + 1, BYTES - 1) == 0;
}

static void stop_peer(void)
{
	int status;

	usleep((useconds_t)rand() % MAX_WAIT);
	kill(peer.pid, SIGSTOP);
	NEED(waitpid(peer.pid, &status, WUNTRACED) == peer.pid && WIFSTOPPED(status));
}

static void one_round(const struct test_row *r)
{
	uint8_t *map_at = map(r->file), *memory = map_at + r->offset;
	struct ibv_mr *mr = ibv_reg_mr(owner.node->pd, memory, BYTES, PROBE_ALL | r->access);
	uint64_t began, took, status;

	NEED(mr);
	side_begin(&peer, &(struct side_job){{(uintptr_t)memory, mr->rkey, r->opcode, r->bytes}});
	stop_peer();
	began = now_ms();
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	took = now_ms() - began;
	EXPECT(took < LIMIT, "ibv_dereg_mr() took %lu ms", (unsigned long)took);
	memset(memory, LATER, BYTES);
	kill(peer.pid, SIGCONT);
	status = side_end(&peer);
	EXPECT(status == IBV_WC_REM_ACCESS_ERR, "the last request ended with %lu",
	       (unsigned long)status);
	EXPECT(all(memory, LATER), "bytes changed after the deregistration");
	munmap(map_at, BYTES + 4096);
	probe_reconnect(&peer, &owner, 0);
}

int main(int argc, char **argv)
{
	side_work = copy_on_and_on;
	side_agent_main(argc, argv);
	time_limit(280);
	sandbox_enter();
	setenv("ANYVERBS_ADOPT", "always", 1);
	side_open(&owner, NULL);
	side_start(&peer);
	probe_open(&peer, &owner, 0);
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		row("%s", rows[i].name);
		for (int k = 0; k < ROUNDS; k++)
			one_round(&rows[i]);
	}
	probe_close(&peer, &owner, 0);
	side_stop(&peer);
	side_stop(&owner);
	sandbox_leave();
	return summary();
}
