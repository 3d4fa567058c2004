/* SPDX-License-Identifier: MIT */
/* Access through keys. */
#include "umr_access_fixture.h"

#include <errno.h>
#include <string.h>

uint64_t seed = 1000;
static uint8_t bytes[KEY_BYTES];

void expect_status(enum ibv_wc_status got, enum ibv_wc_status wanted, const char *what)
{
	EXPECT(got == wanted, "%s: '%s', not '%s'", what, ibv_wc_status_str(got),
	       ibv_wc_status_str(wanted));
}

/* A message to a receive buffer behind the key. */
static void expect_receive(uint64_t addr, uint32_t lkey, uint32_t count, bool good)
{
	struct node_recv recv = {.num_sge = 1,
				 .sge = {{.addr = addr, .length = count, .lkey = lkey}}};
	struct node_send send = side_message(side_sge(&b, KEY_FULL, AT, count));
	struct ibv_wc wc;

	EXPECT(node_post_recv(n, 0, &recv, 1).ret == 0, "ibv_post_recv");
	EXPECT(side_post_send(&b, 0, &send, 1).ret == 0, "ibv_post_send");
	if (side_poll(&b, 0, 1, PATIENCE, &wc) != 1)
		DIE("no completion of the SEND");
	expect_status(wc.status, good ? GOOD : IBV_WC_REM_OP_ERR, "SEND to the lkey");
	expect_status(received(&a, count), good ? GOOD : LOCAL, "receiving");
	if (!good)
		probe_reconnect(&b, &a, 0);
}

void expect_accesses(const struct made *key, uint32_t at, uint32_t count, unsigned int good)
{
	uint64_t addr = key->base + at;
	const bool writes = good & R_WRITE, fetches = good & R_READ;

	memory_fill(seed += 16);
	side_fill(&b, AT, count, seed + 9, 0);
	pattern_fill(bytes, count, seed + 9, 0);
	expect_status(remote(IBV_WR_RDMA_WRITE, addr, key->mr->rkey, count), writes ? GOOD : REMOTE,
		      "WRITE");
	if (writes)
		model_write(key, at, count, bytes);
	memory_expect();
	expect_status(remote(IBV_WR_RDMA_READ, addr, key->mr->rkey, count), fetches ? GOOD : REMOTE,
		      "READ");
	if (fetches)
		model_read(key, at, count, bytes);
	expect_there(AT, bytes, count);
	side_fill(&b, AT, count, seed + 9, 0);
	pattern_fill(bytes, count, seed + 9, 0);
	expect_receive(addr, key->mr->lkey, count, good & L_WRITE);
	if (good & L_WRITE)
		model_write(key, at, count, bytes);
	memory_expect();
	expect_status(local(IBV_WR_RDMA_READ, addr, key->mr->lkey, count),
		      good & L_WRITE ? GOOD : LOCAL, "READ into the lkey");
	expect_status(local(IBV_WR_RDMA_WRITE, addr, key->mr->lkey, count),
		      good & L_READ ? GOOD : LOCAL, "WRITE from the lkey");
	memory_expect();
	expect_status(remote(IBV_WR_ATOMIC_FETCH_AND_ADD, (addr + 7) & ~7ull, key->mr->rkey, 8),
		      good & R_ATOMIC ? GOOD : REMOTE, "FETCH_AND_ADD");
}

struct list list_of(const struct element *e, uint32_t count)
{
	struct list l = {.base = BASE, .access = RIGHTS, .inlined = true, .count = count};

	memcpy(l.e, e, count * sizeof(*e));
	return l;
}

struct list around(const struct made *middle)
{
	const struct element e[] = {{&leaf[LEAF_PLAIN], 512, PIECE, 0},
				    {middle, 64, PIECE + 56, 0},
				    {&leaf[LEAF_DEVICE], 16, PIECE, 0}};

	return list_of(e, 3);
}

struct made like(const struct made *m, struct ibv_mr *mr)
{
	struct made copy = *m;

	copy.mr = mr;
	return copy;
}

struct ibv_mr *need(struct ibv_mr *mr)
{
	NEED(mr);
	return mr;
}

void *plain_memory(void)
{
	return (void *)(uintptr_t)leaf[LEAF_PLAIN].base;
}
