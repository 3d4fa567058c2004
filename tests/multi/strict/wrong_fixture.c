/* SPDX-License-Identifier: MIT */
#include "wrong_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/sandbox.h"
#include "lib/sanitized.h"
#include "lib/to_rts.h"
#include "lib/tool.h"

#define PATIENCE_MS   500u /* for what may never come */
#define A_FEW	      3	   /* runs and seeds of a quick test */
#define EXIT_WRONG    3
#define EXPLAIN_BYTES 65536
#define QKEY	      0x1234u
#define TIMEOUT	      14 /* 67 ms: one of the first requests is lost */

struct scene scene;

/* --- what programs are made of --------------------------------------------------- */

static void open_scene(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct scene *s = &scene;
	size_t bytes = (size_t)SLOTS * BYTES;
	union ibv_gid gid;

	NEED(list && list[0]);
	s->ctx = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	NEED(s->ctx);
	s->pd = ibv_alloc_pd(s->ctx);
	s->channel = ibv_create_comp_channel(s->ctx);
	s->send_cq = ibv_create_cq(s->ctx, 512, NULL, NULL, 0);
	s->recv_cq = ibv_create_cq(s->ctx, 512, NULL, s->channel, 0);
	s->src = calloc(1, bytes);
	s->dst = calloc(1, bytes);
	NEED(s->pd && s->channel && s->send_cq && s->recv_cq && s->src && s->dst);
	s->src_mr = ibv_reg_mr(s->pd, s->src, bytes, ALL_ACCESS);
	s->dst_mr = ibv_reg_mr(s->pd, s->dst, bytes, ALL_ACCESS);
	NEED(s->src_mr && s->dst_mr);
	while (ibv_query_gid(s->ctx, 1, s->gid_row, &gid) == 0 && !gid.global.subnet_prefix &&
	       !gid.global.interface_id)
		s->gid_row++;
}

struct ibv_qp_attr attr_to(const struct ibv_qp *to)
{
	struct ibv_qp_attr attr;
	union ibv_gid gid;

	NEED(ibv_query_gid(scene.ctx, 1, scene.gid_row, &gid) == 0);
	attr = connect_attr(to->qp_num, &gid);
	attr.ah_attr.grh.sgid_index = scene.gid_row;
	attr.timeout = TIMEOUT;
	attr.qkey = QKEY;
	attr.max_rd_atomic = attr.max_dest_rd_atomic = 1;
	return attr;
}

void begin_with(enum ibv_qp_type type, struct ibv_qp_cap *cap)
{
	struct ibv_qp_init_attr init = {
		.qp_type = type, .send_cq = scene.send_cq, .recv_cq = scene.recv_cq, .cap = *cap};
	struct ibv_qp_attr attr;

	scene.a = ibv_create_qp(scene.pd, &init);
	init.cap = *cap;
	scene.b = ibv_create_qp(scene.pd, &init);
	NEED(scene.a && scene.b);
	*cap = init.cap;
	attr = attr_to(scene.a);
	NEED(connect_qp(scene.b, attr) == 0);
	attr.dest_qp_num = scene.b->qp_num;
	NEED(connect_qp(scene.a, attr) == 0);
	scene.ah = ibv_create_ah(scene.pd, &attr.ah_attr);
	NEED(scene.ah);
}

void begin(enum ibv_qp_type type)
{
	struct ibv_qp_cap cap = {5, 5, 2, 2, 64};

	begin_with(type, &cap);
}

void fill(void *at, uint32_t n, size_t bytes)
{
	memset(at, 1 + (int)(n % 255), bytes);
}

bool is_filled(const void *at, uint32_t n, size_t bytes)
{
	const uint8_t *p = at;

	while (bytes && p[bytes - 1] == 1 + n % 255)
		bytes--;
	return bytes == 0;
}

struct ibv_send_wr request(enum ibv_wr_opcode opcode, unsigned int slot, struct ibv_sge *sge)
{
	size_t at = (size_t)slot * BYTES;
	struct ibv_send_wr wr = {
		.wr_id = slot,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = sge,
		.num_sge = 1,
		.wr.rdma = {(uintptr_t)scene.dst + at, scene.dst_mr->rkey},
	};

	*sge = (struct ibv_sge){(uintptr_t)scene.src + at, BYTES, scene.src_mr->lkey};
	if (scene.a->qp_type == IBV_QPT_UD) {
		sge->length = BYTES / 8; /* it fits any MTU */
		wr.wr.ud.ah = scene.ah;
		wr.wr.ud.remote_qpn = scene.b->qp_num;
		wr.wr.ud.remote_qkey = QKEY;
	}
	return wr;
}

int post(struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	return ibv_post_send(scene.a, wr, &bad);
}

void send_slot(enum ibv_wr_opcode opcode, unsigned int slot)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(opcode, slot, &sge);

	NEED(post(&wr) == 0);
}

int post_recv(unsigned int slot)
{
	struct ibv_sge sge = {(uintptr_t)scene.dst + (size_t)slot * BYTES, BYTES,
			      scene.dst_mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_recv(scene.b, &wr, &bad);
}

bool next_wc(struct ibv_cq *cq, struct ibv_wc *wc)
{
	uint64_t until = now_ms() + PATIENCE_MS;

	do
		if (ibv_poll_cq(cq, 1, wc) == 1)
			return true;
	while (now_ms() < until);
	return false;
}

bool is_sent(void)
{
	struct ibv_wc wc;

	return next_wc(scene.send_cq, &wc) && wc.status == IBV_WC_SUCCESS;
}

bool is_received(void)
{
	struct ibv_wc wc;

	return next_wc(scene.recv_cq, &wc) && wc.status == IBV_WC_SUCCESS;
}

bool becomes_set(const volatile uint8_t *at)
{
	uint64_t until = now_ms() + PATIENCE_MS;

	while (!*at && now_ms() < until)
		;
	return *at;
}

/* --- running them ---------------------------------------------------------------- */

struct outcome {
	int status;
	pid_t pid;
};

/*
 * Strict: with all freedoms, that of GIDs, too. Return: the exit status: 0, EXIT_WRONG, or what an
 * end of another kind is
 */
static struct outcome run(const struct wrong *w, bool (*program)(void), unsigned int seed)
{
	char devices[128];
	struct outcome o = {.status = -1};
	int n = snprintf(devices, sizeof(devices), "any0%s", w->settings ? w->settings : "");

	if (seed)
		snprintf(devices + n, sizeof(devices) - (size_t)n, ":strict:strict=gids:seed=%u",
			 seed);
	fflush(stdout);
	o.pid = fork();
	NEED(o.pid >= 0);
	if (o.pid == 0) {
		setenv("ANYVERBS_DEVICES", devices, 1);
		open_scene();
		_exit(program() ? 0 : EXIT_WRONG);
	}
	NEED(waitpid(o.pid, &o.status, 0) == o.pid);
	o.status = WIFEXITED(o.status) ? WEXITSTATUS(o.status) : 128 + WTERMSIG(o.status);
	return o;
}

/* What explain says of that process. */
static const char *explain(pid_t pid)
{
	static char text[EXPLAIN_BYTES];
	char command[512];
	FILE *f;

	snprintf(command, sizeof(command), "'%s' explain -p %d", ANYVERBS_TOOL, (int)pid);
	f = popen(command, "r");
	NEED(f);
	text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	pclose(f);
	return text;
}

struct counts {
	unsigned int caught, said, said_first;
};

static void find_seed(const struct wrong *w, struct counts *n)
{
	struct outcome o = {0};
	unsigned int seed = 0;
	const char *text, *found;

	while (o.status == 0 && seed < WRONG_SEEDS)
		o = run(w, w->wrong, ++seed);
	if (!EXPECT(o.status == EXIT_WRONG, "wrong: %d after %u seeds", o.status, seed))
		return;
	n->caught++;
	text = explain(o.pid);
	found = w->words ? strstr(text, w->words) : NULL;
	n->said += found != NULL;
	n->said_first += found && !memchr(text, '\n', (size_t)(found - text));
	EXPECT(found || !w->words, "'%s' is not said:\n%s", w->words, text);
	printf("     caught with seed %u: %s\n", seed, w->name);
}

int wrong_run(int argc, char **argv, const struct wrong *rows, size_t count)
{
	int plain = argc > 1 ? atoi(argv[1]) : A_FEW, status;
	unsigned int seeds = argc > 1 ? WRONG_SEEDS : A_FEW;
	struct counts n = {0};

	if (UNDER_TSAN) {
		printf("skipped: wrong programs race, as ThreadSanitizer would say\n");
		return 77;
	}
	sandbox_begin(400);
	for (const struct wrong *w = rows; w < rows + count; w++) {
		row("%s", w->name);
		for (int i = 0; i < plain; i++) {
			status = run(w, w->wrong, 0).status;
			EXPECT(status == 0, "wrong, plain, run %d: %d", i, status);
		}
		status = run(w, w->right, 0).status;
		EXPECT(status == 0, "right, plain: %d", status);
		find_seed(w, &n);
		for (unsigned int seed = 1; seed <= seeds; seed++) {
			status = run(w, w->right, seed).status;
			EXPECT(status == 0, "right, seed %u: %d", seed, status);
		}
	}
	printf("caught %u of %zu, explained %u, in the first line %u\n", n.caught, count, n.said,
	       n.said_first);
	fflush(stdout);
	tool_run(ANYVERBS_TOOL, "explain", "--clear", NULL); /* and sweep what programs left */
	return sandbox_end();
}
