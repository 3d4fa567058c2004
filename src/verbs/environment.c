/* SPDX-License-Identifier: MIT */
/* A context's own settings: a list of names and values. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "observe/diagnosis.h"
#include "verbs/between.h"

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
