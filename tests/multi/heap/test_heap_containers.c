/* SPDX-License-Identifier: MIT */
/*
 * Two containers that share a folder, and nothing else: PIDs, network, mounts and users are each
 * one's own. One reaches the other's memory by plain copies, until that is killed, executes another
 * program or is stopped, in the middle of traffic. The other one is told so in time, keeps nothing,
 * and talks to the next container that comes.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/request.h"
#include "lib/sandbox.h"
#include "lib/two_hosts.h"
#include "lib/wait.h"

#define BYTES	 (1ul << 20)
#define PIECE	 65536u
#define MANY	 200u	       /* requests */
#define WHOLE	 (64ull << 30) /* how a peer maps a heap */
#define PATIENCE 30000u	       /* ms */
#define RIGHTS	 (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
#define VARIABLE "TEST_CONTAINED"

static struct side a, b;

/* --- a container ----------------------------------------------------------------- */

static bool write_to(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool ret = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	close(fd);
	return ret;
}

/* As root there, who is this user here. */
static bool new_users(int others)
{
	char uid[40], gid[40];

	snprintf(uid, sizeof(uid), "0 %u 1", geteuid());
	snprintf(gid, sizeof(gid), "0 %u 1", getegid());
	return unshare(CLONE_NEWUSER | others) == 0 && write_to("/proc/self/setgroups", "deny") &&
	       write_to("/proc/self/uid_map", uid) && write_to("/proc/self/gid_map", gid);
}

static bool new_mounts(void)
{
	return unshare(CLONE_NEWNS) == 0 &&
	       mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount("proc", "/proc", "proc", 0, NULL) == 0;
}

/* PIDs and network are its own already. */
static bool leave_the_host(void)
{
	return new_mounts() && new_users(0);
}

/* The host: only who owns its PIDs may come back to them. Return: in that process; else its exit
 * status */
static int be_host(void)
{
	int status = 77 << 8;
	pid_t child;

	if (!new_users(CLONE_NEWPID)) {
		printf("skipped: no permission to create a user namespace\n");
		exit(77);
	}
	child = fork();
	if (child > 0)
		waitpid(child, &status, 0);
	else
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return child ? status : -1;
}

/* What has changed its user is not dumpable before it executes a program. */
static void contain(char **argv)
{
	const char *wanted = getenv(VARIABLE);

	if (!wanted || strcmp(wanted, "yes") != 0)
		return;
	if (!leave_the_host() || setenv(VARIABLE, "done", 1))
		DIE("errno %d", errno);
	execv("/proc/self/exe", argv);
	DIE("execv: errno %d", errno);
}

static void new_pids(int own)
{
	if (setns(own, CLONE_NEWPID) || unshare(CLONE_NEWPID))
		DIE("errno %d", errno);
}

static void start(struct side *s, int host)
{
	int own = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);

	new_pids(own);
	setenv(VARIABLE, "yes", 1);
	two_hosts_be(host);
	side_start(s);
	two_hosts_be(0);
	setns(own, CLONE_NEWPID); /* anyverbs and other programs are the host's */
	close(own);
}

static bool can_contain(void)
{
	int own = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC), status = -1;
	bool ret = unshare(CLONE_NEWPID) == 0;
	pid_t child = ret ? fork() : -1;

	if (child == 0)
		_exit(!leave_the_host());
	ret = child > 0 && waitpid(child, &status, 0) == child && status == 0;
	setns(own, CLONE_NEWPID);
	close(own);
	return ret;
}

/* --- what it does ---------------------------------------------------------------- */

enum job { ALLOCATE, SHARE, RKEY, RELEASE, PUSH, EXECUTE, HEAPS, FILES, KEPT };

static struct ibv_mr *mr;

/* On the heap. */
static uint64_t allocate(struct node *n)
{
	void *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	mr = p == MAP_FAILED ? NULL : ibv_reg_mr(n->pd, p, BYTES, RIGHTS);
	NEED(mr);
	return (uintptr_t)p;
}

/* In a file that the program has shared itself, and has open. */
static uint64_t share(struct node *n)
{
	int fd = memfd_create("test-contained", MFD_CLOEXEC);
	void *p = fd < 0 || ftruncate(fd, BYTES)
			  ? MAP_FAILED
			  : mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	mr = p == MAP_FAILED ? NULL : ibv_reg_mr(n->pd, p, BYTES, RIGHTS);
	NEED(mr);
	return (uintptr_t)p;
}

static uint64_t release(void)
{
	void *p = mr->addr;

	return ibv_dereg_mr(mr) == 0 && munmap(p, BYTES) == 0;
}

static enum ibv_wc_status request(struct node *n, enum ibv_wr_opcode opcode, uint64_t at,
				  uint32_t rkey)
{
	struct ibv_sge sge = {(uintptr_t)n->arena, PIECE, n->mr[KEY_FULL]->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &sge,
				       .num_sge = 1,
				       .opcode = opcode,
				       .send_flags = IBV_SEND_SIGNALED};
	struct ibv_wc wc;

	wr.wr.rdma.remote_addr = at;
	wr.wr.rdma.rkey = rkey;
	NEED(ibv_post_send(n->qp[0], &wr, &bad) == 0);
	while (ibv_poll_cq(n->cq[0], 1, &wc) == 0)
		;
	return wc.status;
}

/* So many, or for ever: until one fails. Return: how */
static uint64_t push(struct node *n, const struct side_job *job)
{
	uint64_t most = job->arg[3];
	enum ibv_wc_status status = IBV_WC_SUCCESS;

	for (uint64_t i = 0; status == IBV_WC_SUCCESS && (!most || i < most); i++) {
		status = request(n, most == 1 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE, job->arg[1],
				 (uint32_t)job->arg[2]);
		if (!most && i == MANY)
			side_note();
	}
	return status;
}

/* Heaps of others, each whole; and, if @all, whatever else is ours but for blocks of its own. */
static uint64_t mappings(bool all)
{
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned long begin, end;
	uint64_t n = 0;
	char line[512];

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx", &begin, &end) != 2)
			continue;
		n += strstr(line, "anyverbs-heap") ? end - begin == WHOLE
						   : all && strstr(line, "anyverbs-");
	}
	if (f)
		fclose(f);
	return n;
}

/* Files of that kind that are mapped here. */
static uint64_t files(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	uint64_t n = 0;
	char line[512];

	while (f && fgets(line, sizeof(line), f))
		n += strstr(line, "test-contained") != NULL;
	if (f)
		fclose(f);
	return n;
}

static uint64_t work(struct node *n, const struct side_job *job)
{
	switch ((enum job)job->arg[0]) {
	case ALLOCATE:
		return allocate(n);
	case SHARE:
		return share(n);
	case RKEY:
		return mr->rkey;
	case RELEASE:
		return release();
	case PUSH:
		return push(n, job);
	case EXECUTE:
		side_note();
		execlp("sleep", "sleep", "1000", NULL);
		DIE("execlp: errno %d", errno);
	case HEAPS:
		return mappings(false);
	case FILES:
		return files();
	case KEPT:
		return (uint64_t)open_descriptors() << 32 | mappings(true);
	}
	return 0;
}

static uint64_t ask(struct side *s, enum job job)
{
	side_begin(s, &(struct side_job){.arg = {job}});
	return side_end(s);
}

/* --- rows ------------------------------------------------------------------------ */

enum end { KILLED, EXECUTED, STOPPED, REQUESTER_KILLED };

static const char *const ends[] = {"is killed", "executes another program", "is stopped",
				   "is killed as it writes"};

static void begin_to_push(struct side *from, struct side *to)
{
	struct side_job job = {.arg = {PUSH, ask(to, ALLOCATE), ask(to, RKEY), 0}};

	side_begin(from, &job);
	side_await(from);
}

static void expect_explained(const char *text)
{
	FILE *f = popen("'" ANYVERBS_TOOL "' explain", "re");
	char line[1024];
	bool found = false;

	while (f && fgets(line, sizeof(line), f))
		found |= strstr(line, text) != NULL;
	EXPECT(f && pclose(f) == 0 && found, "'%s' is not explained", text);
}

static void expect_gone(enum end how)
{
	enum ibv_wc_status status;

	if (how == KILLED) {
		side_kill(&b);
	} else {
		side_begin(&b, &(struct side_job){.arg = {EXECUTE}});
		side_await(&b);
	}
	status = (enum ibv_wc_status)side_end(&a);
	EXPECT(status == IBV_WC_RETRY_EXC_ERR, "'%s'", ibv_wc_status_str(status));
	expect_explained("its process has ended");
	if (how == EXECUTED)
		side_kill(&b);
}

/* Whoever writes needs nothing of it; a message waits for a request that it does not post. */
static void expect_stopped(void)
{
	struct side_job job = {.arg = {PUSH, ask(&b, ALLOCATE), ask(&b, RKEY), MANY}};
	enum ibv_wc_status status;

	side_suspend(&b);
	side_begin(&a, &job);
	status = (enum ibv_wc_status)side_end(&a);
	EXPECT(status == IBV_WC_SUCCESS, "WRITE: '%s'", ibv_wc_status_str(status));
	job.arg[3] = 1;
	side_begin(&a, &job);
	status = (enum ibv_wc_status)side_end(&a);
	EXPECT(status == IBV_WC_RNR_RETRY_EXC_ERR, "SEND: '%s'", ibv_wc_status_str(status));
	expect_explained("receive");
	side_kill(&b);
}

static void one_end(enum end how)
{
	struct node_link link = link_default();

	row("the other container %s", ends[how]);
	start(&b, 1);
	link.rnr_retry = 1;
	link.timeout = 12; /* of the dead, 50 ms are enough */
	link.retry_cnt = 3;
	pair_create(&a, 0, &b, 0, NULL);
	pair_connect(&a, 0, how == REQUESTER_KILLED ? NULL : &link, &b, 0, NULL);
	if (how == STOPPED) {
		expect_stopped();
	} else if (how == REQUESTER_KILLED) {
		begin_to_push(&b, &a);
		side_kill(&b);
		EXPECT(ask(&a, RELEASE), "its region stays");
	} else {
		begin_to_push(&a, &b);
		expect_gone(how);
	}
	EXPECT(side_destroy_qp(&a, 0) == 0, "ibv_destroy_qp");
}

/* @memory: how the one that comes gets it; @mapped: what it is then mapped as here */
static void reach_next(enum job memory, enum job mapped)
{
	struct side_job job = {.arg = {PUSH}};

	start(&b, 1);
	pair_create(&a, 0, &b, 0, NULL);
	pair_connect(&a, 0, NULL, &b, 0, NULL);
	job.arg[1] = ask(&b, memory);
	job.arg[2] = ask(&b, RKEY);
	job.arg[3] = MANY;
	side_begin(&a, &job);
	EXPECT(side_end(&a) == IBV_WC_SUCCESS, "the next one is not reached");
	EXPECT(ask(&a, mapped) == 1, "not by plain copies");
}

/* One that comes, is reached and leaves in order. */
static void expect_next(void)
{
	reach_next(ALLOCATE, HEAPS);
	pair_destroy(&a, 0, &b, 0);
	EXPECT(ask(&b, RELEASE), "the next one's region stays");
	side_stop(&b);
}

/* Its file comes by the socket: nobody sees the other's descriptors in /proc. */
static void file_row(void)
{
	row("memory that the program has shared itself");
	reach_next(SHARE, FILES);
	EXPECT(ask(&b, RELEASE), "its region stays");
	EXPECT(WAIT_UNTIL(ask(&a, FILES) == 0, PATIENCE), "the file stays mapped");
	pair_destroy(&a, 0, &b, 0);
	side_stop(&b);
}

int main(int argc, char **argv)
{
	uint64_t before, after;
	int status;

	contain(argv);
	side_work = work;
	side_agent_main(argc, argv);
	status = be_host();
	if (status != -1)
		return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
	if (!new_mounts()) {
		printf("skipped: no permission to mount /proc\n");
		return 77;
	}
	two_hosts_open(argc, argv);
	if (!can_contain()) {
		printf("skipped: no permission to create namespaces of mounts, PIDs and users\n");
		return 77;
	}
	start(&a, 0);
	row("nothing happens");
	expect_next();
	before = ask(&a, KEPT);
	for (enum end how = KILLED; how <= REQUESTER_KILLED; how++) {
		one_end(how);
		expect_next();
		after = ask(&a, KEPT);
		EXPECT(after == before, "%#lx descriptors and mappings, not %#lx",
		       (unsigned long)after, (unsigned long)before);
	}
	file_row();
	side_stop(&a);
	return sandbox_end();
}
