/* SPDX-License-Identifier: MIT */
/*
 * Verbs that name a region which another thread re-registers without pause. The key is valid all
 * the time, so none of them may fail.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>
#include <infiniband/verbs_exp.h>

#include "rereg_fixture.h"

#define QP_SELF 4
#define REGION	65536u
#define CALLS	2000
#define CHANGES 500

static struct ibv_mr *mr;
static int changes; /* flags of ibv_rereg_mr() */
static unsigned int rights;
static atomic_bool stop;
static _Atomic uint64_t changed;

/* While a window is bound to the region, it cannot be re-registered. */
static void *changer(void *arg)
{
	while (!atomic_load(&stop)) {
		if (ibv_rereg_mr(mr, changes, NULL, n->arena + OLD_AT, REGION,
				 changes & ACCESS ? (int)rights : 0)) {
			if (errno != EBUSY)
				DIE("ibv_rereg_mr: errno %d", errno);
		} else {
			atomic_fetch_add(&changed, 1);
		}
	}
	return arg;
}

/* @use: return how often it failed. */
static void use_while_it_changes(const char *what, unsigned int access, int (*use)(void))
{
	static const int flags[] = {ACCESS, TRANSLATION, ACCESS | TRANSLATION};
	pthread_t thread;

	rights = access;
	for (size_t i = 0; i < COUNT_OF(flags); i++) {
		int calls, failed = 0;

		row("%s of a region that changes all the time (%s)", what, flags_name(flags[i]));
		changes = flags[i];
		atomic_store(&stop, false);
		atomic_store(&changed, 0);
		mr = ibv_reg_mr(n->pd, n->arena + OLD_AT, REGION, access);
		pthread_create(&thread, NULL, changer, NULL);
		for (calls = 0; calls < CALLS || atomic_load(&changed) < CHANGES; calls++)
			failed += use() != 0;
		atomic_store(&stop, true);
		pthread_join(thread, NULL);
		EXPECT(failed == 0, "%d of %d calls failed", failed, calls);
		EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	}
}

static int advise(enum ibv_advise_mr_advice advice, uint32_t flags)
{
	struct ibv_sge sge = {(uintptr_t)n->arena + OLD_AT, REGION, mr->lkey};

	return ibv_advise_mr(n->pd, advice, flags, &sge, 1);
}

static int advise_and_wait(void)
{
	return advise(IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH);
}

static int advise_later(void)
{
	return advise(IBV_ADVISE_MR_ADVICE_PREFETCH, 0);
}

static int prefetch(void)
{
	struct ibv_exp_prefetch_attr attr = {.flags = IBV_EXP_PREFETCH_WRITE_ACCESS,
					     .addr = n->arena + OLD_AT,
					     .length = REGION};

	return ibv_exp_prefetch_mr(mr, &attr);
}

static int finish(void)
{
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};

	if (node_poll(n, 0, 1, PROBE_PATIENCE, &wc) != 1)
		DIE("no completion");
	return wc.status == IBV_WC_SUCCESS ? 0 : EIO;
}

static int bind_type_1(void)
{
	struct ibv_mw *mw = ibv_alloc_mw(n->pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED,
				   .bind_info = {.mr = mr,
						 .addr = (uintptr_t)n->arena + OLD_AT,
						 .length = 4096,
						 .mw_access_flags = IBV_ACCESS_REMOTE_WRITE}};
	int err;

	err = ibv_bind_mw(n->qp[QP_SELF], mw, &bind);
	if (err == 0)
		err = finish();
	EXPECT(ibv_dealloc_mw(mw) == 0, "ibv_dealloc_mw");
	return err;
}

static int bind_type_2(void)
{
	struct ibv_mw *mw = ibv_alloc_mw(n->pd, IBV_MW_TYPE_2);
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = {.mw = mw,
			    .rkey = ibv_inc_rkey(mw->rkey),
			    .bind_info = {.mr = mr,
					  .addr = (uintptr_t)n->arena + OLD_AT,
					  .length = 4096,
					  .mw_access_flags = IBV_ACCESS_REMOTE_WRITE}},
	};
	struct ibv_send_wr *bad;
	int err = ibv_post_send(n->qp[QP_SELF], &wr, &bad);

	if (err == 0)
		err = finish();
	EXPECT(ibv_dealloc_mw(mw) == 0, "ibv_dealloc_mw");
	return err;
}

static struct ibv_pd *imported_pd;

static int import(void)
{
	struct ibv_mr *imported = ibv_import_mr(imported_pd, mr->handle);
	bool same;

	if (!imported)
		return errno;
	same = imported->lkey == mr->lkey && imported->rkey == mr->rkey;
	ibv_unimport_mr(imported);
	return same ? 0 : EIO;
}

static void import_rows(void)
{
	struct ibv_context *ctx = ibv_import_device(fcntl(n->ctx->cmd_fd, F_DUPFD_CLOEXEC, 0));

	imported_pd = ctx ? ibv_import_pd(ctx, n->pd->handle) : NULL;
	NEED(imported_pd);
	use_while_it_changes("ibv_import_mr()", PROBE_ALL, import);
	ibv_unimport_pd(imported_pd);
	EXPECT(ibv_close_device(ctx) == 0, "ibv_close_device");
}

static void run(void)
{
	const unsigned int odp = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND;

	use_while_it_changes("ibv_advise_mr()", odp, advise_and_wait);
	use_while_it_changes("ibv_advise_mr() without FLUSH", odp, advise_later);
	use_while_it_changes("ibv_exp_prefetch_mr()", odp, prefetch);
	pair_create(&a, QP_SELF, &a, QP_SELF, NULL);
	pair_connect(&a, QP_SELF, NULL, &a, QP_SELF, NULL);
	use_while_it_changes("ibv_bind_mw()", IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND,
			     bind_type_1);
	use_while_it_changes("a bind of a type 2 window",
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND, bind_type_2);
	pair_destroy(&a, QP_SELF, &a, QP_SELF);
	import_rows();
}

int main(int argc, char **argv)
{
	return rereg_test(argc, argv, run);
}
