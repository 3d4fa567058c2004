/* SPDX-License-Identifier: MIT */
/*
 * confine [--no-memory] PROGRAM [ARGUMENT]...: run a program under a system call filter that
 * refuses what the default profile of container engines refuses and RDMA on shared memory would
 * like to have; with --no-memory also access to the memory of other processes, as old engines do.
 * For docs/guide/container.md, on machines without such an engine.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REFUSE(call)                                     \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1), \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)

static struct sock_filter filter[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	REFUSE(SYS_userfaultfd),
	REFUSE(SYS_pidfd_getfd),
	REFUSE(SYS_process_madvise),
	REFUSE(SYS_io_uring_setup),
	REFUSE(SYS_perf_event_open),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	REFUSE(SYS_process_vm_readv),
	REFUSE(SYS_process_vm_writev),
	REFUSE(SYS_ptrace),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

int main(int argc, char **argv)
{
	struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
	int first = 1;

	if (argc > first && !strcmp(argv[first], "--no-memory")) {
		filter[11] = filter[0]; /* go on; the number is still loaded */
		first++;
	}
	if (argc <= first)
		return 125;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
		perror("confine");
		return 125;
	}
	execvp(argv[first], argv + first);
	perror(argv[first]);
	return 127;
}
