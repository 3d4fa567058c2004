/* SPDX-License-Identifier: MIT */
/* Shared memory regions: all see the same bytes, by their own loads and stores and by RDMA through
 * anybody's key. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "exp/shared_mr_fixture.h"
#include "lib/apart.h"
#include "lib/expect.h"
#include "lib/page_backing.h"
#include "lib/probe.h"
#include "lib/sandbox.h"

/* b asks for RDMA through the original's key and through the other's: a has both, of two processes'
 * pages. */
static void bytes_rows(bool to_original)
{
	static const size_t lengths[] = {4096, 2 * MB, 5 * MB};
	struct spawned other;

	spawn_self(&other, WORD);
	for (size_t i = 0; i < COUNT_OF(lengths); i++) {
		size_t length = lengths[i];
		struct answer r = {.handle = 0};
		struct ibv_mr *mr;
		uint64_t *word;

		row("bytes of a shared region of %zu KiB, RDMA to the %s", length >> 10,
		    to_original ? "original" : "second region");
		if (to_original) {
			mr = create(a.node->pd, length, SHARE);
			if (mr)
				r = tell(&other, (struct order){.what = DO_ATTACH,
								.handle = mr->handle,
								.access = RIGHTS});
		} else {
			r = tell_create(&other, length, SHARE);
			mr = attach(a.node->pd, r.handle, NULL, RIGHTS);
		}
		if (!EXPECT(mr && r.err == 0, "errno %d, %d", errno, r.err))
			continue;
		pattern_fill(mr->addr, length, 1, 0);
		EXPECT(tell(&other, (struct order){.what = DO_CHECK, .seed = 1}).found == -1,
		       "from here");
		(void)tell(&other, (struct order){.what = DO_FILL, .seed = 2});
		EXPECT(pattern_check(mr->addr, length, 2, 0) == -1, "from there");
		pattern_fill(mr->addr, length, PROBE_SEED, 0);
		memset(mr->addr, 0, 4096);
		side_fill(&b, PROBE_AT, 4096, PROBE_SEED, 0);
		EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_WRITE, (uintptr_t)mr->addr, mr->rkey, 4096,
			     IBV_WC_SUCCESS);
		EXPECT(tell(&other, (struct order){.what = DO_CHECK, .seed = PROBE_SEED}).found ==
			       -1,
		       "by RDMA WRITE");
		EXPECT(pattern_check(mr->addr, length, PROBE_SEED, 0) == -1, "by RDMA WRITE, here");
		(void)tell(&other, (struct order){.what = DO_FILL, .seed = 3});
		EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)mr->addr + length - 4096,
			     mr->rkey, 4096, IBV_WC_SUCCESS);
		EXPECT(side_check(&b, PROBE_AT, 4096, 3, length - 4096) == -1, "by RDMA READ");
		word = (uint64_t *)mr->addr + 8;
		*word = 10;
		EXPECT_PROBE(&b, &a, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, (uintptr_t)word, mr->rkey, 8,
			     IBV_WC_SUCCESS);
		EXPECT(*word == 11 && side_peek(&b, PROBE_AT) == 10, "by an atomic");
		EXPECT(tell(&other, (struct order){.what = DO_DEREG}).err == 0,
		       "ibv_dereg_mr there");
		EXPECT(*word == 11, "the bytes went");
		EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)word, mr->rkey, 8,
			     IBV_WC_SUCCESS);
		dereg(mr);
	}
	end(&other);
}

/* Windows onto a region on another's pages. */
static void window_row(void)
{
	struct ibv_exp_reg_mr_in in = {
		.pd = a.node->pd, .length = 8192, .exp_access = SHARE | IBV_EXP_ACCESS_MW_BIND};
	struct ibv_mr *original = ibv_exp_reg_mr(&in);
	struct ibv_mr *mr =
		attach(a.node->pd, original->handle, NULL, RIGHTS | IBV_EXP_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(a.node->pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {.wr_id = 1, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_wc wc;

	row("a window onto a shared region");
	bind.bind_info = (struct ibv_mw_bind_info){.mr = mr,
						   .addr = (uintptr_t)mr->addr + 100,
						   .length = 1000,
						   .mw_access_flags = IBV_ACCESS_REMOTE_READ};
	EXPECT(ibv_bind_mw(a.node->qp[0], mw, &bind) == 0 &&
		       node_poll(a.node, 0, 1, 5000, &wc) == 1 && wc.status == IBV_WC_SUCCESS,
	       "errno %d", errno);
	pattern_fill(original->addr, 8192, 9, 0);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)mr->addr + 100, mw->rkey, 1000,
		     IBV_WC_SUCCESS);
	EXPECT(side_check(&b, PROBE_AT, 1000, 9, 100) == -1, "bytes");
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)mr->addr + 101, mw->rkey, 1000,
		     IBV_WC_REM_ACCESS_ERR);
	EXPECT(ibv_dealloc_mw(mw) == 0, "ibv_dealloc_mw");
	dereg(mr);
	dereg(original);
}

static void undo_row(bool second)
{
	struct ibv_mr *original = create(a.node->pd, 8192, SHARE);
	struct ibv_mr *mr = attach(a.node->pd, original->handle, NULL, RIGHTS),
		      *changed = second ? mr : original, *other = second ? original : mr;
	uint32_t handle = original->handle;

	row("a change of translation ends sharing: of the %s region", second ? "second" : "first");
	pattern_fill(other->addr, 8192, 8, 0);
	EXPECT(ibv_exp_rereg_mr(changed, IBV_EXP_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 4096,
				IBV_EXP_ACCESS_ALLOCATE_MR, NULL) == 0,
	       "errno %d", errno);
	EXPECT(changed->length == 4096 && *(uint64_t *)changed->addr == 0, "not fresh memory");
	*(uint64_t *)changed->addr = 1;
	EXPECT(pattern_check(other->addr, 8192, 8, 0) == -1, "bytes of the other");
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)other->addr, other->rkey, 4096,
		     IBV_WC_SUCCESS);
	EXPECT(side_check(&b, PROBE_AT, 4096, 8, 0) == -1, "bytes of the other by RDMA");
	mr = attach(a.node->pd, handle, NULL, RIGHTS);
	EXPECT(second ? mr != NULL : !mr && errno == EINVAL, "%p, errno %d", (void *)mr, errno);
	if (mr)
		dereg(mr);
	EXPECT_NULL(attach(a.node->pd, second ? changed->handle : handle, NULL, RIGHTS), EINVAL);
	dereg(changed);
	dereg(other);
}

/* The region in a context that imports from its own. */
static void import_rows(void)
{
	static const struct {
		const char *name;
		uint64_t access;
	} rows[] = {{"allocated", RIGHTS | IBV_EXP_ACCESS_ALLOCATE_MR}, {"shared", SHARE}};
	struct ibv_context *importer = ibv_import_device(dup(a.node->ctx->cmd_fd));
	struct ibv_pd *pd = importer ? ibv_import_pd(importer, a.node->pd->handle) : NULL;

	for (size_t i = 0; i < COUNT_OF(rows) && pd; i++) {
		struct ibv_mr *mr = create(a.node->pd, 8192, rows[i].access), *imported;

		row("importing a region that is %s", rows[i].name);
		if (!EXPECT(mr != NULL, "errno %d", errno))
			continue;
		imported = ibv_import_mr(pd, mr->handle);
		if (EXPECT(imported != NULL, "errno %d", errno)) {
			EXPECT(imported->lkey == mr->lkey && imported->length == 8192,
			       "another region");
			ibv_unimport_mr(imported);
		}
		dereg(mr);
	}
	EXPECT(pd != NULL, "importing: errno %d", errno);
	if (pd)
		ibv_unimport_pd(pd);
	EXPECT(importer && ibv_close_device(importer) == 0, "ibv_close_device");
}

int main(int argc, char **argv)
{
	fixture_open(argc, argv);
	bytes_rows(true);
	bytes_rows(false);
	window_row();
	import_rows();
	undo_row(false);
	undo_row(true);
	return fixture_close();
}
