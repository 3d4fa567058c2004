/* SPDX-License-Identifier: MIT */
/* Running out of descriptors: those that are open stay, and their number is the limit. */
#ifndef TEST_FEW_DESCRIPTORS_H
#define TEST_FEW_DESCRIPTORS_H

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

/* From now on only @more can be opened. Return: the limit of before, for setrlimit(2) */
static inline struct rlimit few_descriptors(unsigned int more)
{
	int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct rlimit all, few;

	close(next);
	getrlimit(RLIMIT_NOFILE, &all);
	few = (struct rlimit){(rlim_t)next + more, all.rlim_max};
	setrlimit(RLIMIT_NOFILE, &few);
	return all;
}

#endif
