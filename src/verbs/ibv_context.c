/* SPDX-License-Identifier: MIT */
/* The contexts of this process: opened, closed, at fork() and at exit. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fork.h"
#include "cm/cm.h"
#include "cm/cm_device.h"
#include "registry/directory.h"
#include "segment/doorbell.h"
#include "segment/totals.h"
#include "device/device_open.h"
#include "device/instance.h"
#include "device/port_watch.h"
#include "memory/file_region.h"
#include "memory/heap_region.h"
#include "memory/linger.h"
#include "memory/odp_notify.h"
#include "memory/odp_prefetch.h"
#include "memory/page_move.h"
#include "transport/capture.h"
#include "transport/inject.h"
#include "transport/send_sum.h"
#include "transport/timer.h"
#include "transport/wire.h"
#include "transport/wire_faults.h"
#include "transport/wire_move.h"
#include "verbs/between.h"
#include "verbs/misuse.h"
#include "verbs/ops.h"

static pthread_mutex_t list_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct av_context_list list = SLIST_HEAD_INITIALIZER(list);

/* Of a new context, or of one inherited through fork(). */
static void init_mutexes(struct av_context *ctx)
{
	pthread_mutex_init(&ctx->verbs.context.mutex, NULL);
	pthread_mutex_init(&ctx->pds.mutex, NULL);
	pthread_mutex_init(&ctx->channels.mutex, NULL);
	pthread_mutex_init(&ctx->tds.mutex, NULL);
	pthread_mutex_init(&ctx->ahs.mutex, NULL);
	pthread_mutex_init(&ctx->xrcds.mutex, NULL);
	pthread_mutex_init(&ctx->klm_lists.mutex, NULL);
}

/* The parent's contexts stay the parent's: the child must not touch their segments. */
static void after_fork_in_child(void)
{
	struct av_context *ctx;

	pthread_mutex_init(&list_mutex, NULL);
	SLIST_FOREACH(ctx, &list, link) {
		init_mutexes(ctx);
		ctx->forked = true;
		ctx->child_seg = NULL; /* in a grandchild, it is the child's */
	}
}

static const struct av_fork_handlers fork_handlers = {.child = after_fork_in_child};

static void list_add(struct av_context *ctx)
{
	(void)av_fork_register(AV_FORK_CONTEXTS, &fork_handlers);
	pthread_mutex_lock(&list_mutex);
	SLIST_INSERT_HEAD(&list, ctx, link);
	pthread_mutex_unlock(&list_mutex);
}

static void list_remove(struct av_context *ctx)
{
	pthread_mutex_lock(&list_mutex);
	SLIST_REMOVE(&list, ctx, av_context, link);
	pthread_mutex_unlock(&list_mutex);
}

/* A context leaves the list before its segment is closed: each listed one has its segment. */
bool av_context_other_has(const struct av_context *ctx, uint32_t lkey)
{
	const struct av_context *other;
	bool has = false;

	pthread_mutex_lock(&list_mutex);
	SLIST_FOREACH(other, &list, link)
		if (!has && other != ctx && other->dev == ctx->dev && !other->forked)
			has = av_key_is_on_demand(other->seg, lkey);
	pthread_mutex_unlock(&list_mutex);
	return has;
}

static void init_public(struct av_context *ctx)
{
	struct ibv_context *c = &ctx->verbs.context;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	av_ops_fill(&ctx->verbs);
	ctx->verbs.sz = sizeof(ctx->verbs);
	c->device = av_instance(ctx->dev);
	c->num_comp_vectors = cpus > 0 ? (int)cpus : 1;
	c->abi_compat = __VERBS_ABI_IS_EXTENDED;
	init_mutexes(ctx);
}

static void free_context(struct av_context *ctx)
{
	av_table_fini(&ctx->pds.table);
	av_table_fini(&ctx->channels.table);
	av_table_fini(&ctx->tds.table);
	av_table_fini(&ctx->ahs.table);
	av_table_fini(&ctx->xrcds.table);
	av_table_fini(&ctx->klm_lists.table);
	av_table_fini(&ctx->dms);
	av_table_fini(&ctx->mrs);
	av_table_fini(&ctx->mws);
	av_table_fini(&ctx->cqs);
	av_table_fini(&ctx->qps);
	av_table_fini(&ctx->srqs);
	av_environment_free(ctx);
	free(ctx);
}

/* By a peer, in the watcher's thread. */
static void called(struct av_seg *seg)
{
	uint32_t failure = atomic_load(&seg->head->fatal);
	char name[sizeof(seg->head->device) + 1];

	av_wire_move_called(seg);
	snprintf(name, sizeof(name), "%.*s", (int)sizeof(name) - 1, seg->head->device);
	if (failure)
		av_instance_renew(name, failure);
	av_cm_device_called(seg);
}

/* The segment, and the two descriptors that programs expect. Return: 0 or errno. */
static int open_segment(struct av_context *ctx, uint32_t origin)
{
	struct ibv_context *c = &ctx->verbs.context;

	av_seg_call_by(called);
	ctx->seg = av_device_open(ctx->dev, origin);
	if (!ctx->seg)
		return errno;
	c->async_fd = av_doorbell_create(ctx->seg, AV_DOORBELL_ASYNC);
	if (c->async_fd < 0) {
		int err = -c->async_fd;

		av_seg_close(ctx->seg);
		return err;
	}
	c->cmd_fd = av_own_fd(&ctx->seg->file);
	av_page_move_add(ctx->seg);
	av_inject_begin(ctx->seg);
	av_misuse_begin(ctx);
	av_port_watch();
	av_capture_context_opened(ctx->seg);
	return 0;
}

struct ibv_context *av_context_open(struct av_device *dev, uint32_t origin)
{
	struct av_context *ctx = av_object_new(AV_VERB_OPEN_DEVICE, 0, sizeof(*ctx));
	int err;

	if (!ctx)
		return NULL;
	av_diag_device(dev->ibv.name);
	err = -av_cm_prepare();
	if (err == 0)
		err = -av_dir_join(av_totals_of_context);
	if (err) {
		free(ctx);
		return av_fail_null(AV_VERB_OPEN_DEVICE, err);
	}
	av_heap_begin();
	av_file_region_begin();
	ctx->dev = dev;
	ctx->pds.base = origin ? AV_IMPORT_PDS : 0;
	init_public(ctx);
	err = open_segment(ctx, origin);
	if (err) {
		(void)av_refused(AV_VERB_OPEN_DEVICE, err); /* as long as there is a recorder */
		av_dir_leave();
		free_context(ctx);
		errno = err;
		return NULL;
	}
	list_add(ctx);
	return &ctx->verbs.context;
}

/* What the program did not destroy: keys and queues end here; the memory is its leak. */
static void drop_peer(uint32_t id, void *object, void *arg)
{
	struct av_qp *qp = object;

	av_seg_put(qp->peer.seg);
}

static void leave_wire(uint32_t id, void *object, void *arg)
{
	struct av_qp *qp = object;

	if (!qp->opened)
		av_wire_close(&qp->end);
}

static void drop_memory(uint32_t id, void *object, void *arg)
{
	const struct av_context *ctx = arg;
	struct av_mr *mr = object;

	av_allocated_end(&mr->memory, ctx->forked);
	if (mr->dm)
		av_dm_region_ended(mr->dm, ctx->forked);
}

int av_context_close(struct av_context *ctx)
{
	if (av_explaining())
		av_explain_others();
	if (av_misuse_on())
		av_misuse_context_ends(ctx);
	list_remove(ctx);
	av_table_each(&ctx->mrs, drop_memory, ctx);
	close(ctx->verbs.context.async_fd);
	if (ctx->verbs.context.cmd_fd != av_own_fd(&ctx->seg->file))
		close(ctx->verbs.context.cmd_fd); /* the descriptor passed to ibv_import_device() */
	if (!ctx->forked) {
		av_port_unwatch();
		av_seg_end_calls(ctx->seg);
		av_table_each(&ctx->qps, leave_wire, NULL); /* no packet comes any more */
		av_wire_faults_end(ctx->seg);
		av_timer_stop(ctx->seg);
		av_table_each(&ctx->qps, leave_wire, NULL); /* what the timer has moved since */
		av_inject_end(ctx->seg);
		av_send_sum_end(ctx->seg);
		av_odp_quiesce(ctx->seg);
		av_heap_region_close(ctx->seg);
		av_page_move_remove(ctx->seg);
		av_linger_forget(ctx->seg);
		av_odp_unwatch(ctx->seg);
		av_table_each(&ctx->qps, drop_peer, NULL);
		av_seg_close(ctx->seg);
		av_seg_drop_idle();
		av_dir_leave();
	} else if (ctx->child_seg) {
		av_seg_close(ctx->child_seg);
		av_dir_leave();
	}
	free_context(ctx);
	return 0;
}

/* Whoever exits with open devices leaves nothing behind; who is killed is swept by the next. */
__attribute__((destructor)) static void at_exit(void)
{
	if (av_explaining())
		av_explain_others();
	if (av_misuse_on())
		av_misuse_exit(&list);
	av_cm_exit();
	av_dir_abandon();
}
