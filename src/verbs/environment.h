/* SPDX-License-Identifier: MIT */
/*
 * Settings that a context may have to itself: a copy of the process' environment, changed apart
 * from it. ibv_exp_use_priv_env(), ibv_exp_setenv().
 */
#ifndef AV_VERBS_ENVIRONMENT_H
#define AV_VERBS_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "segment/page_policy.h"

struct av_context;

#define AV_SETTING_MAX 4096 /* longest value of a context's own setting */

/* From now on the context has settings of its own: those of the process as they are now. Return: 0
 * or ENOMEM
 */
AV_MUST_USE int av_environment_detach(struct av_context *ctx);

/**
 * av_environment_set() - setenv(3), in the context's own settings, or the process' if it has none
 * Return: 0, EINVAL (name or value impossible) or ENOMEM
 */
AV_MUST_USE int av_environment_set(struct av_context *ctx, const char *name, const char *value,
				   bool overwrite);

/* The value of a setting of the context's; false if there is none that fits. Matches
 * av_page_variable. */
bool av_environment_get(const void *ctx, const char *name, char *value, size_t size);

/* Wishes for the pages of that kind of object, now. Writes a line to stderr for a value that is out
 * of range.
 */
struct av_page_policy av_environment_pages(const struct av_context *ctx,
					   const struct av_page_object *object);

void av_environment_free(struct av_context *ctx);

#endif
