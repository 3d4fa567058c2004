/* SPDX-License-Identifier: MIT */
/* The contexts of this process: what happens to them at fork() and at exit. */
#include "verbs/context_list.h"

#include "base/fork.h"
#include "registry/directory.h"
#include "memory/key.h"
#include "verbs/misuse.h"

static pthread_mutex_t list_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct av_context_list list = SLIST_HEAD_INITIALIZER(list);

void av_context_init_mutexes(struct av_context *ctx)
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
		av_context_init_mutexes(ctx);
		ctx->forked = true;
		ctx->child_seg = NULL; /* in a grandchild, it is the child's */
	}
}

static const struct av_fork_handlers fork_handlers = {.child = after_fork_in_child};

void av_context_list_add(struct av_context *ctx)
{
	(void)av_fork_register(AV_FORK_CONTEXTS, &fork_handlers);
	pthread_mutex_lock(&list_mutex);
	SLIST_INSERT_HEAD(&list, ctx, link);
	pthread_mutex_unlock(&list_mutex);
}

void av_context_list_remove(struct av_context *ctx)
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

/* Whoever exits with open devices leaves nothing behind; who is killed is swept by the next. */
__attribute__((destructor)) static void at_exit(void)
{
	if (av_misuse_on())
		av_misuse_exit(&list);
	av_dir_abandon();
}
