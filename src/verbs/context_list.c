/* SPDX-License-Identifier: MIT */
/* The list of contexts: for a child of fork(), and for the end of the process. */
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

/* Contexts of the parent belong to the parent: nothing in their segments may be touched from here.
 */
static void after_fork_in_child(void)
{
	struct av_context *ctx;

	pthread_mutex_init(&list_mutex, NULL);
	SLIST_FOREACH(ctx, &list, link) {
		av_context_init_mutexes(ctx);
		ctx->forked = true;
		ctx->child_seg = NULL; /* a grandchild's grandparent's */
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

/* What is on the list has its segment: a context leaves the list first. */
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

/* A program that exits without closing its devices leaves nothing behind; one that is killed is
 * swept by the next. */
__attribute__((destructor)) static void at_exit(void)
{
	if (av_misuse_on())
		av_misuse_exit(&list);
	av_dir_abandon();
}
