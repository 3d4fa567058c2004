/* SPDX-License-Identifier: MIT */
#include "lib/side.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/pattern.h"
#include "lib/sandbox.h"

#define AGENT_WORD   "--agent"
#define ANSWER_LIMIT 120 /* seconds until the other process counts as hung */

enum op {
	OP_OPEN,
	OP_CLOSE,
	OP_CREATE_QP,
	OP_DESTROY_QP,
	OP_CONNECT,
	OP_MODIFY,
	OP_SET_STATE,
	OP_STATE,
	OP_PSNS,
	OP_QPN,
	OP_CREATE_CQ,
	OP_DESTROY_CQ,
	OP_POST_SEND,
	OP_POST_RECV,
	OP_POLL,
	OP_ASYNC,
	OP_ARM,
	OP_COMP_EVENT,
	OP_FILL,
	OP_CHECK,
	OP_POKE,
	OP_PEEK,
	OP_CLEAR_AREAS,
	OP_LOAD_AREAS,
	OP_CHECK_AREAS,
	OP_WORK,
};

struct call {
	enum op op;
	int i; /* queue pair or CQ */
	int n; /* a count, a state or a mask */
	unsigned int ms, later_ms;
	uint64_t offset, bytes, seed, from;
	union {
		struct node_qp_spec spec;
		struct node_link link;
		struct ibv_qp_attr attr;
		struct node_send send[NODE_LIST];
		struct node_recv recv[NODE_LIST];
		struct area areas[NODE_SGE];
		struct side_job job;
	};
};

struct reply {
	int ret;
	uint64_t value;
	unsigned int failures;
	union {
		struct node_info info;
		struct node_qp_spec spec;
		struct node_posted posted;
		struct node_event event;
		struct node_psns psns;
		struct ibv_wc wc[NODE_LIST];
	};
};

/* Number of bytes of a call to transfer. */
static size_t call_size(const struct call *c)
{
	switch (c->op) {
	case OP_POST_SEND:
		return offsetof(struct call, send) + (size_t)c->n * sizeof(c->send[0]);
	case OP_POST_RECV:
		return offsetof(struct call, recv) + (size_t)c->n * sizeof(c->recv[0]);
	case OP_CLEAR_AREAS:
	case OP_LOAD_AREAS:
	case OP_CHECK_AREAS:
		return offsetof(struct call, areas) + (size_t)c->n * sizeof(c->areas[0]);
	default:
		return offsetof(struct call, send) + sizeof(struct ibv_qp_attr);
	}
}

/* --- executing a call on a node -------------------------------------------------- */

static void do_objects(struct node *n, const struct call *c, struct reply *r)
{
	switch (c->op) {
	case OP_CREATE_QP:
		r->spec = c->spec;
		r->ret = node_create_qp(n, c->i, &r->spec);
		r->value = r->ret ? 0 : n->qp[c->i]->qp_num;
		break;
	case OP_DESTROY_QP:
		r->ret = node_destroy_qp(n, c->i);
		break;
	case OP_CONNECT:
		r->ret = node_connect(n, c->i, &c->link);
		break;
	case OP_MODIFY:
		r->ret = node_modify(n, c->i, (struct ibv_qp_attr *)(uintptr_t)&c->attr, c->n);
		break;
	case OP_SET_STATE:
		r->ret = node_set_state(n, c->i, (enum ibv_qp_state)c->n);
		break;
	case OP_STATE:
		r->ret = (int)node_state(n, c->i);
		break;
	case OP_PSNS:
		r->psns = node_psns(n, c->i);
		break;
	case OP_QPN:
		r->value = n->qp[c->i]->qp_num;
		break;
	case OP_CREATE_CQ:
		r->ret = node_create_cq(n, c->i, c->n, c->ms);
		break;
	case OP_DESTROY_CQ:
		r->ret = node_destroy_cq(n, c->i);
		break;
	default:
		DIE("call %d", (int)c->op);
	}
}

static void do_memory(struct node *n, const struct call *c, struct reply *r)
{
	switch (c->op) {
	case OP_FILL:
		pattern_fill(n->arena + c->offset, c->bytes, c->seed, c->from);
		break;
	case OP_CHECK:
		r->value =
			(uint64_t)pattern_check(n->arena + c->offset, c->bytes, c->seed, c->from);
		break;
	case OP_POKE:
		memcpy(n->arena + c->offset, &c->seed, sizeof(c->seed));
		break;
	case OP_PEEK:
		memcpy(&r->value, n->arena + c->offset, sizeof(r->value));
		break;
	case OP_CLEAR_AREAS:
		areas_clear(n->arena, c->areas, c->n);
		break;
	case OP_LOAD_AREAS:
		areas_load(n->arena, c->areas, c->n, c->seed);
		break;
	case OP_CHECK_AREAS:
		r->value = (uint64_t)areas_check(n->arena, c->areas, c->n, c->seed, c->bytes);
		break;
	default:
		do_objects(n, c, r);
	}
}

static void execute(struct node *n, const struct call *c, struct reply *r)
{
	switch (c->op) {
	case OP_OPEN:
		node_open(n, NULL);
		r->info = n->info;
		break;
	case OP_CLOSE:
		node_close(n);
		break;
	case OP_POST_SEND:
		r->posted = node_post_send(n, c->i, c->send, c->n);
		break;
	case OP_POST_RECV:
		r->posted = node_post_recv(n, c->i, c->recv, c->n);
		break;
	case OP_POLL:
		r->ret = node_poll(n, c->i, c->n, c->ms, r->wc);
		break;
	case OP_ASYNC:
		r->event = node_async(n, c->ms);
		break;
	case OP_ARM:
		r->ret = node_arm(n, c->i, c->n);
		break;
	case OP_COMP_EVENT:
		r->ret = node_comp_event(n, c->ms);
		break;
	case OP_WORK:
		r->value = side_work(n, &c->job);
		break;
	default:
		do_memory(n, c, r);
	}
}

uint64_t (*side_work)(struct node *n, const struct side_job *job);
static int agent_sock;

void side_note(void)
{
	const char note = 0;

	(void)!send(agent_sock, &note, sizeof(note), MSG_NOSIGNAL);
}

void side_agent_main(int argc, char **argv)
{
	static struct call c;
	static struct reply r;
	struct node node;

	if (argc != 3 || strcmp(argv[1], AGENT_WORD))
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	agent_sock = atoi(argv[2]);
	row("(agent)");
	while (recv(agent_sock, &c, sizeof(c), 0) > 0) {
		memset(&r, 0, sizeof(r));
		if (!c.later_ms)
			execute(&node, &c, &r);
		r.failures = failures();
		if (send(agent_sock, &r, sizeof(r), MSG_NOSIGNAL) != sizeof(r) || c.op == OP_CLOSE)
			break;
		if (c.later_ms) {
			usleep(c.later_ms * 1000); /* side_later() asks for a time */
			execute(&node, &c, &r);
		}
	}
	exit(0);
}

void sides_begin(int argc, char **argv, unsigned int seconds)
{
	side_agent_main(argc, argv);
	sandbox_begin(seconds);
}

/* --- the caller's end ------------------------------------------------------------ */

static struct reply *side_answer(struct side *s, const struct call *c)
{
	static struct reply r;

	memset(&r, 0, sizeof(r));
	/* The wait is interrupted if the process was stopped meanwhile. */
	if (TEMP_FAILURE_RETRY(recv(s->sock, &r, sizeof(r), 0)) != sizeof(r))
		DIE("call %d: no answer from the other process", (int)c->op);
	EXPECT(r.failures == 0, "%u failures in the other process", r.failures);
	return &r;
}

static struct reply *side_call(struct side *s, struct call *c)
{
	static struct reply r;

	memset(&r, 0, sizeof(r));
	c->later_ms = s->later_ms;
	s->later_ms = 0;
	if (s->node) {
		execute(s->node, c, &r);
		return &r;
	}
	if (send(s->sock, c, call_size(c), MSG_NOSIGNAL) < 0)
		DIE("call %d: the other process is gone", (int)c->op);
	return side_answer(s, c);
}

void side_begin(struct side *s, const struct side_job *job)
{
	struct call c = {.op = OP_WORK, .job = *job};

	if (send(s->sock, &c, call_size(&c), MSG_NOSIGNAL) < 0)
		DIE("the other process is gone");
}

uint64_t side_end(struct side *s)
{
	const struct call c = {.op = OP_WORK};

	return side_answer(s, &c)->value;
}

void side_await(struct side *s)
{
	char note;

	if (TEMP_FAILURE_RETRY(recv(s->sock, &note, sizeof(note), MSG_TRUNC)) != sizeof(note))
		DIE("the other process does not come so far");
}

void side_later(struct side *s, unsigned int ms)
{
	if (s->node)
		DIE("side_later() in this process");
	s->later_ms = ms;
}

void side_start(struct side *s)
{
	struct timeval limit = {.tv_sec = ANSWER_LIMIT};
	char number[16], exe[] = "/proc/self/exe", word[] = AGENT_WORD;
	char *argv[] = {exe, word, number, NULL};
	struct call c = {.op = OP_OPEN};
	int pair[2];

	*s = (struct side){.sock = -1};
	NEED(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
	fcntl(pair[0], F_SETFD, FD_CLOEXEC);
	snprintf(number, sizeof(number), "%d", pair[1]);
	setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (posix_spawn(&s->pid, exe, NULL, NULL, argv, environ))
		DIE("posix_spawn");
	close(pair[1]);
	s->sock = pair[0];
	s->info = side_call(s, &c)->info;
}

void side_open(struct side *s, struct ibv_context *shared)
{
	*s = (struct side){.sock = -1, .node = malloc(sizeof(*s->node))};
	node_open(s->node, shared);
	s->info = s->node->info;
}

void side_stop(struct side *s)
{
	struct call c = {.op = OP_CLOSE};
	int status = 0;

	(void)side_call(s, &c);
	free(s->node);
	if (s->sock < 0)
		return;
	EXPECT(waitpid(s->pid, &status, 0) == s->pid && status == 0,
	       "the other process ended with status 0x%x", status);
	close(s->sock);
}

int side_bury(struct side *s)
{
	int status;

	if (waitpid(s->pid, &status, 0) != s->pid)
		DIE("waitpid");
	close(s->sock);
	*s = (struct side){0};
	return status;
}

void side_kill(struct side *s)
{
	if (kill(s->pid, SIGKILL))
		DIE("kill: errno %d", errno);
	side_bury(s);
}

void side_suspend(struct side *s)
{
	int status;

	kill(s->pid, SIGSTOP);
	NEED(waitpid(s->pid, &status, WUNTRACED) == s->pid && WIFSTOPPED(status));
}

int side_create_qp(struct side *s, int qp, struct node_qp_spec *spec, uint32_t *qpn)
{
	struct call c = {.op = OP_CREATE_QP, .i = s->first_qp + qp, .spec = *spec};
	struct reply *r = side_call(s, &c);

	*spec = r->spec;
	if (qpn)
		*qpn = (uint32_t)r->value;
	return r->ret;
}

int side_destroy_qp(struct side *s, int qp)
{
	struct call c = {.op = OP_DESTROY_QP, .i = s->first_qp + qp};

	return side_call(s, &c)->ret;
}

int side_connect(struct side *s, int qp, const struct node_link *link)
{
	struct call c = {.op = OP_CONNECT, .i = s->first_qp + qp, .link = *link};

	return side_call(s, &c)->ret;
}

int side_modify(struct side *s, int qp, struct ibv_qp_attr *attr, int mask)
{
	struct call c = {.op = OP_MODIFY, .i = s->first_qp + qp, .n = mask, .attr = *attr};

	return side_call(s, &c)->ret;
}

int side_set_state(struct side *s, int qp, enum ibv_qp_state state)
{
	struct call c = {.op = OP_SET_STATE, .i = s->first_qp + qp, .n = (int)state};

	return side_call(s, &c)->ret;
}

enum ibv_qp_state side_state(struct side *s, int qp)
{
	struct call c = {.op = OP_STATE, .i = s->first_qp + qp};

	return (enum ibv_qp_state)side_call(s, &c)->ret;
}

uint32_t side_qpn(struct side *s, int qp)
{
	struct call c = {.op = OP_QPN, .i = s->first_qp + qp};

	return (uint32_t)side_call(s, &c)->value;
}

struct node_psns side_psns(struct side *s, int qp)
{
	struct call c = {.op = OP_PSNS, .i = s->first_qp + qp};

	return side_call(s, &c)->psns;
}

int side_create_cq(struct side *s, int cq, int cqe, bool channel)
{
	struct call c = {.op = OP_CREATE_CQ, .i = cq, .n = cqe, .ms = channel};

	return side_call(s, &c)->ret;
}

int side_destroy_cq(struct side *s, int cq)
{
	struct call c = {.op = OP_DESTROY_CQ, .i = cq};

	return side_call(s, &c)->ret;
}

struct node_posted side_post_send(struct side *s, int qp, const struct node_send *list, int count)
{
	static struct call c;

	c.op = OP_POST_SEND;
	c.i = s->first_qp + qp;
	c.n = count;
	memcpy(c.send, list, (size_t)count * sizeof(*list));
	return side_call(s, &c)->posted;
}

struct node_posted side_post_recv(struct side *s, int qp, const struct node_recv *list, int count)
{
	static struct call c;

	c.op = OP_POST_RECV;
	c.i = s->first_qp + qp;
	c.n = count;
	memcpy(c.recv, list, (size_t)count * sizeof(*list));
	return side_call(s, &c)->posted;
}

int side_poll(struct side *s, int cq, int want, unsigned int ms, struct ibv_wc *wc)
{
	struct call c = {.op = OP_POLL, .i = cq, .n = want, .ms = ms};
	struct reply *r = side_call(s, &c);

	if (r->ret > 0)
		memcpy(wc, r->wc, (size_t)r->ret * sizeof(*wc));
	return r->ret;
}

void side_expect_sent(struct side *s, int count, unsigned int ms, enum ibv_wc_status first)
{
	enum ibv_wc_status rest = first == IBV_WC_SUCCESS ? first : IBV_WC_WR_FLUSH_ERR;
	struct ibv_wc wc[NODE_LIST];
	int n = side_poll(s, 0, count, ms, wc);

	EXPECT(n == count, "%d completions", n);
	for (int i = 0; i < n; i++)
		EXPECT(wc[i].wr_id == (uint64_t)i && wc[i].status == (i ? rest : first),
		       "request %d: wr_id %lu, %s", i, wc[i].wr_id,
		       ibv_wc_status_str(wc[i].status));
}

struct node_event side_async(struct side *s, unsigned int ms)
{
	struct call c = {.op = OP_ASYNC, .ms = ms};
	struct node_event e = side_call(s, &c)->event;

	if (e.qp >= 0)
		e.qp -= s->first_qp;
	return e;
}

struct node_event side_own_async(struct side *s, unsigned int ms)
{
	struct node_event e;

	do
		e = side_async(s, ms);
	while (e.any && e.type == IBV_EVENT_GID_CHANGE);
	return e;
}

int side_arm(struct side *s, int cq, int solicited_only)
{
	struct call c = {.op = OP_ARM, .i = cq, .n = solicited_only};

	return side_call(s, &c)->ret;
}

int side_comp_event(struct side *s, unsigned int ms)
{
	struct call c = {.op = OP_COMP_EVENT, .ms = ms};

	return side_call(s, &c)->ret;
}

void side_fill(struct side *s, uint64_t offset, uint64_t bytes, uint64_t seed, uint64_t from)
{
	struct call c = {
		.op = OP_FILL, .offset = offset, .bytes = bytes, .seed = seed, .from = from};

	(void)side_call(s, &c);
}

int64_t side_check(struct side *s, uint64_t offset, uint64_t bytes, uint64_t seed, uint64_t from)
{
	struct call c = {
		.op = OP_CHECK, .offset = offset, .bytes = bytes, .seed = seed, .from = from};

	return (int64_t)side_call(s, &c)->value;
}

void side_poke(struct side *s, uint64_t offset, uint64_t word)
{
	struct call c = {.op = OP_POKE, .offset = offset, .seed = word};

	(void)side_call(s, &c);
}

uint64_t side_peek(struct side *s, uint64_t offset)
{
	struct call c = {.op = OP_PEEK, .offset = offset};

	return side_call(s, &c)->value;
}

static uint64_t call_areas(struct side *s, enum op op, const struct area *areas, int count,
			   uint64_t seed, uint64_t bytes)
{
	struct call c = {.op = op, .n = count, .seed = seed, .bytes = bytes};

	memcpy(c.areas, areas, (size_t)count * sizeof(*areas));
	return side_call(s, &c)->value;
}

void side_clear_areas(struct side *s, const struct area *areas, int count)
{
	(void)call_areas(s, OP_CLEAR_AREAS, areas, count, 0, 0);
}

void side_load_areas(struct side *s, const struct area *areas, int count, uint64_t seed)
{
	(void)call_areas(s, OP_LOAD_AREAS, areas, count, seed, 0);
}

int64_t side_check_areas(struct side *s, const struct area *areas, int count, uint64_t seed,
			 uint64_t bytes)
{
	return (int64_t)call_areas(s, OP_CHECK_AREAS, areas, count, seed, bytes);
}

struct ibv_sge side_sge(const struct side *s, enum key key, uint64_t offset, uint32_t bytes)
{
	return (struct ibv_sge){
		.addr = s->info.base[key] + offset, .length = bytes, .lkey = s->info.lkey[key]};
}

struct node_send side_rdma(enum ibv_wr_opcode op, struct ibv_sge sge, uint64_t addr, uint32_t rkey)
{
	return (struct node_send){.opcode = op,
				  .flags = IBV_SEND_SIGNALED,
				  .num_sge = 1,
				  .sge = {sge},
				  .remote_addr = addr,
				  .rkey = rkey};
}

struct node_send side_rdma_to(enum ibv_wr_opcode op, struct ibv_sge sge, const struct side *to,
			      uint64_t offset)
{
	return side_rdma(op, sge, to->info.base[KEY_FULL] + offset, to->info.key[KEY_FULL]);
}

struct node_send side_message(struct ibv_sge sge)
{
	return side_rdma(IBV_WR_SEND, sge, 0, 0);
}

void side_recv_one(struct side *s, int qp, uint64_t wr_id, uint64_t offset, uint32_t bytes)
{
	struct node_recv r = {
		.wr_id = wr_id, .num_sge = 1, .sge = {side_sge(s, KEY_FULL, offset, bytes)}};
	struct node_posted posted = side_post_recv(s, qp, &r, 1);

	EXPECT(posted.ret == 0, "ibv_post_recv: %d", posted.ret);
}

/* --- pairs ----------------------------------------------------------------------- */

struct node_link link_default(void)
{
	return (struct node_link){
		.sq_psn = 0x101,
		.rq_psn = 0x101,
		.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
		.mtu = IBV_MTU_1024,
		.timeout = on_the_wire() ? 15 : 10, /* 134 ms, or 4.2 ms */
		.retry_cnt = on_the_wire() ? 7 : 3,
		.rnr_retry = 7,	     /* as long as the peer lives */
		.min_rnr_timer = 12, /* 0.64 ms */
		.rd_atomic = 4,
		.dest_rd_atomic = 4,
		.to = IBV_QPS_RTS,
	};
}

struct node_qp_spec spec_default(void)
{
	return (struct node_qp_spec){
		.cap = {.max_send_wr = 16,
			.max_recv_wr = 16,
			.max_send_sge = NODE_SGE,
			.max_recv_sge = NODE_SGE,
			.max_inline_data = 512},
		.send_cq = 0,
		.recv_cq = 1,
	};
}

static bool same_qp(const struct side *a, int qa, const struct side *b, int qb)
{
	return a->node && a->node == b->node && a->first_qp + qa == b->first_qp + qb;
}

void pair_create(struct side *a, int qa, struct side *b, int qb, const struct node_qp_spec *spec)
{
	struct node_qp_spec sa = spec ? *spec : spec_default(), sb = sa;
	int ret = side_create_qp(a, qa, &sa, NULL);

	if (ret == 0 && !same_qp(a, qa, b, qb))
		ret = side_create_qp(b, qb, &sb, NULL);
	if (ret)
		DIE("ibv_create_qp: errno %d", ret);
}

void pair_connect(struct side *a, int qa, const struct node_link *la, struct side *b, int qb,
		  const struct node_link *lb)
{
	struct node_link to_b = la ? *la : link_default(), to_a = lb ? *lb : link_default();
	int ret;

	to_b.dest_qpn = side_qpn(b, qb);
	to_b.dgid = b->info.gid;
	to_a.dest_qpn = side_qpn(a, qa);
	to_a.dgid = a->info.gid;
	ret = side_connect(b, qb, &to_a);
	if (ret == 0 && !same_qp(a, qa, b, qb))
		ret = side_connect(a, qa, &to_b);
	if (ret)
		DIE("connecting: %d", ret);
}

void pair_destroy(struct side *a, int qa, struct side *b, int qb)
{
	EXPECT(side_destroy_qp(a, qa) == 0, "ibv_destroy_qp");
	if (!same_qp(a, qa, b, qb))
		EXPECT(side_destroy_qp(b, qb) == 0, "ibv_destroy_qp");
}

void side_set_patience(struct side *s, int qp, uint8_t timeout, uint8_t retry_cnt)
{
	struct ibv_qp_attr attr = {.timeout = timeout, .retry_cnt = retry_cnt};

	if (side_set_state(s, qp, IBV_QPS_SQD) ||
	    side_modify(s, qp, &attr, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT) ||
	    side_set_state(s, qp, IBV_QPS_RTS))
		DIE("another patience");
}

void side_connect_uc_to_itself(struct side *s, int qp, unsigned int access)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access};

	NEED(side_modify(s, qp, &attr,
			 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ==
	     0);
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = side_qpn(s, qp),
		.ah_attr = {.is_global = 1, .port_num = 1, .grh.dgid = s->info.gid}};
	NEED(side_modify(s, qp, &attr,
			 IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				 IBV_QP_RQ_PSN) == 0);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS};
	NEED(side_modify(s, qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
}

void sides_open(struct side *here, struct side *there)
{
	sandbox_enter();
	side_start(there);
	side_open(here, NULL);
}
