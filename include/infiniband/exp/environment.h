/* SPDX-License-Identifier: MIT */
/* Settings of one context: ibv_exp_setenv(). */
#ifndef INFINIBAND_EXP_ENVIRONMENT_H
#define INFINIBAND_EXP_ENVIRONMENT_H

#include <pthread.h>
#include <infiniband/exp/base.h>
#include <infiniband/verbs.h>

#define VERBS_MAX_ENV_VAL 4096

struct verbs_env_item {
	char *name;
	char *value;
	struct verbs_env_item *next;
};

struct verbs_environment {
	struct verbs_env_item *head;
	pthread_mutex_t mtx;
};

IBV_EXP_BEGIN_DECLS_
int ibv_exp_use_priv_env(struct ibv_context *context);
int ibv_exp_setenv(struct ibv_context *context, const char *name, const char *value, int overwrite);
IBV_EXP_END_DECLS_

#endif
