/* SPDX-License-Identifier: MIT */
/*
 * Every operation of RC, and SEND and WRITE of UC, at sizes around the edges of packets, with each
 * byte compared; and requests that the responder refuses. Uses the public verbs of any device.
 *
 *     interop_bytes -d DEVICE -g GID-INDEX -p PORT [-m MTU] [-r] [SERVER]
 *
 * -r: RC alone, and no refusals, for networks that lose packets: who has refused a request says so
 * once, and the kernel's device takes 7 retries to be without end.
 *
 * The client posts all requests; the server, in lock step over TCP, gives memory and receives, and
 * looks at what has come. Both exit with 0 if nothing went wrong.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#include "lib/to_rts.h"
#include "lib/wait.h"

#define ROOM	  (1u << 20)
#define AT	  4096u /* of the message, in the buffer; around it nothing changes */
#define GUARD	  64u
#define UNTOUCHED 0xee
#define IMM	  0x1234abcdu
#define FIRST_PSN 0xfffff0u /* the numbers wrap early */
#define PATIENCE  20	    /* seconds for a completion */
#define COUNT(a)  (sizeof(a) / sizeof((a)[0]))
#define NONE	  (-1)

enum what { CONNECT, PREPARE, CHECK, FINISH };

/* What the client wants of the server, which answers with the number of things that were wrong. */
struct order {
	enum what what;
	enum ibv_qp_type type; /* CONNECT */
	enum ibv_wr_opcode op;
	uint32_t bytes, seed;
	int room;   /* of the receive; NONE: there is none */
	int status; /* of the receive's completion; NONE: there is none */
	int rxes;   /* or this one, which rdma_rxe has instead */
};

struct address {
	union ibv_gid gid;
	uint32_t qpn, rkey;
	uint64_t buffer;
};

static struct {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	union ibv_gid gid;
	uint8_t *buffer;
	int sock, wrong;
	const char *device, *server;
	int gid_index, port, mtu;
	bool lossy;
} here = {.port = 18515, .mtu = 1024};

static struct address there;

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf(": %s\n", strerror(errno));
	exit(1);
}

__attribute__((format(printf, 2, 3))) static void expect(bool holds, const char *format, ...)
{
	va_list args;

	if (holds)
		return;
	here.wrong++;
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}

/* --- the other side ---------------------------------------------------------------- */

static void tell(const void *message, size_t bytes)
{
	if (send(here.sock, message, bytes, MSG_NOSIGNAL) != (ssize_t)bytes)
		die("the other side is gone");
}

static void hear(void *message, size_t bytes)
{
	if (recv(here.sock, message, bytes, MSG_WAITALL) != (ssize_t)bytes)
		die("the other side is gone");
}

static void meet(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)here.port)};
	int one = 1, s = socket(AF_INET, SOCK_STREAM, 0);

	if (here.server) {
		inet_pton(AF_INET, here.server, &to.sin_addr);
		if (connect(s, (struct sockaddr *)&to, sizeof(to)))
			die("connect");
		here.sock = s;
		return;
	}
	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(s, (struct sockaddr *)&to, sizeof(to)) || listen(s, 1))
		die("listen");
	here.sock = accept(s, NULL, NULL);
	if (here.sock < 0)
		die("accept");
	close(s);
}

/* --- the device -------------------------------------------------------------------- */

static void open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (int i = 0; list && list[i]; i++)
		if (here.device && !strcmp(ibv_get_device_name(list[i]), here.device))
			here.ctx = ibv_open_device(list[i]);
	if (!here.ctx || ibv_query_gid(here.ctx, 1, here.gid_index, &here.gid))
		die("no device, or no GID");
	here.pd = ibv_alloc_pd(here.ctx);
	here.cq = ibv_create_cq(here.ctx, 16, NULL, NULL, 0);
	here.buffer = aligned_alloc(4096, ROOM);
	if (!here.pd || !here.cq || !here.buffer)
		die("no memory");
	here.mr = ibv_reg_mr(here.pd, here.buffer, ROOM,
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	if (!here.mr)
		die("ibv_reg_mr");
}

static enum ibv_mtu mtu_code(void)
{
	return (enum ibv_mtu)(__builtin_ctz((unsigned int)here.mtu) - 7);
}

/* A new queue pair; nothing is left of the last one. Both sides do it at the same time. */
static void connect_sides(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.send_cq = here.cq, .recv_cq = here.cq, .qp_type = type, .cap = {4, 4, 1, 1, 0}};
	struct address own = {
		.gid = here.gid, .rkey = here.mr->rkey, .buffer = (uintptr_t)here.buffer};
	struct ibv_qp_attr attr;
	struct ibv_wc wc;

	if (here.qp && ibv_destroy_qp(here.qp))
		die("ibv_destroy_qp");
	while (ibv_poll_cq(here.cq, 1, &wc) > 0)
		;
	here.qp = ibv_create_qp(here.pd, &init);
	if (!here.qp)
		die("ibv_create_qp");
	own.qpn = here.qp->qp_num;
	tell(&own, sizeof(own));
	hear(&there, sizeof(there));
	attr = connect_attr(there.qpn, &there.gid);
	attr.ah_attr.grh.sgid_index = (uint8_t)here.gid_index;
	attr.path_mtu = mtu_code();
	attr.sq_psn = attr.rq_psn = FIRST_PSN;
	attr.rnr_retry = 2;
	attr.retry_cnt = 7;
	if (!here.lossy) /* the other end may wait for a core */
		attr.timeout = 17;
	errno = connect_qp(here.qp, attr);
	if (errno)
		die("connecting");
}

static bool poll_one(struct ibv_wc *wc)
{
	int n = 0;

	(void)WAIT_UNTIL((n = ibv_poll_cq(here.cq, 1, wc)) != 0, PATIENCE * 1000);
	return n > 0;
}

/* --- bytes ------------------------------------------------------------------------- */

static uint8_t pattern(uint32_t seed, uint32_t at)
{
	return (uint8_t)((seed * 2654435761u + at * 40503u) >> 7);
}

/* Room for a message, and what is around it. */
static void clear(uint32_t bytes)
{
	memset(here.buffer + AT - GUARD, UNTOUCHED, bytes + 2 * GUARD);
}

static void fill(uint32_t seed, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++)
		here.buffer[AT + i] = pattern(seed, i);
}

/* A WRITE without an acknowledgement is done when it has been sent: it may be on its way still. */
static void await(uint32_t seed, uint32_t bytes)
{
	time_t end = time(NULL) + PATIENCE;
	volatile const uint8_t *there_yet = here.buffer + AT;
	uint32_t at = 0;

	while (at < bytes && time(NULL) < end)
		if (there_yet[at] == pattern(seed, at))
			at++;
		else
			wait_moment();
}

/* Is the message there, and around it nothing? */
static void look(const char *of, uint32_t seed, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++)
		if (here.buffer[AT + i] != pattern(seed, i)) {
			expect(false, "%s of %u bytes: byte %u is wrong", of, bytes, i);
			return;
		}
	for (uint32_t i = 0; i < GUARD; i++)
		if (here.buffer[AT - 1 - i] != UNTOUCHED ||
		    here.buffer[AT + bytes + i] != UNTOUCHED) {
			expect(false, "%s of %u bytes: written beside them", of, bytes);
			return;
		}
}

static bool takes_receive(enum ibv_wr_opcode op)
{
	return op == IBV_WR_SEND || op == IBV_WR_SEND_WITH_IMM || op == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static const char *name_of(enum ibv_wr_opcode op)
{
	static const char *const names[] = {
		[IBV_WR_RDMA_WRITE] = "WRITE",
		[IBV_WR_RDMA_WRITE_WITH_IMM] = "WRITE_WITH_IMM",
		[IBV_WR_SEND] = "SEND",
		[IBV_WR_SEND_WITH_IMM] = "SEND_WITH_IMM",
		[IBV_WR_RDMA_READ] = "READ",
		[IBV_WR_ATOMIC_CMP_AND_SWP] = "CMP_AND_SWP",
		[IBV_WR_ATOMIC_FETCH_AND_ADD] = "FETCH_AND_ADD",
	};

	return names[op];
}

/* --- the server -------------------------------------------------------------------- */

static void prepare(const struct order *o)
{
	struct ibv_sge sge = {(uintptr_t)here.buffer + AT, (uint32_t)o->room, here.mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = o->room > 0}, *bad;

	clear(o->bytes);
	if (o->op == IBV_WR_RDMA_READ)
		fill(o->seed, o->bytes);
	if (o->op == IBV_WR_ATOMIC_CMP_AND_SWP || o->op == IBV_WR_ATOMIC_FETCH_AND_ADD)
		memcpy(here.buffer + AT, &(uint64_t){o->seed}, 8);
	if (o->room != NONE && (errno = ibv_post_recv(here.qp, &wr, &bad)))
		die("ibv_post_recv");
}

static void check_receive(const struct order *o)
{
	const char *name = name_of(o->op);
	struct ibv_wc wc;

	if (!poll_one(&wc)) {
		expect(false, "%s of %u bytes: not received", name, o->bytes);
		return;
	}
	expect((int)wc.status == o->status || (int)wc.status == o->rxes,
	       "%s of %u bytes: received with '%s'", name, o->bytes, ibv_wc_status_str(wc.status));
	if (wc.status != IBV_WC_SUCCESS)
		return;
	expect(wc.byte_len == o->bytes, "%s of %u bytes: byte_len %u", name, o->bytes, wc.byte_len);
	expect(o->op == IBV_WR_SEND ||
		       ((wc.wc_flags & IBV_WC_WITH_IMM) && ntohl(wc.imm_data) == IMM),
	       "%s of %u bytes: no immediate data", name, o->bytes);
}

static void check(const struct order *o)
{
	uint64_t word, want = o->seed + (o->op == IBV_WR_ATOMIC_FETCH_AND_ADD ? 7u : 1u);

	if (o->status != NONE)
		check_receive(o);
	if (o->status > IBV_WC_SUCCESS)
		return;
	if (o->op == IBV_WR_RDMA_WRITE && here.qp->qp_type == IBV_QPT_UC)
		await(o->seed, o->bytes);
	memcpy(&word, here.buffer + AT, 8);
	if (o->op == IBV_WR_ATOMIC_CMP_AND_SWP || o->op == IBV_WR_ATOMIC_FETCH_AND_ADD)
		expect(word == want, "%s: %lu instead of %lu", name_of(o->op), word, want);
	else
		look(name_of(o->op), o->seed, o->bytes);
}

static void serve(void)
{
	struct order o;

	do {
		hear(&o, sizeof(o));
		if (o.what == CONNECT)
			connect_sides(o.type);
		else if (o.what == PREPARE)
			prepare(&o);
		else if (o.what == CHECK)
			check(&o);
		tell(&here.wrong, sizeof(here.wrong));
	} while (o.what != FINISH);
}

/* --- the client -------------------------------------------------------------------- */

static int theirs; /* what was wrong there */

static void ask(struct order o, enum what what)
{
	o.what = what;
	tell(&o, sizeof(o));
	if (what == CONNECT)
		connect_sides(o.type);
	hear(&theirs, sizeof(theirs));
}

struct request {
	enum ibv_wr_opcode op;
	uint32_t bytes;
	int64_t remote_by; /* from where it should be */
	bool wrong_key;
};

/* Return: the completion's status. */
static enum ibv_wc_status run(const struct request *r, uint32_t seed)
{
	struct ibv_sge sge = {(uintptr_t)here.buffer + AT, r->bytes, here.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = r->bytes > 0,
				 .opcode = r->op,
				 .send_flags = IBV_SEND_SIGNALED,
				 .imm_data = htonl(IMM)},
			   *bad;
	uint64_t remote = there.buffer + AT + (uint64_t)r->remote_by;
	uint32_t rkey = there.rkey ^ (r->wrong_key ? 0xffff00u : 0);
	struct ibv_wc wc;

	if (r->op == IBV_WR_ATOMIC_CMP_AND_SWP || r->op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = r->op == IBV_WR_ATOMIC_FETCH_AND_ADD ? 7 : seed;
		wr.wr.atomic.swap = seed + 1;
	} else {
		wr.wr.rdma.remote_addr = remote;
		wr.wr.rdma.rkey = rkey;
	}
	clear(r->bytes);
	if (r->op != IBV_WR_RDMA_READ)
		fill(seed, r->bytes);
	errno = ibv_post_send(here.qp, &wr, &bad);
	if (errno)
		die("ibv_post_send");
	if (!poll_one(&wc))
		die("%s of %u bytes does not complete", name_of(r->op), r->bytes);
	return wc.status;
}

static void one(enum ibv_wr_opcode op, uint32_t bytes)
{
	static uint32_t seed;
	bool atomic = op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD;
	struct order o = {.op = op,
			  .bytes = bytes,
			  .seed = ++seed,
			  .room = takes_receive(op) ? (int)bytes : NONE,
			  .status = takes_receive(op) ? IBV_WC_SUCCESS : NONE};
	enum ibv_wc_status status;
	uint64_t word;

	ask(o, PREPARE);
	status = run(&(struct request){.op = op, .bytes = bytes}, seed);
	if (status != IBV_WC_SUCCESS)
		die("%s of %u bytes ends with '%s'", name_of(op), bytes, ibv_wc_status_str(status));
	memcpy(&word, here.buffer + AT, 8);
	if (atomic)
		expect(word == seed, "%s brings %lu instead of %u", name_of(op), word, seed);
	else if (op == IBV_WR_RDMA_READ)
		look("READ", seed, bytes);
	ask(o, CHECK);
}

static void all_sizes(enum ibv_qp_type type)
{
	static const enum ibv_wr_opcode ops[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
						 IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
						 IBV_WR_RDMA_READ};
	uint32_t mtu = (uint32_t)here.mtu;
	const uint32_t sizes[] = {0,
				  1,
				  2,
				  3,
				  4,
				  5,
				  8,
				  mtu - 1,
				  mtu,
				  mtu + 1,
				  2 * mtu - 3,
				  2 * mtu,
				  mtu - 4,
				  mtu + 4,
				  2 * mtu + 1,
				  9 * mtu,
				  130 * mtu + 7};
	/* Whoever goes back to the packet that was lost gets through with few at a time. */
	size_t count = COUNT(sizes) - here.lossy;

	ask((struct order){.type = type}, CONNECT);
	for (size_t i = 0; i < COUNT(ops); i++)
		for (size_t j = 0; j < count; j++)
			if (type == IBV_QPT_RC || ops[i] != IBV_WR_RDMA_READ)
				one(ops[i], sizes[j]);
	for (int i = 0; i < 20 && type == IBV_QPT_RC; i++)
		one(i % 2 ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
}

/* What the responder refuses; @received is for the receive, NONE if none is posted. */
static const struct refusal {
	const char *name;
	struct request request;
	enum ibv_wc_status status;
	int received;
	/* What rdma_rxe says instead where it differs. */
	enum ibv_wc_status rxes;
	int rxes_received;
} refusals[] = {
	{.name = "WRITE with a key of nothing",
	 .request = {IBV_WR_RDMA_WRITE, 100, 0, true},
	 .status = IBV_WC_REM_ACCESS_ERR,
	 .received = NONE},
	{.name = "READ with a key of nothing",
	 .request = {IBV_WR_RDMA_READ, 100, 0, true},
	 .status = IBV_WC_REM_ACCESS_ERR,
	 .received = NONE},
	{.name = "FETCH_AND_ADD with a key of nothing",
	 .request = {IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 0, true},
	 .status = IBV_WC_REM_ACCESS_ERR,
	 .received = NONE},
	{.name = "WRITE over the region's end",
	 .request = {IBV_WR_RDMA_WRITE, 5000, ROOM - AT - 4999, false},
	 .status = IBV_WC_REM_ACCESS_ERR,
	 .received = NONE},
	{.name = "READ over the region's end",
	 .request = {IBV_WR_RDMA_READ, 5000, ROOM - AT - 4999, false},
	 .status = IBV_WC_REM_ACCESS_ERR,
	 .received = NONE},
	{.name = "SEND of one packet longer than its receive",
	 .request = {IBV_WR_SEND, 101, 0, false},
	 .status = IBV_WC_REM_INV_REQ_ERR,
	 .received = IBV_WC_LOC_LEN_ERR,
	 .rxes = IBV_WC_REM_OP_ERR,
	 .rxes_received = IBV_WC_LOC_QP_OP_ERR},
	{.name = "SEND of several packets longer than its receive",
	 .request = {IBV_WR_SEND, 20000, 0, false},
	 .status = IBV_WC_REM_INV_REQ_ERR,
	 .received = IBV_WC_LOC_LEN_ERR,
	 .rxes = IBV_WC_REM_OP_ERR,
	 .rxes_received = IBV_WC_LOC_QP_OP_ERR},
	{.name = "SEND without a receive",
	 .request = {IBV_WR_SEND, 100, 0, false},
	 .status = IBV_WC_RNR_RETRY_EXC_ERR,
	 .received = NONE},
};

/* On a connection of its own, which it ends. */
static void refused(const struct refusal *r)
{
	struct order o = {.type = IBV_QPT_RC,
			  .op = r->request.op,
			  .bytes = r->request.bytes,
			  .room = r->received == NONE ? NONE : (int)r->request.bytes - 1,
			  .status = r->received,
			  .rxes = r->rxes_received};
	enum ibv_wc_status status;

	ask(o, CONNECT);
	ask(o, PREPARE);
	status = run(&r->request, 0);
	expect(status == r->status || (r->rxes && status == r->rxes), "%s ends with '%s'", r->name,
	       ibv_wc_status_str(status));
	if (r->received != NONE)
		ask(o, CHECK);
}

static void parse(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "d:g:p:m:r")) != -1) {
		if (c == 'd')
			here.device = optarg;
		else if (c == 'g')
			here.gid_index = atoi(optarg);
		else if (c == 'p')
			here.port = atoi(optarg);
		else if (c == 'm')
			here.mtu = atoi(optarg);
		else if (c == 'r')
			here.lossy = true;
		else
			exit(2);
	}
	here.server = argv[optind];
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	parse(argc, argv);
	open_device();
	meet();
	if (here.server) {
		all_sizes(IBV_QPT_RC);
		if (!here.lossy)
			all_sizes(IBV_QPT_UC);
		for (size_t i = 0; i < COUNT(refusals) && !here.lossy; i++)
			refused(&refusals[i]);
		ask((struct order){.op = IBV_WR_SEND}, FINISH);
	} else {
		serve();
	}
	if (here.wrong + theirs == 0)
		printf("success\n");
	return here.wrong + theirs ? 1 : 0;
}
