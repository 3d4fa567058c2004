/* SPDX-License-Identifier: MIT */
/*
 * What a program sees that watches its memory while a peer writes to it: the words of an RDMA WRITE come in
 * ascending order, and aligned words of 8 bytes come whole.
 *
 * In round r every aligned word of the target becomes the word of r. The watcher, in another process, reads
 * the last one and then all the others: none of them may be of an earlier round, or of two rounds.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "lib/expect.h"
#include "lib/sandbox.h"
#include "lib/side.h"

#define ROW_MS	  60u
#define LOCAL_AT  0x10000u
#define TARGET_AT 0x200000u
#define SANE	  100 /* rounds during a look, else the last byte says nothing: it counts to 255 */

enum verdict { FINE, TORN, STALE, STALE_BYTE };

static struct side a, b;

static uint64_t word_of(uint32_t round)
{
	return (uint64_t)~round << 32 | round;
}

static bool is_word(uint64_t w)
{
	return (uint32_t)(w >> 32) == ~(uint32_t)w;
}

/* --- the watcher --- */

struct target {
	const _Atomic uint64_t *words; /* the aligned ones */
	size_t count;
	const _Atomic uint8_t *last; /* byte behind them, NULL: they are the end */
};

static struct target target_at(uint8_t *at, uint64_t bytes)
{
	uintptr_t begin = ((uintptr_t)at + 7) & ~7ul, end = ((uintptr_t)at + bytes) & ~7ul;
	struct target t = {.words = (const _Atomic uint64_t *)begin, .count = (end - begin) / 8};

	if ((uintptr_t)at + bytes == end + 1)
		t.last = (const _Atomic uint8_t *)end;
	return t;
}

static uint64_t fault(enum verdict v, size_t at)
{
	return (uint64_t)v << 56 | at;
}

/* One look at the whole target. Return: FINE and the round in the low bits, or a fault and where. */
static uint64_t look(const struct target *t)
{
	uint32_t before = (uint32_t)atomic_load(&t->words[t->count - 1]);
	uint8_t byte = t->last ? atomic_load(t->last) : 0;
	uint64_t w = atomic_load(&t->words[t->count - 1]);
	uint32_t round = (uint32_t)w, first = 0;

	if (!is_word(w))
		return fault(TORN, t->count - 1);
	for (size_t i = 0; i < t->count; i++) {
		w = atomic_load_explicit(&t->words[i], memory_order_acquire);
		if (!is_word(w))
			return fault(TORN, i);
		if ((int32_t)((uint32_t)w - round) < 0)
			return fault(STALE, i);
		if (i == 0)
			first = (uint32_t)w;
	}
	if (t->last && first - before < SANE && (int8_t)((uint8_t)first - byte) < 0)
		return fault(STALE_BYTE, 0);
	return round;
}

/* Watch for so long. Return: a fault, or how many different rounds were seen */
static uint64_t watch(struct node *n, const struct side_job *job)
{
	struct target t = target_at(n->arena + job->arg[0], job->arg[1]);
	uint64_t end = now_ms() + job->arg[2], seen = 0, last = UINT64_MAX;

	while (now_ms() < end) {
		for (int i = 0; i < 16; i++) {
			uint64_t what = look(&t);

			if (what >> 56)
				return what;
			seen += what != last;
			last = what;
		}
	}
	return seen;
}

/* --- the writer --- */

/* What the target will be in that round, given where it begins. */
static void fill_round(uint8_t *source, uint64_t target, uint32_t bytes, uint32_t round)
{
	uint64_t w = word_of(round);
	uint32_t head = -target & 7;

	memcpy(source, (uint8_t *)&w + (8 - head), head);
	for (uint32_t i = head; i < bytes; i += 8)
		memcpy(source + i, &w, bytes - i < 8 ? bytes - i : 8);
}

static void write_rounds(uint32_t bytes, uint64_t source, uint64_t target, uint32_t *round, uint64_t end)
{
	struct node_send s = {
		.opcode = IBV_WR_RDMA_WRITE,
		.flags = IBV_SEND_SIGNALED,
		.num_sge = 1,
		.sge = {side_sge(&a, KEY_FULL, source, bytes)},
		.remote_addr = b.info.base[KEY_FULL] + target,
		.rkey = b.info.key[KEY_FULL],
	};
	unsigned int before = failures();
	struct ibv_wc wc[1];

	do {
		fill_round(a.node->arena + source, target, bytes, ++*round);
		EXPECT(node_post_send(a.node, 0, &s, 1).ret == 0, "post_send");
		EXPECT(node_poll(a.node, 0, 1, 5000, wc) == 1 && wc[0].status == IBV_WC_SUCCESS, "'%s'",
		       ibv_wc_status_str(wc[0].status));
	} while (now_ms() < end && failures() == before);
}

static uint64_t order_row(uint32_t bytes, uint32_t source_align, uint32_t target_align)
{
	static const char *const name[] = {"", "is torn", "is stale", "is stale after the last byte"};
	const struct side_job job = {{TARGET_AT + target_align, bytes, ROW_MS}};
	static uint32_t round;
	uint64_t seen;

	row("WRITE of %u bytes from offset %u to offset %u", bytes, source_align, target_align);
	write_rounds(bytes, LOCAL_AT + source_align, TARGET_AT + target_align, &round, 0);
	side_begin(&b, &job);
	write_rounds(bytes, LOCAL_AT + source_align, TARGET_AT + target_align, &round, now_ms() + ROW_MS);
	seen = side_end(&b);
	EXPECT(seen >> 56 == FINE, "word %lu %s", seen & 0xffffffff, name[seen >> 56 & 3]);
	return seen & 0xffffffff;
}

int main(int argc, char **argv)
{
	static const uint32_t sizes[] = {8, 24, 64, 72, 256, 4105, 16384, 65536};
	static const uint32_t sources[] = {0, 1, 4, 8};
	static const uint32_t targets[] = {0, 8, 4, 4088};
	uint64_t seen = 0;

	side_work = watch;
	side_agent_main(argc, argv);
	time_limit(100);
	sandbox_enter();
	side_open(&a, NULL);
	side_start(&b);
	pair_create(&a, 0, &b, 0, NULL);
	pair_connect(&a, 0, NULL, &b, 0, NULL);
	for (size_t i = 0; i < COUNT_OF(sizes) * COUNT_OF(sources) * COUNT_OF(targets); i++) {
		uint32_t bytes = sizes[i / 16], target = targets[i % 4];

		if (bytes > 8 || target % 8 == 0) /* there is an aligned word in it */
			seen += order_row(bytes, sources[i / 4 % 4], target);
	}
	printf("%lu different rounds were seen\n", seen);
	row("the watcher saw the writer at work");
	EXPECT(seen > 50, "only %lu rounds", seen); /* fewer say nothing */
	pair_destroy(&a, 0, &b, 0);
	side_stop(&b);
	side_stop(&a);
	sandbox_leave();
	return summary();
}
