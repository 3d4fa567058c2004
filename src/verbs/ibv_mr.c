/* SPDX-License-Identifier: MIT */
#include "base/real_calls.h"
#include "verbs/misuse.h"

/* --- regions on memory that the library allocates, and shared regions ------------ */

static struct av_page_policy get_mr_pages(const struct av_context *ctx)
{
	static const struct av_page_object regions = {.name = "MR", .fallback = AV_ALLOC_ALL};

	return av_environment_pages(ctx, &regions);
}

static int check_reg_mr(struct ibv_pd *pd, size_t length)
{
	struct av_context *ctx = av_context_of(pd->context);
	const uint64_t limit = ctx->dev->attr.max_mr_size;
	int err = av_pd_find(pd) ? av_verb_err(ctx, AV_VERB_REG_MR) : ENOENT;

	return err || length <= limit ? err : av_refuse(EINVAL, AV_CHECK_MR_LENGTH, length, limit);
}

/* Creates the region of allocated memory. On failure it frees the memory. */
static struct ibv_mr *publish_allocated(struct ibv_pd *pd, struct av_allocated *memory,
					struct av_key *what)
{
	struct av_mr *mr = av_mr_publish(pd, what, memory->map, NULL);

	if (!mr) {
		av_allocated_end(memory, false);
		return av_fail_null(AV_VERB_EXP_REG_MR, ENOMEM);
	}
	mr->memory = *memory;
	mr->sort = AV_MR_ALLOCATED;
	mr->iova = (uintptr_t)memory->map;
	if (memory->shared)
		mr->handle = mr->ibv.handle = av_shared_handle(memory->seg, mr->ibv.lkey);
	return &mr->ibv;
}

struct ibv_mr *av_mr_allocate(struct ibv_pd *pd, struct av_allocate_request *req)
{
	struct av_context *ctx = av_context_of(pd->context);
	struct av_allocated memory;
	struct av_key what;
	int err = check_reg_mr(pd, req->length);

	if (err == 0) {
		req->policy = get_mr_pages(ctx);
		err = av_allocated_make(ctx->seg, req, &memory, &what);
	}
	return err ? av_fail_null(AV_VERB_EXP_REG_MR, err) : publish_allocated(pd, &memory, &what);
}

struct ibv_mr *av_mr_attach(struct ibv_pd *pd, const struct av_attach_request *req)
{
	struct av_allocated memory;
	struct av_key what;
	int err = check_reg_mr(pd, 0);

	if (err == 0)
		err = av_allocated_attach(av_context_of(pd->context)->seg, req, &memory, &what);
	return err ? av_fail_null(AV_VERB_EXP_REG_SHARED_MR, err)
		   : publish_allocated(pd, &memory, &what);
}

#define AV_ACCESS_NOBODYS (1u << 30) /* a bit without a meaning */

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

struct av_mr *av_mr_publish(struct ibv_pd *ibv_pd, struct av_key *what, void *addr,
			    struct av_dm *dm)
{
	struct av_context *ctx = av_context_of(ibv_pd->context);
	struct av_pd *pd = av_pd_find(ibv_pd);
	struct av_mr *mr = pd ? calloc(1, sizeof(*mr)) : NULL;
	bool null = what->kind == AV_KEY_NULL; /* such a region keeps no domain */

	if (mr) {
		what->pd = av_pd_id(pd);
		mr->pd = null ? NULL : pd;
		mr->dm = dm;
		mr->sort = null ? AV_MR_NULL : dm ? AV_MR_DEVICE : AV_MR_PLAIN;
		mr->access = what->access;
		mr->heap = what->heap;
		mr->ibv.context = ibv_pd->context;
		mr->ibv.pd = ibv_pd;
		mr->ibv.addr = addr;
		mr->ibv.length = what->length;
		what->access = av_lkey_rights(ctx->seg, what);
		mr->ibv.lkey = av_key_create(ctx->seg, what, (uint32_t)ctx->dev->attr.max_mr);
		mr->handle = mr->ibv.handle = AV_KEY_INDEX(mr->ibv.lkey);
	}
	if (!mr || !mr->ibv.lkey || (!null && !av_rkey_make(ctx, mr, mr->access)) ||
	    av_table_set(&ctx->mrs, mr->handle, mr)) {
		if (mr && mr->ibv.lkey) {
			av_rkey_free(ctx, mr);
			(void)!av_key_destroy(ctx->seg, mr->ibv.lkey);
		}
		av_heap_region_end(ctx->seg, what->heap);
		return av_object_fail(AV_VERB_REG_MR, mr, pd ? ENOMEM : ENOENT);
	}
	if (mr->pd)
		av_pd_count(pd, AV_PD_MR, 1);
	return mr;
}

/* An ODP region ends or moves, after its key: takes its pages out of the device's table. */
static void odp_end(struct av_context *ctx, const struct av_mr *mr)
{
	if (!(mr->access & IBV_ACCESS_ON_DEMAND) || mr->sort != AV_MR_PLAIN || ctx->forked)
		return;
	(void)av_odp_clear(ctx->seg, (uintptr_t)mr->ibv.addr, mr->ibv.length);
	av_odp_region_gauge(ctx->seg, (uintptr_t)mr->ibv.addr, mr->ibv.length, -1);
}

/* Children of fork() may have ODP memory, since nothing pins it. */
static bool is_fork_guarded(const struct av_mr *mr)
{
	return mr->sort == AV_MR_PLAIN && !(mr->access & IBV_ACCESS_ON_DEMAND);
}

struct ibv_mr *av_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			 uint32_t access)
{
	struct av_context *ctx = av_context_of(pd->context);
	struct av_region_request req = {
		.addr = (uintptr_t)addr,
		.length = length,
		.iova = iova,
		.access = access,
	};
	struct av_key what;
	struct av_mr *mr;
	int err = check_reg_mr(pd, length);

	if (err == 0)
		err = av_model_check_access(ctx->dev, access);
	if (err == 0)
		err = av_region_prepare(ctx->seg, &req, &what);
	if (err)
		return av_fail_null(AV_VERB_REG_MR, err);
	if (what.kind == AV_KEY_ODP && av_odp_has_table(ctx->seg))
		av_odp_notify_begin(ctx->seg);
	if (what.kind == AV_KEY_REGION)
		err = av_fork_guard((uintptr_t)addr, length);
	if (err) {
		av_heap_region_end(ctx->seg, what.heap);
		return av_fail_null(AV_VERB_REG_MR, err);
	}
	mr = av_mr_publish(pd, &what, addr, NULL);
	if (!mr) {
		if (what.kind == AV_KEY_REGION)
			(void)!av_fork_unguard((uintptr_t)addr, length);
		return NULL;
	}
	mr->iova = iova;
	if (what.kind == AV_KEY_ODP)
		av_odp_region_gauge(ctx->seg, (uintptr_t)addr, length, 1);
	return &mr->ibv;
}

/* Makes AV_ACCESS_TUNNELED an unknown bit, since plain verbs do not have it. */
static uint32_t plain_rights(uint32_t access)
{
	return access & AV_ACCESS_TUNNELED ? AV_ACCESS_NOBODYS : access;
}

AV_EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	AV_OURS_OR_NEXT(av_fail_null, REG_MR, ibv_reg_mr, "IBVERBS_1.1", pd, addr, length, access);
	return AV_MADE_HERE(struct av_mr, av_reg_mr(pd, addr, length, (uintptr_t)addr,
						    plain_rights((uint32_t)access)));
}

AV_EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length,
					 uint64_t iova, int access)
{
	AV_OURS_OR_NEXT(av_fail_null, REG_MR, ibv_reg_mr_iova, "IBVERBS_1.7", pd, addr, length,
			iova, access);
	return AV_MADE_HERE(struct av_mr,
			    av_reg_mr(pd, addr, length, iova, plain_rights((uint32_t)access)));
}

AV_EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length,
					  uint64_t iova, unsigned int access)
{
	AV_OURS_OR_NEXT(av_fail_null, REG_MR, ibv_reg_mr_iova2, "IBVERBS_1.8", pd, addr, length,
			iova, access);
	return AV_MADE_HERE(struct av_mr, av_reg_mr(pd, addr, length, iova, plain_rights(access)));
}

static struct ibv_mr *alloc_null_mr(struct ibv_pd *pd)
{
	AV_BEGIN(av_fail_null, ALLOC_NULL_MR, pd->context);
	struct av_key what = {
		.kind = AV_KEY_NULL, .access = IBV_ACCESS_LOCAL_WRITE, .length = SIZE_MAX};
	int err = av_verb_err(av_context_of(pd->context), AV_VERB_ALLOC_NULL_MR);
	struct av_mr *mr;

	if (err)
		return av_fail_null(AV_VERB_ALLOC_NULL_MR, err);
	mr = av_mr_publish(pd, &what, NULL, NULL);
	return mr ? &mr->ibv : NULL;
}

/* With the rkey, if that is another one. Return: as av_key_destroy() */
static int end_own_key(struct av_context *ctx, struct av_mr *mr)
{
	int err = av_rkey_withdraw(ctx, mr) ? av_key_destroy(ctx->seg, mr->ibv.lkey) : ETIMEDOUT;

	if (err)
		av_rkey_restore(ctx, mr, mr->access);
	else
		av_rkey_free(ctx, mr);
	return err;
}

/* Destroys the key. Return: as av_key_destroy() */
static int end_key(struct av_context *ctx, struct av_mr *mr)
{
	struct av_seg *origin;

	if (ctx->forked)
		return 0;
	if (mr->access & IBV_ACCESS_ON_DEMAND)
		av_odp_quiesce(ctx->seg);
	if (mr->sort != AV_MR_IMPORTED)
		return end_own_key(ctx, mr);
	origin = av_seg_origin(ctx->seg);
	if (origin) {
		av_key_kill(origin, mr->ibv.rkey);
		av_key_kill(origin, mr->ibv.lkey);
	}
	return 0;
}

/* Frees the private half of a region and what it holds. The key has been destroyed. */
static void forget_mr(struct av_mr *mr)
{
	struct av_context *ctx = av_context_of(mr->ibv.context);

	if (!ctx->forked)
		av_heap_region_end(ctx->seg, mr->heap);
	if (mr->dm)
		av_dm_region_ended(mr->dm, ctx->forked);
	if (mr->mapping)
		av_munmap(mr->mapping, mr->mapped);
	av_allocated_end(&mr->memory, ctx->forked);
	if (!ctx->forked) {
		if (mr->sort == AV_MR_INDIRECT)
			av_klm_free(ctx->seg, mr->list, mr->klms);
		av_deferred_settle(ctx->seg, mr->ibv.lkey);
		av_deferred_sweep(ctx->seg);
	}
	if (mr->pd)
		av_pd_count(mr->pd, AV_PD_MR, -1);
	free(mr);
}

/* One thread at a time may change or end a region. The kernel refuses a second one, too: EBUSY. */
static int begin_change(struct av_mr *mr)
{
	return atomic_exchange(&mr->changing, true) ? av_refuse(EBUSY, AV_CHECK_MR_CHANGING, 0, 0)
						    : 0;
}

AV_EXPORT int ibv_dereg_mr(struct ibv_mr *ibv)
{
	AV_OURS_OR_NEXT(av_fail_errno, DEREG_MR, ibv_dereg_mr, "IBVERBS_1.1", ibv);
	AV_FAIL_ON_DEMAND(av_fail_errno, DEREG_MR, ibv->context, 0, ibv->lkey);
	struct av_context *ctx = av_context_of(ibv->context);
	struct av_mr *mr = av_mr_find(ibv);
	int err;

	if (!mr)
		return av_fail_errno(AV_VERB_DEREG_MR, ENOENT);
	err = ctx->forked ? 0 : begin_change(mr); /* a child may inherit one that nobody ends */
	if (err)
		return av_fail_errno(AV_VERB_DEREG_MR, err);
	av_misuse_ends(AV_MISUSE_OF("MR", mr, mr->ibv.lkey), mr);
	/* The handle goes first: another thread may get the key's index as soon as that is free. */
	av_table_clear(&ctx->mrs, av_mr_place(ibv->handle));
	err = end_key(ctx, mr);
	if (err) {
		(void)!av_table_set(&ctx->mrs, av_mr_place(ibv->handle), mr);
		atomic_store(&mr->changing, false);
		if (err == ETIMEDOUT)
			return av_fail_errno(AV_VERB_DEREG_MR, EBUSY);
		(void)av_refuse(EBUSY, AV_CHECK_MR_WINDOWS, 0, 0);
		return av_misuse_busy(AV_VERB_DEREG_MR, AV_MISUSE_OF("MR", mr, mr->ibv.lkey));
	}
	odp_end(ctx, mr);
	if (is_fork_guarded(mr) && !ctx->forked)
		(void)!av_fork_unguard((uintptr_t)mr->ibv.addr, mr->ibv.length);
	forget_mr(mr);
	return 0;
}

/* --- importing ------------------------------------------------------------------- */

/* Copies the key of the origin's region if it is on @pd. Waits for re-registration. 0: none */
static uint32_t origin_region(struct av_context *ctx, const struct av_pd *pd, uint32_t handle,
			      struct av_key *what, uint32_t *rkey)
{
	struct av_seg *origin = av_seg_origin(ctx->seg);
	const struct av_key *entry =
		origin && handle ? av_key_entry(origin, av_mr_place(handle) << 8) : NULL;
	uint32_t key = entry ? atomic_load(&entry->held) : 0;
	struct av_key *k = origin ? av_key_lock_region(origin, key) : NULL;

	if (!k)
		return 0;
	av_key_describe(k, what);
	av_lock_release(&k->lock);
	if ((what->kind != AV_KEY_REGION && what->kind != AV_KEY_PAGES &&
	     what->kind != AV_KEY_DEVICE) ||
	    what->pd != av_pd_id(pd))
		return 0;
	*rkey = av_window_rkey_of(origin, key);
	return key;
}

AV_EXPORT struct ibv_mr *ibv_import_mr(struct ibv_pd *ibv, uint32_t handle)
{
	AV_OURS_OR_NEXT(av_fail_null, IMPORT_MR, ibv_import_mr, "IBVERBS_1.10", ibv, handle);
	AV_FAIL_ON_DEMAND(av_fail_null, IMPORT_MR, ibv->context, 0, 0);
	struct av_context *ctx = av_context_of(ibv->context);
	struct av_pd *pd = av_pd_find(ibv);
	struct av_key what;
	uint32_t rkey = 0, key = pd ? origin_region(ctx, pd, handle, &what, &rkey) : 0;
	struct av_mr *mr = av_object_new(AV_VERB_IMPORT_MR, key ? 0 : ENOENT, sizeof(*mr));
	int err;

	if (!mr)
		return NULL;
	mr->sort = AV_MR_IMPORTED;
	mr->pd = pd;
	mr->access = what.access;
	mr->ibv.context = ibv->context;
	mr->ibv.pd = ibv;
	mr->ibv.length = what.length;
	mr->handle = mr->ibv.handle = handle;
	mr->ibv.lkey = key;
	mr->ibv.rkey = rkey;
	av_pd_count(pd, AV_PD_MR, 1);
	err = av_table_add(&ctx->mrs, av_mr_place(handle), mr);
	if (err == 0)
		return &mr->ibv;
	av_pd_count(pd, AV_PD_MR, -1);
	return av_object_fail(AV_VERB_IMPORT_MR, mr, err);
}

AV_EXPORT void ibv_unimport_mr(struct ibv_mr *ibv)
{
	AV_BEGIN_OR_PASS_ON(ibv->context, ibv_unimport_mr, "IBVERBS_1.10", ibv);
	struct av_mr *mr = av_mr_find(ibv);

	if (!mr || mr->sort != AV_MR_IMPORTED)
		return;
	av_table_clear(&av_context_of(ibv->context)->mrs, av_mr_place(ibv->handle));
	forget_mr(mr);
}

/* --- re-registration ------------------------------------------------------------- */

/* Wrong input fails before anything happens: ibv_rereg_mr(3). */
static int fail_input(enum av_verb verb, int err)
{
	(void)av_fail_errno(verb, err);
	return IBV_REREG_MR_ERR_INPUT;
}

static int fail_command(int err)
{
	(void)av_fail_errno(AV_VERB_REREG_MR, err);
	return IBV_REREG_MR_ERR_CMD;
}

static bool bad_input(const struct av_mr *mr, const struct av_mr_change *c)
{
	const int known = IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD |
			  IBV_REREG_MR_CHANGE_ACCESS;

	if (!mr)
		return false; /* the device reports it */
	return mr->sort == AV_MR_NULL || mr->sort == AV_MR_DMABUF || mr->sort == AV_MR_IMPORTED ||
	       (c->flags & ~known) ||
	       ((c->flags & IBV_REREG_MR_CHANGE_TRANSLATION) &&
		((!c->addr && !c->allocate) || !c->length)) ||
	       (c->access && !(c->flags & IBV_REREG_MR_CHANGE_ACCESS));
}

/* Is the new range in the memory that the library allocated, which the change frees? */
static bool moves_onto_itself(const struct av_mr *mr, const struct av_mr_change *c)
{
	uintptr_t addr = (uintptr_t)c->addr, own = (uintptr_t)mr->memory.map;

	return mr->memory.map && (c->flags & IBV_REREG_MR_CHANGE_TRANSLATION) && !c->allocate &&
	       (av_range_within(addr, 1, own, mr->memory.bytes) ||
		av_range_within(own, 1, addr, c->length));
}

/* An ODP region never becomes a pinned one, nor the reverse, nor uses memory that we allocate. */
static int check_paging(const struct av_mr *mr, const struct av_mr_change *c)
{
	bool moves = c->flags & IBV_REREG_MR_CHANGE_TRANSLATION,
	     changes = c->flags & IBV_REREG_MR_CHANGE_ACCESS;
	bool on_pages = c->allocate || (mr->sort == AV_MR_ALLOCATED && !moves);

	if (changes && on_pages && (c->access & IBV_ACCESS_ON_DEMAND))
		return av_refuse(EINVAL, AV_CHECK_REREG_PAGING, c->access, mr->access);
	if (changes && ((mr->access ^ c->access) & IBV_ACCESS_ON_DEMAND))
		return av_refuse(EOPNOTSUPP, AV_CHECK_REREG_PAGING, c->access, mr->access);
	/* An implicit region is the whole address space. */
	return moves && mr->ibv.length == SIZE_MAX
		       ? av_refuse(EOPNOTSUPP, AV_CHECK_REREG_PAGING, 0, 0)
		       : 0;
}

static int check_rereg_rights(const struct av_context *ctx, const struct av_mr *mr,
			      const struct av_mr_change *c)
{
	int err;

	if (!(c->flags & IBV_REREG_MR_CHANGE_ACCESS))
		return 0;
	err = av_model_check_access(ctx->dev, c->access);
	if (err)
		return err;
	if (mr->sort == AV_MR_ALLOCATED && !(c->flags & IBV_REREG_MR_CHANGE_TRANSLATION))
		return av_allocated_check_access(&mr->memory, c->access);
	return av_region_check_rights(ctx->seg, c->access) ? av_refuse_as(EINVAL) : 0;
}

/* Does the device accept the change? Return: 0 or errno */
static int check_change(const struct av_context *ctx, const struct av_mr *mr,
			const struct av_mr_change *c)
{
	int err;

	if (c->flags == 0 || (mr->sort != AV_MR_PLAIN && mr->sort != AV_MR_ALLOCATED))
		return av_refuse(EINVAL, AV_CHECK_REREG_FLAGS, (uint32_t)c->flags, 0);
	err = check_paging(mr, c);
	if (err == 0)
		err = check_rereg_rights(ctx, mr, c);
	if (err == 0 && moves_onto_itself(mr, c))
		err = av_refuse(EFAULT, AV_CHECK_REREG_OVERLAP, (uintptr_t)c->addr,
				(uintptr_t)mr->memory.map);
	if (err || !(c->flags & IBV_REREG_MR_CHANGE_PD))
		return err;
	return av_pd_in(mr->ibv.context, c->pd) ? 0 : av_refuse(ENOENT, AV_CHECK_REREG_PD, 0, 0);
}

/* Will the region have other pages, or need other rights on them? */
static bool changes_pages(const struct av_mr *mr, const struct av_mr_change *c, uint32_t access)
{
	if (c->flags & IBV_REREG_MR_CHANGE_TRANSLATION)
		return true;
	return mr->sort != AV_MR_ALLOCATED && !av_region_same_rights(mr->access, access);
}

/* Describes the region as it will be, and populates new pages. @fresh: out, allocated memory */
static int describe_rereg_mr(const struct av_context *ctx, const struct av_mr *mr,
			     const struct av_mr_change *c, uint32_t access,
			     struct av_allocated *fresh, struct av_key *what)
{
	const struct av_key *now = av_key_entry(ctx->seg, mr->ibv.lkey);
	bool moved = c->flags & IBV_REREG_MR_CHANGE_TRANSLATION;
	struct av_region_request req = {
		.addr = moved ? (uintptr_t)c->addr : now->addr,
		.length = moved ? c->length : now->length,
		.iova = moved ? (uintptr_t)c->addr : mr->iova,
		.access = access,
	};

	if (c->allocate) {
		struct av_allocate_request own = {
			.length = c->length, .access = access, .policy = get_mr_pages(ctx)};

		return c->length <= ctx->dev->attr.max_mr_size
			       ? av_allocated_make(ctx->seg, &own, fresh, what)
			       : av_refuse(EINVAL, AV_CHECK_MR_LENGTH, c->length,
					   ctx->dev->attr.max_mr_size);
	}
	if (!changes_pages(mr, c, access)) {
		av_key_describe(now, what);
		what->access = access;
		what->base = access & IBV_ACCESS_ZERO_BASED ? 0 : mr->iova;
		return 0;
	}
	return av_region_prepare(ctx->seg, &req, what);
}

/* Notes the new range. Frees the old one if the library allocated it. */
static void update_moved_mr(struct av_mr *mr, const struct av_mr_change *c,
			    const struct av_allocated *fresh)
{
	av_allocated_end(&mr->memory, false);
	mr->memory = *fresh;
	/* Another thread may bind a window to it: may_bind() in ibv_pd.c. */
	__atomic_store_n(&mr->sort, c->allocate ? AV_MR_ALLOCATED : AV_MR_PLAIN, __ATOMIC_RELAXED);
	mr->ibv.addr = c->allocate ? fresh->map : c->addr;
	mr->ibv.length = c->length;
	mr->iova = (uintptr_t)mr->ibv.addr;
}

/* With the rkey, if that is another one. Return: as av_key_change() */
static int change_own_key(struct av_context *ctx, struct av_mr *mr, struct av_key *what,
			  uint32_t rights)
{
	int err = av_rkey_withdraw(ctx, mr) ? 0 : ETIMEDOUT;

	what->access = av_lkey_rights(ctx->seg, what);
	if (err == 0)
		err = av_key_change(ctx->seg, mr->ibv.lkey, what);
	av_rkey_restore(ctx, mr, err ? mr->access : rights);
	return err;
}

static int apply_mr_change(struct av_context *ctx, struct av_mr *mr, const struct av_mr_change *c)
{
	struct av_pd *pd = c->flags & IBV_REREG_MR_CHANGE_PD ? av_pd_find(c->pd) : mr->pd;
	uint32_t rights = c->flags & IBV_REREG_MR_CHANGE_ACCESS ? c->access : mr->access;
	struct av_allocated fresh = {.map = NULL};
	bool prepared = changes_pages(mr, c, rights);
	struct av_key what;
	int err = describe_rereg_mr(ctx, mr, c, rights, &fresh, &what);

	if (err)
		return err;
	what.pd = av_pd_id(pd);
	if (mr->access & IBV_ACCESS_ON_DEMAND)
		av_odp_quiesce(ctx->seg);
	err = change_own_key(ctx, mr, &what, rights);
	if (err) {
		if (prepared)
			av_heap_region_end(ctx->seg, what.heap);
		av_allocated_end(&fresh, false);
		return err == ETIMEDOUT ? EBUSY : err;
	}
	av_region_count(ctx->seg, mr->ibv.lkey, AV_MR_REREGISTERED, 1);
	if (prepared)
		av_heap_region_end(ctx->seg, mr->heap);
	mr->heap = what.heap;
	if (c->flags & IBV_REREG_MR_CHANGE_TRANSLATION)
		odp_end(ctx, mr);
	if ((c->flags & IBV_REREG_MR_CHANGE_TRANSLATION) && what.kind == AV_KEY_ODP)
		av_odp_region_gauge(ctx->seg, (uintptr_t)c->addr, c->length, 1);
	av_pd_count(pd, AV_PD_MR, 1);
	av_pd_count(mr->pd, AV_PD_MR, -1);
	mr->pd = pd;
	mr->access = rights;
	if (c->flags & IBV_REREG_MR_CHANGE_PD)
		mr->ibv.pd = c->pd;
	if (c->flags & IBV_REREG_MR_CHANGE_TRANSLATION)
		update_moved_mr(mr, c, &fresh);
	return 0;
}

/* Checks and makes the change. Return: 0, or errno, and the region is as before */
static int command(struct av_context *ctx, struct av_mr *mr, const struct av_mr_change *c)
{
	int err = mr ? av_context_err(ctx) : ENOENT;

	if (err == 0)
		err = av_verb_injected(ctx, AV_VERB_REREG_MR, 0, mr->ibv.lkey);
	if (err == 0)
		err = check_change(ctx, mr, c);
	return err ? err : apply_mr_change(ctx, mr, c);
}

/*
 * Hides the new range from children of fork(), makes the change, and shows them the old range; none
 * for other changes, or memory of the library. Return: 0, or enum ibv_rereg_mr_err_code and errno
 */
static int rereg(struct av_context *ctx, struct av_mr *mr, const struct av_mr_change *c)
{
	const bool guarded = mr && is_fork_guarded(mr),
		   moves = (guarded || (mr && mr->sort == AV_MR_ALLOCATED)) &&
			   (c->flags & IBV_REREG_MR_CHANGE_TRANSLATION) && !ctx->forked;
	const size_t length = moves && !c->allocate ? c->length : 0,
		     old_length = moves && guarded ? mr->ibv.length : 0;
	const uintptr_t addr = (uintptr_t)c->addr, old = mr ? (uintptr_t)mr->ibv.addr : 0;
	int err, undone;

	if (bad_input(mr, c))
		return fail_input(AV_VERB_REREG_MR, av_refuse(EINVAL, AV_CHECK_REREG_INPUT,
							      (uint32_t)c->flags, c->access));
	err = av_fork_guard(addr, length);
	if (err) {
		errno = err;
		return IBV_REREG_MR_ERR_DONT_FORK_NEW;
	}
	err = command(ctx, mr, c);
	if (err) {
		undone = av_fork_unguard(addr, length);
		(void)fail_command(err);
		return undone ? IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW : IBV_REREG_MR_ERR_CMD;
	}
	err = av_fork_unguard(old, old_length);
	if (err == 0)
		return 0;
	errno = err;
	return IBV_REREG_MR_ERR_DO_FORK_OLD;
}

int av_mr_rereg(struct ibv_mr *ibv, const struct av_mr_change *c)
{
	struct av_context *ctx = av_context_of(ibv->context);
	struct av_mr *mr = av_mr_find(ibv);
	int ret, err = mr ? begin_change(mr) : 0;

	if (err)
		return fail_command(err);
	ret = rereg(ctx, mr, c);
	if (mr)
		atomic_store(&mr->changing, false);
	return ret;
}

AV_EXPORT int ibv_rereg_mr(struct ibv_mr *ibv, int flags, struct ibv_pd *pd, void *addr,
			   size_t length, int access)
{
	AV_OURS_OR_NEXT(fail_input, REREG_MR, ibv_rereg_mr, "IBVERBS_1.1", ibv, flags, pd, addr,
			length, access);
	const struct av_mr_change c = {
		.flags = flags,
		.pd = pd,
		.addr = addr,
		.length = length,
		.access = plain_rights((uint32_t)access),
	};

	return av_mr_rereg(ibv, &c);
}

void av_mr_fill_ops(struct verbs_context *verbs)
{
	verbs->alloc_null_mr = alloc_null_mr;
	verbs->advise_mr = av_advise_mr;
}
