/* SPDX-License-Identifier: MIT */
/*
 * Children of a process that uses the device: whatever they do and however they end, their parent's
 * traffic with another process goes on; and they can open the device themselves.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/pattern.h"
#include "lib/sandbox.h"
#include "lib/two_sides.h"
#include "lib/wait.h"

#define PATIENCE    20000u
#define CHILD_LIMIT 100 /* seconds */
#define STORM_MS    3000u
#define OURS	    0x10000u  /* buffers in the arena: what is sent, */
#define BACK	    0x100000u /* what comes back, */
#define THEIRS	    0x200000u /* where the other process receives, */
#define COPY	    0x300000u /* and where it is written to */
#define READ_BACK   0x400000u
#define TALK	    0x500000u /* between parent and child */
#define HEARD	    0x600000u
#define ECHO_QP	    0
#define CHILD_QP    1
#define BYTES	    40000u

static bool is_child;
static unsigned int inherited_failures;

static int own_failures(void)
{
	return failures() != inherited_failures;
}

/* The leak checker cannot see what threads held that do not exist in a child. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
	return is_child;
}

/* --- the other process sends back what it receives ------------------------------- */

static uint64_t echo(struct node *n, const struct side_job *job)
{
	struct node_recv recv = {
		.num_sge = 1,
		.sge = {{n->info.base[KEY_FULL] + THEIRS, BYTES, n->info.lkey[KEY_FULL]}}};
	struct node_send send = {.opcode = IBV_WR_SEND, .flags = IBV_SEND_SIGNALED, .num_sge = 1};
	uint64_t count = 0;

	for (;; count++) {
		struct ibv_wc wc;

		if (node_post_recv(n, ECHO_QP, &recv, 1).ret ||
		    node_poll(n, 1, 1, 20000, &wc) != 1 || wc.status != IBV_WC_SUCCESS)
			DIE("echo: no message");
		send.sge[0] = recv.sge[0];
		send.sge[0].length = wc.byte_len;
		if (node_post_send(n, ECHO_QP, &send, 1).ret ||
		    node_poll(n, 0, 1, PATIENCE, &wc) != 1 || wc.status != IBV_WC_SUCCESS)
			DIE("echo: no answer");
		if (send.sge[0].length == job->arg[0])
			return count;
	}
}

/* --- this process' traffic, in a thread of its own ------------------------------- */

static struct {
	pthread_t thread;
	_Atomic bool stop;
	_Atomic uint64_t rounds;
	const char *_Atomic failed;
} traffic;

static bool one(struct node_send *s, uint64_t offset, uint32_t bytes)
{
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};

	s->flags = IBV_SEND_SIGNALED;
	s->num_sge = 1;
	s->sge[0] = side_sge(&a, KEY_FULL, offset, bytes);
	return node_post_send(a.node, ECHO_QP, s, 1).ret == 0 &&
	       node_poll(a.node, 0, 1, PATIENCE, &wc) == 1 && wc.status == IBV_WC_SUCCESS;
}

/* A message there and back, a WRITE and a READ of it, and an atomic. Return: what failed, NULL:
 * nothing */
static const char *one_round(uint64_t seed, uint32_t bytes)
{
	struct node_recv recv = {.num_sge = 1, .sge = {side_sge(&a, KEY_FULL, BACK, BYTES)}};
	struct node_send s = {.remote_addr = b.info.base[KEY_FULL] + COPY,
			      .rkey = b.info.key[KEY_FULL]};
	struct ibv_wc wc;

	pattern_fill(a.node->arena + OURS, bytes, seed, 0);
	s.opcode = IBV_WR_SEND;
	if (node_post_recv(a.node, ECHO_QP, &recv, 1).ret || !one(&s, OURS, bytes))
		return "SEND";
	if (node_poll(a.node, 1, 1, PATIENCE, &wc) != 1 || wc.status != IBV_WC_SUCCESS)
		return "receive";
	if (pattern_check(a.node->arena + BACK, bytes, seed, 0) != -1)
		return "bytes of the message";
	s.opcode = IBV_WR_RDMA_WRITE;
	if (!one(&s, OURS, bytes))
		return "WRITE";
	memset(a.node->arena + BACK, 0, bytes);
	s.opcode = IBV_WR_RDMA_READ;
	if (!one(&s, BACK, bytes))
		return "READ";
	if (pattern_check(a.node->arena + BACK, bytes, seed, 0) != -1)
		return "bytes of WRITE and READ";
	s.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	return one(&s, BACK, 8) ? NULL : "atomic";
}

static void *traffic_main(void *arg)
{
	static const uint32_t sizes[] = {8, 4000, BYTES - 1};

	for (uint64_t i = 1; !traffic.stop && !traffic.failed; i++, traffic.rounds++)
		traffic.failed = one_round(i, sizes[i % COUNT_OF(sizes)]);
	return arg;
}

static void traffic_start(void)
{
	struct side_job job = {.arg = {BYTES}};
	struct node_link patient = link_default();

	patient.rnr_retry = 7;
	patient.timeout = 18; /* a second */
	pair_create(&a, ECHO_QP, &b, ECHO_QP, NULL);
	pair_connect(&a, ECHO_QP, &patient, &b, ECHO_QP, &patient);
	side_begin(&b, &job);
	NEED(pthread_create(&traffic.thread, NULL, traffic_main, NULL) == 0);
}

static void traffic_stop(void)
{
	row("the traffic went on all the time");
	traffic.stop = true;
	pthread_join(traffic.thread, NULL);
	EXPECT(!traffic.failed, "%s failed in round %lu", traffic.failed, traffic.rounds);
	EXPECT(traffic.rounds > 10, "only %lu rounds", traffic.rounds);
	if (!traffic.failed) { /* else the other process waits in vain, and says so */
		const char *last = one_round(1, BYTES);

		EXPECT(!last, "%s", last);
		EXPECT(side_end(&b) == traffic.rounds, "another number of messages arrived");
		pair_destroy(&a, ECHO_QP, &b, ECHO_QP);
	}
}

static void expect_traffic(void)
{
	uint64_t rounds = traffic.rounds;

	(void)WAIT_UNTIL(traffic.rounds >= rounds + 2 || traffic.failed, PATIENCE);
	EXPECT(!traffic.failed, "the parent's %s failed", traffic.failed);
	EXPECT(traffic.rounds >= rounds + 2, "the parent's traffic stands still");
	if (traffic.failed)
		DIE("nothing more to see");
}

/* --- children -------------------------------------------------------------------- */

static void after_all(void)
{
	free(malloc(100));
}

static void child_allocates(void)
{
	void *p[200];

	for (size_t i = 0; i < COUNT_OF(p); i++) {
		p[i] = malloc(i * 1000 + 1);
		memset(p[i], 1, i * 1000 + 1);
	}
	for (size_t i = 0; i < COUNT_OF(p); i++)
		free(p[i]);
	memset(a.node->arena, 0xee, NODE_ARENA); /* its own copy */
	_exit(0);
}

static void child_exits(void)
{
	atexit(after_all);
	exit(0);
}

static void child_ends(void)
{
	_exit(0);
}

static void child_executes(void)
{
	execl("/bin/true", "true", NULL);
	_exit(1);
}

static void child_is_killed(void)
{
	kill(getpid(), SIGKILL);
}

static void child_closes(void)
{
	node_close(a.node);
	exit(own_failures());
}

static void child_closes_some(void)
{
	EXPECT(ibv_destroy_qp(a.node->qp[ECHO_QP]) == 0, "ibv_destroy_qp");
	EXPECT(ibv_dereg_mr(a.node->mr[KEY_FULL]) == 0, "ibv_dereg_mr");
	_exit(own_failures());
}

/* What inherited objects are asked to do is refused, or at least harms nobody. */
static void child_misuses(void)
{
	struct node_send s = {.opcode = IBV_WR_SEND, .flags = IBV_SEND_SIGNALED};
	struct node_recv r = {.num_sge = 0};
	struct ibv_wc wc;

	EXPECT(node_post_send(a.node, ECHO_QP, &s, 1).ret != 0, "ibv_post_send");
	EXPECT(node_post_recv(a.node, ECHO_QP, &r, 1).ret != 0, "ibv_post_recv");
	EXPECT(node_set_state(a.node, ECHO_QP, IBV_QPS_ERR) != 0, "ibv_modify_qp");
	EXPECT(ibv_poll_cq(a.node->cq[1], 1, &wc) <= 0, "ibv_poll_cq");
	EXPECT(!ibv_create_cq(a.node->ctx, 10, NULL, NULL, 0), "ibv_create_cq");
	EXPECT(!ibv_reg_mr(a.node->pd, a.node->arena, 4096, 0), "ibv_reg_mr");
	_exit(own_failures());
}

static void child_opens_and(void (*end)(int status))
{
	struct node_link patient = link_default();
	struct side own;
	struct ibv_wc wc;

	patient.rnr_retry = 7; /* however long it takes to post the receive */
	side_open(&own, NULL);
	pair_create(&own, 0, &own, 0,
		    NULL); /* with itself; the message waits, so that there is a timer, too */
	pair_connect(&own, 0, &patient, &own, 0, &patient);
	EXPECT(side_post_send(
		       &own, 0,
		       &(struct node_send){.opcode = IBV_WR_SEND, .flags = IBV_SEND_SIGNALED}, 1)
			       .ret == 0,
	       "ibv_post_send");
	side_recv_one(&own, 0, 1, 0, 8);
	EXPECT(side_poll(&own, 0, 1, PATIENCE, &wc) == 1 && wc.status == IBV_WC_SUCCESS,
	       "its own message");
	if (end == exit)
		side_stop(&own);
	end(own_failures());
}

static void child_opens(void)
{
	child_opens_and(exit);
}

/* Leaves everything behind. */
static void child_opens_and_ends(void)
{
	child_opens_and(_exit);
}

static void child_closes_and_opens(void)
{
	node_close(a.node);
	child_opens_and(exit);
}

static void child_opens_and_closes_inherited(void)
{
	struct side own;

	side_open(&own, NULL);
	node_close(a.node);
	side_stop(&own);
	exit(own_failures());
}

static pid_t start_child(void (*what)(void))
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid < 0)
		DIE("fork: errno %d", errno);
	if (pid)
		return pid;
	is_child = true;
	inherited_failures = failures();
	time_limit(CHILD_LIMIT);
	what();
	_exit(1);
}

static void expect_end(pid_t pid, bool killed)
{
	int status = 0, want = killed ? SIGKILL : 0;

	EXPECT(waitpid(pid, &status, 0) == pid && status == want,
	       "the child ended with status 0x%x", status);
	EXPECT(sandbox_entries() > 0, "the child removed the shared folder");
}

/* A child of a child. */
static void child_has_children(void)
{
	expect_end(start_child(child_opens), false);
	expect_end(start_child(child_closes), false);
	expect_end(start_child(child_exits), false);
	child_opens_and(exit);
}

/* From a child that has opened the device: its own is inherited in turn. */
static void child_opens_and_forks(void)
{
	struct side own;

	side_open(&own, NULL);
	expect_end(start_child(child_exits), false);
	expect_end(start_child(child_closes_and_opens), false);
	expect_end(start_child(child_is_killed), true);
	side_stop(&own);
	exit(own_failures());
}

static const struct kind {
	const char *name;
	void (*what)(void);
	bool killed;
} kinds[] = {
	{"allocates, and ends", child_allocates, false},
	{"exits, with handlers and destructors", child_exits, false},
	{"ends at once", child_ends, false},
	{"executes a program", child_executes, false},
	{"is killed", child_is_killed, true},
	{"closes what it inherited", child_closes, false},
	{"closes some of it, and ends", child_closes_some, false},
	{"misuses what it inherited", child_misuses, false},
	{"opens the device", child_opens, false},
	{"opens the device and ends without closing it", child_opens_and_ends, false},
	{"closes what it inherited and opens the device", child_closes_and_opens, false},
	{"opens the device and closes what it inherited", child_opens_and_closes_inherited, false},
	{"has children", child_has_children, false},
	{"opens the device and has children", child_opens_and_forks, false},
};

static void kind_rows(void)
{
	for (size_t i = 0; i < COUNT_OF(kinds); i++) {
		row("a child that %s", kinds[i].name);
		for (unsigned int n = 0; n < 5; n++)
			expect_end(start_child(kinds[i].what), kinds[i].killed);
		expect_traffic();
	}
}

/* Queries of what was inherited must not disturb a parent that posts at the same time. */
static void child_queries(void)
{
	uint64_t end = now_ms() + 50;

	while (now_ms() < end && !own_failures()) {
		EXPECT(node_state(a.node, ECHO_QP) == IBV_QPS_UNKNOWN, "ibv_query_qp");
		EXPECT(ibv_req_notify_cq(a.node->cq[0], 0) != 0, "ibv_req_notify_cq");
	}
	_exit(own_failures());
}

static void query_row(void)
{
	row("a child that queries what it inherited");
	expect_end(start_child(child_queries), false);
	expect_traffic();
}

/* --- objects that others keep busy ------------------------------------------------ */

#define SHARERS 3

static struct {
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp[SHARERS];
	struct ibv_qp *member; /* of a multicast group */
} shared;

static const union ibv_gid group = {.raw = {0xff, 0x0e, [15] = 7}};

static void create_shared(void)
{
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_qp_init_attr init = {.cap = {.max_send_wr = 4}, .qp_type = IBV_QPT_RC};

	NEED((shared.pd = ibv_alloc_pd(a.node->ctx)));
	NEED((shared.cq = ibv_create_cq(a.node->ctx, 16, NULL, NULL, 0)));
	NEED((shared.srq = ibv_create_srq(shared.pd, &srq)));
	init.send_cq = init.recv_cq = shared.cq;
	init.srq = shared.srq;
	for (size_t i = 0; i < SHARERS; i++)
		NEED((shared.qp[i] = ibv_create_qp(shared.pd, &init)));
	init.srq = NULL;
	init.qp_type = IBV_QPT_UD;
	NEED((shared.member = ibv_create_qp(shared.pd, &init)));
	NEED(ibv_attach_mcast(shared.member, &group, 0) == 0);
}

/* In the order that is possible, and no other. */
static void destroy_shared(void)
{
	for (size_t i = 0; i < SHARERS; i++) {
		EXPECT_RET(ibv_destroy_srq(shared.srq), EBUSY);
		EXPECT_RET(ibv_destroy_qp(shared.qp[i]), 0);
	}
	EXPECT_RET(ibv_destroy_srq(shared.srq), 0);
	EXPECT_RET(ibv_destroy_qp(shared.member), 0);
	EXPECT_RET(ibv_dealloc_pd(shared.pd), 0);
	EXPECT_RET(ibv_destroy_cq(shared.cq), 0);
}

static void child_destroys_shared(void)
{
	destroy_shared();
	_exit(own_failures());
}

static void shared_row(void)
{
	row("a child that destroys a shared receive queue, what uses it, and a multicast group's");
	create_shared();
	expect_end(start_child(child_destroys_shared), false);
	EXPECT_RET(ibv_destroy_qp(shared.member), EBUSY);
	EXPECT_RET(ibv_detach_mcast(shared.member, &group, 0), 0);
	destroy_shared();
	expect_traffic();
}

/* --- forks while other threads are in the library -------------------------------- */

static _Atomic bool churning;

/* Everything is made and ended, again and again: all locks are held at times. */
static void *churn(void *arg)
{
	while (churning) {
		struct ibv_context *ctx =
			ibv_open_device(a.node->ctx->device); /* no list: libibverbs' own lock */
		struct side own;

		NEED(ctx);
		side_open(&own, ctx);
		pair_create(&own, 0, &own, 0, NULL);
		pair_connect(&own, 0, NULL, &own, 0, NULL);
		(void)side_post_send(&own, 0, &(struct node_send){.opcode = IBV_WR_SEND},
				     1); /* starts a timer */
		side_stop(&own);
		EXPECT(ibv_close_device(ctx) == 0, "ibv_close_device");
	}
	return arg;
}

static void *churn_objects(void *arg)
{
	struct node *n = a.node;

	while (churning) {
		struct ibv_pd *pd = ibv_alloc_pd(n->ctx);
		struct ibv_comp_channel *channel = ibv_create_comp_channel(n->ctx);
		struct ibv_cq *cq = ibv_create_cq(n->ctx, 10, NULL, channel, 0);
		struct ibv_mr *mr = ibv_reg_mr(pd, n->arena, 4096, IBV_ACCESS_LOCAL_WRITE);

		if (!pd || !channel || !cq || !mr)
			DIE("an object: errno %d", errno);
		(void)(ibv_dereg_mr(mr) | ibv_destroy_cq(cq) | ibv_destroy_comp_channel(channel) |
		       ibv_dealloc_pd(pd));
	}
	return arg;
}

/* Everything but closing the context, which holds the other thread's objects. */
static void child_closes_its_objects(void)
{
	a.node->borrowed_ctx = true;
	node_close(a.node);
	exit(own_failures());
}

static void storm(const char *name, unsigned int ms, unsigned int threads)
{
	static void *(*const mains[])(void *) = {churn_objects, churn};
	uint64_t end = now_ms() + ms;
	unsigned int forks = 0;
	pthread_t thread[2];

	row("%s", name);
	churning = true;
	for (unsigned int i = 0; i < threads; i++)
		NEED(pthread_create(&thread[i], NULL, mains[i], NULL) == 0);
	for (; (now_ms() < end || forks <= COUNT_OF(kinds)) && failures() == 0; forks++) {
		const struct kind *k = &kinds[forks % COUNT_OF(kinds)];

		row("%s: a child that %s", name, k->name);
		expect_end(start_child(threads && k->what == child_closes ? child_closes_its_objects
									  : k->what),
			   k->killed);
	}
	churning = false;
	for (unsigned int i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	expect_traffic();
}

/* --- parent and child as peers --------------------------------------------------- */

struct meeting {
	_Atomic uint32_t child_qpn, parent_ready, child_done;
	struct node_info info;
};

static struct meeting *meeting;

/* Requests of one side to the other, both in this row's turn; the other polls for nothing. */
static void access_peer(struct side *from, int qp, int cq, const struct node_info *to,
			uint64_t seed)
{
	struct node_send s = side_rdma(IBV_WR_RDMA_WRITE, side_sge(from, KEY_FULL, TALK, BYTES),
				       to->base[KEY_FULL] + COPY, to->key[KEY_FULL]);
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};

	side_fill(from, TALK, BYTES, seed, 0);
	EXPECT(side_post_send(from, qp, &s, 1).ret == 0 &&
		       side_poll(from, cq, 1, PATIENCE, &wc) == 1 && wc.status == IBV_WC_SUCCESS,
	       "WRITE: '%s'", ibv_wc_status_str(wc.status));
	s.opcode = IBV_WR_RDMA_READ;
	s.sge[0] = side_sge(from, KEY_FULL, READ_BACK, BYTES);
	EXPECT(side_post_send(from, qp, &s, 1).ret == 0 &&
		       side_poll(from, cq, 1, PATIENCE, &wc) == 1 && wc.status == IBV_WC_SUCCESS,
	       "READ: '%s'", ibv_wc_status_str(wc.status));
	EXPECT(side_check(from, READ_BACK, BYTES, seed, 0) == -1, "bytes");
}

/* A message each way. */
static void talk(struct side *s, int qp, int send_cq, int recv_cq, uint64_t mine, uint64_t theirs,
		 uint32_t bytes)
{
	struct node_send wr = side_message(side_sge(s, KEY_FULL, TALK, bytes));
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};

	side_fill(s, TALK, bytes, mine, 0);
	side_recv_one(s, qp, 1, HEARD, bytes);
	EXPECT(side_post_send(s, qp, &wr, 1).ret == 0 &&
		       side_poll(s, send_cq, 1, PATIENCE, &wc) == 1 && wc.status == IBV_WC_SUCCESS,
	       "SEND of %u bytes: '%s'", bytes, ibv_wc_status_str(wc.status));
	EXPECT(side_poll(s, recv_cq, 1, PATIENCE, &wc) == 1 && wc.status == IBV_WC_SUCCESS &&
		       wc.byte_len == bytes,
	       "receive of %u bytes: '%s'", bytes, ibv_wc_status_str(wc.status));
	EXPECT(side_check(s, HEARD, bytes, theirs, 0) == -1, "bytes of a message of %u", bytes);
}

static const uint32_t talk_sizes[] = {1, 64, 4000, 40000, 1 << 20};

static struct node_link link_to(const union ibv_gid *gid, uint32_t qpn)
{
	struct node_link link = link_default();

	link.dgid = *gid;
	link.dest_qpn = qpn;
	link.rnr_retry = 7;
	link.timeout = 18;
	return link;
}

static void child_talks(void)
{
	struct node_qp_spec spec = spec_default();
	struct node_link link;
	struct side own;
	uint32_t qpn;

	side_open(&own, NULL);
	if (side_create_qp(&own, 0, &spec, &qpn))
		DIE("ibv_create_qp");
	meeting->info = own.info;
	meeting->child_qpn = qpn;
	if (!EXPECT(WAIT_UNTIL(meeting->parent_ready, PATIENCE), "the parent is not ready"))
		exit(1);
	link = link_to(&a.info.gid, meeting->parent_ready);
	EXPECT(side_connect(&own, 0, &link) == 0, "connecting");
	for (size_t i = 0; i < COUNT_OF(talk_sizes); i++)
		talk(&own, 0, 0, 1, 100 + i, 200 + i, talk_sizes[i]);
	meeting->child_done = 1;
	EXPECT(WAIT_UNTIL(meeting->child_done != 1, PATIENCE), "the parent does not go on");
	access_peer(&own, 0, 0, &a.info, 77);
	side_stop(&own);
	exit(own_failures());
}

static void talk_row(unsigned int n)
{
	struct node_qp_spec spec = spec_default();
	struct node_link link;
	uint32_t qpn;
	pid_t pid;

	row("parent and child as peers, round %u", n);
	memset(meeting, 0, sizeof(*meeting));
	spec.send_cq = 2; /* the traffic has its own */
	spec.recv_cq = 3;
	if (side_create_qp(&a, CHILD_QP, &spec, &qpn))
		DIE("ibv_create_qp");
	pid = start_child(child_talks);
	if (!WAIT_UNTIL(meeting->child_qpn, PATIENCE))
		DIE("the child does not open the device");
	link = link_to(&meeting->info.gid, meeting->child_qpn);
	EXPECT(side_connect(&a, CHILD_QP, &link) == 0, "connecting");
	meeting->parent_ready = qpn;
	for (size_t i = 0; i < COUNT_OF(talk_sizes); i++)
		talk(&a, CHILD_QP, 2, 3, 200 + i, 100 + i, talk_sizes[i]);
	EXPECT(WAIT_UNTIL(meeting->child_done, PATIENCE), "the child is not done");
	access_peer(&a, CHILD_QP, 2, &meeting->info, 78);
	meeting->child_done = 2;
	expect_end(pid, false);
	EXPECT(side_destroy_qp(&a, CHILD_QP) == 0, "ibv_destroy_qp");
	expect_traffic();
}

/* --- */

int main(int argc, char **argv)
{
	side_work = echo;
#ifdef __SANITIZE_THREAD__
	puts("SKIPPED: ThreadSanitizer lets no child start a thread if its parent had some");
	return 77;
#endif
	two_sides_open(argc, argv);
	meeting = mmap(NULL, sizeof(*meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	if (meeting == MAP_FAILED || side_create_cq(&a, 2, 64, false) ||
	    side_create_cq(&a, 3, 64, false))
		DIE("no room");
	traffic_start();
	kind_rows();
	shared_row();
	for (unsigned int n = 0; n < 3; n++)
		talk_row(n);
	storm("forks in a row", STORM_MS, 0);
	if (TEST_SANITIZED)
		printf("SKIPPED: forks while others allocate; the sanitizer's allocator does not "
		       "survive "
		       "them\n");
	else
		storm("forks while others open and close", STORM_MS, 2);
	query_row();
	traffic_stop();
	return two_sides_close();
}
