/* SPDX-License-Identifier: MIT */
/* Which processes there have been below a side of a pair: what failed may be in one of them. */
#ifndef AV_TOOL_PAIR_KIN_H
#define AV_TOOL_PAIR_KIN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct av_pair_kin {
	struct {
		pid_t pid;
		bool gone; /* its number may be another process's now */
	} * row;
	size_t count, room;
};

/*
 * Remember @root and who is below it now. Only those are met that live during a call; without the
 * kernel's lists of children (CONFIG_PROC_CHILDREN) only @root is. Takes some 20 us.
 */
void av_pair_kin_meet(struct av_pair_kin *kin, pid_t root);

bool av_pair_kin_has(const struct av_pair_kin *kin, pid_t pid);

#endif
