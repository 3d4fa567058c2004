/* SPDX-License-Identifier: MIT */
/*
 * Device memory. A block is in a segment, and every process copies to it and from it. The directory
 * counts the bytes of all processes, and takes a killed one's off when it sweeps that.
 */
#include "registry/tables.h"
#include "verbs/misuse.h"

#define COPY_UNIT     4u /* of ibv_memcpy_*_dm() */
#define LOG_ALIGN_MAX 12u

struct av_dm *av_dm_of_exp(const struct ibv_exp_dm *exp)
{
	struct av_dm *found = av_table_get(&av_context_of(exp->context)->dms, exp->handle);

	return found && &found->exp == exp ? found : NULL;
}

/* Does the block exist? Its exporter may have freed an imported one. */
static bool is_dm_alive(const struct av_dm *dm)
{
	const struct av_key *k = av_key_entry(dm->seg, dm->key);

	return !dm->imported || (k && atomic_load(&k->held) == dm->key);
}

int av_dm_range(const struct av_dm *dm, uint64_t offset, size_t length, unsigned int unit,
		void **bytes)
{
	if (!dm || !is_dm_alive(dm))
		return ENOENT;
	if (!av_range_within(offset, length, 0, dm->length))
		return av_refuse(EFAULT, AV_CHECK_DM_RANGE, offset + length, dm->length);
	if (offset % unit || length % unit)
		return av_refuse(EINVAL, AV_CHECK_DM_UNIT, offset, unit);
	*bytes = (uint8_t *)dm->seg->head + dm->offset + offset;
	return 0;
}

static int memcpy_to_dm(struct ibv_dm *ibv, uint64_t offset, const void *host, size_t length)
{
	AV_FAIL_ON_DEMAND(av_fail_errno, MEMCPY_TO_DM, ibv->context, 0, 0);
	void *bytes;
	int err = av_dm_range(av_dm_find(ibv), offset, length, COPY_UNIT, &bytes);

	if (err == 0 && av_copy(bytes, host, length) != AV_COPY_OK)
		err = EFAULT;
	return err ? av_fail_errno(AV_VERB_MEMCPY_TO_DM, err) : 0;
}

static int memcpy_from_dm(void *host, struct ibv_dm *ibv, uint64_t offset, size_t length)
{
	AV_FAIL_ON_DEMAND(av_fail_errno, MEMCPY_FROM_DM, ibv->context, 0, 0);
	void *bytes;
	int err = av_dm_range(av_dm_find(ibv), offset, length, COPY_UNIT, &bytes);

	if (err == 0 && av_copy(host, bytes, length) != AV_COPY_OK)
		err = EFAULT;
	return err ? av_fail_errno(AV_VERB_MEMCPY_FROM_DM, err) : 0;
}

static int check_dm_alloc(const struct ibv_alloc_dm_attr *attr)
{
	if (attr->comp_mask)
		return av_refuse(EINVAL, AV_CHECK_COMP_MASK, attr->comp_mask, 0);
	if (attr->length == 0 || attr->length > AV_MAX_DM_BYTES)
		return av_refuse(EINVAL, AV_CHECK_DM_LENGTH, attr->length, AV_MAX_DM_BYTES);
	if (attr->log_align_req > LOG_ALIGN_MAX)
		return av_refuse(EINVAL, AV_CHECK_DM_ALIGN, attr->log_align_req, LOG_ALIGN_MAX);
	return 0;
}

/* The segment aligns a block to the largest power of two that divides its size, up to a page. */
static int take_memory(struct av_dm *dm, const struct ibv_alloc_dm_attr *attr)
{
	uint64_t used;

	dm->length = attr->length;
	dm->block = av_round_up(attr->length, 1ull << attr->log_align_req);
	if (av_dir_use(dm->seg->ref, AV_DIR_DM_BYTES, dm->length, AV_MAX_DM_BYTES)) {
		used = av_dir_used(AV_DIR_DM_BYTES);
		return av_refuse(ENOMEM, AV_CHECK_DM_FULL, dm->length,
				 used < AV_MAX_DM_BYTES ? AV_MAX_DM_BYTES - used : 0);
	}
	dm->offset = av_seg_alloc(dm->seg, dm->block);
	if (dm->offset)
		return 0;
	av_dir_unuse(dm->seg->ref, AV_DIR_DM_BYTES, dm->length);
	return ENOMEM;
}

static void give_memory(const struct av_dm *dm)
{
	av_deferred_free(dm->seg, dm->offset, dm->block);
	av_dir_unuse(dm->seg->ref, AV_DIR_DM_BYTES, dm->length);
}

static void put_dm(struct av_dm *dm)
{
	if (atomic_fetch_sub(&dm->refs, 1) == 1)
		free(dm);
}

static void init_public_dm(struct av_context *ctx, struct av_dm *dm, uint32_t handle)
{
	atomic_store(&dm->refs, 1);
	dm->ibv.context = &ctx->verbs.context;
	dm->ibv.memcpy_to_dm = memcpy_to_dm;
	dm->ibv.memcpy_from_dm = memcpy_from_dm;
	dm->ibv.comp_mask = 1; /* marks the handle as valid */
	dm->ibv.handle = handle;
	dm->exp.context = dm->ibv.context;
	dm->exp.handle = handle;
}

/* --- imported blocks ------------------------------------------------------------- */

/* Publishes a key, by which others import the block. Return: its index, or 0 */
static uint32_t publish_dm_key(struct av_dm *dm)
{
	struct av_key what = {.kind = AV_KEY_DM_BLOCK, .addr = dm->offset, .length = dm->length};

	dm->key = av_key_create(dm->seg, &what, AV_MAX_MR);
	return AV_KEY_INDEX(dm->key);
}

static uint64_t get_dm_user_name(const struct av_dm *dm)
{
	return AV_PAGE_USERS_DM(AV_KEY_INDEX(dm->key));
}

/* Unpublishes the key. Return: false: another context has regions on the imported block */
static bool withdraw_dm_key(const struct av_dm *dm)
{
	struct av_key *k = av_key_entry(dm->seg, dm->key);
	bool imported;

	av_lock_acquire_plain(&k->lock, AV_RANK_KEY);
	imported = k->imported;
	atomic_store(&k->key, 0); /* as in a change: a thread that registers it waits */
	av_lock_release(&k->lock);
	if (imported && av_page_users_any(dm->seg->ref, get_dm_user_name(dm))) {
		atomic_store_explicit(&k->key, dm->key, memory_order_release);
		return false;
	}
	(void)!av_key_destroy(dm->seg, dm->key);
	return true;
}

/* Finds a block to import, and notes the import in its key. Return: false: there is none */
static bool find_block(struct av_dm *dm, uint32_t handle)
{
	const struct av_key *entry = dm->seg && handle ? av_key_entry(dm->seg, handle << 8) : NULL;
	struct av_key *k;
	bool found;

	dm->key = entry ? atomic_load(&entry->held) : 0;
	k = dm->key ? av_key_lock_region(dm->seg, dm->key) : NULL;
	if (!k)
		return false;
	found = k->kind == AV_KEY_DM_BLOCK;
	if (found)
		k->imported = true;
	dm->offset = k->addr;
	dm->length = k->length;
	av_lock_release(&k->lock);
	return found && av_seg_at(dm->seg, dm->offset, dm->length);
}

/* Keeps an imported block for a region. Return: 0 or errno; ENOENT: its exporter has freed it */
static int hold_imported_dm(const struct av_dm *dm)
{
	int err = av_page_users_join(dm->seg->ref, get_dm_user_name(dm));
	struct av_key *k = err ? NULL : av_key_lock_region(dm->seg, dm->key);

	if (k)
		av_lock_release(&k->lock);
	else if (err == 0)
		(void)av_page_users_leave(dm->seg->ref, get_dm_user_name(dm), NULL, NULL);
	return k ? 0 : err ? err : ENOENT;
}

void av_dm_region_ended(struct av_dm *dm, bool inherited)
{
	if (dm->imported && !inherited)
		(void)av_page_users_leave(dm->seg->ref, get_dm_user_name(dm), NULL, NULL);
	put_dm(dm);
}

/* --- the verbs ------------------------------------------------------------------- */

static struct ibv_dm *create_dm(struct av_context *ctx, struct av_seg *seg,
				const struct ibv_alloc_dm_attr *attr)
{
	struct av_dm *dm = av_object_new(AV_VERB_ALLOC_DM, 0, sizeof(*dm));
	uint32_t handle;
	int err;

	if (!dm)
		return NULL;
	dm->seg = seg;
	err = take_memory(dm, attr);
	if (err == 0) {
		handle = publish_dm_key(dm);
		init_public_dm(ctx, dm, handle);
		if (handle && av_table_set(&ctx->dms, handle, dm) == 0)
			return &dm->ibv;
		if (handle)
			(void)withdraw_dm_key(dm);
		give_memory(dm);
		err = ENOMEM;
	}
	return av_object_fail(AV_VERB_ALLOC_DM, dm, err);
}

AV_EXPORT struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t handle)
{
	AV_BEGIN_OR_PASS_ON(context, ibv_import_dm, "IBVERBS_1.13", context, handle);
	AV_FAIL_IF_LACKING(av_fail_null, IMPORT_DM, context);
	AV_FAIL_ON_DEMAND(av_fail_null, IMPORT_DM, context, 0, 0);
	struct av_context *ctx = av_context_of(context);
	struct av_dm block = {.imported = true, .seg = av_seg_origin(ctx->seg)};
	int err = find_block(&block, handle) ? 0 : ENOENT;
	struct av_dm *dm = av_object_new(AV_VERB_IMPORT_DM, err, sizeof(*dm));

	if (!dm)
		return NULL;
	*dm = block;
	init_public_dm(ctx, dm, handle);
	err = av_table_add(&ctx->dms, handle, dm);
	if (err == 0)
		return &dm->ibv;
	return av_object_fail(AV_VERB_IMPORT_DM, dm, err);
}

AV_EXPORT void ibv_unimport_dm(struct ibv_dm *ibv)
{
	AV_BEGIN_OR_PASS_ON(ibv->context, ibv_unimport_dm, "IBVERBS_1.13", ibv);
	struct av_dm *dm = av_dm_find(ibv);

	if (!dm)
		return;
	av_table_clear(&av_context_of(ibv->context)->dms, ibv->handle);
	put_dm(dm);
}

/* The segment to allocate from. A forked child has one of its own. Return: NULL and errno */
static struct av_seg *get_dm_segment(struct av_context *ctx)
{
	int err;

	if (!ctx->forked)
		return ctx->seg;
	AV_LOCKED(&ctx->verbs.context.mutex);
	if (!ctx->child_seg) {
		err = -av_dir_join(av_totals_of_context);
		if (err)
			errno = err;
		else if (!(ctx->child_seg = av_device_open(ctx->dev, 0)))
			av_dir_leave();
	}
	return ctx->child_seg;
}

static struct ibv_dm *alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
{
	AV_BEGIN(av_fail_null, ALLOC_DM, context);
	struct av_context *ctx = av_context_of(context);
	int err = check_dm_alloc(attr);
	struct av_seg *seg;

	if (err == 0 && av_device_failed(ctx))
		err = EIO;
	if (err == 0 && !ctx->forked)
		err = av_verb_err(ctx, AV_VERB_ALLOC_DM);
	if (err)
		return av_fail_null(AV_VERB_ALLOC_DM, err);
	seg = get_dm_segment(ctx);
	if (!seg)
		return NULL;
	(void)av_copy_init();
	return create_dm(ctx, seg, attr);
}

static int free_dm(struct ibv_dm *ibv)
{
	AV_UNCANCELLED;
	AV_FAIL_ON_DEMAND(av_fail_errno, FREE_DM, ibv->context, 0, 0);
	struct av_context *ctx = av_context_of(ibv->context);
	struct av_dm *dm = av_dm_find(ibv);
	bool ours;

	if (!dm)
		return av_fail_errno(AV_VERB_FREE_DM, ENOENT);
	if (atomic_load(&dm->refs) > 1)
		return av_misuse_busy(AV_VERB_FREE_DM,
				      (struct av_misuse_object){ctx, "DM", ibv->handle, NULL});
	ours = !dm->imported && (!ctx->forked || dm->seg == ctx->child_seg);
	/* First the handle: another thread may get the key's index once it is free. */
	av_table_clear(&ctx->dms, ibv->handle);
	if (ours && !withdraw_dm_key(dm)) {
		(void)!av_table_set(&ctx->dms, ibv->handle, dm);
		return av_misuse_busy(AV_VERB_FREE_DM,
				      (struct av_misuse_object){ctx, "DM", ibv->handle, NULL});
	}
	if (ours)
		give_memory(dm);
	put_dm(dm);
	return 0;
}

static int check_register(const struct av_dm *dm, uint64_t offset, size_t length,
			  unsigned int access)
{
	const unsigned int permitted = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				       IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
				       IBV_ACCESS_ZERO_BASED | IBV_ACCESS_OPTIONAL_RANGE;
	int err;

	if (!dm)
		return ENOENT;
	err = av_verb_err(av_context_of(dm->ibv.context), AV_VERB_REG_MR);
	if (err)
		return err;
	if ((access & ~permitted) || !(access & IBV_ACCESS_ZERO_BASED) ||
	    av_region_check_access(access))
		return av_refuse(EINVAL, AV_CHECK_DM_ACCESS, access, permitted);
	return av_range_within(offset, length, 0, dm->length)
		       ? 0
		       : av_refuse(EINVAL, AV_CHECK_DM_RANGE, offset + length, dm->length);
}

static struct ibv_mr *reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *ibv, uint64_t offset,
				size_t length, unsigned int access)
{
	AV_UNCANCELLED;
	struct av_dm *dm = av_dm_in(pd->context, ibv);
	struct av_key what = {.kind = AV_KEY_DEVICE, .access = access, .length = length};
	struct av_mr *mr;
	int err = check_register(dm, offset, length, access);

	if (err == 0 && dm->imported)
		err = hold_imported_dm(dm);
	if (err)
		return av_fail_null(AV_VERB_REG_DM_MR, err);
	what.addr = dm->offset + offset;
	what.in_origin = dm->imported;
	atomic_fetch_add(&dm->refs, 1);
	mr = av_mr_publish(pd, &what, NULL, dm);
	if (mr)
		return &mr->ibv;
	av_dm_region_ended(dm, false);
	return NULL;
}

void av_dm_fill_ops(struct verbs_context *verbs)
{
	verbs->alloc_dm = alloc_dm;
	verbs->free_dm = free_dm;
	verbs->reg_dm_mr = reg_dm_mr;
}
