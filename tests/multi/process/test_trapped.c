/* SPDX-License-Identifier: MIT */
/*
 * A program traps system calls (seccomp(2)), and its handler of SIGSYS answers them, as sandboxes
 * do. That signal comes at any moment where a verb or a thread of ours calls the kernel, and would
 * end the process where it is blocked.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#include "lib/expect.h"
#include "lib/refuse_call.h"
#include "lib/sandbox.h"
#include "lib/sanitized.h"
#include "lib/userfaultfd.h"
#include "lib/wait.h"

#define BYTES	 65536ul
#define PATIENCE 30000u /* ms */

static atomic_int trapped;
static int answer; /* to each call */

static void set_result(ucontext_t *context, int result)
{
#if defined(__x86_64__)
	context->uc_mcontext.gregs[REG_RAX] = result;
#elif defined(__aarch64__)
	context->uc_mcontext.regs[0] = (uint64_t)result;
#else
#error "where the kernel returns a result"
#endif
}

static void on_trap(int sig, siginfo_t *info, void *context)
{
	atomic_fetch_add(&trapped, 1);
	wait_moment(); /* who is told that a wait is over waits again */
	set_result(context, answer);
}

static void trap(uint32_t call)
{
	const struct sigaction act = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_NODEFER};

	if (sigaction(SIGSYS, &act, NULL) || !filter_call(call, SECCOMP_RET_TRAP))
		_exit(77);
}

/* Verbs may fail. Return: exit status */
static int use_device(uint32_t call, bool at_once)
{
	void *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;

	if (at_once)
		trap(call);
	context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	pd = context ? ibv_alloc_pd(context) : NULL;
	if (!pd || p == MAP_FAILED)
		return 1;
	if (!at_once)
		trap(call);
	mr = ibv_reg_mr(pd, p, BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (!WAIT_UNTIL(atomic_load(&trapped) > 0, PATIENCE))
		return 2;
	if (mr)
		ibv_dereg_mr(mr);
	return 0;
}

/* Another process clears up what one that was refused its calls has left. */
static void clear_up(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;

	NEED(context && ibv_close_device(context) == 0);
	ibv_free_device_list(list);
}

static void trap_row(const char *name, uint32_t call, bool at_once, int result)
{
	int status = -1;
	pid_t pid;

	row("the program traps %s", name);
	pid = fork();
	if (pid == 0) {
		answer = result;
		_exit(use_device(call, at_once));
	}
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		printf("left out: no filters here\n");
	else
		EXPECT(status == 0, "status %#x", status);
}

int main(void)
{
	if (SANITIZED) /* whose own calls would be trapped */
		return 77;
	sandbox_enter();
	time_limit(120);
	if (has_userfaultfd())
		trap_row("openat() of a verb", SYS_openat, false, -EACCES);
	else
		printf("left out: no userfaultfd: ibv_reg_mr() opens nothing\n");
	trap_row("fallocate() of pages that move", SYS_fallocate, false, -EACCES);
	trap_row("ppoll() of a thread of ours", SYS_ppoll, true, 0);
	clear_up();
	return sandbox_end();
}
