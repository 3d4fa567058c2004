/* SPDX-License-Identifier: MIT */
/*
 * Fetch-and-adds of three processes on one word: the owner's, by the processor's instruction, and
 * those of two others, which reach the word by system calls. None is lost and none is seen twice:
 * the old values are 0, 1, 2 and so on, each once, and ascend for each process.
 *
 * Memory is not shared here. Someone who changed the word between another's read and write would
 * spoil that within some ten thousand requests.
 */
#include <stdlib.h>

#include "lib/expect.h"
#include "lib/sandbox.h"
#include "lib/side.h"

#define WORD_AT	 256ul /* in the owner's arena */
#define OLD_AT	 512ul /* in the requester's */
#define REQUESTS 100000
#define PATIENCE 20000 /* ms */
#define OTHERS	 2

static struct side owner, other[OTHERS];

/* Return: the sum of the old values; 0: a request failed, or they do not ascend */
static uint64_t add_all(struct node *n, const struct side_job *job)
{
	struct node_send s = {
		.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		.flags = IBV_SEND_SIGNALED,
		.compare_add = 1,
		.num_sge = 1,
		.sge = {{(uintptr_t)n->arena + OLD_AT, 8, n->mr[KEY_FULL]->lkey}},
		.remote_addr = job->arg[0],
		.rkey = (uint32_t)job->arg[1],
	};
	const uint64_t *old = (const uint64_t *)(const void *)(n->arena + OLD_AT);
	uint64_t sum = 0, next = 0;
	struct ibv_wc wc;

	for (int i = 0; i < REQUESTS; i++) {
		if (node_post_send(n, 0, &s, 1).ret || node_poll(n, 0, 1, PATIENCE, &wc) != 1 ||
		    wc.status != IBV_WC_SUCCESS || *old < next)
			return 0;
		next = *old + 1;
		sum += *old;
	}
	return sum;
}

int main(int argc, char **argv)
{
	const uint64_t total = (OTHERS + 1ull) * REQUESTS;
	struct node_qp_spec spec = spec_default();
	struct side_job job = {{0}};
	uint64_t sum = 0;

	side_work = add_all;
	sides_begin(argc, argv, 200);
	side_start(&owner);
	pair_create(&owner, 0, &owner, 1, &spec);
	pair_connect(&owner, 0, NULL, &owner, 1, NULL);
	for (int i = 0; i < OTHERS; i++) {
		side_start(&other[i]);
		pair_create(&other[i], 0, &owner, 2 + i, &spec);
		pair_connect(&other[i], 0, NULL, &owner, 2 + i, NULL);
	}
	job.arg[0] = owner.info.base[KEY_FULL] + WORD_AT;
	job.arg[1] = owner.info.key[KEY_FULL];
	side_poke(&owner, WORD_AT, 0);

	row("%llu fetch-and-adds", (unsigned long long)total);
	side_begin(&owner, &job);
	for (int i = 0; i < OTHERS; i++)
		side_begin(&other[i], &job);
	sum += side_end(&owner);
	for (int i = 0; i < OTHERS; i++)
		sum += side_end(&other[i]);
	EXPECT(side_peek(&owner, WORD_AT) == total, "the word is %llu",
	       (unsigned long long)side_peek(&owner, WORD_AT));
	EXPECT(sum == total * (total - 1) / 2, "the sum of old values is %llu",
	       (unsigned long long)sum);
	for (int i = 0; i < OTHERS; i++)
		side_stop(&other[i]);
	side_stop(&owner);
	return sandbox_end();
}
