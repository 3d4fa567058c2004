/* SPDX-License-Identifier: MIT */
/*
 * What ANYVERBS_CAPTURE writes: for each operation and each outcome, every frame there is, in
 * order. Each row between two processes, between two contexts of one process, and within one
 * context.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/capture_reader.h"
#include "lib/expect.h"
#include "lib/frame_get.h"
#include "lib/request.h"
#include "lib/sandbox.h"
#include "lib/ways.h"
#include "wire/packet.h"

#define LOCAL_AT  0x1000u  /* offsets in the arenas: the requester's buffer, */
#define REMOTE_AT 0x8000u  /* the responder's memory, */
#define RECV_AT	  0x10000u /* its receive buffer */
#define PATIENCE  20000u   /* ms for a completion */
#define PSN	  0xfffffeu
#define RNR_CODE  1 /* 10 us */
#define ACK	  AV_SYNDROME_ACK
#define RNR	  (AV_SYNDROME_RNR_NAK | RNR_CODE)
#define FRAMES	  9

/* A frame that is wanted. */
struct wanted {
	uint8_t opcode, psn; /* the latter is added to PSN */
	uint8_t syndrome;    /* 0: no AETH, or of a READ response or atomic that succeeds */
};

struct capture_row {
	const char *name;
	enum ibv_wr_opcode op;
	uint32_t bytes;
	bool is_inline, solicited;
	enum key lkey, rkey, recv_key;
	uint32_t remote_by;
	bool no_receive;
	uint32_t recv_bytes; /* 0: enough */
	unsigned int denied; /* access flags the responder's queue pair lacks */
	bool deaf;	     /* the responder is not ready to answer */
	int status;
	struct wanted frames[FRAMES]; /* so many: */
	int count;
};

static struct side a, b;
static const char *mode;
static char path[256];
static size_t seen; /* bytes of the file that earlier rows have looked at */

/* --- the file -------------------------------------------------------------------- */

static struct capture_reader reader;

/* What there is beyond what has been seen. */
static void load(void)
{
	capture_load(&reader, path, seen);
	seen += reader.bytes;
}

/* The next frame; false: there is none. */
static bool next_frame(struct av_frame *f, struct av_packet *p)
{
	struct captured c;

	if (!capture_next(&reader, &c))
		return false;
	EXPECT(c.captured == c.length && frame_get(f, p, c.frame, c.captured) == FRAME_OK,
	       "no RoCEv2 frame");
	EXPECT(!c.direction, "it was on no wire");
	return true;
}

/* --- one row --------------------------------------------------------------------- */

static void post(const struct capture_row *r)
{
	const struct request request = {
		.op = r->op,
		.flags = IBV_SEND_SIGNALED | (r->is_inline ? IBV_SEND_INLINE : 0) |
			 (r->solicited ? IBV_SEND_SOLICITED : 0),
		.bytes = r->bytes,
		.lkey = r->lkey,
		.rkey = r->rkey,
		.local_at = LOCAL_AT,
		.remote_at = REMOTE_AT + r->remote_by,
	};
	struct node_send s = request_make(&a, &b, &request);

	EXPECT(side_post_send(&a, 0, &s, 1).ret == 0, "post_send");
}

static void prepare(const struct capture_row *r)
{
	struct node_link la = link_default(), lb = link_default();

	la.sq_psn = lb.rq_psn = PSN;
	la.mtu = lb.mtu = IBV_MTU_256;
	la.rnr_retry = 2;
	la.retry_cnt = 1;
	lb.min_rnr_timer = RNR_CODE;
	lb.access &= ~r->denied;
	if (r->deaf)
		lb.to = IBV_QPS_INIT;
	pair_create(&a, 0, &b, 0, NULL);
	pair_connect(&a, 0, &la, &b, 0, &lb);
	side_fill(&a, LOCAL_AT, 4096, 1, 0);
	side_fill(&b, REMOTE_AT, 4096, 2, 0);
	side_poke(&b, REMOTE_AT, 0x1122334455667788);
	if (request_receives(r->op) && !r->no_receive) {
		struct node_recv recv = {
			.num_sge = 1,
			.sge = {side_sge(&b, r->recv_key, RECV_AT,
					 r->recv_bytes ? r->recv_bytes : 4096)},
		};

		EXPECT(side_post_recv(&b, 0, &recv, 1).ret == 0, "post_recv");
	}
}

static void check_addresses(const struct av_frame *f, bool response)
{
	const struct side *from = response ? &b : &a, *to = response ? &a : &b;
	uint8_t mac[6];

	EXPECT(memcmp(f->path.src, from->info.gid.raw, 16) == 0 &&
		       memcmp(f->path.dst, to->info.gid.raw, 16) == 0,
	       "addresses");
	av_frame_mac(f->path.dst, mac);
	EXPECT(memcmp(f->eth_dst, mac, 6) == 0 && f->path.hop_limit == 64,
	       "Ethernet address or hop limit");
	EXPECT(f->path.source_port == av_frame_source_port(0, side_qpn(&a, 0), side_qpn(&b, 0)),
	       "source port");
}

static void check_header(const struct capture_row *r, const struct av_packet *p,
			 const struct av_opcode *info)
{
	if (info->headers & (1 << AV_HEADER_RETH | 1 << AV_HEADER_ATOMIC_ETH))
		EXPECT(p->rkey == b.info.key[r->rkey] &&
			       p->addr == b.info.base[r->rkey] + REMOTE_AT + r->remote_by,
		       "remote address");
	if (info->headers & 1 << AV_HEADER_RETH)
		EXPECT(p->length == r->bytes, "length %u in the RETH", p->length);
	if (info->headers & 1 << AV_HEADER_ATOMIC_ETH)
		EXPECT(r->op == CAS ? p->compare == REQUEST_GIVEN && p->swap_add == REQUEST_SWAPPED
				    : p->swap_add == REQUEST_GIVEN,
		       "operands");
	if (info->headers & 1 << AV_HEADER_IMMDT)
		EXPECT(p->imm == REQUEST_IMM, "immediate %x", p->imm);
	if (info->headers & 1 << AV_HEADER_ATOMIC_ACK_ETH)
		EXPECT(p->original == 0x1122334455667788, "original value");
}

/* The requester's bytes are pattern 1; the responder's pattern 2, but for the first word. */
static void check_payload(const struct av_packet *p, bool response, uint32_t offset)
{
	uint32_t skip = response && offset == 0 ? 8 : 0;

	if (p->payload_bytes > skip)
		EXPECT(pattern_check(p->payload + skip, p->payload_bytes - skip, response ? 2 : 1,
				     offset + skip) == -1,
		       "payload at %u", offset);
}

static void check_frame(const struct capture_row *r, const struct wanted *w,
			const struct av_frame *f, const struct av_packet *p)
{
	const struct av_opcode *info = av_opcode_info(p->opcode);
	bool last;

	if (!EXPECT(p->opcode == w->opcode && info, "opcode 0x%02x, not 0x%02x", p->opcode,
		    w->opcode))
		return;
	last = info->place == AV_PLACE_LAST || info->place == AV_PLACE_ONLY;
	check_addresses(f, info->response);
	check_header(r, p, info);
	check_payload(p, info->response, (uint32_t)w->psn * 256);
	EXPECT(p->psn == ((PSN + w->psn) & AV_PSN_MASK), "PSN %x, not + %d", p->psn, w->psn);
	EXPECT(p->dest_qpn == side_qpn(info->response ? &a : &b, 0), "destination");
	EXPECT(p->pkey == 0xffff, "P_Key");
	EXPECT(p->ack_request == (last && !info->response), "AckReq");
	EXPECT(p->solicited == (last && !info->response && r->solicited), "solicited event");
	if (info->headers & 1 << AV_HEADER_AETH) {
		EXPECT(p->syndrome == (w->syndrome ? w->syndrome : ACK), "syndrome %02x",
		       p->syndrome);
		EXPECT(p->msn == (p->syndrome == ACK), "MSN %u", p->msn);
	}
}

static void check_frames(const struct capture_row *r)
{
	struct av_packet p;
	struct av_frame f;
	int i = 0;

	load();
	for (; next_frame(&f, &p); i++)
		if (EXPECT(i < r->count, "one frame more, opcode 0x%02x PSN %x", p.opcode, p.psn))
			check_frame(r, &r->frames[i], &f, &p);
	EXPECT(i == r->count, "%d frames, not %d", i, r->count);
	capture_unload(&reader);
}

static void finish(const struct capture_row *r)
{
	struct ibv_wc wc;

	if (EXPECT(side_poll(&a, 0, 1, PATIENCE, &wc) == 1, "no completion"))
		EXPECT((int)wc.status == r->status, "status '%s'", ibv_wc_status_str(wc.status));
	check_frames(r);
	pair_destroy(&a, 0, &b, 0);
	while (side_async(&b, 0).any)
		;
}

static void run(const struct capture_row *r)
{
	row("[%s] %s", mode, r->name);
	prepare(r);
	post(r);
	finish(r);
}

#define F(...)                   \
	.frames = {__VA_ARGS__}, \
	.count = sizeof((struct wanted[]){__VA_ARGS__}) / sizeof(struct wanted)

/* clang-format off */
static const struct capture_row rows[] = {
	{"SEND of nothing",          SEND,  0,   F({0x04, 0, 0}, {0x11, 0, ACK})},
	{"SEND, one packet",         SEND,  255, F({0x04, 0, 0}, {0x11, 0, ACK})},
	{"SEND, inline",             SEND,  60,  .is_inline = true, F({0x04, 0, 0}, {0x11, 0, ACK})},
	{"SEND, solicited",          SEND,  300, .solicited = true, F({0x00, 0, 0}, {0x02, 1, 0}, {0x11, 1, ACK})},
	{"SEND, three packets",      SEND,  700, F({0x00, 0, 0}, {0x01, 1, 0}, {0x02, 2, 0}, {0x11, 2, ACK})},
	{"SEND_WITH_IMM",            SENDI, 300, F({0x00, 0, 0}, {0x03, 1, 0}, {0x11, 1, ACK})},
	{"SEND_WITH_IMM, one",       SENDI, 3,   F({0x05, 0, 0}, {0x11, 0, ACK})},
	{"WRITE, one packet",        WRITE, 256, F({0x0a, 0, 0}, {0x11, 0, ACK})},
	{"WRITE of nothing",         WRITE, 0,   F({0x0a, 0, 0}, {0x11, 0, ACK})},
	{"WRITE, two packets",       WRITE, 257, F({0x06, 0, 0}, {0x08, 1, 0}, {0x11, 1, ACK})},
	{"WRITE_WITH_IMM",           WRITI, 700, F({0x06, 0, 0}, {0x07, 1, 0}, {0x09, 2, 0}, {0x11, 2, ACK})},
	{"WRITE_WITH_IMM, one",      WRITI, 1,   F({0x0b, 0, 0}, {0x11, 0, ACK})},
	{"READ, one packet",         READ,  256, F({0x0c, 0, 0}, {0x10, 0, 0})},
	{"READ of nothing",          READ,  0,   F({0x0c, 0, 0}, {0x10, 0, 0})},
	{"READ, three packets",      READ,  513, F({0x0c, 0, 0}, {0x0d, 0, 0}, {0x0e, 1, 0}, {0x0f, 2, 0})},
	{"CMP_AND_SWP",              CAS,   8,   F({0x13, 0, 0}, {0x12, 0, 0})},
	{"FETCH_AND_ADD",            FAA,   8,   F({0x14, 0, 0}, {0x12, 0, 0})},

	{"receiver not ready",       SEND,  700, .no_receive = true, .status = IBV_WC_RNR_RETRY_EXC_ERR,
	 F({0x00, 0, 0}, {0x11, 0, RNR}, {0x00, 0, 0}, {0x11, 0, RNR}, {0x00, 0, 0}, {0x11, 0, RNR})},
	{"receiver not ready, imm",  WRITI, 300, .no_receive = true, .status = IBV_WC_RNR_RETRY_EXC_ERR,
	 F({0x06, 0, 0}, {0x09, 1, 0}, {0x11, 1, RNR}, {0x06, 0, 0}, {0x09, 1, 0}, {0x11, 1, RNR}, {0x06, 0, 0},
	   {0x09, 1, 0}, {0x11, 1, RNR})},
	{"nobody answers",           WRITE, 8,   .deaf = true, .status = IBV_WC_RETRY_EXC_ERR, F({0x0a, 0, 0}, {0x0a, 0, 0})},

	{"wrong rkey, WRITE",        WRITE, 700, .rkey = KEY_WRONG, .status = IBV_WC_REM_ACCESS_ERR, F({0x06, 0, 0}, {0x11, 0, 0x62})},
	{"wrong rkey, READ",         READ,  700, .rkey = KEY_WRONG, .status = IBV_WC_REM_ACCESS_ERR, F({0x0c, 0, 0}, {0x11, 0, 0x62})},
	{"wrong rkey, atomic",       FAA,   8,   .rkey = KEY_WRONG, .status = IBV_WC_REM_ACCESS_ERR, F({0x14, 0, 0}, {0x11, 0, 0x62})},
	{"WRITE is not permitted",   WRITE, 8,   .denied = IBV_ACCESS_REMOTE_WRITE, .status = IBV_WC_REM_INV_REQ_ERR, F({0x0a, 0, 0}, {0x11, 0, 0x61})},
	{"misaligned atomic",        CAS,   8,   .remote_by = 1, .status = IBV_WC_REM_INV_REQ_ERR, F({0x13, 0, 0}, {0x11, 0, 0x61})},
	{"receive too short",        SEND,  700, .recv_bytes = 600, .status = IBV_WC_REM_INV_REQ_ERR,
	 F({0x00, 0, 0}, {0x01, 1, 0}, {0x02, 2, 0}, {0x11, 2, 0x61})},
	{"receive of a wrong lkey",  SEND,  8,   .recv_key = KEY_WRONG, .status = IBV_WC_REM_OP_ERR, F({0x04, 0, 0}, {0x11, 0, 0x63})},
	{"wrong lkey",               SEND,  8,   .lkey = KEY_WRONG, .status = IBV_WC_LOC_PROT_ERR},
	{"too much for an atomic",   FAA,   16,  .status = IBV_WC_LOC_LEN_ERR},
};
/* clang-format on */

/*
 * Whoever has the receive request that was waited for executes the request, in its own process, and
 * so writes it. Waits for ever on the requester's side, so that the row is the same however slow
 * the host is.
 */
static void resumed_by_the_responder(void)
{
	struct capture_row r = {.name = "receiver not ready, and then it is",
				.op = SEND,
				.bytes = 300,
				.no_receive = true};
	struct av_packet p, last = {0};
	struct node_link la = link_default(), lb = link_default();
	struct av_frame f;
	struct ibv_wc wc;
	int i = 0;

	row("[%s] %s", mode, r.name);
	la.sq_psn = lb.rq_psn = PSN;
	la.mtu = lb.mtu = IBV_MTU_256;
	la.rnr_retry = 7;
	lb.min_rnr_timer = RNR_CODE;
	pair_create(&a, 0, &b, 0, NULL);
	pair_connect(&a, 0, &la, &b, 0, &lb);
	side_fill(&a, LOCAL_AT, 4096, 1, 0);
	post(&r);
	side_recv_one(&b, 0, 1, RECV_AT, 4096);
	EXPECT(side_poll(&a, 0, 1, PATIENCE, &wc) == 1 && wc.status == IBV_WC_SUCCESS,
	       "no success");
	load();
	for (; next_frame(&f, &p); i++, last = p)
		if (i < 2)
			EXPECT(p.psn == PSN && (i ? p.syndrome == RNR : p.opcode == 0x00),
			       "frame %d is 0x%02x", i, p.opcode);
	EXPECT(i >= 5 && last.opcode == 0x11 && last.syndrome == ACK && last.psn == PSN + 1,
	       "%d frames, the last one 0x%02x", i, last.opcode);
	capture_unload(&reader);
	pair_destroy(&a, 0, &b, 0);
}

static void all_rows(const char *name)
{
	mode = name;
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		run(&rows[i]);
	resumed_by_the_responder();
}

/* A folder for the file, gone at the end. */
static void begin(void)
{
	char folder[] = "/tmp/anyverbs-test-XXXXXX";

	if (!mkdtemp(folder))
		DIE("no folder");
	snprintf(path, sizeof(path), "%s/capture.pcapng", folder);
	setenv("ANYVERBS_CAPTURE", path, 1);
	seen = CAPTURE_PROLOGUE;
}

static void end(void)
{
	unlink(path);
	*strrchr(path, '/') = '\0';
	rmdir(path);
}

int main(int argc, char **argv)
{
	side_agent_main(argc, argv);
	time_limit(200);
	begin();
	sandbox_enter();
	three_ways(&a, &b, all_rows);
	sandbox_leave();
	end();
	return summary();
}
