/* SPDX-License-Identifier: MIT */
/* Settings: contexts have none of their own, so that these are the process'. */
#include <stdlib.h>

#include "exp/exp.h"

AV_EXPORT int ibv_exp_use_priv_env(struct ibv_context *context)
{
	(void)av_exp_absent();
	return -1;
}

AV_EXPORT int ibv_exp_setenv(struct ibv_context *context, const char *name, const char *value, int overwrite)
{
	return setenv(name, value, overwrite);
}
