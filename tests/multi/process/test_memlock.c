/* SPDX-License-Identifier: MIT */
/*
 * RLIMIT_MEMLOCK, by each function that tells it: unlimited for a program that is linked with
 * verbs, as this one is. What it sets is set, and all else is the kernel's answer.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/sandbox.h"

static struct rlimit kernels(pid_t pid, int resource)
{
	struct rlimit limit;

	NEED(syscall(SYS_prlimit64, pid, resource, NULL, &limit) == 0);
	return limit;
}

static int by_getrlimit(int resource, struct rlimit *limit)
{
	return getrlimit((__rlimit_resource_t)resource, limit);
}

static int by_getrlimit64(int resource, struct rlimit *limit)
{
	return getrlimit64((__rlimit_resource_t)resource, (struct rlimit64 *)limit);
}

static int by_prlimit(int resource, struct rlimit *limit)
{
	return prlimit(0, (__rlimit_resource_t)resource, NULL, limit);
}

static int by_prlimit64(int resource, struct rlimit *limit)
{
	return prlimit64(getpid(), (__rlimit_resource_t)resource, NULL, (struct rlimit64 *)limit);
}

static const struct {
	const char *name;
	int (*get)(int resource, struct rlimit *limit);
} ways[] = {
	{"getrlimit()", by_getrlimit},
	{"getrlimit64()", by_getrlimit64},
	{"prlimit()", by_prlimit},
	{"prlimit64()", by_prlimit64},
};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

static bool is_unlimited(const struct rlimit *limit)
{
	return limit->rlim_cur == RLIM_INFINITY && limit->rlim_max == RLIM_INFINITY;
}

static void each_resource(bool unlimited)
{
	for (size_t i = 0; i < WAYS; i++)
		for (int resource = 0; resource < RLIM_NLIMITS; resource++) {
			struct rlimit limit, wanted = kernels(0, resource);

			EXPECT(ways[i].get(resource, &limit) == 0, "%s", ways[i].name);
			if (resource == RLIMIT_MEMLOCK && unlimited)
				EXPECT(is_unlimited(&limit), "%s", ways[i].name);
			else
				EXPECT(!memcmp(&limit, &wanted, sizeof(limit)), "%s of %d",
				       ways[i].name, resource);
		}
}

static void what_is_set(void)
{
	struct rlimit lower = {.rlim_cur = 65536, .rlim_max = 131072}, before, limit;

	EXPECT(prlimit(0, RLIMIT_MEMLOCK, &lower, &before) == 0, "prlimit()");
	EXPECT(is_unlimited(&before), "the limit before");
	limit = kernels(0, RLIMIT_MEMLOCK);
	EXPECT(!memcmp(&limit, &lower, sizeof(limit)), "it was not set");
	lower.rlim_cur = 4096;
	EXPECT(setrlimit(RLIMIT_MEMLOCK, &lower) == 0, "setrlimit()");
	EXPECT(kernels(0, RLIMIT_MEMLOCK).rlim_cur == 4096, "it was not set");
}

/* As an ordinary user does it, who may not raise the hard limit. */
static int set_what_is_told(void)
{
	struct rlimit few = {.rlim_cur = 4096, .rlim_max = 65536}, told;

	if (setrlimit(RLIMIT_MEMLOCK, &few) || (geteuid() == 0 && setresuid(65534, 65534, 65534)))
		return 1;
	if (getrlimit(RLIMIT_MEMLOCK, &told) || !is_unlimited(&told))
		return 2;
	errno = 0;
	if (setrlimit(RLIMIT_MEMLOCK, &told) || errno)
		return 3;
	if (kernels(0, RLIMIT_MEMLOCK).rlim_cur != few.rlim_max)
		return 4;
	told.rlim_cur = 8192;
	if (prlimit(0, RLIMIT_MEMLOCK, &told, &told) || !is_unlimited(&told))
		return 5;
	if (kernels(0, RLIMIT_MEMLOCK).rlim_cur != 8192)
		return 6;
	few.rlim_max = 131072;
	return setrlimit(RLIMIT_MEMLOCK, &few) == 0 || errno != EPERM ? 7 : 0;
}

static void what_is_told_can_be_set(void)
{
	int status;
	pid_t child = fork();

	NEED(child >= 0);
	if (child == 0)
		_exit(set_what_is_told());
	NEED(waitpid(child, &status, 0) == child);
	EXPECT(status == 0, "%#x", status);
}

static void another_process(void)
{
	pid_t child = fork();
	struct rlimit limit, wanted;

	NEED(child >= 0);
	if (child == 0) {
		pause();
		_exit(0);
	}
	wanted = kernels(child, RLIMIT_MEMLOCK);
	EXPECT(prlimit(child, RLIMIT_MEMLOCK, NULL, &limit) == 0, "prlimit()");
	EXPECT(!memcmp(&limit, &wanted, sizeof(limit)), "of another process");
	kill(child, SIGKILL);
	NEED(waitpid(child, NULL, 0) == child);
}

static void errors(void)
{
	EXPECT(getrlimit((__rlimit_resource_t)99, &(struct rlimit){0}) == -1 && errno == EINVAL,
	       "a resource that does not exist");
	EXPECT(prlimit(0, RLIMIT_MEMLOCK, NULL, NULL) == 0, "nothing asked");
}

int main(int argc, char **argv)
{
	bool real = getenv("ANYVERBS_MEMLOCK") != NULL;

	time_limit(60);
	if (real) { /* executed again */
		row("the switch ANYVERBS_MEMLOCK=real");
		each_resource(false);
		return summary();
	}
	row("each resource, each way");
	each_resource(true);
	row("another process");
	another_process();
	row("errors");
	errors();
	row("what is told can be set");
	what_is_told_can_be_set();
	row("what is set");
	what_is_set();
	if (summary())
		return 1;
	setenv("ANYVERBS_MEMLOCK", "real", 1);
	execv("/proc/self/exe", argv);
	return 1;
}
