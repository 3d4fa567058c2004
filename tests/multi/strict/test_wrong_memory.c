/* SPDX-License-Identifier: MIT */
/* Programs that share a word with the device. */
#include "wrong_fixture.h"

#define STORE_SAID "between its read and its write the program stored to these 8 B"

/* --- atomics --------------------------------------------------------------------- */

#define ROUNDS 64u
#define LOOKS  1000u

static void change(uint64_t *word, enum ibv_wr_opcode opcode, uint64_t compare_add)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(opcode, 0, &sge);

	sge.length = sizeof(*word);
	wr.wr.atomic.remote_addr = (uintptr_t)word;
	wr.wr.atomic.rkey = scene.dst_mr->rkey;
	wr.wr.atomic.compare_add = compare_add;
	wr.wr.atomic.swap = 2;
	NEED(post(&wr) == 0);
}

static bool is_done(void)
{
	struct ibv_wc wc;

	if (ibv_poll_cq(scene.send_cq, 1, &wc) == 0)
		return false;
	NEED(wc.status == IBV_WC_SUCCESS);
	return true;
}

/* The device and the processor count in one word, or in one each. */
static bool count(bool apart)
{
	uint64_t *word = (uint64_t *)scene.dst, *own = apart ? word + 1 : word, added = 0;

	begin(IBV_QPT_RC);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		change(word, IBV_WR_ATOMIC_FETCH_AND_ADD, 1);
		do {
			__atomic_fetch_add(own, 1, __ATOMIC_SEQ_CST);
			added++;
		} while (!is_done());
	}
	return *word + (apart ? *own : 0) == ROUNDS + added;
}

static bool count_wrong(void)
{
	return count(false);
}

static bool count_right(void)
{
	return count(true);
}

/* The processor takes a lock, and looks whether it keeps it. */
static bool keeps_lock(uint64_t *word)
{
	uint64_t is = 0;
	bool kept = true;

	if (!__atomic_compare_exchange_n(word, &is, 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return true; /* it has not taken it */
	for (unsigned int i = 0; i < LOOKS; i++)
		kept = kept && __atomic_load_n(word, __ATOMIC_SEQ_CST) == 1;
	is = 1;
	(void)__atomic_compare_exchange_n(word, &is, 0, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	return kept;
}

/* A lock that peers take, and the processor too; or only peers. */
static bool lock(bool both)
{
	uint64_t *word = (uint64_t *)scene.dst;
	bool kept = true;

	begin(IBV_QPT_RC);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		*word = 0;
		change(word, IBV_WR_ATOMIC_CMP_AND_SWP, 0);
		do
			kept = kept && (!both || keeps_lock(word));
		while (!is_done());
	}
	return kept && (both || *word == 2);
}

static bool lock_wrong(void)
{
	return lock(true);
}

static bool lock_right(void)
{
	return lock(false);
}

static const struct wrong rows[] = {
	ROW(count, "counts in a word in which the device does", STORE_SAID),
	ROW(lock, "takes a lock that the device takes", STORE_SAID),
};

int main(int argc, char **argv)
{
	return wrong_run(argc, argv, rows, COUNT_OF(rows));
}
