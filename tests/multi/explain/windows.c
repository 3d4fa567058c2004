/* SPDX-License-Identifier: MIT */
/* Windows that cannot be bound, used or unbound, and keys that are not for that side. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/expect.h"
#include "recorder.h"

#define TYPE1	 IBV_MW_TYPE_1
#define TYPE2	 IBV_MW_TYPE_2
#define BINDABLE (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND)
#define BYTES	 4096u
#define PATIENCE 20000u

enum region { R_NONE, R_PLAIN, R_READ_ONLY, R_NO_BIND, R_OTHER_PD, R_DEAD, R_N };

struct bind_row {
	const char *name;
	enum av_check check;
	enum ibv_mw_type type;
	enum region region;
	uint64_t offset, length;
	unsigned int access;
	bool other_window, other_pd,
		bound; /* the key is of another window's index; the window is ... */
	uint64_t wanted, limit;
};

static struct node *n;
static struct ibv_mr *region[R_N], dead;

static void open_regions(void)
{
	struct ibv_mr *mr = ibv_reg_mr(n->pd, n->arena, BYTES, BINDABLE);

	dead = *mr;
	region[R_PLAIN] = ibv_reg_mr(n->pd, n->arena, BYTES, BINDABLE);
	region[R_READ_ONLY] = ibv_reg_mr(n->pd, n->arena, BYTES, IBV_ACCESS_MW_BIND);
	region[R_NO_BIND] = ibv_reg_mr(n->pd, n->arena, BYTES, IBV_ACCESS_LOCAL_WRITE);
	region[R_OTHER_PD] = ibv_reg_mr(n->other_pd, n->arena, BYTES, BINDABLE);
	ibv_dereg_mr(mr);
	region[R_DEAD] = &dead;
}

static void close_regions(void)
{
	for (enum region r = R_PLAIN; r < R_DEAD; r++)
		EXPECT(ibv_dereg_mr(region[r]) == 0, "ibv_dereg_mr");
}

static enum ibv_wc_status post(struct ibv_send_wr *wr)
{
	struct ibv_wc wc = {.status = IBV_WC_SUCCESS};
	struct ibv_send_wr *bad;

	wr->send_flags |= IBV_SEND_SIGNALED;
	EXPECT(ibv_post_send(n->qp[0], wr, &bad) == 0, "ibv_post_send");
	EXPECT(node_poll(n, 0, 1, PATIENCE, &wc) == 1, "no completion");
	return wc.status;
}

static struct ibv_mw *make_window(const struct bind_row *r)
{
	return ibv_alloc_mw(r->other_pd ? n->other_pd : n->pd, r->type);
}

static struct ibv_send_wr request(const struct bind_row *r, struct ibv_mw *mw)
{
	return (struct ibv_send_wr){
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = {.mw = mw,
			    .rkey = ibv_inc_rkey(mw->rkey),
			    .bind_info = {.mr = region[r->region],
					  .addr = (uintptr_t)n->arena + r->offset,
					  .length = r->length,
					  .mw_access_flags = r->access}},
	};
}

static void bind_first(struct ibv_mw *mw)
{
	const struct bind_row good = {
		.region = R_PLAIN, .length = 64, .access = IBV_ACCESS_REMOTE_READ};
	struct ibv_send_wr wr = request(&good, mw);

	EXPECT(post(&wr) == IBV_WC_SUCCESS, "first bind");
}

/* clang-format off */
static const struct bind_row bind_rows[] = {
	{.name = "window of another domain", .check = AV_CHECK_BIND_PD, .type = TYPE2, .region = R_PLAIN, .length = 64, .other_pd = true, .wanted = ANY, .limit = ANY},
	{.name = "bound twice", .check = AV_CHECK_BIND_BOUND, .type = TYPE2, .region = R_PLAIN, .length = 64, .bound = true, .wanted = ANY, .limit = ANY},
	{.name = "unknown rights", .check = AV_CHECK_BIND_FLAGS, .type = TYPE2, .region = R_PLAIN, .length = 64, .access = IBV_ACCESS_ON_DEMAND, .wanted = IBV_ACCESS_ON_DEMAND, .limit = ANY},
	{.name = "type 2 of length 0", .check = AV_CHECK_BIND_LENGTH, .type = TYPE2, .region = R_PLAIN, .wanted = 0, .limit = ANY},
	{.name = "type 1 zero based", .check = AV_CHECK_BIND_TYPE, .type = TYPE1, .region = R_PLAIN, .length = 64, .access = IBV_ACCESS_ZERO_BASED, .wanted = IBV_ACCESS_ZERO_BASED, .limit = 64},
	{.name = "dead region", .check = AV_CHECK_BIND_REGION, .type = TYPE2, .region = R_DEAD, .length = 64, .wanted = ANY, .limit = ANY},
	{.name = "region of another domain", .check = AV_CHECK_BIND_REGION_PD, .type = TYPE2, .region = R_OTHER_PD, .length = 64, .wanted = ANY, .limit = ANY},
	{.name = "region without MW_BIND", .check = AV_CHECK_BIND_REGION_FLAG, .type = TYPE2, .region = R_NO_BIND, .length = 64, .wanted = IBV_ACCESS_MW_BIND, .limit = IBV_ACCESS_LOCAL_WRITE},
	{.name = "writable window, region is not", .check = AV_CHECK_BIND_RIGHTS, .type = TYPE2, .region = R_READ_ONLY, .length = 64, .access = IBV_ACCESS_REMOTE_WRITE, .wanted = IBV_ACCESS_REMOTE_WRITE, .limit = IBV_ACCESS_MW_BIND},
	{.name = "window ends behind", .check = AV_CHECK_BIND_RANGE, .type = TYPE2, .region = R_PLAIN, .offset = BYTES - 32, .length = 64, .wanted = 32, .limit = BYTES},
};
/* clang-format on */

static void expect_request(const struct seed *seed, enum ibv_wc_status status, uint32_t opcode)
{
	struct av_flight_record r;

	if (!recorder_find(seed, &r))
		return;
	EXPECT(r.status == status && r.opcode == opcode, "status %u opcode %u", r.status, r.opcode);
	EXPECT(r.pid == getpid() && r.number == n->qp[0]->qp_num, "pid %d QP %u", r.pid, r.number);
}

static void connect(void)
{
	pair_create(&a, 0, &b, 0, NULL);
	pair_connect(&a, 0, NULL, &b, 0, NULL);
}

static void run_bind(const struct bind_row *r)
{
	const struct seed seed = {r->name, r->check, AV_FLIGHT_REQUEST, r->wanted, r->limit};
	struct ibv_mw *mw;
	struct ibv_send_wr wr;

	row("bind: %s", r->name);
	connect();
	mw = make_window(r);
	if (r->bound)
		bind_first(mw);
	wr = request(r, mw);
	recorder_begin();
	EXPECT(post(&wr) == IBV_WC_MW_BIND_ERR, "status");
	expect_request(&seed, IBV_WC_MW_BIND_ERR, IBV_WR_BIND_MW);
	EXPECT(ibv_dealloc_mw(mw) == 0, "ibv_dealloc_mw");
	pair_destroy(&a, 0, &b, 0);
}

/* The window was deallocated between the program's taking its key and the bind. */
static void seed_no_window(void)
{
	const struct bind_row r = {.type = TYPE2, .region = R_PLAIN, .length = 64};
	const struct seed seed = {"window deallocated", AV_CHECK_BIND_WINDOW, AV_FLIGHT_REQUEST,
				  ANY, ANY};
	struct ibv_mw *mw, copy;
	struct ibv_send_wr wr;

	row("bind: %s", seed.name);
	connect();
	mw = make_window(&r);
	copy = *mw;
	ibv_dealloc_mw(mw);
	wr = request(&r, &copy);
	recorder_begin();
	EXPECT(post(&wr) == IBV_WC_MW_BIND_ERR, "status");
	expect_request(&seed, IBV_WC_MW_BIND_ERR, IBV_WR_BIND_MW);
	pair_destroy(&a, 0, &b, 0);
}

static void seed_local_invalidate(const char *name, enum av_check check, bool window,
				  enum ibv_wc_status status)
{
	const struct seed seed = {name, check, AV_FLIGHT_REQUEST, ANY, ANY};
	struct ibv_mw *mw = ibv_alloc_mw(n->pd, TYPE2);
	struct ibv_send_wr wr = {.opcode = IBV_WR_LOCAL_INV,
				 .invalidate_rkey = window ? mw->rkey : region[R_PLAIN]->rkey};

	row("invalidate: %s", name);
	connect();
	recorder_begin();
	EXPECT(post(&wr) == status, "status");
	expect_request(&seed, status, IBV_WR_LOCAL_INV);
	EXPECT(ibv_dealloc_mw(mw) == 0, "ibv_dealloc_mw");
	pair_destroy(&a, 0, &b, 0);
}

/* --- using them: the requester is a, as everywhere, and so is the owner of the keys --- */

/* Queue pairs 0 and 2 of a are connected with each other. */
static void connect_own(void)
{
	pair_create(&a, 0, &a, 2, NULL);
	pair_connect(&a, 0, NULL, &a, 2, NULL);
}

static void disconnect_own(void)
{
	pair_destroy(&a, 0, &a, 2);
}

static void use(const char *name, enum av_check check, enum ibv_wr_opcode op, uint32_t lkey,
		uint32_t rkey, enum ibv_wc_status status)
{
	const struct seed seed = {name, check, AV_FLIGHT_REQUEST, ANY, ANY};
	struct ibv_sge sge = {.addr = (uintptr_t)n->arena + 64, .length = 8, .lkey = lkey};
	struct ibv_send_wr wr = {
		.opcode = op,
		.sg_list = &sge,
		.num_sge = 1,
		.wr = {.rdma = {.remote_addr = (uintptr_t)n->arena, .rkey = rkey}}};

	row("use: %s", name);
	recorder_begin();
	EXPECT(post(&wr) == status, "status");
	expect_request(&seed, status, op);
}

static void seed_uses(void)
{
	uint32_t good = n->info.key[KEY_FULL];
	struct ibv_mw *mw = ibv_alloc_mw(n->pd, TYPE2);
	struct ibv_mr *null = ibv_alloc_null_mr(n->pd);

	connect_own();
	use("unbound window", AV_CHECK_KEY_UNBOUND, IBV_WR_RDMA_WRITE, good, mw->rkey,
	    IBV_WC_REM_ACCESS_ERR);
	disconnect_own();
	connect_own();
	bind_first(mw);
	use("window of another queue pair", AV_CHECK_KEY_WINDOW_QP, IBV_WR_RDMA_READ, good,
	    mw->rkey, IBV_WC_REM_ACCESS_ERR);
	disconnect_own();
	connect_own();
	bind_first(mw);
	use("window as lkey", AV_CHECK_KEY_IS_WINDOW, IBV_WR_RDMA_WRITE, mw->rkey, good,
	    IBV_WC_LOC_PROT_ERR);
	disconnect_own();
	connect_own();
	use("null region as rkey", AV_CHECK_KEY_IS_NULL, IBV_WR_RDMA_WRITE, good, null->lkey,
	    IBV_WC_REM_ACCESS_ERR);
	disconnect_own();
	ibv_dereg_mr(null);
	EXPECT(ibv_dealloc_mw(mw) == 0, "ibv_dealloc_mw");
}

static void seed_unmapped(void)
{
	uint8_t *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = ibv_reg_mr(n->pd, p, BYTES, 0);
	const struct seed seed = {"unmapped since", AV_CHECK_KEY_UNMAPPED, AV_FLIGHT_REQUEST, ANY,
				  ANY};
	const struct seed fault = {"unmapped since", AV_CHECK_MEMORY_FAULT, AV_FLIGHT_REQUEST, ANY,
				   ANY};
	struct ibv_sge sge = {.addr = (uintptr_t)p, .length = 8, .lkey = mr->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .wr = {.rdma = {.remote_addr = (uintptr_t)n->arena,
						 .rkey = n->info.key[KEY_FULL]}}};
	struct av_flight_record r;

	row("use: %s", seed.name);
	connect_own();
	munmap(p, BYTES);
	/* Something else lies there now, as it well may. */
	mmap(p, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	recorder_begin();
	if (post(&wr) == IBV_WC_LOC_PROT_ERR)
		recorder_find(&seed, &r);
	else
		recorder_except(AV_CHECK_KEY_UNMAPPED, "unmapping cannot be noticed in this place");
	(void)fault;
	disconnect_own();
	ibv_dereg_mr(mr);
	munmap(p, BYTES);
}

/* Deregistering what has a window. */
static void seed_windows_left(void)
{
	const struct seed seed = {"region with a window", AV_CHECK_MR_WINDOWS, AV_FLIGHT_REFUSAL,
				  ANY, ANY};
	struct ibv_mw *mw = ibv_alloc_mw(n->pd, TYPE2);
	struct av_flight_record r;

	row("verb: %s", seed.name);
	connect_own();
	bind_first(mw);
	recorder_begin();
	EXPECT(ibv_dereg_mr(region[R_PLAIN]) == EBUSY, "ibv_dereg_mr");
	recorder_find(&seed, &r);
	ibv_dealloc_mw(mw);
	disconnect_own();
}

void seed_windows(void)
{
	n = a.node;
	open_regions();
	for (size_t i = 0; i < COUNT_OF(bind_rows); i++)
		run_bind(&bind_rows[i]);
	seed_no_window();
	seed_local_invalidate("window that is not bound", AV_CHECK_INVALIDATE_UNBOUND, true,
			      IBV_WC_MW_BIND_ERR);
	seed_local_invalidate("region's key", AV_CHECK_INVALIDATE_WINDOW, false,
			      IBV_WC_LOC_QP_OP_ERR);
	seed_uses();
	seed_unmapped();
	seed_windows_left();
	close_regions();
}
