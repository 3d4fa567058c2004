/* SPDX-License-Identifier: MIT */
/* Regions that cannot be registered, and windows that are not bound as they should be. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/expect.h"
#include "mistakes.h"

#define DETAIL 51 /* bytes of a mapping's name that a record keeps */

static void only_remote_write(void)
{
	EXPECT_NULL(ibv_reg_mr(scene.pd, scene.buf, BYTES, IBV_ACCESS_REMOTE_WRITE), EINVAL);
}

/* A page behind the one that is there. */
static void beyond_the_end(void)
{
	char *p = mmap(NULL, 2 * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	NEED(p != MAP_FAILED && munmap(p + BYTES, BYTES) == 0);
	printed("%p", (void *)(p + BYTES));
	EXPECT_NULL(ibv_reg_mr(scene.pd, p, 2 * BYTES, IBV_ACCESS_LOCAL_WRITE), EFAULT);
	munmap(p, BYTES);
}

/* Of whole pages, behind the end of its file. */
static void beyond_the_file(void)
{
	int fd = memfd_create("short", MFD_CLOEXEC);
	char *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	NEED(fd >= 0 && p != MAP_FAILED);
	printed("%p", (void *)p);
	EXPECT_NULL(ibv_reg_mr(scene.pd, p, BYTES, IBV_ACCESS_LOCAL_WRITE), EFAULT);
	munmap(p, BYTES);
	close(fd);
}

static void change_to_unmapped(void)
{
	struct ibv_mr *mr = reg(scene.pd, ALL_ACCESS);
	char *p = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	NEED(p != MAP_FAILED);
	printed("%p", (void *)p);
	EXPECT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, p, BYTES, 0) &&
		       errno == EFAULT,
	       "errno %d", errno);
	NEED(ibv_dereg_mr(mr) == 0);
	munmap(p, BYTES);
}

static void advise_unmapped(void)
{
	char *p = mmap(NULL, 2 * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_sge sge = {.addr = (uintptr_t)p, .length = 2 * BYTES};
	struct ibv_mr *mr = ibv_reg_mr(scene.pd, p, 2 * BYTES, IBV_ACCESS_ON_DEMAND);

	NEED(p != MAP_FAILED && mr && munmap(p + BYTES, BYTES) == 0);
	sge.lkey = mr->lkey;
	printed("%p", (void *)(p + BYTES));
	EXPECT_RET(ibv_advise_mr(scene.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH,
				 &sge, 1),
		   EFAULT);
	NEED(ibv_dereg_mr(mr) == 0);
	munmap(p, BYTES);
}

static void null_address(void)
{
	EXPECT_NULL(ibv_reg_mr(scene.pd, NULL, BYTES, IBV_ACCESS_LOCAL_WRITE), EFAULT);
}

static void read_only_memory(void)
{
	static const char text[] = "a string constant";

	char program[256] = "", *end;
	ssize_t len = readlink("/proc/self/exe", program, sizeof(program) - 1);

	end = program + (len > DETAIL ? len - DETAIL : 0);
	if (len > DETAIL)
		memcpy(end, "...", 3);
	printed("%p forbids the access: r--p %s", (void *)((uintptr_t)text & ~(uintptr_t)4095),
		end);
	EXPECT_NULL(
		ibv_reg_mr(scene.pd, (void *)(uintptr_t)text, sizeof(text), IBV_ACCESS_LOCAL_WRITE),
		EFAULT);
}

static void negative_length(void)
{
	EXPECT_NULL(ibv_reg_mr(scene.pd, scene.buf, (size_t)-1, IBV_ACCESS_LOCAL_WRITE), EINVAL);
}

static void unknown_flag(void)
{
	EXPECT_NULL(ibv_reg_mr(scene.pd, scene.buf, BYTES, 1 << 30), EINVAL);
}

/* --- windows --------------------------------------------------------------------- */

static struct ibv_mw *window;
static struct ibv_send_wr bind_to(struct ibv_mr *mr)
{
	return (struct ibv_send_wr){
		.wr_id = WR_ID,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = {.mw = window,
			    .rkey = ibv_inc_rkey(window->rkey),
			    .bind_info = {.mr = mr,
					  .addr = (uintptr_t)scene.remote,
					  .length = 64,
					  .mw_access_flags = IBV_ACCESS_REMOTE_WRITE}},
	};
}

static void start(void)
{
	need(IBV_QPT_RC);
	connect_both();
	window = ibv_alloc_mw(scene.pd, IBV_MW_TYPE_2);
	NEED(window);
}

static void bind_with(int access)
{
	struct ibv_mr *mr;
	struct ibv_send_wr wr;

	start();
	mr = reg(scene.pd, access);
	wr = bind_to(mr);
	EXPECT(run(&wr) == IBV_WC_MW_BIND_ERR, "status");
	NEED(ibv_dealloc_mw(window) == 0 && ibv_dereg_mr(mr) == 0);
}

static void no_mw_bind(void)
{
	bind_with(IBV_ACCESS_LOCAL_WRITE);
}

static void no_local_write(void)
{
	bind_with(IBV_ACCESS_MW_BIND);
}

static void bound_twice(void)
{
	struct ibv_send_wr wr;

	start();
	wr = bind_to(scene.mr);
	NEED(run(&wr) == IBV_WC_SUCCESS);
	window->rkey = wr.bind_mw.rkey;
	wr = bind_to(scene.mr);
	EXPECT(run(&wr) == IBV_WC_MW_BIND_ERR, "status");
	NEED(ibv_dealloc_mw(window) == 0);
}

static void not_bound(void)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	start();
	scene.key = window->rkey;
	wr = request(IBV_WR_RDMA_WRITE, &sge);
	EXPECT(run(&wr) == IBV_WC_REM_ACCESS_ERR, "status");
	NEED(ibv_dealloc_mw(window) == 0);
}

static void region_in_use(void)
{
	struct ibv_send_wr wr;

	start();
	wr = bind_to(scene.mr);
	NEED(run(&wr) == IBV_WC_SUCCESS);
	EXPECT_RET(ibv_dereg_mr(scene.mr), EBUSY);
	NEED(ibv_dealloc_mw(window) == 0);
}

/* clang-format off */
static const struct mistake mistakes[] = {
	{"REMOTE_WRITE without LOCAL_WRITE", only_remote_write,
	 "ibv_reg_mr: a remote right to write or to use atomics (IBV_ACCESS_REMOTE_WRITE) needs IBV_ACCESS_LOCAL_WRITE (EINVAL)"},
	{"buffer not allocated", null_address,
	 "ibv_reg_mr: nothing is mapped at 0x0, nor anywhere below it (EFAULT)"},
	{"range too long", beyond_the_end,
	 "ibv_reg_mr: nothing is mapped at <number>; the mapping before it ends at <number>: rw-p anonymous memory (EFAULT)"},
	{"file too short", beyond_the_file,
	 "ibv_reg_mr: the page at <number> cannot be had: rw-s /memfd:short (deleted) (EFAULT)"},
	{"region moved to read-only memory", change_to_unmapped,
	 "ibv_rereg_mr: the mapping at <number> forbids the access: r--p anonymous memory (EFAULT)"},
	{"prefetched and not there", advise_unmapped,
	 "ibv_advise_mr: nothing is mapped at <number>; the mapping before it ends at <number>: rw-p anonymous memory (EFAULT)"},
	{"negative length", negative_length,
	 "ibv_reg_mr: 18446744073709551615 B from <buf> on wrap around the end of the address space (EINVAL)"},
	{"buffer is a string constant", read_only_memory,
	 "ibv_reg_mr: the mapping at <number> (EFAULT)"},
	{"flag that there is not", unknown_flag,
	 "ibv_reg_mr: access flags 0x40000000 are unknown; the known flags are 0x3ff001ff (EINVAL)"},
	{"region without MW_BIND", no_mw_bind,
	 "QP <qp0>: BIND of 64 B at <remote> under lkey <key>: the region permits IBV_ACCESS_LOCAL_WRITE; a window needs IBV_ACCESS_MW_BIND, and no zero based region (IBV_WC_MW_BIND_ERR, wr_id 7)"},
	{"window writable, region not", no_local_write,
	 "QP <qp0>: BIND of 64 B at <remote> under lkey <key>: a writable window needs a region with local write access; the region permits IBV_ACCESS_MW_BIND (IBV_WC_MW_BIND_ERR, wr_id 7)"},
	{"window bound twice", bound_twice,
	 "QP <qp0>: BIND of 64 B at <remote> under lkey <key>: the type 2 window is already bound (IBV_WC_MW_BIND_ERR, wr_id 7)"},
	{"window used before it is bound", not_bound,
	 "QP <qp1>: peer's RDMA WRITE of 64 B to <remote> under rkey <key>: the memory window is not bound (IBV_EVENT_QP_ACCESS_ERR)"},
	{"region deregistered before its window", region_in_use,
	 "ibv_dereg_mr: memory windows are still bound to the region (EBUSY)"},
};
/* clang-format on */

void make_memory_mistakes(void)
{
	run_mistakes(mistakes, COUNT_OF(mistakes));
}
