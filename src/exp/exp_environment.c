/* SPDX-License-Identifier: MIT */
/* Settings of a context: its own once it has asked for them, until then those of the process. */
#include "exp/exp.h"

#include <stdlib.h>

#include "verbs/environment.h"

AV_EXPORT int ibv_exp_use_priv_env(struct ibv_context *context)
{
	int err = av_ours(context) ? av_environment_detach(av_context_of(context)) : ENOSYS;

	return err ? av_fail_fd(AV_VERB_EXP_USE_PRIV_ENV, err) : 0;
}

AV_EXPORT int ibv_exp_setenv(struct ibv_context *context, const char *name, const char *value,
			     int overwrite)
{
	int err;

	if (!av_ours(context))
		return setenv(name, value, overwrite);
	err = av_environment_set(av_context_of(context), name, value, overwrite);
	return err ? av_fail_fd(AV_VERB_EXP_SETENV, err) : 0;
}
