/* SPDX-License-Identifier: MIT */
#include <endian.h>
#include <envz.h>
#include <stdio.h>
#include <unistd.h>

#include "cm/cm.h"
#include "device/port.h"
#include "transport/transport.h"
#include "verbs/misuse.h"

/* --- a context's own settings ---------------------------------------------------- */

#define AV_SETTING_MAX 4096 /* bytes of the longest value */

struct av_environment {
	pthread_mutex_t mutex; /* guards: */
	char *list;	       /* "NAME=VALUE" strings, one behind the other: envz_add(3) */
	size_t bytes;
};

static void free_environment(struct av_environment *env)
{
	free(env->list);
	pthread_mutex_destroy(&env->mutex);
	free(env);
}

int av_environment_detach(struct av_context *ctx)
{
	struct av_environment *env, *none = NULL;

	if (atomic_load(&ctx->environment))
		return 0;
	env = calloc(1, sizeof(*env));
	if (!env || (environ && argz_create(environ, &env->list, &env->bytes))) {
		free(env);
		return ENOMEM;
	}
	pthread_mutex_init(&env->mutex, NULL);
	if (!atomic_compare_exchange_strong(&ctx->environment, &none, env))
		free_environment(env); /* another thread was faster */
	return 0;
}

/* Works on a copy: without memory the old value stays. Context: the mutex is held */
static int store_setting(struct av_environment *env, const char *name, const char *value)
{
	char *list = NULL;
	size_t bytes = 0;

	if (argz_append(&list, &bytes, env->list, env->bytes) ||
	    envz_add(&list, &bytes, name, value)) {
		free(list);
		return ENOMEM;
	}
	free(env->list);
	env->list = list;
	env->bytes = bytes;
	return 0;
}

int av_environment_set(struct av_context *ctx, const char *name, const char *value, bool overwrite)
{
	struct av_environment *env = atomic_load(&ctx->environment);

	if (!name || !*name || strchr(name, '=') || !value)
		return av_refuse(EINVAL, AV_CHECK_SETTING, 0, 0);
	if (!env)
		return setenv(name, value, overwrite) ? errno : 0;
	if (strlen(value) > AV_SETTING_MAX)
		return av_refuse(EINVAL, AV_CHECK_SETTING_LONG, strlen(value), AV_SETTING_MAX);
	AV_LOCKED(&env->mutex);
	return overwrite || !envz_get(env->list, env->bytes, name) ? store_setting(env, name, value)
								   : 0;
}

static bool copy_setting_value(const char *from, char *value, size_t size)
{
	size_t bytes = from ? strlen(from) + 1 : 0;

	if (!from || bytes > size)
		return false;
	memcpy(value, from, bytes);
	return true;
}

/* An av_page_variable. @where: the context */
static bool get_setting(const void *where, const char *name, char *value, size_t size)
{
	const struct av_context *ctx = where;
	struct av_environment *env = atomic_load(&ctx->environment);

	if (!env)
		return copy_setting_value(secure_getenv(name), value, size);
	AV_LOCKED(&env->mutex);
	return copy_setting_value(envz_get(env->list, env->bytes, name), value, size);
}

static void report_bad_setting(const char *name, const char *value)
{
	fprintf(stderr, "Invalid value %s for %s\n", value, name);
}

struct av_page_policy av_environment_pages(const struct av_context *ctx,
					   const struct av_page_object *object)
{
	return av_page_policy_read(object, get_setting, ctx, report_bad_setting);
}

/* --- devices --------------------------------------------------------------------- */

#undef ibv_get_device_list

/* Makes fork() wait for the system's library: a child must not inherit that one's lock. */
static pthread_mutex_t foreign_mutex = PTHREAD_MUTEX_INITIALIZER;

static const struct av_fork_handlers list_fork_handlers = {.mutex = &foreign_mutex};

static void free_foreign(struct ibv_device **list)
{
	void (*next)(struct ibv_device **) = av_next("ibv_free_device_list", "IBVERBS_1.1");

	if (list && next)
		next(list);
}

/* The system's list; NULL: empty. Hides our virtual files from it: it has no driver for them. */
static struct ibv_device **foreign_list(int *count)
{
	struct ibv_device **(*next)(int *) = av_next("ibv_get_device_list", "IBVERBS_1.1");
	struct ibv_device **devices = NULL;

	*count = 0;
	if (next) {
		(void)av_fork_register(AV_FORK_DEVICE_LIST, &list_fork_handlers);
		AV_LOCKED(&foreign_mutex);
		av_real_files_begin();
		devices = next(count);
		av_real_files_end();
	}
	if (devices && *count > 0)
		return devices;
	free_foreign(devices);
	*count = 0;
	return NULL;
}

/* This marks the end of our lists, behind the final NULL. No program has its address. */
static struct ibv_device end_of_list;

/*
 * Returns what calloc() returned, since programs such as qperf call free() on it. Behind the final
 * NULL are the mark and the system's list, which its own function must free as a whole.
 */
AV_EXPORT struct ibv_device **ibv_get_device_list(int *num_devices)
{
	AV_UNCANCELLED;
	unsigned int ours;
	struct av_device *const *devices = av_devices(&ours);
	int foreign;
	struct ibv_device **theirs = foreign_list(&foreign);
	size_t count = (size_t)ours + (size_t)foreign;
	int err = av_inject_device_verb(devices[0], AV_VERB_GET_DEVICE_LIST);
	struct ibv_device **all =
		av_object_new(AV_VERB_GET_DEVICE_LIST, err, (count + 3) * sizeof(*all));

	if (!all) {
		free_foreign(theirs);
		return NULL;
	}
	for (unsigned int i = 0; i < ours; i++)
		all[i] = av_instance(devices[i]);
	if (theirs)
		memcpy(&all[ours], theirs, (size_t)foreign * sizeof(*all));
	all[count + 1] = &end_of_list;
	all[count + 2] = (struct ibv_device *)theirs;
	if (num_devices)
		*num_devices = (int)count;
	return all;
}

AV_EXPORT void ibv_free_device_list(struct ibv_device **devices)
{
	AV_UNCANCELLED;
	struct ibv_device **at = devices;

	if (!devices)
		return;
	while (*at != &end_of_list) /* not the NULL: the program may have shortened the list */
		at++;
	free_foreign((struct ibv_device **)at[1]);
	free(devices);
}

AV_EXPORT const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

AV_EXPORT __be64 ibv_get_device_guid(struct ibv_device *device)
{
	struct av_device *dev = av_device_of(device);

	return dev ? htobe64(dev->guid) : AV_NEXT(ibv_get_device_guid, "IBVERBS_1.1")(device);
}

AV_EXPORT int ibv_get_device_index(struct ibv_device *device)
{
	return av_device_of(device) ? (int)av_instance_number_of(device)
				    : AV_NEXT(ibv_get_device_index, "IBVERBS_1.9")(device);
}

/* The system's library does it. We take note (memory/region.h). */

AV_EXPORT int ibv_fork_init(void)
{
	AV_UNCANCELLED;
	int ret = AV_NEXT(ibv_fork_init, "IBVERBS_1.1")();

	if (ret == 0)
		av_fork_asked();
	return ret;
}

/* --- contexts -------------------------------------------------------------------- */

static pthread_mutex_t list_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct av_context_list list = SLIST_HEAD_INITIALIZER(list);

/* Of a new context, or of one that a forked child inherits. */
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
static void reset_contexts_in_child(void)
{
	struct av_context *ctx;

	pthread_mutex_init(&list_mutex, NULL);
	SLIST_FOREACH(ctx, &list, link) {
		init_mutexes(ctx);
		ctx->forked = true;
		ctx->unusual = true;
		ctx->child_seg = NULL; /* a grandchild inherits the child's */
	}
}

static const struct av_fork_handlers fork_handlers = {.child = reset_contexts_in_child};

/* Each context of the list has its segment: who closes one takes it off the list first. */
bool av_context_other_has(const struct av_context *ctx, uint32_t lkey)
{
	const struct av_context *other;

	AV_LOCKED(&list_mutex);
	SLIST_FOREACH(other, &list, link)
		if (other != ctx && other->dev == ctx->dev && !other->forked &&
		    av_key_is_on_demand(other->seg, lkey))
			return true;
	return false;
}

static void init_public_context(struct av_context *ctx)
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
	if (atomic_load(&ctx->environment))
		free_environment(atomic_load(&ctx->environment));
	free(ctx);
}

/* Has posts and polls look closer while there are fault rules, which may have changed. */
static void look_for_faults(struct av_seg *seg)
{
	struct av_context *ctx;
	bool any = av_faults_observed(seg) && av_faults_of(seg) && av_faults_observed(seg);

	AV_LOCKED(&list_mutex);
	SLIST_FOREACH(ctx, &list, link)
		if (ctx->seg == seg && !ctx->forked)
			atomic_store(&ctx->unusual, any);
}

/* A peer has called (av_seg_call()). Context: the watcher's thread */
static void handle_context_call(struct av_seg *seg)
{
	uint32_t failure = atomic_load(&seg->head->fatal);
	char name[sizeof(seg->head->device) + 1];

	av_wire_move_called(seg);
	snprintf(name, sizeof(name), "%.*s", (int)sizeof(name) - 1, seg->head->device);
	if (failure)
		av_instance_renew(name, failure);
	av_cm_device_called(seg);
	look_for_faults(seg);
}

/* Opens the segment and the two descriptors that programs expect. Return: 0 or errno */
static int open_segment(struct av_context *ctx, uint32_t origin)
{
	struct ibv_context *c = &ctx->verbs.context;
	int err = av_inject_device_verb(ctx->dev,
					origin ? AV_VERB_IMPORT_DEVICE : AV_VERB_OPEN_DEVICE);

	if (err)
		return err;
	av_seg_call_by(handle_context_call);
	ctx->seg = av_device_open(ctx->dev, origin);
	if (!ctx->seg)
		return errno;
	c->async_fd = av_doorbell_create(ctx->seg, AV_DOORBELL_ASYNC);
	if (c->async_fd < 0) {
		av_seg_close(ctx->seg);
		return -c->async_fd;
	}
	c->cmd_fd = av_own_fd(&ctx->seg->file);
	av_mm_quiesce_add(ctx->seg);
	av_strict_begin(ctx->seg);
	av_inject_begin(ctx->seg);
	av_misuse_begin(ctx);
	av_strict_fill_ops(ctx);
	av_port_watch_begin();
	av_capture_context_opened(ctx->seg);
	return 0;
}

/* @origin: the context to import from, or 0. Return: NULL and errno */
static struct ibv_context *open_context(struct av_device *dev, uint32_t origin)
{
	struct av_context *ctx = av_object_new(AV_VERB_OPEN_DEVICE, 0, sizeof(*ctx));
	int err;

	if (!ctx)
		return NULL;
	av_diag_device(dev->ibv.name);
	err = -av_cm_prepare();
	if (err == 0)
		err = -av_dir_join(av_totals_of_context);
	if (err)
		return av_object_fail(AV_VERB_OPEN_DEVICE, ctx, err);
	av_heap_begin();
	av_file_region_begin();
	ctx->dev = dev;
	ctx->pds.base = origin ? AV_IMPORT_PDS : 0;
	init_public_context(ctx);
	err = open_segment(ctx, origin);
	if (err) {
		(void)av_refused(AV_VERB_OPEN_DEVICE, err); /* as long as there is a recorder */
		av_dir_leave();
		free_context(ctx);
		errno = err;
		return NULL;
	}
	(void)av_fork_register(AV_FORK_CONTEXTS, &fork_handlers);
	pthread_mutex_lock(&list_mutex);
	SLIST_INSERT_HEAD(&list, ctx, link);
	pthread_mutex_unlock(&list_mutex);
	look_for_faults(ctx->seg);
	return &ctx->verbs.context;
}

AV_EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	AV_UNCANCELLED;
	struct av_device *dev = av_device_of(device);
	if (!dev)
		return AV_NEXT(ibv_open_device, "IBVERBS_1.1")(device);
	struct ibv_context *context = open_context(dev, 0);

	if (context) {
		context->device = device;
		av_context_of(context)->made_at = __builtin_return_address(0);
	}
	return context;
}

/* For objects that the program left: ends keys and queues. The memory stays allocated. */
static void drop_peer(uint32_t id, void *object, void *arg)
{
	struct av_qp *qp = object;

	av_seg_put(qp->peer.seg);
	if (qp->opened)
		av_seg_put(qp->end.seg);
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

static int close_context(struct av_context *ctx)
{
	if (av_explaining())
		av_explain_others();
	if (av_misuse_on())
		av_misuse_context_ends(ctx);
	pthread_mutex_lock(&list_mutex);
	SLIST_REMOVE(&list, ctx, av_context, link);
	pthread_mutex_unlock(&list_mutex);
	av_table_each(&ctx->mrs, drop_memory, ctx);
	close(ctx->verbs.context.async_fd);
	if (ctx->pds.base == AV_IMPORT_PDS)
		close(ctx->verbs.context.cmd_fd); /* the descriptor passed to ibv_import_device() */
	if (!ctx->forked) {
		av_port_watch_end();
		av_seg_end_calls(ctx->seg);
		av_table_each(&ctx->qps, leave_wire, NULL); /* no packet comes any more */
		av_wire_faults_end(ctx->seg);
		av_timer_stop(ctx->seg);
		av_table_each(&ctx->qps, leave_wire, NULL); /* what the timer has moved since */
		av_inject_end(ctx->seg);
		av_odp_quiesce(ctx->seg);
		av_heap_region_close(ctx->seg);
		av_mm_quiesce_remove(ctx->seg);
		av_deferred_forget(ctx->seg);
		av_odp_notify_end(ctx->seg);
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

AV_EXPORT int ibv_close_device(struct ibv_context *context)
{
	AV_BEGIN_OR_PASS_ON(context, ibv_close_device, "IBVERBS_1.1", context);
	AV_FAIL_ON_DEMAND(av_fail_fd, CLOSE_DEVICE, context, 0, 0);
	return close_context(av_context_of(context));
}

/* ibv_import_device(3): the segment names its origin, where translate.c finds keys, domains. */

/* Owns @fd on success. @head: of the segment behind it */
static struct ibv_context *import_context(int fd, const struct av_seg_head *head)
{
	struct av_device *dev = av_device_by_name(head->device);
	struct ibv_context *context;

	if (!dev)
		return av_fail_null(AV_VERB_OPEN_DEVICE, ENODEV);
	context = open_context(dev, head->ref);
	if (!context)
		return NULL;
	if (!av_seg_origin(av_context_of(context)->seg)) {
		context->cmd_fd = -1; /* @fd stays the caller's */
		close_context(av_context_of(context));
		return av_fail_null(AV_VERB_OPEN_DEVICE, ENODEV);
	}
	context->cmd_fd = fd;
	return context;
}

AV_EXPORT struct ibv_context *ibv_import_device(int cmd_fd)
{
	AV_UNCANCELLED;
	const size_t bytes = offsetof(struct av_seg_head, pds);
	struct av_seg_head *head = av_object_new(AV_VERB_IMPORT_DEVICE, 0, sizeof(*head));
	struct ibv_context *context;

	if (!head)
		return NULL;
	if (pread(cmd_fd, head, bytes, 0) == (ssize_t)bytes && head->magic == AV_SEG_MAGIC) {
		head->device[sizeof(head->device) - 1] = '\0';
		context = import_context(cmd_fd, head);
	} else {
		context = AV_NEXT(ibv_import_device, "IBVERBS_1.10")(cmd_fd);
	}
	free(head);
	return context;
}

/* Who exits with open devices leaves nothing behind. The next process sweeps a killed one. */
__attribute__((destructor)) static void at_exit(void)
{
	if (av_explaining())
		av_explain_others();
	if (av_misuse_on())
		av_misuse_exit(&list);
	(void)!av_net_in_turn(NULL, NULL, false); /* acknowledges what has come */
	av_cm_exit();
	av_dir_abandon();
}
