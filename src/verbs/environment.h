/* SPDX-License-Identifier: MIT */
/* A context's own settings: a copy of the process's environment. ibv_exp_use_priv_env(3). */
#ifndef AV_VERBS_ENVIRONMENT_H
#define AV_VERBS_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "segment/page_policy.h"

struct av_context;

#define AV_SETTING_MAX 4096 /* longest value of such a setting */

/* Give the context settings of its own, copied from the process. Return: 0 or ENOMEM. */
AV_MUST_USE int av_environment_detach(struct av_context *ctx);

/* setenv(3) in the context's own settings, or the process's. Return: 0, EINVAL or ENOMEM. */
AV_MUST_USE int av_environment_set(struct av_context *ctx, const char *name, const char *value,
				   bool overwrite);

/* A setting's value. Return: false if unset or too long. Matches av_page_variable. */
bool av_environment_get(const void *ctx, const char *name, char *value, size_t size);

/* The page policy of this kind of object now. Says each value out of range on stderr. */
struct av_page_policy av_environment_pages(const struct av_context *ctx,
					   const struct av_page_object *object);

void av_environment_free(struct av_context *ctx);

#endif
