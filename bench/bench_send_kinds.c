/* SPDX-License-Identifier: MIT */
/*
 * What a SEND takes one way between two processes, as half of a ping-pong: to a queue pair's own
 * receive queue with one element on either side, and of the kinds that differ from that in one
 * thing each. Where the receiver's bytes are in reach, such a difference should cost little. They
 * are not in reach if the memory is not shared and the message does not fit into a completion.
 *
 * bench_send_kinds KIND SIZE: that one only, once, in microseconds.
 */
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ends.h"
#include "lib/expect.h"
#include "lib/side.h"
#include "measure.h"

#define DEPTH	    64 /* requests of a queue */
#define SIGNAL	    32 /* every so manyth SEND has a completion */
#define GRH	    40 /* before the payload of a datagram */
#define QKEY	    0x1234
#define WARM_UP	    500
#define BATCHES	    25
#define UNIT_NS	    1000.0 /* results of jobs are in picoseconds */
#define RATIO_MOST  1.3
#define MESSAGE_MAX 16384u
#define AREA	    (2 * MESSAGE_MAX) /* of what is sent; that of what is received follows */

enum kind { KIND_RQ, KIND_SRQ, KIND_UD, KIND_TWO, KIND_BY_CALLS, KINDS };
enum size { SIZES = 3 };

static const char *const kind_name[KINDS] = {"rq", "srq", "ud", "two_elements", "by_calls"};
static const struct {
	uint32_t bytes;
	const char *name;
	int turns;
} sizes[SIZES] = {{8, "8B", 10000}, {4096, "4KiB", 10000}, {MESSAGE_MAX, "16KiB", 2500}};

/* A datagram is no longer than the MTU. */
static bool exists(int kind, int size)
{
	return kind != KIND_UD || sizes[size].bytes <= 4096;
}

/* --- an end of a ping-pong, in a process of its own --- */

struct flow {
	enum kind kind;
	uint32_t bytes, elements;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_ah *ah;
	uint32_t peer;
	unsigned int sent;
};

static struct end end;
static uint8_t *memory;
static struct ibv_mr *mr;
static struct flow flows[KINDS][SIZES];

/* To the core of that place among those the process may use, or the last one. */
static void pin_to(int place)
{
	cpu_set_t may, set;
	int cpu = -1;

	if (sched_getaffinity(0, sizeof(may), &may))
		DIE("sched_getaffinity: errno %d", errno);
	for (int i = 0; i < CPU_SETSIZE && place >= 0; i++)
		if (CPU_ISSET(i, &may)) {
			cpu = i;
			place--;
		}
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		DIE("sched_setaffinity: errno %d", errno);
}

static void open_once(int place)
{
	if (end.ctx)
		return;
	pin_to(place);
	end_open(&end);
	memory = bench_map(2 * AREA, PROT_READ | PROT_WRITE, 0);
	memset(memory, 1, 2 * AREA);
	mr = end_reg(&end, memory, 2 * AREA, END_RIGHTS);
}

/* The elements of a message at @at. Return: how many */
static int elements(const struct flow *f, const uint8_t *at, uint32_t bytes, struct ibv_sge *sge)
{
	uint32_t each = bytes / f->elements;

	for (uint32_t i = 0; i < f->elements; i++)
		sge[i] = (struct ibv_sge){(uintptr_t)at + i * AREA / 2, each, mr->lkey};
	return (int)f->elements;
}

static void post_recv(const struct flow *f)
{
	uint32_t bytes = f->bytes + (f->kind == KIND_UD ? GRH : 0);
	struct ibv_sge sge[2];
	struct ibv_recv_wr wr = {.sg_list = sge, .num_sge = elements(f, memory + AREA, bytes, sge)},
			   *bad;

	if (f->srq ? ibv_post_srq_recv(f->srq, &wr, &bad) : ibv_post_recv(f->qp, &wr, &bad))
		DIE("posting a receive");
}

static void post_send(struct flow *f)
{
	struct ibv_sge sge[2];
	struct ibv_send_wr wr = {.sg_list = sge,
				 .num_sge = elements(f, memory, f->bytes, sge),
				 .opcode = IBV_WR_SEND,
				 .send_flags = ++f->sent % SIGNAL ? 0 : IBV_SEND_SIGNALED},
			   *bad;

	if (f->ah) {
		wr.wr.ud.ah = f->ah;
		wr.wr.ud.remote_qpn = f->peer;
		wr.wr.ud.remote_qkey = QKEY;
	}
	if (ibv_post_send(f->qp, &wr, &bad))
		DIE("ibv_post_send");
}

/* Until a message is there; completions of SENDs are passed over. */
static void wait_recv(void)
{
	struct ibv_wc wc = {0};
	int got;

	do {
		got = ibv_poll_cq(end.cq, 1, &wc);
		if (got < 0 || (got && wc.status != IBV_WC_SUCCESS))
			DIE("ibv_poll_cq: %d, '%s'", got, ibv_wc_status_str(wc.status));
	} while (got == 0 || wc.opcode != IBV_WC_RECV);
}

static void ping(struct flow *f, int turns)
{
	for (int i = 0; i < turns; i++) {
		post_send(f);
		wait_recv();
		post_recv(f);
	}
}

static void pong(struct flow *f, int turns)
{
	for (int i = 0; i < turns; i++) {
		wait_recv();
		post_recv(f);
		post_send(f);
	}
}

/* One way, in nanoseconds. */
static double measure_ping(struct flow *f, int turns)
{
	double ns[BATCHES];

	ping(f, WARM_UP);
	for (int b = 0; b < BATCHES; b++) {
		uint64_t begin = now_ns();

		ping(f, turns / BATCHES);
		ns[b] = ns_each(begin, 2 * (turns / BATCHES));
	}
	return median_of(ns, BATCHES);
}

static void create(struct flow *f)
{
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = DEPTH, .max_sge = f->elements}};
	struct ibv_qp_init_attr attr = {
		.send_cq = end.cq,
		.recv_cq = end.cq,
		.cap = {DEPTH, DEPTH, f->elements, f->elements, 0},
		.qp_type = f->kind == KIND_UD ? IBV_QPT_UD : IBV_QPT_RC,
	};

	if (f->kind == KIND_SRQ) {
		f->srq = ibv_create_srq(end.pd, &srq);
		if (!f->srq)
			DIE("ibv_create_srq: errno %d", errno);
		attr.srq = f->srq;
	}
	f->qp = ibv_create_qp(end.pd, &attr);
	if (!f->qp)
		DIE("ibv_create_qp: errno %d", errno);
}

static void modify(struct flow *f, struct ibv_qp_attr attr, int mask)
{
	if (ibv_modify_qp(f->qp, &attr, IBV_QP_STATE | mask))
		DIE("ibv_modify_qp to state %d", (int)attr.qp_state);
}

static void connect_ud(struct flow *f)
{
	struct ibv_ah_attr to = {
		.is_global = 1, .port_num = 1, .grh = {.dgid = end.gid, .hop_limit = 64}};

	modify(f, (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY},
	       IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	modify(f, (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR}, 0);
	modify(f, (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS}, IBV_QP_SQ_PSN);
	f->ah = ibv_create_ah(end.pd, &to);
	if (!f->ah)
		DIE("ibv_create_ah: errno %d", errno);
}

/* All processes' queue pairs have the same device's GID. */
static void connect_to(struct flow *f, uint32_t peer)
{
	f->peer = peer;
	if (f->kind == KIND_UD)
		connect_ud(f);
	else
		end_connect(f->qp, peer, &end.gid);
	for (int i = 0; i < DEPTH; i++)
		post_recv(f);
}

/* --- the jobs of those processes --- */

enum job { JOB_CREATE, JOB_CONNECT, JOB_PING, JOB_PONG };

static uint64_t work(struct node *n, const struct side_job *job)
{
	struct flow *f = &flows[job->arg[1]][job->arg[2]];
	const uint64_t value = job->arg[3];

	(void)n;
	switch ((enum job)job->arg[0]) {
	case JOB_CREATE:
		open_once((int)value);
		f->kind = (enum kind)job->arg[1];
		f->bytes = sizes[job->arg[2]].bytes;
		f->elements = f->kind == KIND_TWO ? 2 : 1;
		create(f);
		return f->qp->qp_num;
	case JOB_CONNECT:
		connect_to(f, (uint32_t)value);
		return 0;
	case JOB_PING:
		return (uint64_t)(measure_ping(f, (int)value) * UNIT_NS);
	case JOB_PONG:
		pong(f, (int)value);
		return 0;
	}
	return 0;
}

/* --- here --- */

struct both {
	struct side a, b; /* a times */
};

static void begin(struct side *s, enum job job, enum kind kind, int size, uint64_t value)
{
	side_begin(s, &(struct side_job){{job, kind, (uint64_t)size, value}});
}

static uint64_t let(struct side *s, enum job job, enum kind kind, int size, uint64_t value)
{
	begin(s, job, kind, size, value);
	return side_end(s);
}

static void start(struct both *p, bool heap)
{
	if (heap ? setenv("LD_PRELOAD", HEAP_LIBRARY, 1) : unsetenv("LD_PRELOAD"))
		DIE("no memory");
	side_start(&p->a);
	side_start(&p->b);
}

static void stop(struct both *p)
{
	side_stop(&p->b);
	side_stop(&p->a);
}

static void set_up(struct both *p, enum kind kind, int size)
{
	uint32_t a = (uint32_t)let(&p->a, JOB_CREATE, kind, size, 0);
	uint32_t b = (uint32_t)let(&p->b, JOB_CREATE, kind, size, 1);

	(void)let(&p->a, JOB_CONNECT, kind, size, b);
	(void)let(&p->b, JOB_CONNECT, kind, size, a);
}

static double one_way_us(struct both *p, enum kind kind, int size)
{
	int batch = bench_count(sizes[size].turns, 2 * BATCHES) / BATCHES;
	uint64_t ps;

	begin(&p->b, JOB_PONG, kind, size, (uint64_t)(WARM_UP + batch * BATCHES));
	ps = let(&p->a, JOB_PING, kind, size, (uint64_t)(batch * BATCHES));
	(void)side_end(&p->b);
	return (double)ps / UNIT_NS / 1000;
}

/* The processes with the shared heap, and those without it. */
static struct both shared, apart;

static struct both *both_of(int kind)
{
	return kind == KIND_BY_CALLS ? &apart : &shared;
}

/* One line: the times, and another: what they are to those of the plain kind. */
static void print(struct series *us, const struct series *plain, enum kind kind, int size)
{
	struct series ratio = {0};
	char name[64];

	for (int i = 0; i < us->count; i++)
		series_add(&ratio, us->value[i] / plain->value[i]);
	snprintf(name, sizeof(name), "send_%s_us", kind_name[kind]);
	series_print(us, name, sizes[size].name);
	snprintf(name, sizeof(name), "send_%s/rq", kind_name[kind]);
	if (kind == KIND_BY_CALLS && sizes[size].bytes > 8)
		series_print(&ratio, name, sizes[size].name);
	else if (kind != KIND_RQ)
		series_print_most(&ratio, name, sizes[size].name, RATIO_MOST);
}

static void table(int size)
{
	struct series us[KINDS] = {0}, plain;

	for (int k = 0; k < KINDS; k++)
		if (exists(k, size))
			set_up(both_of(k), k, size);
	for (int i = 0; i < BENCH_RUNS; i++)
		for (int k = 0; k < KINDS; k++)
			if (exists(k, size))
				series_add(&us[k], one_way_us(both_of(k), k, size));
	plain = us[KIND_RQ]; /* printing sorts the values */
	for (int k = 0; k < KINDS; k++)
		if (exists(k, size))
			print(&us[k], &plain, k, size);
}

static void only(const char *kind, const char *bytes)
{
	for (int k = 0; k < KINDS; k++)
		for (int s = 0; s < SIZES; s++)
			if (!strcmp(kind, kind_name[k]) &&
			    strtoul(bytes, NULL, 10) == sizes[s].bytes && exists(k, s)) {
				set_up(both_of(k), k, s);
				printf("%.4f\n", one_way_us(both_of(k), k, s));
				return;
			}
	DIE("no SEND '%s' of %s bytes", kind, bytes);
}

int main(int argc, char **argv)
{
	time_limit(600);
	side_work = work;
	side_agent_main(argc, argv);
	setenv("ANYVERBS_DEVICES", "any0:mtu=4096", 1); /* for the longest datagram */
	start(&shared, true);
	start(&apart, false);
	if (argc == 3)
		only(argv[1], argv[2]);
	else
		for (int s = 0; s < SIZES; s++)
			table(s);
	stop(&apart);
	stop(&shared);
	return 0;
}
