/* SPDX-License-Identifier: MIT */
/* Memory on the shared heap. */
#include "heap_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/peer_memory.h"
#include "lib/wait.h"

struct side a, b;

uint8_t *map_private(size_t bytes)
{
	uint8_t *p = peer_memory_map(bytes);

	if (p == MAP_FAILED)
		DIE("mmap: errno %d", errno);
	return p;
}

struct ibv_mr *reg(void *at, size_t bytes)
{
	struct ibv_mr *mr = ibv_reg_mr(a.node->pd, at, bytes, PROBE_ALL);

	NEED(mr);
	return mr;
}

void dereg(struct ibv_mr *mr)
{
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr: errno %d", errno);
}

void expect_shared(const void *p, bool shared)
{
	EXPECT(pages_private(p) == !shared, "%s", shared ? "private" : "shared");
}

void fill(uint8_t *p, size_t bytes, uint8_t seed)
{
	for (size_t i = 0; i < bytes; i++)
		p[i] = (uint8_t)(seed + i * 7 + i / PAGE);
}

size_t same(const uint8_t *p, size_t bytes, uint8_t seed)
{
	size_t i = 0;

	while (i < bytes && p[i] == (uint8_t)(seed + i * 7 + i / PAGE))
		i++;
	return i;
}

void expect_filled(const uint8_t *p, size_t bytes, uint8_t seed)
{
	EXPECT(same(p, bytes, seed) == bytes, "byte %zu of %zu is another", same(p, bytes, seed),
	       bytes);
}

void expect_reached(uint8_t *p, const struct ibv_mr *mr)
{
	uint64_t addr = (uintptr_t)p, word = 0;
	uint8_t *at = (uint8_t *)((addr + 15) & ~7ul);

	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_WRITE, addr + 100, mr->rkey, 2 * PAGE, IBV_WC_SUCCESS);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, addr + 100, mr->rkey, 2 * PAGE, IBV_WC_SUCCESS);
	EXPECT(side_check(&b, PROBE_AT, 2 * PAGE, PROBE_SEED, 0) < 0, "READ brings other bytes");
	memcpy(at, &word, sizeof(word));
	EXPECT_PROBE(&b, &a, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, (uintptr_t)at, mr->rkey, 8,
		     IBV_WC_SUCCESS);
	memcpy(&word, at, sizeof(word));
	EXPECT(word == 1, "%lu after FETCH_AND_ADD", (unsigned long)word);
}

bool expect_refused(const uint8_t *p, const struct ibv_mr *mr, uint32_t bytes)
{
	enum ibv_wc_status got;

	(void)WAIT_UNTIL((got = probe(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)p, mr->rkey,
				      bytes)) != IBV_WC_SUCCESS,
			 PATIENCE);
	return EXPECT(got == IBV_WC_REM_ACCESS_ERR, "READ ends as '%s'", ibv_wc_status_str(got));
}

int heap_test(int argc, char **argv, void (*run)(void))
{
	side_agent_main(argc, argv);
	time_limit(200);
	need_peer_memory();
	sides_open(&a, &b);
	probe_open(&b, &a, 0);
	run();
	return summary();
}

/* --- cancellation ------------------------------------------------------------------- */

void call_fork(void *unused)
{
	int before;
	pid_t child = fork();

	if (child == 0)
		_exit(0);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	waitpid(child, NULL, 0);
	pthread_setcancelstate(before, NULL);
}

void call_mprotect(void *p)
{
	EXPECT(mprotect(p, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC) == 0, "mprotect");
}
