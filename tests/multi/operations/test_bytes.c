/* SPDX-License-Identifier: MIT */
/*
 * Every operation moves exactly its bytes and says so in its completions: all opcodes, sizes around
 * every boundary the library knows, alignments of both ends, lists of pieces, inline data. Between
 * two processes, two contexts, two queue pairs of one context, and with a queue pair connected to
 * itself.
 */
#include <arpa/inet.h>
#include <string.h>

#include "lib/expect.h"
#include "lib/sandbox.h"
#include "lib/side.h"
#include "lib/ways.h"

#define LOCAL_AT  0x10000ul
#define REMOTE_AT (NODE_ARENA / 2 + 0x10000ul)
#define GAP	  48u /* between the pieces of a list, a multiple of 16 */
#define PATIENCE  20000u
#define IMM	  htonl(0xa1b2c3d4)

static const uint32_t sizes[] = {0,   1,    2,	  7,	8,     9,     63,    64,    65,
				 255, 4095, 4096, 4097, 16383, 16384, 16385, 65536, (1 << 20) + 3};
static const uint32_t alignments[] = {0, 1, 4, 8, 15};
static const int splits[] = {1, 2, 3, 32};
static const enum ibv_wr_opcode ops[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
					 IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ};

static struct side a, b;
static const char *mode;
static uint64_t sequence; /* of the transfers: seed of the message, and wr_id */

struct pieces {
	struct area at[NODE_SGE];
	int count;
};

struct transfer {
	enum ibv_wr_opcode op;
	uint32_t bytes;
	bool inline_data;
	struct pieces local; /* at the requester */
	struct pieces
		remote; /* at the responder: one piece for RDMA, the receive buffers for a SEND */
};

/* --- laying out memory ----------------------------------------------------------- */

/* @bytes in @count pieces as different as possible, some of them empty if need be, the first one at
 * @at. */
static struct pieces lay_out(uint64_t at, uint32_t bytes, int count)
{
	struct pieces p = {.count = count};

	for (int i = 0; i < count; i++) {
		uint32_t left = bytes,
			 n = i + 1 == count ? left
					    : left / (uint32_t)(count - i) | (uint32_t)(i & 1);

		n = n < left ? n : left;
		p.at[i] = (struct area){.offset = at, .bytes = n};
		at += n + GAP;
		bytes -= n;
	}
	return p;
}

static int elements(struct ibv_sge *sge, const struct side *s, const struct pieces *p)
{
	for (int i = 0; i < p->count; i++)
		sge[i] = side_sge(s, KEY_FULL, p->at[i].offset, (uint32_t)p->at[i].bytes);
	return p->count;
}

static bool is_send(enum ibv_wr_opcode op)
{
	return op == IBV_WR_SEND || op == IBV_WR_SEND_WITH_IMM;
}

static bool has_imm(enum ibv_wr_opcode op)
{
	return op == IBV_WR_SEND_WITH_IMM || op == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* --- one transfer ---------------------------------------------------------------- */

static void prepare(const struct transfer *t)
{
	bool read = t->op == IBV_WR_RDMA_READ;
	struct node_recv receive = {.wr_id = sequence};

	if (read) {
		side_clear_areas(&a, t->local.at, t->local.count);
		side_load_areas(&b, t->remote.at, t->remote.count, sequence);
	} else {
		side_load_areas(&a, t->local.at, t->local.count, sequence);
		side_clear_areas(&b, t->remote.at, t->remote.count);
	}
	if (is_send(t->op))
		receive.num_sge = elements(receive.sge, &b, &t->remote);
	if (is_send(t->op) || has_imm(t->op))
		EXPECT(side_post_recv(&b, 0, &receive, 1).ret == 0, "post_recv");
}

static void post(const struct transfer *t)
{
	struct node_send s = {
		.wr_id = ~sequence,
		.opcode = t->op,
		.flags = IBV_SEND_SIGNALED | (t->inline_data ? IBV_SEND_INLINE : 0),
		.imm = IMM,
		.remote_addr = b.info.base[KEY_FULL] + t->remote.at[0].offset,
		.rkey = b.info.key[KEY_FULL],
	};

	s.num_sge = elements(s.sge, &a, &t->local);
	EXPECT(side_post_send(&a, 0, &s, 1).ret == 0, "post_send");
}

static void check_requester(const struct transfer *t)
{
	static const enum ibv_wc_opcode opcode[] = {
		[IBV_WR_SEND] = IBV_WC_SEND,
		[IBV_WR_SEND_WITH_IMM] = IBV_WC_SEND,
		[IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
		[IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
		[IBV_WR_RDMA_READ] = IBV_WC_RDMA_READ,
	};
	struct ibv_wc wc[2];

	if (!EXPECT(side_poll(&a, 0, 1, PATIENCE, wc) == 1, "no completion"))
		return;
	EXPECT(wc[0].status == IBV_WC_SUCCESS, "ends as '%s'", ibv_wc_status_str(wc[0].status));
	EXPECT(wc[0].wr_id == ~sequence && wc[0].opcode == opcode[t->op] && wc[0].wc_flags == 0,
	       "wr_id %d, opcode %d, flags 0x%x", wc[0].wr_id == ~sequence, (int)wc[0].opcode,
	       wc[0].wc_flags);
	if (t->op == IBV_WR_RDMA_READ)
		EXPECT(wc[0].byte_len == t->bytes, "byte_len %u", wc[0].byte_len);
}

static void check_receive(const struct transfer *t)
{
	unsigned int flags = has_imm(t->op) ? IBV_WC_WITH_IMM : 0;
	enum ibv_wc_opcode opcode = is_send(t->op) ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM;
	struct ibv_wc wc[2];

	if (!is_send(t->op) && !has_imm(t->op))
		return;
	if (!EXPECT(side_poll(&b, 1, 1, PATIENCE, wc) == 1, "no receive completion"))
		return;
	EXPECT(wc[0].status == IBV_WC_SUCCESS, "receive ends as '%s'",
	       ibv_wc_status_str(wc[0].status));
	EXPECT(wc[0].wr_id == sequence && wc[0].opcode == opcode && wc[0].wc_flags == flags,
	       "receive: wr_id %d, opcode %d, flags 0x%x", wc[0].wr_id == sequence,
	       (int)wc[0].opcode, wc[0].wc_flags);
	EXPECT(wc[0].byte_len == t->bytes, "receive: byte_len %u", wc[0].byte_len);
	EXPECT(!flags || wc[0].imm_data == IMM, "immediate data 0x%x", ntohl(wc[0].imm_data));
}

static void check_bytes(const struct transfer *t)
{
	int64_t at = side_check_areas(&a, t->local.at, t->local.count, sequence, t->bytes);

	EXPECT(at < 0, "requester's byte at %ld of its buffer is wrong",
	       (long)(at - (int64_t)t->local.at[0].offset));
	at = side_check_areas(&b, t->remote.at, t->remote.count, sequence, t->bytes);
	EXPECT(at < 0, "responder's byte at %ld of its buffer is wrong",
	       (long)(at - (int64_t)t->remote.at[0].offset));
}

static void run(const struct transfer *t)
{
	sequence++;
	prepare(t);
	post(t);
	check_requester(t);
	check_receive(t);
	check_bytes(t);
}

/* --- the matrix ------------------------------------------------------------------ */

static void transfer_row(enum ibv_wr_opcode op, uint32_t bytes, int split, bool inline_data)
{
	static const char *const name[] = {"WRITE", "WRITE_WITH_IMM", "SEND", "SEND_WITH_IMM",
					   "READ"};

	row("[%s] %s of %u bytes, %d pieces%s", mode, name[op], bytes, split,
	    inline_data ? ", inline" : "");
	for (size_t i = 0; i < COUNT_OF(alignments) * COUNT_OF(alignments); i++) {
		uint32_t l = alignments[i % COUNT_OF(alignments)],
			 r = alignments[i / COUNT_OF(alignments)];
		int receives = splits[(i + (size_t)split) % COUNT_OF(splits)];
		unsigned int before = failures();
		struct transfer t = {
			.op = op,
			.bytes = bytes,
			.inline_data = inline_data,
			.local = lay_out(LOCAL_AT + l, bytes, split),
			.remote = lay_out(REMOTE_AT + r, bytes, is_send(op) ? receives : 1),
		};

		run(&t);
		if (!EXPECT(failures() == before,
			    "alignments %u and %u, %d pieces at the responder", l, r,
			    t.remote.count))
			return;
	}
}

static void transfer_rows(void)
{
	for (size_t o = 0; o < COUNT_OF(ops); o++)
		for (size_t n = 0; n < COUNT_OF(sizes); n++)
			for (size_t s = 0; s < COUNT_OF(splits); s++) {
				transfer_row(ops[o], sizes[n], splits[s], false);
				if (ops[o] != IBV_WR_RDMA_READ && sizes[n] <= 512)
					transfer_row(ops[o], sizes[n], splits[s], true);
			}
}

/* A receive that is longer than the message: the rest of it stays as it was. */
static void long_receive_rows(void)
{
	for (size_t n = 0; n < COUNT_OF(sizes); n++) {
		struct transfer t = {
			.op = IBV_WR_SEND,
			.bytes = sizes[n],
			.local = lay_out(LOCAL_AT, sizes[n], 1),
			.remote = lay_out(REMOTE_AT, sizes[n] + 1000, 3),
		};

		row("[%s] SEND of %u bytes into a longer receive", mode, sizes[n]);
		run(&t);
	}
}

/* --- atomics --------------------------------------------------------------------- */

/* Back to what areas_clear() puts there. */
static void side_put_place(struct side *s, uint64_t offset, uint64_t bytes)
{
	side_fill(s, offset, bytes, PLACE_SEED, offset);
}

struct atomic_row {
	enum ibv_wr_opcode op;
	uint64_t before, compare_add, swap, after;
};

static void run_atomic(const struct atomic_row *r, const struct pieces *local, uint64_t remote)
{
	const struct area word = {.offset = remote, .bytes = 8};
	struct node_send s = {
		.wr_id = ++sequence,
		.opcode = r->op,
		.flags = IBV_SEND_SIGNALED,
		.rkey = b.info.key[KEY_FULL],
		.remote_addr = b.info.base[KEY_FULL] + remote,
		.compare_add = r->compare_add,
		.swap = r->swap,
	};
	enum ibv_wc_opcode opcode =
		r->op == IBV_WR_ATOMIC_FETCH_AND_ADD ? IBV_WC_FETCH_ADD : IBV_WC_COMP_SWAP;
	struct ibv_wc wc[1];

	side_clear_areas(&a, local->at, local->count);
	side_clear_areas(&b, &word, 1);
	side_poke(&b, remote, r->before);
	s.num_sge = elements(s.sge, &a, local);
	EXPECT(side_post_send(&a, 0, &s, 1).ret == 0, "post_send");
	if (!EXPECT(side_poll(&a, 0, 1, PATIENCE, wc) == 1, "no completion"))
		return;
	EXPECT(wc[0].status == IBV_WC_SUCCESS && wc[0].opcode == opcode && wc[0].byte_len == 8 &&
		       wc[0].wr_id == sequence,
	       "status '%s', opcode %d, byte_len %u", ibv_wc_status_str(wc[0].status),
	       (int)wc[0].opcode, wc[0].byte_len);
	EXPECT(side_peek(&b, remote) == r->after, "the word is 0x%lx", side_peek(&b, remote));
}

/* The original value, gathered from the pieces, and nothing changed around them. */
static void check_atomic(const struct atomic_row *r, const struct pieces *local, uint64_t remote)
{
	uint8_t original[8];
	size_t n = 0;

	for (int i = 0; i < local->count; i++)
		for (uint64_t k = 0; k < local->at[i].bytes; k++)
			original[n++] = (uint8_t)side_peek(&a, local->at[i].offset + k);
	EXPECT(n == 8 && !memcmp(original, &r->before, 8), "the original value");
	for (int i = 0; i < local->count; i++)
		side_put_place(&a, local->at[i].offset, local->at[i].bytes);
	side_put_place(&b, remote, 8);
	EXPECT(side_check_areas(&a, local->at, local->count, 0, 0) < 0,
	       "bytes around the buffers changed");
	EXPECT(side_check_areas(&b, &(struct area){remote, 8}, 1, 0, 0) < 0,
	       "bytes around the word changed");
}

static void atomic_rows(void)
{
	static const struct atomic_row rows[] = {
		{IBV_WR_ATOMIC_FETCH_AND_ADD, 40, 2, 0, 42},
		{IBV_WR_ATOMIC_FETCH_AND_ADD, UINT64_MAX, 3, 0, 2},
		{IBV_WR_ATOMIC_FETCH_AND_ADD, 0x0102030405060708, 0, 9, 0x0102030405060708},
		{IBV_WR_ATOMIC_CMP_AND_SWP, 0x1122334455667788, 0x1122334455667788,
		 0x99aabbccddeeff00, 0x99aabbccddeeff00},
		{IBV_WR_ATOMIC_CMP_AND_SWP, 0x1122334455667788, 0x1122334455667789, 5,
		 0x1122334455667788},
	};
	static const uint64_t remotes[] = {0, 8, 16, 4088};

	for (size_t i = 0; i < COUNT_OF(rows); i++)
		for (size_t k = 0; k < COUNT_OF(alignments) * COUNT_OF(remotes); k++) {
			int split = 1 + (int)(k % 8);
			struct pieces local =
				lay_out(LOCAL_AT + alignments[k % COUNT_OF(alignments)], 8, split);
			uint64_t remote = REMOTE_AT + remotes[k / COUNT_OF(alignments)];

			row("[%s] atomic %zu, word at %lu, %d pieces", mode, i, remote % 4096,
			    split);
			run_atomic(&rows[i], &local, remote);
			check_atomic(&rows[i], &local, remote);
		}
}

/* --- */

static void all_rows(const char *name)
{
	mode = name;
	row("[%s] connect", mode);
	pair_create(&a, 0, &b, 0, NULL);
	pair_connect(&a, 0, NULL, &b, 0, NULL);
	transfer_rows();
	long_receive_rows();
	atomic_rows();
	pair_destroy(&a, 0, &b, 0);
}

int main(int argc, char **argv)
{
	sides_begin(argc, argv, 200);
	three_ways(&a, &b, all_rows);
	side_open(&a, NULL);
	b = a;
	all_rows("one queue pair");
	side_stop(&a);
	return sandbox_end();
}
