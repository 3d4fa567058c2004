/* SPDX-License-Identifier: MIT */
/*
 * The report on misuse: little programs with one mistake each, run with ANYVERBS_CHECK=json, and
 * what is said of them; and one without, of which nothing is. Each is this program, executed
 * afresh.
 */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#include "lib/to_rts.h"
#include "lib/expect.h"
#include "lib/sandbox.h"
#include "lib/node.h"

#define BYTES	    4096
#define OUTPUT	    16384
#define PATIENCE    20000u
#define THREADS	    4
#define CHILDREN    20
#define CHILD_LIMIT 20 /* seconds */

/* --- what the programs are made of ----------------------------------------------- */

static struct world {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_qp *qp; /* connected with itself */
	struct ibv_mr *mr;
	uint8_t *buffer;
} w;

static void need(bool ok, const char *what)
{
	if (ok)
		return;
	dprintf(STDOUT_FILENO, "%s: errno %d\n", what, errno);
	_exit(99);
}

static void connect_to_itself(uint8_t rnr_retry)
{
	struct ibv_qp_attr attr;
	union ibv_gid gid;

	need(!ibv_query_gid(w.ctx, 1, 0, &gid), "query_gid");
	attr = connect_attr(w.qp->qp_num, &gid);
	attr.qp_access_flags |= IBV_ACCESS_LOCAL_WRITE;
	attr.timeout = 10;
	attr.retry_cnt = 1;
	attr.rnr_retry = rnr_retry;
	need(!connect_qp(w.qp, attr), "connecting");
}

static void open_world(uint8_t rnr_retry)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1}};

	w.ctx = node_open_device();
	w.pd = ibv_alloc_pd(w.ctx);
	w.channel = ibv_create_comp_channel(w.ctx);
	w.buffer =
		mmap(NULL, 2 * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	need(w.pd && w.channel && w.buffer != MAP_FAILED, "objects");
	w.send_cq = ibv_create_cq(w.ctx, 8, NULL, w.channel, 0);
	w.recv_cq = ibv_create_cq(w.ctx, 8, NULL, NULL, 0);
	w.mr = ibv_reg_mr(w.pd, w.buffer, 2 * BYTES, 0xf);
	need(w.send_cq && w.recv_cq && w.mr, "more objects");
	init.send_cq = w.send_cq;
	init.recv_cq = w.recv_cq;
	w.qp = ibv_create_qp(w.pd, &init);
	need(w.qp != NULL, "create_qp");
	connect_to_itself(rnr_retry);
}

static void close_world(void)
{
	need(!w.qp || !ibv_destroy_qp(w.qp), "destroy_qp");
	need(!w.mr || !ibv_dereg_mr(w.mr), "dereg_mr");
	need(!w.send_cq || !ibv_destroy_cq(w.send_cq), "destroy_cq");
	need(!w.recv_cq || !ibv_destroy_cq(w.recv_cq), "destroy_cq");
	need(!w.channel || !ibv_destroy_comp_channel(w.channel), "destroy_comp_channel");
	need(!w.pd || !ibv_dealloc_pd(w.pd), "dealloc_pd");
	need(!ibv_close_device(w.ctx), "close_device");
}

static void post(enum ibv_wr_opcode op, uint32_t rkey)
{
	struct ibv_sge sge = {(uintptr_t)w.buffer, 64, w.mr->lkey};
	struct ibv_send_wr *bad, wr = {.opcode = op,
				       .send_flags = IBV_SEND_SIGNALED,
				       .sg_list = &sge,
				       .num_sge = 1,
				       .wr.rdma = {(uintptr_t)w.buffer + BYTES, rkey}};

	need(!ibv_post_send(w.qp, &wr, &bad), "post_send");
}

static void post_receive(void)
{
	struct ibv_sge sge = {(uintptr_t)w.buffer + BYTES, 64, w.mr->lkey};
	struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};

	need(!ibv_post_recv(w.qp, &wr, &bad), "post_recv");
}

static void take(struct ibv_cq *cq)
{
	uint64_t end = now_ms() + PATIENCE;
	struct ibv_wc wc;

	while (ibv_poll_cq(cq, 1, &wc) == 0)
		need(now_ms() < end, "no completion");
}

static void take_event(bool acknowledge)
{
	struct ibv_cq *cq;
	void *arg;

	need(!ibv_get_cq_event(w.channel, &cq, &arg), "get_cq_event");
	if (acknowledge)
		ibv_ack_cq_events(cq, 1);
}

/* --- the programs ---------------------------------------------------------------- */

/* All sorts of things, properly. */
static void clean(void)
{
	open_world(7);
	need(!ibv_req_notify_cq(w.send_cq, 0), "req_notify");
	post_receive();
	post(IBV_WR_SEND, 0);
	take_event(true);
	take(w.send_cq);
	take(w.recv_cq);
	post(IBV_WR_RDMA_WRITE, w.mr->rkey);
	take(w.send_cq);
	close_world();
}

static void leave_mr(void)
{
	open_world(7);
	w.mr = ibv_reg_mr(w.pd, w.buffer, BYTES, 0);
	exit(0);
}

static void leave_pd_and_close(void)
{
	open_world(7);
	need(ibv_alloc_pd(w.ctx) != NULL, "alloc_pd");
	close_world();
}

/* A null region does not keep its domain. */
static void leave_null_mr(void)
{
	struct ibv_pd *pd;

	open_world(7);
	pd = ibv_alloc_pd(w.ctx);
	need(pd && ibv_alloc_null_mr(pd), "alloc_null_mr");
	need(ibv_dealloc_pd(pd) == 0, "dealloc_pd");
	close_world();
}

static void wrong_order(void)
{
	open_world(7);
	need(ibv_dealloc_pd(w.pd) == EBUSY, "dealloc_pd");
	close_world();
}

static void cq_too_early(void)
{
	open_world(7);
	need(ibv_destroy_cq(w.recv_cq) == EBUSY, "destroy_cq");
	close_world();
}

static void unmap(void)
{
	open_world(7);
	munmap(w.buffer, 2 * BYTES);
	close_world();
}

static void do_not_acknowledge(void)
{
	open_world(7);
	need(!ibv_req_notify_cq(w.send_cq, 0), "req_notify");
	post(IBV_WR_RDMA_WRITE, w.mr->rkey);
	take_event(false);
	take(w.send_cq);
	need(!ibv_destroy_qp(w.qp), "destroy_qp");
	w.qp = NULL;
	exit(0);
}

static void run_dry(void)
{
	open_world(7);
	post(IBV_WR_SEND, 0);
	post_receive();
	take(w.send_cq);
	take(w.recv_cq);
	close_world();
}

static void never_poll(void)
{
	open_world(7);
	post(IBV_WR_RDMA_WRITE, w.mr->rkey);
	w.qp = NULL;
	w.send_cq = NULL;
	exit(0);
}

/* The end of the queue pair takes its completions away. */
static void never_poll_and_clean_up(void)
{
	open_world(7);
	post(IBV_WR_RDMA_WRITE, w.mr->rkey);
	post(IBV_WR_RDMA_WRITE, w.mr->rkey);
	close_world();
}

static void *acknowledge_later(void *arg)
{
	sleep(5); /* longer than destroying waits before it says so */
	ibv_ack_cq_events(w.send_cq, 1);
	return NULL;
}

static void destroy_unacknowledged(void)
{
	pthread_t thread;

	open_world(7);
	need(!ibv_req_notify_cq(w.send_cq, 0), "req_notify");
	post(IBV_WR_RDMA_WRITE, w.mr->rkey);
	take_event(false);
	take(w.send_cq);
	need(!pthread_create(&thread, NULL, acknowledge_later, NULL), "thread");
	close_world();
	pthread_join(thread, NULL);
}

static void overrun(void)
{
	open_world(7);
	need(!ibv_resize_cq(w.send_cq, 1), "resize_cq");
	post(IBV_WR_RDMA_WRITE, w.mr->rkey);
	take(w.send_cq);
	for (int i = 0; i < 3; i++)
		post(IBV_WR_RDMA_WRITE, w.mr->rkey);
	w.qp->state = IBV_QPS_ERR; /* it knows */
	close_world();
}

static void change_buffer(void)
{
	open_world(7);
	post(IBV_WR_SEND, 0);
	w.buffer[13]++;
	post_receive();
	take(w.send_cq);
	take(w.recv_cq);
	close_world();
}

static void fail(void)
{
	open_world(7);
	post(IBV_WR_RDMA_WRITE, w.mr->rkey);
	take(w.send_cq);
	post(IBV_WR_RDMA_WRITE, 0xdead00);
}

static void leave_in_error(void)
{
	fail();
	close_world();
}

static void take_failure(void)
{
	fail();
	take(w.send_cq);
	close_world();
}

static void take_failures_event(void)
{
	struct ibv_async_event event;

	fail();
	need(!ibv_get_async_event(w.ctx, &event), "get_async_event");
	ibv_ack_async_event(&event);
	close_world();
}

/* Ends with another status than 0 of its own. */
static void fail_itself(void)
{
	open_world(7);
	exit(3);
}

static void *refuse_for_ever(void *arg)
{
	for (;;)
		need(ibv_dealloc_pd(w.pd) == EBUSY, "dealloc_pd");
	return NULL;
}

/* What a child does wrong is found, whatever its parent's other threads do at the fork. */
static void misuse_in_child(void)
{
	alarm(CHILD_LIMIT);
	open_world(7);
	need(ibv_dealloc_pd(w.pd) == EBUSY, "dealloc_pd");
	_exit(0);
}

static void fork_among_findings(void)
{
	pthread_t thread;
	int status;

	open_world(7);
	for (int i = 0; i < THREADS; i++)
		need(!pthread_create(&thread, NULL, refuse_for_ever, NULL), "thread");
	for (int i = 0; i < CHILDREN; i++) {
		pid_t pid = fork();

		if (pid == 0)
			misuse_in_child();
		need(waitpid(pid, &status, 0) == pid && status == 0, "child");
	}
	_exit(0);
}

static const struct program {
	const char *name;
	void (*run)(void);
	const char *check; /* ANYVERBS_CHECK */
	int status;
	struct {
		const char *misuse, *object;
		int count; /* lines that say so */
	} says[4];
	int lines; /* all there are */
} programs[] = {
	{"clean", clean, "json", 0, {{0}}, 0},
	{"clean", clean, "json,fail", 0, {{0}}, 0},
	{"leave_mr", leave_mr, NULL, 0, {{0}}, 0},
	{"leave_mr", leave_mr, "0", 0, {{0}}, 0},
	{"leave_mr",
	 leave_mr,
	 "json",
	 0,
	 {{"not-destroyed", "MR", 2},
	  {"not-destroyed", "QP", 1},
	  {"not-destroyed", "PD", 1},
	  {"not-destroyed", "context", 1}},
	 8},
	{"leave_mr", leave_mr, "json,fail", 86, {{"not-destroyed", "MR", 2}}, 8},
	{"leave_pd_and_close", leave_pd_and_close, "json", 0, {{"not-destroyed", "PD", 1}}, 1},
	{"leave_null_mr", leave_null_mr, "json", 0, {{"not-destroyed", "MR", 1}}, 1},
	{"wrong_order", wrong_order, "json", 0, {{"wrong-order", "PD", 1}}, 1},
	{"cq_too_early", cq_too_early, "json,fail", 86, {{"wrong-order", "CQ", 1}}, 1},
	{"unmap", unmap, "json", 0, {{"unmapped", "MR", 1}}, 1},
	{"do_not_acknowledge", do_not_acknowledge, "json", 0, {{"unacknowledged", "CQ", 1}}, 7},
	{"run_dry", run_dry, "json", 0, {{"ran-dry", "QP", 1}}, 1},
	{"never_poll", never_poll, "json", 0, {{"never-polled", "CQ", 1}}, 8},
	{"never_poll_and_clean_up",
	 never_poll_and_clean_up,
	 "json",
	 0,
	 {{"never-polled", "CQ", 1}},
	 1},
	{"destroy_unacknowledged",
	 destroy_unacknowledged,
	 "json",
	 0,
	 {{"unacknowledged", "CQ", 1}},
	 1},
	{"overrun", overrun, "json", 0, {{"overrun", "CQ", 1}}, 1},
	{"change_buffer",
	 change_buffer,
	 "json",
	 0,
	 {{"buffer-changed", "QP", 1}, {"ran-dry", "QP", 1}},
	 2},
	{"leave_in_error", leave_in_error, "json", 0, {{"in-error", "QP", 1}}, 1},
	{"take_failure", take_failure, "json,fail", 0, {{0}}, 0},
	{"take_failures_event", take_failures_event, "json,fail", 0, {{0}}, 0},
	{"fork_among_findings", fork_among_findings, "json", 0, {{0}}, 0},
	{"fail_itself", fail_itself, "json,fail", 3, {{"not-destroyed", "QP", 1}}, 7},
};

/* --- running them ---------------------------------------------------------------- */

static void start(const struct program *p, int out)
{
	if (p->check)
		setenv("ANYVERBS_CHECK", p->check, 1);
	else
		unsetenv("ANYVERBS_CHECK");
	setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* that is what they are for */
	dup2(out, STDERR_FILENO);
	execl("/proc/self/exe", "test_misuse", p->name, (char *)NULL);
	_exit(98);
}

/* Return: exit status, -1: none */
static int run(const struct program *p, char text[OUTPUT])
{
	int out[2], status;
	size_t have = 0;
	ssize_t n;
	pid_t pid;

	NEED(pipe(out) == 0);
	pid = fork();
	if (pid == 0)
		start(p, out[1]);
	close(out[1]);
	while ((n = read(out[0], text + have, OUTPUT - 1 - have)) > 0)
		have += (size_t)n;
	text[have] = '\0';
	close(out[0]);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		DIE("waitpid");
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int count_of(const char *text, const char *what)
{
	int n = 0;

	for (; (text = strstr(text, what)); text += strlen(what))
		n++;
	return n;
}

static void program_row(const struct program *p)
{
	static char text[OUTPUT];
	char what[200];
	int status;

	row("%s with ANYVERBS_CHECK=%s", p->name, p->check ? p->check : "");
	status = run(p, text);
	EXPECT(status == p->status, "status %d instead of %d: %s", status, p->status, text);
	EXPECT(count_of(text, "\n") == p->lines, "%d lines instead of %d: %s", count_of(text, "\n"),
	       p->lines, text);
	EXPECT(count_of(text, "{\"misuse\":") == p->lines, "lines that are none of the report: %s",
	       text);
	for (size_t i = 0; i < COUNT_OF(p->says) && p->says[i].misuse; i++) {
		snprintf(what, sizeof(what), "{\"misuse\":\"%s\",", p->says[i].misuse);
		EXPECT(count_of(text, what) >= p->says[i].count, "no '%s': %s", what, text);
		snprintf(what, sizeof(what), "\"object\":\"%s\"", p->says[i].object);
		EXPECT(count_of(text, what) >= p->says[i].count, "no '%s': %s", what, text);
	}
}

/* Can the library tell lines of sources here? */
static bool has_lines(void)
{
#if defined(TEST_HAS_DEBUG_INFORMATION) && __has_include(<elfutils/libdwfl.h>)
	void *library = dlopen("libdw.so.1", RTLD_LAZY);

	return library && dlclose(library) == 0;
#else
	return false;
#endif
}

/*
 * The form for people.
 * @lines: of the report
 * @places: of these, lines that name a place in this file: the device is opened in another one, and
 *          an inline function of a header counts where it is called
 */
static void text_row(const char *name, int lines, int places)
{
	const struct program p = {.name = name, .check = "1"};
	const char *place = has_lines() ? ", test_misuse.c:" : "test_misuse(";
	static char text[OUTPUT];

	row("%s: the report in English says what, which and where", name);
	EXPECT(run(&p, text) == 0, "it fails");
	EXPECT(strstr(text, "]: check: any0: PD ") && strstr(text, ": was not destroyed (made at "),
	       "%s", text);
	EXPECT(count_of(text, ": MR ") == count_of(text, ": MR 0x"), "%s", text);
	EXPECT(count_of(text, place) == (has_lines() ? places : lines), "%s", text);
	EXPECT(count_of(text, "\n") == lines, "%s", text);
}

int main(int argc, char **argv)
{
	time_limit(200);
	for (size_t i = 0; argc > 1 && i < COUNT_OF(programs); i++) {
		if (strcmp(argv[1], programs[i].name) != 0)
			continue;
		programs[i].run();
		return 0;
	}
	sandbox_enter();
	for (size_t i = 0; i < COUNT_OF(programs); i++)
		program_row(&programs[i]);
	text_row("leave_pd_and_close", 1, 1);
	text_row("leave_mr", 8, 7);
	return sandbox_end();
}
