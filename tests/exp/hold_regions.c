/* SPDX-License-Identifier: MIT */
/*
 * Holds regions of several kinds until its standard input ends, for what shows regions. Writes a
 * line when they are there. "early": in a program with two threads, one region on memory that was
 * allocated before the device was opened, of 1 MiB, and one on memory from after it, of 2.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <infiniband/verbs_exp.h>

#define RIGHTS (IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_REMOTE_READ)
#define SHARE  (IBV_EXP_ACCESS_ALLOCATE_MR | IBV_EXP_ACCESS_SHARED_MR_USER_READ)
#define MB     (1ul << 20)

static void need(const void *object, const char *what)
{
	if (object)
		return;
	perror(what);
	exit(1);
}

static struct ibv_mr *reg(struct ibv_pd *pd, void *addr, size_t length, uint64_t access)
{
	struct ibv_exp_reg_mr_in in = {
		.pd = pd, .addr = addr, .length = length, .exp_access = access};
	struct ibv_mr *mr = ibv_exp_reg_mr(&in);

	need(mr, "ibv_exp_reg_mr");
	return mr;
}

static struct ibv_pd *open_first(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx;
	struct ibv_pd *pd;

	need(list && list[0] ? list : NULL, "ibv_get_device_list");
	ctx = ibv_open_device(list[0]);
	need(ctx, "ibv_open_device");
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(ctx);
	need(pd, "ibv_alloc_pd");
	return pd;
}

static int hold(void)
{
	puts("ready");
	fflush(stdout);
	(void)!getchar();
	return 0;
}

static void *wait_for_ever(void *nothing)
{
	for (;;)
		pause();
	return nothing;
}

static int hold_early(void)
{
	void *before = malloc(MB);
	struct ibv_pd *pd = open_first();
	pthread_t thread;

	if (pthread_create(&thread, NULL, wait_for_ever, NULL))
		return 1;
	reg(pd, before, MB, RIGHTS);
	reg(pd, malloc(2 * MB), 2 * MB, RIGHTS);
	return hold();
}

int main(int argc, char **argv)
{
	static char own[4096];
	struct ibv_exp_reg_shared_mr_in second = {.exp_access = 0};
	struct ibv_pd *pd;

	(void)argv;
	if (argc > 1)
		return hold_early();
	pd = open_first();
	reg(pd, own, sizeof(own), RIGHTS);
	reg(pd, own, sizeof(own), RIGHTS | IBV_EXP_ACCESS_ON_DEMAND);
	reg(pd, NULL, 8192, RIGHTS | IBV_EXP_ACCESS_ALLOCATE_MR);
	reg(pd, NULL, 5 * MB, RIGHTS | IBV_EXP_ACCESS_ALLOCATE_MR);
	reg(pd, NULL, 4096, RIGHTS | SHARE | IBV_EXP_ACCESS_NO_RDMA);
	second.pd = pd;
	second.mr_handle =
		reg(pd, NULL, 12288, RIGHTS | SHARE | IBV_EXP_ACCESS_SHARED_MR_USER_WRITE)->handle;
	need(ibv_exp_reg_shared_mr(&second), "ibv_exp_reg_shared_mr");
	setenv("MLX_MR_ALLOC_TYPE", "ANON", 1);
	reg(pd, NULL, 20480, RIGHTS | IBV_EXP_ACCESS_ALLOCATE_MR);
	return hold();
}
