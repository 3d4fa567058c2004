/* SPDX-License-Identifier: MIT */
#include <endian.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/real_calls.h"
#include "base/thread.h"
#include "cm/cm.h"
#include "device/device.h"
#include "device/port.h"
#include "memory/key.h"
#include "memory/odp.h"
#include "memory/region.h"
#include "observe/check.h"
#include "registry/directory.h"
#include "segment/pages.h"
#include "segment/segment.h"
#include "transport/observed.h"
#include "transport/transport.h"
#include "verbs/misuse.h"
#include "verbs/next.h"
#include "verbs/objects.h"

/* A context's own settings: a list of names and values. */

#define AV_SETTING_MAX 4096 /* longest value of such a setting */

struct setting {
	SLIST_ENTRY(setting) link;
	char *value; /* in the same allocation as the name */
	char name[];
};

struct av_environment {
	pthread_mutex_t mutex;
	SLIST_HEAD(, setting) list;
};

/* NULL: there is none of that name. */
static struct setting *find_setting(struct av_environment *env, const char *name)
{
	struct setting *one;

	SLIST_FOREACH(one, &env->list, link)
		if (strcmp(one->name, name) == 0)
			break;
	return one;
}

/* Context: the mutex is held, or @env is not shared yet. */
static int store_setting(struct av_environment *env, const char *name, const char *value)
{
	size_t name_bytes = strlen(name) + 1, value_bytes = strlen(value) + 1;
	struct setting *one = malloc(sizeof(*one) + name_bytes + value_bytes),
		       *old = find_setting(env, name);

	if (!one)
		return ENOMEM;
	one->value = one->name + name_bytes;
	memcpy(one->name, name, name_bytes);
	memcpy(one->value, value, value_bytes);
	SLIST_INSERT_HEAD(&env->list, one, link);
	if (old) {
		SLIST_REMOVE(&env->list, old, setting, link);
		free(old);
	}
	return 0;
}

static void destroy(struct av_environment *env)
{
	struct setting *one;

	while ((one = SLIST_FIRST(&env->list))) {
		SLIST_REMOVE_HEAD(&env->list, link);
		free(one);
	}
	pthread_mutex_destroy(&env->mutex);
	free(env);
}

/* Copy all settings but those with too long a value. Return: 0 or ENOMEM. */
static int copy_all(struct av_environment *env)
{
	for (char **text = environ; text && *text; text++) {
		const char *equals = strchr(*text, '=');
		char *name;
		int ret;

		if (!equals || equals == *text || strlen(equals + 1) > AV_SETTING_MAX)
			continue;
		name = strndup(*text, (size_t)(equals - *text));
		ret = name ? store_setting(env, name, equals + 1) : ENOMEM;
		free(name);
		if (ret)
			return ret;
	}
	return 0;
}

int av_environment_detach(struct av_context *ctx)
{
	struct av_environment *env, *none = NULL;

	if (atomic_load(&ctx->environment))
		return 0;
	env = calloc(1, sizeof(*env));
	if (!env)
		return ENOMEM;
	pthread_mutex_init(&env->mutex, NULL);
	if (copy_all(env)) {
		destroy(env);
		return ENOMEM;
	}
	if (!atomic_compare_exchange_strong(&ctx->environment, &none, env))
		destroy(env); /* another thread was faster */
	return 0;
}

int av_environment_set(struct av_context *ctx, const char *name, const char *value, bool overwrite)
{
	struct av_environment *env = atomic_load(&ctx->environment);
	int ret = 0;

	if (!name || !*name || strchr(name, '=') || !value)
		return av_refuse(EINVAL, AV_CHECK_SETTING, 0, 0);
	if (!env)
		return setenv(name, value, overwrite) ? errno : 0;
	if (strlen(value) > AV_SETTING_MAX)
		return av_refuse(EINVAL, AV_CHECK_SETTING_LONG, strlen(value), AV_SETTING_MAX);
	pthread_mutex_lock(&env->mutex);
	if (overwrite || !find_setting(env, name))
		ret = store_setting(env, name, value);
	pthread_mutex_unlock(&env->mutex);
	return ret;
}

static bool copy_setting_value(const char *from, char *value, size_t size)
{
	size_t bytes = from ? strlen(from) + 1 : 0;

	if (!from || bytes > size)
		return false;
	memcpy(value, from, bytes);
	return true;
}

bool av_environment_get(const void *where, const char *name, char *value, size_t size)
{
	const struct av_context *ctx = where;
	struct av_environment *env = atomic_load(&ctx->environment);
	const struct setting *one;
	bool found;

	if (!env)
		return copy_setting_value(secure_getenv(name), value, size);
	pthread_mutex_lock(&env->mutex);
	one = find_setting(env, name);
	found = copy_setting_value(one ? one->value : NULL, value, size);
	pthread_mutex_unlock(&env->mutex);
	return found;
}

static void report_bad_setting(const char *name, const char *value)
{
	fprintf(stderr, "Invalid value %s for %s\n", value, name);
}

struct av_page_policy av_environment_pages(const struct av_context *ctx,
					   const struct av_page_object *object)
{
	return av_page_policy_read(object, av_environment_get, ctx, report_bad_setting);
}

void av_environment_free(struct av_context *ctx)
{
	struct av_environment *env = atomic_load(&ctx->environment);

	if (env)
		destroy(env);
}

/* Listing, naming, opening and closing devices. */

#undef ibv_get_device_list

/* Held in the system's library, whose own lock a child forked meanwhile could never get. */
static pthread_mutex_t foreign_mutex = PTHREAD_MUTEX_INITIALIZER;

static const struct av_fork_handlers list_fork_handlers = {.mutex = &foreign_mutex};

static void free_foreign(struct ibv_device **list)
{
	void (*next)(struct ibv_device **) = av_next("ibv_free_device_list", "IBVERBS_1.1");

	if (list && next)
		next(list);
}

/* The system's list; NULL: empty. Virtual files are hidden: it has no driver for our devices. */
static struct ibv_device **foreign_list(int *count)
{
	struct ibv_device **(*next)(int *) = av_next("ibv_get_device_list", "IBVERBS_1.1");
	struct ibv_device **devices = NULL;

	*count = 0;
	if (next) {
		(void)av_fork_register(AV_FORK_DEVICE_LIST, &list_fork_handlers);
		pthread_mutex_lock(&foreign_mutex);
		av_real_files_begin();
		devices = next(count);
		av_real_files_end();
		pthread_mutex_unlock(&foreign_mutex);
	}
	if (devices && *count > 0)
		return devices;
	free_foreign(devices);
	*count = 0;
	return NULL;
}

/* A mark that follows the final NULL of our lists. No program has its address. */
static struct ibv_device end_of_list;

/*
 * Exactly what calloc() returned, since programs such as qperf call free() on it. After the final
 * NULL: the mark, and the system's list, which its own function must free as a whole.
 */
AV_EXPORT struct ibv_device **ibv_get_device_list(int *num_devices)
{
	AV_UNCANCELLED;
	unsigned int ours;
	struct av_device *const *devices = av_devices(&ours);
	int foreign;
	struct ibv_device **theirs = foreign_list(&foreign);
	size_t count = (size_t)ours + (size_t)foreign;
	struct ibv_device **all = calloc(count + 3, sizeof(struct ibv_device *));

	if (!all) {
		free_foreign(theirs);
		return av_fail_null(AV_VERB_GET_DEVICE_LIST, ENOMEM);
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

AV_EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	AV_UNCANCELLED;
	struct av_device *dev = av_device_of(device);
	struct ibv_context *ctx;

	if (!dev)
		return AV_NEXT(ibv_open_device, "IBVERBS_1.1")(device);
	ctx = av_context_open(dev, 0);
	if (ctx) {
		ctx->device = device;
		av_context_of(ctx)->made_at = __builtin_return_address(0);
	}
	return ctx;
}

AV_EXPORT int ibv_close_device(struct ibv_context *context)
{
	AV_UNCANCELLED;

	if (!av_ours(context))
		return AV_NEXT(ibv_close_device, "IBVERBS_1.1")(context);
	return av_context_close(av_context_of(context));
}

/* ibv_fork_init(3): the system's library does it; ours only takes note (memory/region.h). */

AV_EXPORT int ibv_fork_init(void)
{
	AV_UNCANCELLED;
	int ret = AV_NEXT(ibv_fork_init, "IBVERBS_1.1")();

	if (ret == 0)
		av_fork_asked();
	return ret;
}

/* Exported verbs that this device lacks. Other devices get the system's verb. */

/* We never make a DMA handle or completion counter: any is another device's. */
static bool is_own_newer_object(const void *object)
{
	return av_ours(((const struct av_newer_object *)object)->context);
}

/* The verb @id: refused if @ours, or if the system's library is too old to have it. */
#define LACKED(fail, ours, id, name, version, ...) \
	((ours) ? fail(AV_VERB_##id, EOPNOTSUPP)   \
		: AV_NEXT_OR(fail(AV_VERB_##id, EOPNOTSUPP), name, version, __VA_ARGS__))

AV_EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
					  uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
	return LACKED(av_fail_errno, av_ours(context), RESOLVE_ETH_L2_FROM_GID,
		      ibv_resolve_eth_l2_from_gid, "IBVERBS_1.1", context, attr, eth_mac, vid);
}

/* librdmacm asks about enhanced connections each time; without them is the normal case. */
static int without_record(enum av_verb verb, int err)
{
	return err;
}

AV_EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	if (av_ours(qp->context))
		memset(ece, 0, sizeof(*ece));
	return LACKED(without_record, av_ours(qp->context), QUERY_ECE, ibv_query_ece,
		      "IBVERBS_1.10", qp, ece);
}

AV_EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	return LACKED(without_record, av_ours(qp->context), SET_ECE, ibv_set_ece, "IBVERBS_1.10",
		      qp, ece);
}

/* --- DMA handles ----------------------------------------------------------------- */

AV_EXPORT struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *context,
					  struct ibv_dmah_init_attr *attr)
{
	return LACKED(av_fail_null, av_ours(context), ALLOC_DMAH, ibv_alloc_dmah, "IBVERBS_1.15",
		      context, attr);
}

AV_EXPORT int ibv_dealloc_dmah(struct ibv_dmah *dmah)
{
	return LACKED(av_fail_errno, is_own_newer_object(dmah), DEALLOC_DMAH, ibv_dealloc_dmah,
		      "IBVERBS_1.15", dmah);
}

/* --- completion counters --------------------------------------------------------- */

AV_EXPORT int _ibv_query_comp_cntr_caps(struct ibv_context *context,
					struct ibv_comp_cntr_caps *caps, size_t size)
{
	memset(caps, 0, size);
	return LACKED(av_fail_errno, av_ours(context), QUERY_COMP_CNTR_CAPS,
		      _ibv_query_comp_cntr_caps, "IBVERBS_1.18", context, caps, size);
}

AV_EXPORT struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *context,
						     struct ibv_comp_cntr_init_attr *attr)
{
	return LACKED(av_fail_null, av_ours(context), CREATE_COMP_CNTR, ibv_create_comp_cntr,
		      "IBVERBS_1.18", context, attr);
}

AV_EXPORT int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *counter,
				      struct ibv_qp_attach_comp_cntr_attr *attr)
{
	return LACKED(av_fail_errno, av_ours(qp->context), QP_ATTACH_COMP_CNTR,
		      ibv_qp_attach_comp_cntr, "IBVERBS_1.18", qp, counter, attr);
}

/* Defines a verb on an existing counter. */
#define ON_COUNTER(id, name, type)                                                   \
	AV_EXPORT int name(struct ibv_comp_cntr *counter, type value)                \
	{                                                                            \
		return LACKED(av_fail_errno, is_own_newer_object(counter), id, name, \
			      "IBVERBS_1.18", counter, value);                       \
	}

ON_COUNTER(SET_COMP_CNTR, ibv_set_comp_cntr, uint64_t)
ON_COUNTER(SET_ERR_COMP_CNTR, ibv_set_err_comp_cntr, uint64_t)
ON_COUNTER(INC_COMP_CNTR, ibv_inc_comp_cntr, uint64_t)
ON_COUNTER(INC_ERR_COMP_CNTR, ibv_inc_err_comp_cntr, uint64_t)
ON_COUNTER(READ_COMP_CNTR, ibv_read_comp_cntr, uint64_t *)
ON_COUNTER(READ_ERR_COMP_CNTR, ibv_read_err_comp_cntr, uint64_t *)

AV_EXPORT int ibv_destroy_comp_cntr(struct ibv_comp_cntr *counter)
{
	return LACKED(av_fail_errno, is_own_newer_object(counter), DESTROY_COMP_CNTR,
		      ibv_destroy_comp_cntr, "IBVERBS_1.18", counter);
}

/* --- device memory as a dma-buf -------------------------------------------------- */

AV_EXPORT int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm)
{
	return LACKED(av_fail_fd, av_ours(dm->context), DM_EXPORT_DMABUF_FD,
		      ibv_dm_export_dmabuf_fd, "IBVERBS_1.16", dm);
}

/* The contexts of this process: opened, closed, at fork() and at exit. */

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
static void reset_contexts_in_child(void)
{
	struct av_context *ctx;

	pthread_mutex_init(&list_mutex, NULL);
	SLIST_FOREACH(ctx, &list, link) {
		init_mutexes(ctx);
		ctx->forked = true;
		ctx->child_seg = NULL; /* in a grandchild, it is the child's */
	}
}

static const struct av_fork_handlers fork_handlers = {.child = reset_contexts_in_child};

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
	av_environment_free(ctx);
	free(ctx);
}

/* By a peer, in the watcher's thread. */
static void handle_context_call(struct av_seg *seg)
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

	av_seg_call_by(handle_context_call);
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
	av_mm_quiesce_add(ctx->seg);
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
	init_public_context(ctx);
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
		av_mm_quiesce_remove(ctx->seg);
		av_deferred_forget(ctx->seg);
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
