/* SPDX-License-Identifier: MIT */
#include "base/real_calls.h"

static _Thread_local unsigned int depth;

void av_real_files_begin(void)
{
	depth++;
}

void av_real_files_end(void)
{
	depth--;
}

bool av_real_files_only(void)
{
	return depth > 0;
}
