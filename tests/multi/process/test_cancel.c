/* SPDX-License-Identifier: MIT */
/*
 * Threads are cancelled while they are in verbs: no verb is a cancellation point, so that none is
 * left half done, and no lock or queue pair lock stays taken. Nor is a call about the virtual
 * sysfs, but for open(2), where it begins.
 *
 * Each thread goes round and round one kind of verbs. It is cancelled at any moment, and ends at
 * the only cancellation point that is its own. Then the objects that it used must work for the next
 * one. A verb that was left in the midst keeps its locks, so that the next thread, or the end of
 * the test, would wait for ever: time_limit() ends that.
 */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/cancellable.h"
#include "lib/expect.h"
#include "lib/sandbox.h"
#include "lib/side.h"
#include "lib/wait.h"

#define ROUNDS 200 /* of each kind */
#define SELF   0   /* queue pairs: connected with itself, */
#define OTHER  1   /* with another process */
#define CQ     2   /* with events */
#define BYTES  4096

static struct side a, b;
static _Atomic unsigned int turns;

/* --- what a thread does ------------------------------------------------------------ */

/* With an armed completion queue: an event is a write() by the thread that posts. */
static void do_transfer(void)
{
	struct node_send s = side_message(side_sge(&a, KEY_FULL, 0, BYTES));
	struct node_recv r = {.num_sge = 1, .sge = {side_sge(&a, KEY_FULL, 1 << 20, BYTES)}};
	struct node_send w =
		side_rdma_to(IBV_WR_RDMA_WRITE, side_sge(&a, KEY_FULL, 0, BYTES), &b, 0);
	struct ibv_wc wc[3];

	node_arm(a.node, CQ, 0);
	node_post_recv(a.node, SELF, &r, 1);
	node_post_send(a.node, SELF, &s, 1);
	node_arm(a.node, CQ, 0);
	node_post_send(a.node, OTHER, &w, 1);
	node_poll(a.node, CQ, 3, 0, wc);
}

static void do_register(void)
{
	struct ibv_mr *mr =
		ibv_reg_mr(a.node->pd, a.node->arena, 3 * BYTES, IBV_ACCESS_LOCAL_WRITE);

	if (mr)
		ibv_dereg_mr(mr);
}

static void do_create(void)
{
	struct ibv_cq *cq = ibv_create_cq(a.node->ctx, 10, NULL, a.node->channel, 0);
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_qp *qp = cq ? ibv_create_qp(a.node->pd, &init) : NULL;

	if (qp) {
		ibv_modify_qp(qp, &attr, IBV_QP_STATE);
		ibv_destroy_qp(qp);
	}
	if (cq)
		ibv_destroy_cq(cq);
}

static void do_open(void)
{
	struct ibv_context *ctx = ibv_open_device(a.node->ctx->device);
	struct ibv_port_attr port;
	union ibv_gid gid;

	if (!ctx)
		return;
	ibv_query_port(ctx, 1, &port);
	ibv_query_gid(ctx, 1, 0, &gid);
	ibv_close_device(ctx);
}

/* --- the virtual sysfs -------------------------------------------------------------- */

#define NETS   "/sys/class/infiniband/any0/device/net" /* as the table of GIDs says */
#define A_GID  "/sys/class/infiniband/any0/ports/1/gids/0"
#define A_FILE "/sys/class/infiniband/any0/ports/1/hw_counters/out_of_buffer"

/* Each closes by what is no point where a thread is cancelled. */
static void open_files(void)
{
	static const char *const paths[] = {A_GID, A_FILE, NETS};

	for (size_t i = 0; i < COUNT_OF(paths); i++) {
		int fd = open(paths[i], O_RDONLY | O_CLOEXEC);

		if (fd >= 0)
			(void)syscall(SYS_close, fd);
	}
}

static void open_stream(void)
{
	FILE *f = fopen(A_GID, "re");
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	if (f)
		fclose(f);
	pthread_setcancelstate(before, NULL);
}

static void do_open_sysfs(void)
{
	open_files();
	open_stream();
}

static void list_directory(void)
{
	DIR *dir = opendir(NETS);

	if (!dir)
		return;
	while (readdir(dir))
		;
	rewinddir(dir);
	closedir(dir);
}

static void scan_directory(void)
{
	struct dirent **entries;
	int count = scandir(NETS, &entries, NULL, alphasort);

	if (count < 0)
		return;
	for (int i = 0; i < count; i++)
		free(entries[i]);
	free(entries);
}

static void do_sysfs(void)
{
	char path[4096];
	struct stat st;

	list_directory();
	scan_directory();
	(void)!stat(NETS, &st);
	(void)!access(A_GID, R_OK);
	(void)!readlink("/sys/class/infiniband/any0/device", path, sizeof(path));
	(void)!realpath(NETS, path);
}

static const struct row {
	const char *name;
	void (*act)(void);
	bool is_point; /* a thread may be cancelled in it */
} rows[] = {
	{"a transfer with events", do_transfer, false},
	{"registration", do_register, false},
	{"queues", do_create, false},
	{"the virtual sysfs", do_sysfs, false},
	{"opening files of the virtual sysfs", do_open_sysfs, true},
	{"the device", do_open, false},
};

/* --- cancelling --------------------------------------------------------------------- */

static void *act_for_ever(void *act)
{
	void (*const *f)(void) = act;

	for (;; pthread_testcancel()) {
		int before;

		(*f)();
		atomic_fetch_add(&turns, 1);
		pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
		EXPECT(before == PTHREAD_CANCEL_ENABLE, "a verb left cancellation off");
	}
	return NULL;
}

/* What a thread left when it was cancelled between posting and polling. */
static void tidy(void)
{
	struct ibv_wc wc[64];

	while (node_poll(a.node, CQ, 64, 0, wc) > 0)
		;
	while (node_comp_event(a.node, 0) >= 0)
		;
}

static void act(void *r)
{
	((const struct row *)r)->act();
}

/* It is cancelled where that may happen first, and as soon as the next one comes there. */
static void cancel_before(const struct row *r)
{
	for (int i = 0; i < 2; i++)
		EXPECT(outlives_cancellation(act, (void *)(uintptr_t)r) == !r->is_point, "%s",
		       r->is_point ? "not cancelled" : "cancelled within");
}

/* What a file of the virtual sysfs says is asked for without a device, too. */
static void cancel_without_device(void)
{
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		if (rows[i].act == do_sysfs || rows[i].act == do_open_sysfs) {
			row("before a device is open: %s", rows[i].name);
			cancel_before(&rows[i]);
			rows[i].act(); /* what is read once in a process */
			cancel_before(&rows[i]);
		}
}

static void cancel_rounds(void (*const *act)(void))
{
	for (unsigned int i = 0; i < ROUNDS && failures() == 0; i++) {
		unsigned int before = atomic_load(&turns);
		pthread_t thread = start_cancellable(act_for_ever, (void *)(uintptr_t)act);
		void *result;

		while (atomic_load(&turns) == before) /* it has got through once */
			sched_yield();
		let_go_on(i * 7 % 300);
		pthread_cancel(thread);
		pthread_join(thread, &result);
		EXPECT(result == PTHREAD_CANCELED, "it ended by itself");
		tidy();
	}
}

/* --- the rows ----------------------------------------------------------------------- */

static void open_queue(void)
{
	struct node_qp_spec spec = spec_default();

	spec.send_cq = spec.recv_cq = CQ;
	NEED(side_create_cq(&a, CQ, 256, true) == 0);
	pair_create(&a, SELF, &a, SELF, &spec);
	pair_connect(&a, SELF, NULL, &a, SELF, NULL);
	NEED(side_create_cq(&b, CQ, 256, false) == 0);
	pair_create(&a, OTHER, &b, OTHER, &spec);
	pair_connect(&a, OTHER, NULL, &b, OTHER, NULL);
}

int main(int argc, char **argv)
{
	sides_begin(argc, argv, 120);
	cancel_without_device();
	side_start(&b);
	side_open(&a, NULL);
	open_queue();
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		row("threads cancelled in: %s", rows[i].name);
		cancel_before(&rows[i]);
		tidy();
		cancel_rounds(&rows[i].act);
	}
	row("everything ends");
	pair_destroy(&a, SELF, &a, SELF);
	pair_destroy(&a, OTHER, &b, OTHER);
	side_stop(&b);
	side_stop(&a);
	return sandbox_end();
}
