/* SPDX-License-Identifier: MIT */
/* Checks whether processes can access each other's memory, and what prevents it if not. */
#include "doctor.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* Inode numbers of the initial namespaces, fixed by the kernel. */
#define FIRST_USER_NS 0xeffffffdu
#define FIRST_PID_NS  0xeffffffcu

#define MARK 0x616e797665726273ull

static volatile uint64_t target; /* has the same address in every child */

/* Write to @target of process @pid and read it back. Return: 0 or errno. */
static int reach(pid_t pid)
{
	uint64_t mark = MARK, back = 0;
	struct iovec local = {&mark, sizeof(mark)};
	struct iovec remote = {(void *)&target, sizeof(target)};

	if (process_vm_writev(pid, &local, 1, &remote, 1, 0) != (ssize_t)sizeof(mark))
		return errno ? errno : EIO;
	local.iov_base = &back;
	if (process_vm_readv(pid, &local, 1, &remote, 1, 0) != (ssize_t)sizeof(back))
		return errno ? errno : EIO;
	return back == MARK ? 0 : EIO;
}

/* Fork a child that waits to be killed. */
static pid_t start_target(void)
{
	pid_t parent = getpid(), pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (getppid() == parent)
			pause();
		_exit(0);
	}
	return pid;
}

/*
 * reach() from another child. Neither is the other's ancestor, as with two programs started from
 * one shell.
 */
static int reach_from_sibling(pid_t pid)
{
	int status;
	pid_t sibling = fork();

	if (sibling < 0)
		return errno;
	if (sibling == 0)
		_exit(reach(pid));
	if (waitpid(sibling, &status, 0) < 0)
		return errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
}

static void look_reach(struct av_finding *f)
{
	pid_t pid = start_target();
	int child, sibling;

	if (pid < 0) {
		av_finding_value(f, "cannot fork: %s", strerror(errno));
		av_finding_set(
			f, AV_VERDICT_MISSING, "The checks need a second process.",
			"Raise the limit of processes (ulimit -u, or that of the container).");
		return;
	}
	child = reach(pid);
	sibling = reach_from_sibling(pid);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	if (!child && !sibling) {
		av_finding_value(f, "readable and writable");
		av_finding_set(f, AV_VERDICT_OK,
			       "RDMA READ, RDMA WRITE and atomics between processes work.", "");
		return;
	}
	av_finding_value(f, "into a child: %s; into an unrelated process: %s",
			 child ? strerror(child) : "yes", sibling ? strerror(sibling) : "yes");
	av_finding_set(
		f, AV_VERDICT_LIMITED,
		"RDMA READ, RDMA WRITE and atomics between processes travel in packets, which "
		"takes ten times as long, where no plain stores reach the memory; on "
		"InfiniBand links they fail.",
		child ? "Yama (next line) or a seccomp filter refuses it; a container needs "
			"--cap-add=SYS_PTRACE, or a profile that allows process_vm_readv and "
			"process_vm_writev."
		      : "See the next line.");
}

static void look_yama(struct av_finding *f)
{
	char text[16];

	av_read_line("/proc/sys/kernel/yama/ptrace_scope", text, sizeof(text));
	if (!text[0]) {
		av_finding_value(f, "not in this kernel");
		av_finding_set(f, AV_VERDICT_OK,
			       "Processes of one user may access each other's memory.", "");
		return;
	}
	av_finding_value(f, "ptrace_scope %s", text);
	if (text[0] == '0')
		av_finding_set(f, AV_VERDICT_OK,
			       "Processes of one user may access each other's memory.", "");
	else if (text[0] == '3')
		av_finding_set(f, AV_VERDICT_LIMITED,
			       "No process may access another's memory, not even root's.",
			       "It can be lowered only by a reboot with another setting.");
	else
		av_finding_set(f, AV_VERDICT_LIMITED,
			       "Without CAP_SYS_PTRACE a process can access at most its own "
			       "children's memory.",
			       "As root: sysctl kernel.yama.ptrace_scope=0");
}

static void look_dumpable(struct av_finding *f)
{
	int dumpable = prctl(PR_GET_DUMPABLE);

	av_finding_value(f, "%d", dumpable);
	if (dumpable == 1)
		av_finding_set(
			f, AV_VERDICT_OK,
			"Peers may access this process; programs that change their user, or whose "
			"file is not readable, are not dumpable and cannot be reached.",
			"");
	else
		av_finding_set(f, AV_VERDICT_LIMITED,
			       "Only root's processes reach the memory of processes started like "
			       "this one.",
			       "Do not start programs set-user-ID, with file capabilities or from "
			       "an unreadable file.");
}

/* The value of a "Key:\tvalue" line in /proc/self/status, or -1. */
static int status_value(const char *key)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[256];
	int value = -1;

	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, key, strlen(key)))
			value = (int)strtol(line + strlen(key), NULL, 10);
	fclose(f);
	return value;
}

static void look_seccomp(struct av_finding *f)
{
	int mode = status_value("Seccomp:");

	if (mode == 0) {
		av_finding_value(f, "no filter");
		av_finding_set(f, AV_VERDICT_OK, "No filter refuses system calls.", "");
		return;
	}
	if (mode < 0) {
		av_finding_value(f, "unknown");
		av_finding_set(f, AV_VERDICT_OK,
			       "The kernel has no seccomp, or /proc does not show it.", "");
		return;
	}
	av_finding_value(f, "mode %d", mode);
	av_finding_set(f, AV_VERDICT_OK,
		       "A filter decides about system calls; those that anyverbs needs have been "
		       "tried, so the other lines say what it refuses.",
		       "");
}

static void look_namespace(struct av_finding *f, const char *path, ino_t first,
			   const char *elsewhere)
{
	struct stat st;

	if (stat(path, &st)) {
		av_finding_value(f, "unknown");
		av_finding_set(f, AV_VERDICT_LIMITED,
			       "It is unknown whether peers are in the same namespace.",
			       "Mount /proc.");
	} else if (st.st_ino == first) {
		av_finding_value(f, "the machine's");
		av_finding_set(f, AV_VERDICT_OK, "Shared with all processes outside containers.",
			       "");
	} else {
		av_finding_value(f, "a container's own");
		av_finding_set(f, AV_VERDICT_LIMITED, elsewhere,
			       "Start peers in the same container.");
	}
}

static void look_pid_namespace(struct av_finding *f)
{
	look_namespace(f, "/proc/self/ns/pid", FIRST_PID_NS,
		       "The memory of processes in another PID namespace cannot be reached; peers "
		       "in this one can.");
}

static void look_user_namespace(struct av_finding *f)
{
	look_namespace(f, "/proc/self/ns/user", FIRST_USER_NS,
		       "The memory of processes outside this user namespace cannot be reached; "
		       "peers inside it can.");
}

const struct doctor_check doctor_checks_process[] = {
	{"process_vm", "Memory of other processes", 1, look_reach},
	{"yama", "Yama", 0, look_yama},
	{"dumpable", "Dumpable", 0, look_dumpable},
	{"seccomp", "Seccomp", 0, look_seccomp},
	{"pid_namespace", "PID namespace", 0, look_pid_namespace},
	{"user_namespace", "User namespace", 0, look_user_namespace},
	{NULL, NULL, 0, NULL},
};
