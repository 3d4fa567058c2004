/* SPDX-License-Identifier: MIT */
/*
 * ANYVERBS_FORK=dontfork: children of fork() do not get registered memory, and ibv_rereg_mr() says
 * when that could not be had: its codes DONT_FORK_NEW, DO_FORK_OLD and CMD_AND_DO_FORK_NEW, and
 * what the region is after each. And ibv_fork_init() alone: the same codes, though children get
 * everything. The argument "init" chooses the latter, "variable" the same by RDMAV_FORK_SAFE.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/probe.h"
#include "lib/two_sides.h"

#define PAGE	    4096ul
#define BYTES	    (4 * PAGE)
#define TRANSLATION IBV_REREG_MR_CHANGE_TRANSLATION

static struct node *n;
static struct ibv_pd *foreign_pd; /* of another context */
static bool refuse_return;	  /* MADV_DOFORK fails */
static bool alone;		  /* after ibv_fork_init() alone */

/* The library's calls come here. */
__attribute__((visibility("default"))) int madvise(void *addr, size_t bytes, int advice)
{
	if (advice == MADV_DOFORK && refuse_return) {
		errno = ENOMEM;
		return -1;
	}
	return (int)syscall(SYS_madvise, addr, bytes, advice);
}

static uint8_t *map(void)
{
	uint8_t *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		DIE("mmap");
	return p;
}

static struct ibv_mr *region(uint8_t *p, size_t bytes)
{
	struct ibv_mr *mr = ibv_reg_mr(n->pd, p, bytes, PROBE_ALL);

	NEED(mr);
	return mr;
}

/* The kernel is asked, so that nothing has to be caught: a system call reads the byte. */
static bool child_has(const uint8_t *p)
{
	int fd[2], status;
	pid_t pid;

	NEED(pipe(fd) == 0);
	pid = fork();
	if (pid < 0)
		DIE("fork");
	if (pid == 0)
		_exit(write(fd[1], p, 1) == 1);
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		DIE("waitpid");
	close(fd[0]);
	close(fd[1]);
	return WEXITSTATUS(status) == 1;
}

static void expect_child(const uint8_t *p, bool has)
{
	has = has || alone;
	EXPECT(child_has(p) == has, "a child %s", has ? "has not got it" : "has got it");
}

static void expect_reach(const uint8_t *p, const struct ibv_mr *mr, bool good)
{
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_WRITE, (uintptr_t)p, mr->rkey, 64,
		     good ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
}

static void expect_rereg(struct ibv_mr *mr, int flags, struct ibv_pd *pd, uint8_t *p, int want,
			 int error)
{
	int ret, err;

	errno = 0;
	ret = ibv_rereg_mr(mr, flags, pd, p, BYTES, 0);
	err = errno;
	EXPECT(ret == want, "returned %d, not %d", ret, want);
	EXPECT(err == error, "errno %d, not %d", err, error);
}

static void end(struct ibv_mr *mr)
{
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr: errno %d", errno);
}

static void registration_rows(void)
{
	uint8_t *p = map();
	struct ibv_mr *mr, *over, *odp;

	row("registered, deregistered");
	expect_child(p, true);
	mr = region(p + 100, PAGE);
	expect_child(p, false);
	expect_child(p + PAGE, false);
	expect_child(p + 2 * PAGE, true);
	row("two regions on one page");
	over = region(p + PAGE, PAGE);
	end(mr);
	expect_child(p, true);
	expect_child(p + PAGE, false);
	end(over);
	expect_child(p + PAGE, true);
	row("paged on demand: children have it");
	odp = ibv_reg_mr(n->pd, p, BYTES, PROBE_ALL | IBV_ACCESS_ON_DEMAND);
	EXPECT(odp != NULL, "errno %d", errno);
	expect_child(p, true);
	end(odp);
	munmap(p, BYTES);
}

static void moved_row(void)
{
	uint8_t *old = map(), *new = map();
	struct ibv_mr *mr = region(old, BYTES);

	row("moved");
	expect_rereg(mr, TRANSLATION, NULL, new, 0, 0);
	expect_child(old, true);
	expect_child(new, false);
	expect_reach(new, mr, true);
	end(mr);
	expect_child(new, true);
	munmap(old, BYTES);
	munmap(new, BYTES);
}

static void dont_fork_new_row(void)
{
	uint8_t *old = map(), *new = map();
	struct ibv_mr *mr = region(old, BYTES);

	row("DONT_FORK_NEW: a hole in the new range");
	munmap(new + PAGE, PAGE);
	expect_rereg(mr, TRANSLATION, NULL, new, IBV_REREG_MR_ERR_DONT_FORK_NEW, ENOMEM);
	expect_reach(old, mr, true);
	expect_child(old, false);
	expect_child(new, true);
	end(mr);
	munmap(old, BYTES);
	munmap(new, BYTES);
}

static void do_fork_old_row(void)
{
	uint8_t *old = map(), *new = map();
	struct ibv_mr *mr = region(old, BYTES);

	row("DO_FORK_OLD: the old range is not there any more");
	munmap(old, BYTES);
	expect_rereg(mr, TRANSLATION, NULL, new, IBV_REREG_MR_ERR_DO_FORK_OLD, ENOMEM);
	expect_reach(new, mr, true);
	expect_child(new, false);
	end(mr);
	expect_child(new, true);
	munmap(new, BYTES);
}

/* What is wrong with the command: a protection domain of another context. */
static void command_rows(void)
{
	const int flags = TRANSLATION | IBV_REREG_MR_CHANGE_PD;
	uint8_t *old = map(), *new = map();
	struct ibv_mr *mr = region(old, BYTES);

	row("CMD: the new range goes back to children");
	expect_rereg(mr, flags, foreign_pd, new, IBV_REREG_MR_ERR_CMD, ENOENT);
	expect_child(new, true);
	expect_reach(old, mr, true);
	row("CMD_AND_DO_FORK_NEW: it does not");
	refuse_return = true;
	expect_rereg(mr, flags, foreign_pd, new, IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW, ENOENT);
	refuse_return = false;
	expect_child(new, false);
	expect_reach(old, mr, true);
	end(mr);
	expect_child(old, true);
	munmap(old, BYTES);
	munmap(new, BYTES);
}

int main(int argc, char **argv)
{
	struct ibv_context *other;

	bool call = argc > 1 && strcmp(argv[1], "init") == 0;

	alone = call || (argc > 1 && strcmp(argv[1], "variable") == 0);
	if (!alone)
		setenv("ANYVERBS_FORK", "dontfork", 1);
	else if (!call)
		setenv("RDMAV_FORK_SAFE", "1", 1);
	two_sides_open(argc, argv);
	if (call)
		EXPECT(ibv_fork_init() == 0, "ibv_fork_init");
	n = a.node;
	other = node_open_device();
	foreign_pd = ibv_alloc_pd(other);
	probe_open(&b, &a, 0);
	registration_rows();
	moved_row();
	dont_fork_new_row();
	do_fork_old_row();
	command_rows();
	probe_close(&b, &a, 0);
	ibv_dealloc_pd(foreign_pd);
	ibv_close_device(other);
	return two_sides_close();
}
