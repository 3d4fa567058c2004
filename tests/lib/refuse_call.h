/* SPDX-License-Identifier: MIT */
/*
 * Simulates a container that permits fewer system calls, for this process and its children,
 * permanently.
 */
#ifndef AV_TESTS_REFUSE_CALL_H
#define AV_TESTS_REFUSE_CALL_H

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "lib/expect.h"

/* Return: false if filters are unavailable here. */
static inline bool filter_calls(struct sock_filter *code, size_t count)
{
	const struct sock_fprog program = {.len = (unsigned short)count, .filter = code};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* @action: what comes of system call @number. Return: as above. */
static inline bool filter_call(uint32_t number, uint32_t action)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, action),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	return filter_calls(code, sizeof(code) / sizeof(code[0]));
}

/* Make system call @number fail with @error. Return: as above. */
static inline bool refuse_call(uint32_t number, uint32_t error)
{
	return filter_call(number, SECCOMP_RET_ERRNO | (error & SECCOMP_RET_DATA));
}

/* As where Yama or a container keeps processes apart. Ends the program if it cannot. */
static inline void refuse_memory_of_others(void)
{
	if (!refuse_call(SYS_process_vm_readv, EPERM) || !refuse_call(SYS_process_vm_writev, EPERM))
		DIE("no filter: errno %d", errno);
}

#endif
