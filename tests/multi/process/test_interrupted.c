/* SPDX-License-Identifier: MIT */
/*
 * Kernels before 6.16 give up a fallocate() of shared memory that takes longer than the program's
 * timer lets it. Here a filter does so with those of more than 2 MiB: all that a program does takes
 * less at a time, and so does not fail, nor begin again for ever.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#include "lib/expect.h"
#include "lib/refuse_call.h"
#include "lib/sandbox.h"

#define AT_ONCE	   (2u << 20)
#define BYTES	   (16ul << 20)
#define PUNCH_HOLE 2 /* FALLOC_FL_PUNCH_HOLE, which is not interrupted */
#define LENGTH	   offsetof(struct seccomp_data, args[3]) /* the lower half */
#define MODE	   offsetof(struct seccomp_data, args[1])

static bool interrupt_long_ones(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fallocate, 0, 5),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, MODE),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PUNCH_HOLE, 3, 0),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, LENGTH),
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, AT_ONCE, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINTR),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	return filter_calls(code, COUNT_OF(code));
}

static void program(void)
{
	uint8_t *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_device_attr attr;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *cq;

	NEED(p != MAP_FAILED && list && list[0]);
	context = ibv_open_device(list[0]);
	if (!EXPECT(context, "ibv_open_device: errno %d", errno))
		return;
	pd = ibv_alloc_pd(context);
	NEED(pd && ibv_query_device(context, &attr) == 0);
	memset(p, 1, BYTES);
	mr = ibv_reg_mr(pd, p, BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	EXPECT(mr && ibv_dereg_mr(mr) == 0, "ibv_reg_mr: errno %d", errno);
	EXPECT(p[0] == 1 && !memcmp(p, p + 1, BYTES - 1), "other bytes");
	cq = ibv_create_cq(context, attr.max_cqe, NULL, NULL, 0);
	EXPECT(cq && ibv_destroy_cq(cq) == 0, "ibv_create_cq: errno %d", errno);
	ibv_dealloc_pd(pd);
	EXPECT(ibv_close_device(context) == 0, "ibv_close_device: errno %d", errno);
	ibv_free_device_list(list);
}

int main(void)
{
	sandbox_enter();
	time_limit(60);
	row("fallocate() is interrupted where it takes long");
	if (interrupt_long_ones())
		program();
	else
		printf("left out: no filters here\n");
	return sandbox_end();
}
