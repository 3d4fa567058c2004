/* SPDX-License-Identifier: MIT */
/*
 * A peer that writes to and reads from a region all the time is stopped (SIGSTOP, a debugger) at
 * any moment, and the region is deregistered. That ends soon, whatever the peer was doing. When the
 * peer goes on, no byte changes that is not registered any more, and its request is refused.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/probe.h"
#include "lib/sandbox.h"
#include "lib/sanitized.h"
#include "lib/stopped_peer.h"
#include "lib/wait.h"

#define ROUNDS	 (TEST_SANITIZED ? 20 : 40) /* of each row */
#define BYTES	 STOPPED_BYTES
#define LIMIT	 (TEST_SANITIZED ? 3000u : 1900u) /* ms: less than a wait of 2 s */
#define PATIENCE 2000u /* ms that a change of a key waits for a stopped peer */
#define PAUSE	 10000 /* us in which the peer goes on */
#define LATER	 0x33  /* what the program stores afterwards */

static struct side owner, peer;

static const struct test_row {
	const char *name;
	enum ibv_wr_opcode opcode;
	uint32_t bytes;
	uint32_t offset; /* of the memory, on its first page */
	unsigned int access;
	bool file; /* and so not on the shared heap */
} rows[] = {
	{"WRITEs of 8 bytes by calls", IBV_WR_RDMA_WRITE, 8, 0, 0, true},
	{"WRITEs of 64 KiB by calls", IBV_WR_RDMA_WRITE, BYTES, 0, 0, true},
	{"WRITEs of 64 KiB by calls, aligned as no source", IBV_WR_RDMA_WRITE, BYTES, 8, 0, true},
	{"WRITEs to ODP memory", IBV_WR_RDMA_WRITE, 4096, 0, IBV_ACCESS_ON_DEMAND, false},
	{"READs of 64 KiB by calls", IBV_WR_RDMA_READ, BYTES, 0, 0, true},
	{"atomics by calls", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 0, 0, true},
	{"WRITEs of 64 KiB to the shared heap", IBV_WR_RDMA_WRITE, BYTES, 0, 0, false},
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

static void dereg_soon(struct ibv_mr *mr)
{
	uint64_t took, began = undisturbed_ms();

	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	took = undisturbed_ms() - began;
	EXPECT(took < LIMIT, "ibv_dereg_mr() took %lu ms", (unsigned long)took);
}

static void expect_refused(enum ibv_wc_status got)
{
	EXPECT(got == IBV_WC_REM_ACCESS_ERR, "the last request ended with '%s'",
	       ibv_wc_status_str(got));
}

static void one_round(const struct test_row *r)
{
	uint8_t *map_at = map(r->file), *memory = map_at + r->offset;
	struct ibv_mr *mr = ibv_reg_mr(owner.node->pd, memory, BYTES, PROBE_ALL | r->access);

	NEED(mr);
	peer_begin_and_stop(&peer, r->opcode, (uintptr_t)memory, mr->rkey, r->bytes);
	dereg_soon(mr);
	memset(memory, LATER, BYTES);
	expect_refused(peer_go_on(&peer));
	EXPECT(all(memory, LATER), "bytes changed after the deregistration");
	munmap(map_at, BYTES + 4096);
	probe_reconnect(&peer, &owner, 0);
}

/* --- device memory --------------------------------------------------------------- */

static struct ibv_dm *alloc_dm(void)
{
	struct ibv_alloc_dm_attr attr = {.length = BYTES};
	struct ibv_dm *dm = ibv_alloc_dm(owner.node->ctx, &attr);

	NEED(dm);
	return dm;
}

/* The block is nobody's until the peer has gone on: whoever gets memory meanwhile gets other. */
static void device_memory_round(void)
{
	static uint8_t bytes[BYTES];
	struct ibv_dm *dm = alloc_dm();
	struct ibv_mr *mr =
		ibv_reg_dm_mr(owner.node->pd, dm, 0, BYTES, PROBE_ALL | IBV_ACCESS_ZERO_BASED);

	NEED(mr);
	peer_begin_and_stop(&peer, IBV_WR_RDMA_WRITE, 0, mr->rkey, BYTES);
	dereg_soon(mr);
	EXPECT(ibv_free_dm(dm) == 0, "ibv_free_dm");
	dm = alloc_dm();
	memset(bytes, LATER, BYTES);
	NEED(ibv_memcpy_to_dm(dm, 0, bytes, BYTES) == 0);
	expect_refused(peer_go_on(&peer));
	NEED(ibv_memcpy_from_dm(bytes, dm, 0, BYTES) == 0);
	EXPECT(all(bytes, LATER), "bytes of other device memory changed");
	EXPECT(ibv_free_dm(dm) == 0, "ibv_free_dm");
	probe_reconnect(&peer, &owner, 0);
}

/* --- re-registration -------------------------------------------------------------- */

/* Return: was it refused? Then the region is as it was. */
static bool rereg_round(void)
{
	uint8_t *memory = map(false);
	struct ibv_mr *mr = ibv_reg_mr(owner.node->pd, memory, BYTES, PROBE_ALL);
	uint64_t took, began;
	int ret;

	NEED(mr);
	peer_begin_and_stop(&peer, IBV_WR_RDMA_WRITE, (uintptr_t)memory, mr->rkey, BYTES);
	began = undisturbed_ms();
	ret = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			   PROBE_ALL & ~IBV_ACCESS_REMOTE_ATOMIC);
	took = undisturbed_ms() - began;
	EXPECT(took < PATIENCE + LIMIT, "ibv_rereg_mr() took %lu ms", (unsigned long)took);
	EXPECT(ret == 0 || (ret == IBV_REREG_MR_ERR_CMD && errno == EBUSY), "%d, errno %d", ret,
	       errno);
	kill(peer.pid, SIGCONT);
	if (ret)
		let_go_on(PAUSE);
	dereg_soon(mr);
	expect_refused((enum ibv_wc_status)side_end(&peer));
	munmap(memory, BYTES + 4096);
	probe_reconnect(&peer, &owner, 0);
	return ret != 0;
}

static void rereg_row(void)
{
	const uint64_t end = now_ms() + 30000;
	bool refused = false;

	row("re-registration beside WRITEs of 64 KiB to the shared heap");
	for (int k = 0; (k < ROUNDS || now_ms() < end) && !refused; k++)
		refused = rereg_round();
	EXPECT(refused, "the peer was never stopped in a copy");
}

int main(int argc, char **argv)
{
	side_work = access_on_and_on;
	sides_begin(argc, argv, 280);
	side_open(&owner, NULL);
	side_start(&peer);
	probe_open(&peer, &owner, 0);
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		row("%s", rows[i].name);
		for (int k = 0; k < ROUNDS; k++)
			one_round(&rows[i]);
	}
	row("WRITEs to device memory");
	for (int k = 0; k < ROUNDS; k++)
		device_memory_round();
	rereg_row();
	probe_close(&peer, &owner, 0);
	side_stop(&peer);
	side_stop(&owner);
	return sandbox_end();
}
