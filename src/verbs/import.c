/* SPDX-License-Identifier: MIT */
/*
 * Objects of another context, in any process: ibv_import_device(3), _pd, _mr, _dm. The importing
 * context's segment names its origin, where such keys and domains are found: memory/translate.c.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/thread.h"
#include "memory/key.h"
#include "verbs/next.h"
#include "verbs/objects.h"

/* The head behind a duplicate of some context's cmd_fd. Return: false if @fd is none. */
static bool read_head(int fd, struct av_seg_head *head)
{
	size_t size = offsetof(struct av_seg_head, pds);

	return pread(fd, head, size, 0) == (ssize_t)size && head->magic == AV_SEG_MAGIC;
}

static struct ibv_context *import_context(int fd, const struct av_seg_head *head)
{
	struct av_device *dev = av_device_by_name(head->device);
	struct ibv_context *context;

	if (!dev)
		return av_fail_null(AV_VERB_OPEN_DEVICE, ENODEV);
	context = av_context_open(dev, head->ref);
	if (!context)
		return NULL;
	if (!av_seg_origin(av_context_of(context)->seg)) {
		av_context_close(av_context_of(context));
		return av_fail_null(AV_VERB_OPEN_DEVICE, ENODEV);
	}
	context->cmd_fd = fd; /* we own it from here on */
	return context;
}

AV_EXPORT struct ibv_context *ibv_import_device(int cmd_fd)
{
	AV_UNCANCELLED;
	struct av_seg_head *head = malloc(sizeof(*head));
	struct ibv_context *context = NULL;
	bool ours;

	if (!head)
		return av_fail_null(AV_VERB_IMPORT_DEVICE, ENOMEM);
	head->device[sizeof(head->device) - 1] = '\0';
	ours = read_head(cmd_fd, head);
	if (ours)
		context = import_context(cmd_fd, head);
	free(head);
	return ours ? context : AV_NEXT(ibv_import_device, "IBVERBS_1.10")(cmd_fd);
}

AV_EXPORT struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
	AV_UNCANCELLED;

	if (!av_ours(context))
		return AV_NEXT(ibv_import_pd, "IBVERBS_1.10")(context, handle);
	return av_pd_import(av_context_of(context), handle);
}

AV_EXPORT void ibv_unimport_pd(struct ibv_pd *ibv)
{
	AV_UNCANCELLED;
	struct av_pd *pd;

	if (!av_ours(ibv->context)) {
		AV_NEXT(ibv_unimport_pd, "IBVERBS_1.10")(ibv);
		return;
	}
	pd = av_pd_find(ibv);
	if (pd && pd->imported)
		av_pd_forget(pd);
}

/*
 * Copy the origin's region with this handle, if it exists and belongs to the domain. Waits while it
 * is re-registered. Return: its key, or 0
 */
static uint32_t origin_region(struct av_context *ctx, const struct av_pd *pd, uint32_t handle,
			      struct av_key *what)
{
	struct av_seg *origin = ctx->seg->head->origin ? av_seg_origin(ctx->seg) : NULL;
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
	return key;
}

static struct ibv_mr *import_mr(struct av_context *ctx, struct av_pd *pd, uint32_t key,
				const struct av_key *what, uint32_t handle)
{
	struct av_mr *mr = av_object_new(AV_VERB_IMPORT_MR, 0, sizeof(*mr));
	int err;

	if (!mr)
		return NULL;
	mr->sort = AV_MR_IMPORTED;
	mr->pd = pd;
	mr->access = what->access;
	mr->ibv.context = &ctx->verbs.context;
	mr->ibv.pd = &pd->ibv;
	mr->ibv.length = what->length;
	mr->handle = mr->ibv.handle = handle;
	mr->ibv.lkey = mr->ibv.rkey = key;
	av_pd_get(pd, AV_PD_MR);
	err = av_table_add(&ctx->mrs, av_mr_place(handle), mr);
	if (err == 0)
		return &mr->ibv;
	av_pd_put(pd, AV_PD_MR);
	free(mr);
	return av_fail_null(AV_VERB_IMPORT_MR, err);
}

AV_EXPORT struct ibv_mr *ibv_import_mr(struct ibv_pd *ibv, uint32_t handle)
{
	AV_UNCANCELLED;
	struct av_context *ctx;
	struct av_key what;
	struct av_pd *pd;
	uint32_t key;

	AV_OURS_OR_NEXT(av_fail_null, IMPORT_MR, ibv_import_mr, "IBVERBS_1.10", ibv, handle);
	ctx = av_context_of(ibv->context);
	pd = av_pd_find(ibv);
	key = pd ? origin_region(ctx, pd, handle, &what) : 0;
	return key ? import_mr(ctx, pd, key, &what, handle)
		   : av_fail_null(AV_VERB_IMPORT_MR, ENOENT);
}

AV_EXPORT void ibv_unimport_mr(struct ibv_mr *ibv)
{
	AV_UNCANCELLED;
	struct av_mr *mr;

	if (!av_ours(ibv->context)) {
		AV_NEXT(ibv_unimport_mr, "IBVERBS_1.10")(ibv);
		return;
	}
	mr = av_mr_find(ibv);
	if (!mr || mr->sort != AV_MR_IMPORTED)
		return;
	av_table_clear(&av_context_of(ibv->context)->mrs, av_mr_place(ibv->handle));
	av_mr_forget(mr);
}

AV_EXPORT struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t handle)
{
	AV_UNCANCELLED;

	if (!av_ours(context))
		return AV_NEXT(ibv_import_dm, "IBVERBS_1.13")(context, handle);
	return av_dm_import(av_context_of(context), handle);
}

AV_EXPORT void ibv_unimport_dm(struct ibv_dm *dm)
{
	AV_UNCANCELLED;

	if (!av_ours(dm->context))
		AV_NEXT(ibv_unimport_dm, "IBVERBS_1.13")(dm);
	else
		av_dm_forget(dm);
}
