/* SPDX-License-Identifier: MIT */
/*
 * A peer that accesses memory through a UMR key is stopped (SIGSTOP, a debugger) at any moment, and
 * the key is deregistered. That ends soon. What the key's list was is not used for another list
 * before the peer has gone on, and then its requests are refused.
 */
#include "lib/sanitized.h"
#include "lib/stopped_peer.h"
#include "lib/wait.h"
#include "umr_fixture.h"

#define ROUNDS	40
#define BASE	0x8000u
#define LIMIT	(TEST_SANITIZED ? 3000u : 1900u) /* ms: less than a wait of 2 s */
#define TO_HERE 512u				 /* bytes of each element */

/* Of one leaf: many pieces, in another order than they lie there. */
static struct list pieces_of(const struct made *of)
{
	struct list l = {.type = IBV_EXP_UMR_MR_LIST,
			 .base = BASE,
			 .access = RIGHTS,
			 .count = ELEMENTS,
			 .rounds = 1};

	for (uint32_t i = 0; i < ELEMENTS; i++)
		l.e[i] = (struct element){of, (i * 37 % ELEMENTS) * TO_HERE, TO_HERE, 0};
	return l;
}

static void one_round(const struct list *list)
{
	struct made key = make(list), other;
	uint32_t rkey = key.mr->rkey;
	uint64_t took, began;
	enum ibv_wc_status got;

	peer_begin_and_stop(&b, IBV_WR_RDMA_WRITE, BASE, rkey, key.bytes);
	began = undisturbed_ms();
	unmake(&key);
	took = undisturbed_ms() - began;
	EXPECT(took < LIMIT, "the end took %lu ms", (unsigned long)took);
	other = make(list);
	got = peer_go_on(&b);
	EXPECT(got == IBV_WC_REM_ACCESS_ERR, "the last request ended with '%s'",
	       ibv_wc_status_str(got));
	probe_reconnect(&b, &a, 0);
	got = remote(IBV_WR_RDMA_WRITE, BASE, other.mr->rkey, other.bytes);
	EXPECT(got == IBV_WC_SUCCESS, "another key: '%s'", ibv_wc_status_str(got));
	unmake(&other);
}

static void run(void)
{
	static const enum leaf kinds[] = {LEAF_DEVICE, LEAF_NULL};
	static const char *const names[] = {"device memory", "a null region"};

	for (size_t i = 0; i < COUNT_OF(kinds); i++) {
		struct list l = pieces_of(&leaf[kinds[i]]);

		row("a key to pieces of %s", names[i]);
		for (int k = 0; k < ROUNDS; k++)
			one_round(&l);
	}
}

int main(int argc, char **argv)
{
	side_work = access_on_and_on;
	return umr_test(argc, argv, run);
}
