/* SPDX-License-Identifier: MIT */
#include "others.h"

#include <limits.h>

#include "command.h"
#include "registry/directory.h"

void av_others_complain(void)
{
	char name[NAME_MAX + 1];

	if (av_folder_find_other(name, sizeof(name)))
		av_tool_complain("programs run with a library of another build, which are not "
				 "shown: see 'anyverbs doctor'");
}
