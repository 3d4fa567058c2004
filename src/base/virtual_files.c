/* SPDX-License-Identifier: MIT */
#include "base/virtual_files.h"

#include "base/compiler.h"

static _Thread_local int depth AV_TLS_FAST; /* of av_virtual_files_suspend() */

void av_virtual_files_suspend(bool suspend)
{
	depth += suspend ? 1 : -1;
}

bool av_virtual_files_off(void)
{
	return depth > 0;
}
