/* SPDX-License-Identifier: MIT */
/*
 * User-mode registration, while the keys are in use: filled, invalidated and deregistered as
 * another process goes on reading and writing through them; regions changed and deregistered under
 * them; and the other process killed in the midst of it.
 */
#include "lib/exp_objects.h"
#include "lib/wait.h"
#include "umr_fixture.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define QP_FLOW 1 /* from the other side */
#define QP_SELF 2
#define BASE	0x4000u
#define ROUNDS	500u /* of the keys' blocks */
#define PIECE	17u
#define BYTES	(2 * ROUNDS * PIECE)
#define OLD	0x11
#define STALE	0xcc	  /* of memory that is no longer meant */
#define SPARE	0x600000u /* in the arena */
#define LONGEST 65536u

enum { JOB_READ, JOB_WRITE, JOB_RECEIVE };

/* --- the other side -------------------------------------------------------------- */

/* What a job of reading found, in one number. */
#define FOUND_STATUS 0xffull
#define FOUND_OLD    (1ull << 8)
#define FOUND_NEW    (1ull << 9)
#define FOUND_MIXED  (1ull << 10)

static uint64_t look_at(const uint8_t *bytes)
{
	for (uint32_t i = 1; i < BYTES; i++)
		if (bytes[i] != bytes[0])
			return FOUND_MIXED;
	return bytes[0] == OLD ? FOUND_OLD : FOUND_NEW;
}

/* @arg: kind, key, address, number of requests. Ends with the first that fails. */
static uint64_t job(struct node *me, const struct side_job *j)
{
	struct node_send request = side_rdma(
		j->arg[0] == JOB_READ ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
		(struct ibv_sge){(uintptr_t)me->arena + AT, BYTES, me->info.lkey[KEY_FULL]},
		j->arg[2], (uint32_t)j->arg[1]);
	struct node_recv receive = {.num_sge = 0};
	uint64_t found = 0;

	if (j->arg[0] == JOB_RECEIVE)
		return (uint64_t)node_post_recv(me, 0, &receive, 1).ret;
	for (uint64_t i = 0; i < j->arg[3]; i++) {
		struct ibv_wc wc;

		if (node_post_send(me, QP_FLOW, &request, 1).ret ||
		    node_poll(me, 0, 1, PATIENCE, &wc) != 1)
			return 0xff;
		if (wc.status != IBV_WC_SUCCESS)
			return found | wc.status;
		if (j->arg[0] == JOB_READ)
			found |= look_at(me->arena + AT);
	}
	return found;
}

static void begin(uint64_t kind, const struct ibv_mr *key, uint64_t count)
{
	const struct side_job j = {{kind, key->rkey, BASE, count}};

	side_begin(&b, &j);
}

/* --- keys of many small pieces --------------------------------------------------- */

static struct list blocks_of(const struct made *m)
{
	struct list l = {.type = IBV_EXP_UMR_REPEAT,
			 .inlined = true,
			 .base = BASE,
			 .access = RIGHTS,
			 .count = 2};

	l.rounds = ROUNDS;
	l.e[0] = (struct element){m, 0, PIECE, 100};
	l.e[1] = (struct element){m, 50, PIECE, 100};
	return l;
}

static void set(enum leaf kind, uint8_t value)
{
	memset((void *)(uintptr_t)leaf[kind].base, value, LEAF_BYTES);
}

/* Reads are of what the key was or of what it is, or find no key. */
static void fill_row(void)
{
	struct list one = blocks_of(&leaf[LEAF_PLAIN]), two = blocks_of(&leaf[LEAF_ODP]);
	struct ibv_mr *key = create_key(2, IBV_EXP_MR_INDIRECT_KLMS);
	uint64_t found = 0, end = now_ms() + 60000;

	row("a key is filled while it is read");
	set(LEAF_PLAIN, OLD);
	set(LEAF_ODP, OLD + 1);
	need_fill(key, &one);
	for (int turn = 0; turn < 40 || ((~found & (FOUND_OLD | FOUND_NEW)) && now_ms() < end);
	     turn++) {
		uint64_t now;

		begin(JOB_READ, key, 50);
		for (int i = 0; i < 30; i++) {
			need_fill(key, &two);
			need_fill(key, &one);
		}
		now = side_end(&b);
		found |= now & ~FOUND_STATUS;
		EXPECT((now & FOUND_STATUS) == 0 || (now & FOUND_STATUS) == IBV_WC_REM_ACCESS_ERR,
		       "status %u", (unsigned int)(now & FOUND_STATUS));
		if (now & FOUND_STATUS)
			probe_reconnect(&b, &a, QP_FLOW);
	}
	EXPECT(!(found & FOUND_MIXED), "bytes of both");
	EXPECT(found & FOUND_OLD, "nothing was read");
	EXPECT(ibv_dereg_mr(key) == 0, "ibv_dereg_mr");
}

/* --- two threads fill one key ---------------------------------------------------- */

#define QP_OTHER 3

static _Atomic bool stop;

/* One piece of other memory, through a queue pair of its own. */
static void *fill_too(void *arg)
{
	struct ibv_exp_mem_region piece = {leaf[LEAF_ODP].base, leaf[LEAF_ODP].mr, BYTES};
	struct ibv_exp_send_wr wr, *bad;
	struct ibv_wc wc;

	memset(&wr, 0, sizeof(wr));
	wr.exp_opcode = IBV_EXP_WR_UMR_FILL;
	wr.exp_send_flags = IBV_EXP_SEND_INLINE | IBV_EXP_SEND_SIGNALED;
	wr.ext_op.umr.exp_access = RIGHTS;
	wr.ext_op.umr.modified_mr = arg;
	wr.ext_op.umr.base_addr = BASE;
	wr.ext_op.umr.num_mrs = 1;
	wr.ext_op.umr.mem_list.mem_reg_list = &piece;
	while (!stop) {
		EXPECT(ibv_exp_post_send(n->qp[QP_OTHER], &wr, &bad) == 0, "ibv_exp_post_send");
		if (!EXPECT(node_poll(n, 2, 1, PATIENCE, &wc) == 1 && wc.status == IBV_WC_SUCCESS,
			    "'%s'", ibv_wc_status_str(wc.status)))
			break;
	}
	return NULL;
}

static void open_other(void)
{
	struct ibv_exp_qp_init_attr init = {
		.comp_mask = IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS | IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS,
		.exp_create_flags = IBV_EXP_QP_CREATE_UMR,
		.max_inl_send_klms = 1,
	};

	if (node_create_cq(n, 2, 16, false))
		DIE("ibv_create_cq");
	init.send_cq = init.recv_cq = n->cq[2];
	exp_need_rc(n, QP_OTHER, &init);
	pair_connect(&a, QP_OTHER, NULL, &a, QP_OTHER, NULL);
}

static void two_fillers_row(void)
{
	struct list one = blocks_of(&leaf[LEAF_PLAIN]);
	struct ibv_mr *key = create_key(2, IBV_EXP_MR_INDIRECT_KLMS);
	pthread_t thread;

	row("two threads fill a key while it is read");
	set(LEAF_PLAIN, OLD);
	set(LEAF_ODP, OLD + 1);
	need_fill(key, &one);
	open_other();
	stop = false;
	NEED(pthread_create(&thread, NULL, fill_too, key) == 0);
	for (int turn = 0; turn < 20; turn++) {
		uint64_t found;

		begin(JOB_READ, key, 20);
		for (int i = 0; i < 20; i++)
			need_fill(key, &one);
		found = side_end(&b);
		EXPECT(!(found & FOUND_MIXED), "bytes of both");
		EXPECT((found & FOUND_STATUS) == 0 ||
			       (found & FOUND_STATUS) == IBV_WC_REM_ACCESS_ERR,
		       "status %u", (unsigned int)(found & FOUND_STATUS));
		if (found & FOUND_STATUS)
			probe_reconnect(&b, &a, QP_FLOW);
	}
	stop = true;
	pthread_join(thread, NULL);
	EXPECT(node_destroy_qp(n, QP_OTHER) == 0 && node_destroy_cq(n, 2) == 0 &&
		       ibv_dereg_mr(key) == 0,
	       "closing");
}

/* --- more keys in use than can be kept alive at a time --------------------------- */

#define CROWD	   6
#define CROWD_QP   2 /* the first of its queue pairs */
#define CROWD_MRS  16
#define CROWD_EACH 64u

struct worker {
	pthread_t thread;
	struct ibv_cq *cq;
	struct ibv_mr *mr[2][CROWD_MRS], *key[2];
	int qp;
};

static uint8_t *crowd_memory(const struct worker *w, int end, int i)
{
	uint32_t number = (uint32_t)((w->qp * 2 + end) * CROWD_MRS + i);

	return n->arena + SPARE + number * 2 * CROWD_EACH;
}

/* A key of many regions, of one small piece each. */
static void open_crowd_key(struct worker *w, int end)
{
	struct list l = {.inlined = true, .base = BASE, .access = RIGHTS, .count = CROWD_MRS};
	struct made m[CROWD_MRS];

	for (int i = 0; i < CROWD_MRS; i++) {
		uint8_t *at = crowd_memory(w, end, i);

		memset(at, end ? 0 : w->qp + i, CROWD_EACH);
		w->mr[end][i] = ibv_reg_mr(n->pd, at, CROWD_EACH, IBV_ACCESS_LOCAL_WRITE);
		if (!w->mr[end][i])
			DIE("ibv_reg_mr");
		m[i] = (struct made){
			.mr = w->mr[end][i], .base = (uintptr_t)at, .bytes = CROWD_EACH};
		l.e[i] = (struct element){&m[i], 0, CROWD_EACH, 0};
	}
	w->key[end] = create_key(CROWD_MRS, IBV_EXP_MR_INDIRECT_KLMS);
	need_fill(w->key[end], &l);
}

static void *copy_key(void *arg)
{
	struct worker *w = arg;
	struct node_send send = side_rdma(
		IBV_WR_RDMA_WRITE, (struct ibv_sge){BASE, CROWD_MRS * CROWD_EACH, w->key[0]->lkey},
		BASE, w->key[1]->rkey);
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};

	for (int i = 0; i < 300; i++) {
		EXPECT(node_post_send(n, w->qp, &send, 1).ret == 0, "ibv_post_send");
		while (ibv_poll_cq(w->cq, 1, &wc) == 0)
			;
		if (!EXPECT(wc.status == IBV_WC_SUCCESS, "'%s'", ibv_wc_status_str(wc.status)))
			break;
	}
	return NULL;
}

static void open_worker(struct worker *w, int qp)
{
	struct ibv_qp_init_attr init = {.cap = spec_default().cap, .qp_type = IBV_QPT_RC};

	w->qp = qp;
	w->cq = init.send_cq = init.recv_cq = ibv_create_cq(n->ctx, 16, NULL, NULL, 0);
	n->qp[qp] = w->cq ? ibv_create_qp(n->pd, &init) : NULL;
	if (!n->qp[qp])
		DIE("a queue pair: errno %d", errno);
	pair_connect(&a, qp, NULL, &a, qp, NULL);
	open_crowd_key(w, 0);
	open_crowd_key(w, 1);
}

static void close_worker(struct worker *w)
{
	for (int i = 0; i < CROWD_MRS; i++)
		EXPECT(memcmp(crowd_memory(w, 1, i), crowd_memory(w, 0, i), CROWD_EACH) == 0,
		       "piece %d", i);
	EXPECT(node_destroy_qp(n, w->qp) == 0 && ibv_destroy_cq(w->cq) == 0, "closing");
	for (int end = 0; end < 2; end++) {
		EXPECT(ibv_dereg_mr(w->key[end]) == 0, "ibv_dereg_mr");
		for (int i = 0; i < CROWD_MRS; i++)
			EXPECT(ibv_dereg_mr(w->mr[end][i]) == 0, "ibv_dereg_mr");
	}
}

static void crowd_row(void)
{
	struct worker w[CROWD];

	row("%d threads use keys of %d regions on both ends", CROWD, CROWD_MRS);
	for (int i = 0; i < CROWD; i++)
		open_worker(&w[i], CROWD_QP + i);
	for (int i = 0; i < CROWD; i++)
		NEED(pthread_create(&w[i].thread, NULL, copy_key, &w[i]) == 0);
	for (int i = 0; i < CROWD; i++)
		pthread_join(w[i].thread, NULL);
	for (int i = 0; i < CROWD; i++)
		close_worker(&w[i]);
}

/* --- a region changes back and forth --------------------------------------------- */

static void *toggle(void *arg)
{
	struct ibv_mr *mr = arg;

	for (int i = 0; !stop; i++)
		EXPECT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				    IBV_ACCESS_LOCAL_WRITE |
					    (i % 2 ? IBV_ACCESS_REMOTE_READ : 0)) == 0,
		       "ibv_rereg_mr: errno %d", errno);
	return NULL;
}

/* From the key to the key of other memory, here. */
static void copy_here(const struct ibv_mr *from, const struct ibv_mr *to)
{
	struct node_send send = side_rdma(
		IBV_WR_RDMA_WRITE, (struct ibv_sge){BASE, BYTES, from->lkey}, BASE, to->rkey);
	struct ibv_wc wc;

	for (int i = 0; i < 300; i++) {
		EXPECT(node_post_send(n, QP_SELF, &send, 1).ret == 0, "ibv_post_send");
		if (!EXPECT(node_poll(n, 0, 1, PATIENCE, &wc) == 1 && wc.status == IBV_WC_SUCCESS,
			    "WRITE %d: '%s'", i, ibv_wc_status_str(wc.status)))
			break;
	}
}

static void rereg_row(void)
{
	struct ibv_mr *mr = ibv_reg_mr(n->pd, (void *)(uintptr_t)leaf[LEAF_PLAIN].base, LEAF_BYTES,
				       IBV_ACCESS_LOCAL_WRITE);
	struct made m = leaf[LEAF_PLAIN];
	struct ibv_mr *key = create_key(2, IBV_EXP_MR_INDIRECT_KLMS),
		      *other = create_key(2, IBV_EXP_MR_INDIRECT_KLMS);
	struct list l, to = blocks_of(&leaf[LEAF_ODP]);
	pthread_t thread;
	uint64_t found;

	row("a region is re-registered while a key of it is used");
	m.mr = mr;
	l = blocks_of(&m);
	need_fill(key, &l);
	need_fill(other, &to);
	set(LEAF_PLAIN, OLD);
	set(LEAF_ODP, 0);
	pair_create(&a, QP_SELF, &a, QP_SELF, NULL);
	pair_connect(&a, QP_SELF, NULL, &a, QP_SELF, NULL);
	stop = false;
	NEED(pthread_create(&thread, NULL, toggle, mr) == 0);
	begin(JOB_READ, key, 500);
	copy_here(key, other);
	copy_here(other, key);
	found = side_end(&b);
	EXPECT(found == FOUND_OLD, "reading found 0x%llx", (unsigned long long)found);
	stop = true;
	pthread_join(thread, NULL);
	for (uint32_t i = 0; i < ROUNDS; i++)
		if (!EXPECT(((uint8_t *)(uintptr_t)leaf[LEAF_ODP].base)[i * 100 + 50] == OLD,
			    "piece %u", i))
			break;
	pair_destroy(&a, QP_SELF, &a, QP_SELF);
	EXPECT(ibv_dereg_mr(key) == 0 && ibv_dereg_mr(other) == 0 && ibv_dereg_mr(mr) == 0,
	       "ibv_dereg_mr");
}

/* --- the other process is killed ------------------------------------------------- */

/* Another one in its place, connected as it was. */
static void replace(void)
{
	struct node_qp_spec spec = spec_default();
	struct ibv_wc wc[16];

	side_start(&b);
	EXPECT(side_set_state(&a, 0, IBV_QPS_RESET) == 0 &&
		       side_set_state(&a, QP_FLOW, IBV_QPS_RESET) == 0,
	       "to RESET");
	while (node_async(n, 0).any)
		;
	while (node_poll(n, 0, 16, 0, wc) > 0 || node_poll(n, 1, 16, 0, wc) > 0)
		;
	if (side_create_qp(&b, 0, &spec, NULL) || side_create_qp(&b, QP_FLOW, &spec, NULL))
		DIE("queue pairs");
	pair_connect(&a, 0, NULL, &b, 0, NULL);
	pair_connect(&b, QP_FLOW, NULL, &a, QP_FLOW, NULL);
}

/* --- the end of what is being written -------------------------------------------- */

/*
 * A writer that has had no core for as long is as one that is stopped: the pieces behind a key that
 * is deregistered may change while they are registered by themselves (DEVIATIONS.md). It is 50 ms,
 * by a clock that is some ms late.
 */
#define STOPPED_MS 40u

enum ending { END_REGION, END_KEY, END_INVALIDATE, END_FILL, ENDINGS };

static void end_access(enum ending how, struct ibv_mr **key, struct ibv_mr **region)
{
	struct list elsewhere = blocks_of(&leaf[LEAF_ODP]);

	switch (how) {
	case END_REGION:
		EXPECT(ibv_dereg_mr(*region) == 0, "ibv_dereg_mr");
		*region = NULL;
		break;
	case END_KEY:
		EXPECT(ibv_dereg_mr(*key) == 0, "ibv_dereg_mr");
		*key = NULL;
		break;
	case END_INVALIDATE:
		need_invalidate(*key);
		break;
	default:
		need_fill(*key, &elsewhere);
	}
}

static void expect_stale(const uint8_t *memory)
{
	for (uint32_t i = 0; i < LEAF_BYTES; i++)
		if (!EXPECT(memory[i] == STALE, "byte %u was written afterwards", i))
			break;
}

/* One key, written through by the other side, which is killed (@die) or goes on until it fails. */
static void ending_turn(enum ending how, bool die, unsigned int wait_us)
{
	uint8_t *memory = n->arena + SPARE;
	struct ibv_mr *region = ibv_reg_mr(n->pd, memory, LEAF_BYTES, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_mr *key = create_key(2, IBV_EXP_MR_INDIRECT_KLMS);
	struct made m = {.mr = region, .base = (uintptr_t)memory, .bytes = LEAF_BYTES};
	struct list l = blocks_of(&m);
	uint64_t began;
	bool stopped;

	need_fill(key, &l);
	memset(memory, 0, LEAF_BYTES);
	begin(JOB_WRITE, key, how == END_FILL && !die ? 200 : 1u << 30);
	let_go_on(wait_us);
	if (die)
		kill(b.pid, SIGKILL);
	began = now_ms();
	end_access(how, &key, &region);
	stopped = how == END_KEY && now_ms() - began >= STOPPED_MS;
	memset(memory, STALE, LEAF_BYTES);
	if (die) {
		side_bury(&b);
		replace();
	} else {
		uint64_t found = side_end(&b);

		EXPECT(found == IBV_WC_REM_ACCESS_ERR || (how == END_FILL && found == 0),
		       "writing ended with 0x%llx", (unsigned long long)found);
		probe_reconnect(&b, &a, QP_FLOW);
	}
	if (!stopped)
		expect_stale(memory);
	EXPECT(!region || ibv_dereg_mr(region) == 0, "ibv_dereg_mr");
	EXPECT(!key || ibv_dereg_mr(key) == 0, "ibv_dereg_mr");
}

/* The memory is somebody else's from the moment the call, or the completion, says so. */
static void ending_rows(bool die)
{
	static const char *const name[] = {"its region is deregistered", "it is deregistered",
					   "it is invalidated", "it is filled with something else"};

	for (int how = 0; how < ENDINGS; how++)
		for (unsigned int turn = 0; turn < (die ? 5 : 30); turn++) {
			row("a key is written through while %s%s, turn %u", name[how],
			    die ? ", and the writer is killed" : "", turn);
			ending_turn((enum ending)how, die, turn * 100);
		}
}

/* --- fills by the other process -------------------------------------------------- */

/* A list of all bytes of a region, which takes its time to be copied. */
static struct ibv_exp_mem_region *longest_list(void)
{
	struct ibv_exp_mem_region *regions = calloc(LONGEST, sizeof(*regions));

	for (uint32_t i = 0; regions && i < LONGEST; i++)
		regions[i] = (struct ibv_exp_mem_region){leaf[LEAF_PLAIN].base + i,
							 leaf[LEAF_PLAIN].mr, 1};
	return regions;
}

/*
 * The other process executes our fills, which waited behind a message that it posts the receive
 * request of, and dies at some moment. The key can be filled again, whatever it was when it died.
 */
static void killed_in_fill_row(void)
{
	enum { FILLS = 6, TURNS = 12 };
	struct ibv_exp_mem_region *regions = longest_list();
	struct ibv_mr *key = create_key(LONGEST, IBV_EXP_MR_INDIRECT_KLMS);
	struct list l = blocks_of(&leaf[LEAF_PLAIN]);
	struct node_link patient = link_default();

	row("the process that executes a fill is killed");
	l.type = IBV_EXP_UMR_MR_LIST;
	l.inlined = false;
	patient.rnr_retry = 7;
	for (int turn = 0; turn < TURNS; turn++) {
		struct node_send send = {.opcode = IBV_WR_SEND, .num_sge = 0};
		struct ibv_exp_send_wr fill[FILLS], *bad;
		struct ibv_wc wc;

		EXPECT(side_set_state(&a, 0, IBV_QPS_RESET) == 0 &&
			       side_set_state(&b, 0, IBV_QPS_RESET) == 0,
		       "to RESET");
		pair_connect(&a, 0, &patient, &b, 0, NULL);
		for (int i = 0; i < FILLS; i++) {
			fill[i] = fill_request(key, &l);
			fill[i].ext_op.umr.mem_list.mem_reg_list = regions;
			fill[i].ext_op.umr.num_mrs = LONGEST;
			fill[i].exp_send_flags |= IBV_EXP_SEND_SIGNALED;
			fill[i].next = i + 1 < FILLS ? &fill[i + 1] : NULL;
		}
		EXPECT(node_post_send(n, 0, &send, 1).ret == 0, "ibv_post_send");
		EXPECT(ibv_exp_post_send(n->qp[0], fill, &bad) == 0, "ibv_exp_post_send");
		begin(JOB_RECEIVE, key, 0);
		let_go_on((unsigned int)turn * 300);
		side_kill(&b);
		for (int i = 0; i < FILLS; i++) {
			if (node_poll(n, 0, 1, PATIENCE, &wc) != 1)
				DIE("no completion of fill %d", i);
			if (wc.status != IBV_WC_SUCCESS)
				break; /* it was the one */
		}
		replace();
		set(LEAF_PLAIN, OLD);
		l = blocks_of(&leaf[LEAF_PLAIN]);
		need_fill(key, &l);
		begin(JOB_READ, key, 1);
		EXPECT(side_end(&b) == FOUND_OLD, "reading afterwards");
		l.type = IBV_EXP_UMR_MR_LIST;
		l.inlined = false;
	}
	EXPECT(ibv_dereg_mr(key) == 0, "ibv_dereg_mr");
	free(regions);
}

static void run(void)
{
	pair_create(&b, QP_FLOW, &a, QP_FLOW, NULL);
	pair_connect(&b, QP_FLOW, NULL, &a, QP_FLOW, NULL);
	fill_row();
	two_fillers_row();
	crowd_row();
	rereg_row();
	ending_rows(false);
	ending_rows(true);
	killed_in_fill_row();
	pair_destroy(&b, QP_FLOW, &a, QP_FLOW);
}

int main(int argc, char **argv)
{
	side_work = job;
	return umr_test(argc, argv, run);
}
