/* SPDX-License-Identifier: MIT */
/*
 * The memory behind a context is anonymous: peers get at it though it has no name, and it is gone
 * with its process.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/peer_memory.h"
#include "lib/probe.h"
#include "lib/proc_status.h"
#include "lib/refuse_call.h"
#include "lib/sandbox.h"
#include "lib/sanitized.h"
#include "lib/side.h"
#include "lib/wait.h"

#define BYTES	  4096u
#define SMALL	  ((size_t)8 << 20) /* a directory, and the tables of a few contexts */
#define LARGE	  ((size_t)1 << 30)
#define LOCKED_KB (1u << 20) /* a segment is 16 GiB */
#define ATTEMPTS  8	     /* a busy machine only makes it longer, so the best counts */
#define LIVES_US  20000	     /* longer than a process is believed to live */
#define PATIENCE  20000u

static struct side here, there;

static void open_both(void)
{
	side_open(&here, NULL);
	side_start(&there);
}

static void expect_traffic(void)
{
	const uint64_t addr = there.info.base[KEY_FULL];
	const uint32_t key = there.info.key[KEY_FULL];

	EXPECT_PROBE(&here, &there, 0, IBV_WR_RDMA_WRITE, addr, key, BYTES, IBV_WC_SUCCESS);
	EXPECT_PROBE(&here, &there, 0, IBV_WR_RDMA_READ, addr, key, BYTES, IBV_WC_SUCCESS);
	EXPECT_PROBE(&there, &here, 0, IBV_WR_RDMA_WRITE, here.info.base[KEY_FULL],
		     here.info.key[KEY_FULL], BYTES, IBV_WC_SUCCESS);
}

/* Only of this process and its children. */
static bool mount_room(const char *size)
{
	if (unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	    mount("tmpfs", getenv("ANYVERBS_DIR"), "tmpfs", 0, size) == 0)
		return true;
	printf("SKIPPED [%s]: no file system of its own: errno %d\n", row_name(), errno);
	return false;
}

/* --- how peers get at it ---------------------------------------------------------- */

/* Its PID means nothing here: the socket is the way. */
static bool in_pid_namespace(struct side *s)
{
	int ours = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);

	if (unshare(CLONE_NEWPID)) {
		printf("SKIPPED [%s]: no PID namespace of its own: errno %d\n", row_name(), errno);
		return false;
	}
	side_start(s);
	NEED(setns(ours, CLONE_NEWPID) == 0); /* this process may have threads again */
	close(ours);
	return true;
}

static void in_another_pid_namespace(void)
{
	if (!in_pid_namespace(&there))
		return;
	side_open(&here, NULL);
	probe_open(&here, &there, 0);
	expect_traffic();
	side_stop(&there);
}

/* Nobody answers at the socket: the kernel lets us have the descriptor. */
static void of_a_stopped_process(void)
{
	struct node_qp_spec spec = spec_default();
	struct node_link to_us = link_default(), to_them = link_default();
	struct node_send write;
	struct ibv_wc wc = {0};

	open_both();
	NEED(side_create_qp(&there, 0, &spec, &to_them.dest_qpn) == 0);
	NEED(side_create_qp(&here, 0, &spec, &to_us.dest_qpn) == 0);
	to_us.dgid = here.info.gid;
	to_them.dgid = there.info.gid;
	NEED(side_connect(&there, 0, &to_us) == 0);
	side_suspend(&there);
	EXPECT(side_connect(&here, 0, &to_them) == 0, "connect to a stopped process");
	write = (struct node_send){.opcode = IBV_WR_RDMA_WRITE,
				   .flags = IBV_SEND_SIGNALED,
				   .remote_addr = there.info.base[KEY_FULL],
				   .rkey = there.info.key[KEY_FULL],
				   .num_sge = 1,
				   .sge = {side_sge(&here, KEY_FULL, 0, BYTES)}};
	side_post_send(&here, 0, &write, 1);
	EXPECT(side_poll(&here, 0, 1, PROBE_PATIENCE, &wc) == 1 && wc.status == IBV_WC_SUCCESS,
	       "a WRITE to a stopped process: %s", ibv_wc_status_str(wc.status));
	kill(there.pid, SIGCONT);
	side_stop(&there);
}

static _Atomic bool connecting;
static _Atomic pid_t connector;

static void *connect_to_stopped(void *link)
{
	atomic_store(&connector, gettid());
	(void)node_connect(here.node, 1, link); /* it may fail, but not yet */
	atomic_store(&connecting, false);
	return NULL;
}

/*
 * Return: does another connection come about while a thread connects to a stopped process? Or that
 * had no need to wait: the process has answered before it was stopped
 */
static bool connects_beside(struct side *next, struct node_link *to_stopped)
{
	pthread_t thread;
	bool beside;

	NEED(node_set_state(here.node, 1, IBV_QPS_RESET) == 0);
	atomic_store(&connector, 0);
	atomic_store(&connecting, true);
	NEED(pthread_create(&thread, NULL, connect_to_stopped, to_stopped) == 0);
	(void)WAIT_UNTIL(task_sleeps(atomic_load(&connector)) || !atomic_load(&connecting),
			 PATIENCE);
	beside = !atomic_load(&connecting);
	probe_open(&here, next, 0);
	beside = beside || atomic_load(&connecting);
	pthread_join(thread, NULL);
	probe_close(&here, next, 0);
	return beside;
}

/* A process that cannot answer at its socket is waited for by those alone who connect to it. */
static void beside_a_stopped_process(void)
{
	struct node_qp_spec spec = spec_default();
	struct node_link to_them = link_default();
	struct side next = {0};
	bool beside = false;

	if (!in_pid_namespace(&there))
		return;
	side_start(&next);
	side_open(&here, NULL);
	NEED(side_create_qp(&there, 0, &spec, &to_them.dest_qpn) == 0);
	NEED(side_create_qp(&here, 1, &spec, NULL) == 0);
	to_them.dgid = there.info.gid;
	side_suspend(&there);
	for (int i = 0; i < ATTEMPTS && !beside; i++)
		beside = connects_beside(&next, &to_them);
	EXPECT(beside, "it waits for the stopped one, too");
	kill(there.pid, SIGCONT);
	side_stop(&there);
	side_stop(&next);
}

/* --- what is left of it ----------------------------------------------------------- */

/* Whole ones in this process. */
static unsigned int segments_mapped(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512];
	unsigned int n = 0;

	while (f && fgets(line, sizeof(line), f)) {
		unsigned long offset = 1;

		n += strstr(line, "/memfd:anyverbs-c") &&
		     sscanf(line, "%*s %*s %lx", &offset) == 1 && offset == 0;
	}
	if (f)
		fclose(f);
	return n;
}

static void of_the_killed(void)
{
	open_both();
	probe_open(&here, &there, 0);
	expect_traffic();
	side_kill(&there);
	EXPECT(sandbox_bytes() < SMALL, "%zu bytes of files", sandbox_bytes());
	usleep(LIVES_US);
	EXPECT(side_destroy_qp(&here, 0) == 0, "ibv_destroy_qp");
	EXPECT(segments_mapped() == 1, "%u segments", segments_mapped());
}

/* Segments of peers stay mapped without a user, for the next connection. */
static void of_those_killed_later(void)
{
	struct side next = {0};

	open_both();
	probe_open(&here, &there, 0);
	expect_traffic();
	EXPECT(side_destroy_qp(&here, 0) == 0, "ibv_destroy_qp");
	side_kill(&there);
	usleep(LIVES_US);
	side_start(&next);
	side_start(&there); /* another slot than that of the dead */
	probe_open(&here, &there, 0);
	EXPECT(segments_mapped() == 2, "%u segments", segments_mapped());
	side_stop(&there);
	side_stop(&next);
}

/* A peer says that its tables are full: they are holes, for which there is no page. */
static void of_the_killed_that_lied(void)
{
	const uint32_t full[2] = {UINT32_MAX, UINT32_MAX}; /* chunks of queue pairs, and of CQs */
	char name[PATH_MAX], bytes[BYTES];
	glob_t found;
	int fd;

	if (!mount_room("size=24m"))
		return;
	open_both();
	snprintf(name, sizeof(name), "%s/*/c*/tables", getenv("ANYVERBS_DIR"));
	NEED(glob(name, 0, NULL, &found) == 0 && found.gl_pathc == 2);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		fd = open(found.gl_pathv[i], O_RDWR | O_CLOEXEC);
		NEED(pwrite(fd, full, sizeof(full), sizeof(uint64_t)) == sizeof(full));
		close(fd);
	}
	globfree(&found);
	side_kill(&there);
	snprintf(name, sizeof(name), "%s/more", getenv("ANYVERBS_DIR"));
	fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	memset(bytes, 1, sizeof(bytes));
	while (write(fd, bytes, sizeof(bytes)) > 0)
		;
	close(fd);
	node_close(here.node); /* counts what the dead have counted */
}

/* Is each mapping whose line contains @name left out of core dumps, or in them? */
static unsigned int dumped(const char *name, bool wanted)
{
	FILE *f = fopen("/proc/self/smaps", "re");
	char line[512];
	unsigned int n = 0;
	bool named = false;

	while (f && fgets(line, sizeof(line), f)) {
		if (strchr(line, '-') && strchr(line, '-') < strchr(line, ' '))
			named = strstr(line, name) != NULL;
		if (named && strncmp(line, "VmFlags:", 8) == 0)
			n += (strstr(line, " dd") == NULL) == wanted;
	}
	if (f)
		fclose(f);
	return n;
}

static void in_core_dumps(void)
{
	open_both();
	probe_open(&here, &there, 0);
	expect_traffic();
	EXPECT(dumped("/tables", true) == 0, "tables would be dumped");
	EXPECT(dumped("/memfd:anyverbs-c", false) >= 2, "whole segments would be dumped");
	EXPECT(!has_peer_memory() || dumped("/memfd:anyverbs-heap", true) >= 1,
	       "registered memory would not be dumped");
	side_stop(&there);
}

/* --- limits ------------------------------------------------------------------------ */

#define WORD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))

/* Writing to a file is limited, whatever its size: SIGXFSZ would end this process. */
static void a_limit_of_files_later(void)
{
	struct rlimit rl = {1 << 20, 1 << 20};
	static uint8_t bytes[4 * BYTES];
	struct ibv_mr *mr;

	open_both();
	probe_open(&there, &here, 0);
	NEED(setrlimit(RLIMIT_FSIZE, &rl) == 0);
	memset(bytes, 7, sizeof(bytes));
	mr = ibv_reg_mr(here.node->pd, bytes, sizeof(bytes), PROBE_ALL);
	NEED(mr != NULL);
	EXPECT_PROBE(&there, &here, 0, IBV_WR_RDMA_READ, (uintptr_t)bytes, mr->rkey, BYTES,
		     IBV_WC_SUCCESS);
	EXPECT(bytes[0] == 7 && !memcmp(bytes, bytes + 1, sizeof(bytes) - 1), "bytes");
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr: errno %d", errno);
	side_stop(&there);
}

/* On a fault: otherwise the kernel would fill the machine's memory if the test failed. */
static void where_all_memory_is_locked(void)
{
	if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT)) {
		printf("left out: mlockall: errno %d\n", errno);
		return;
	}
	open_both();
	probe_open(&here, &there, 0);
	expect_traffic();
	EXPECT(status_kb("VmLck:") < LOCKED_KB, "%zu kB are locked", status_kb("VmLck:"));
	side_stop(&there);
}

/* Refuse what would bring in all pages: a test that fails must not fill the machine's memory. */
static bool refuse_to_fill(void)
{
	struct sock_filter code[] = {
		WORD(nr),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mlockall, 0, 4),
		WORD(args[0]),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, MCL_CURRENT | MCL_ONFAULT),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MCL_CURRENT, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	return filter_calls(code, COUNT_OF(code));
}

static void where_all_memory_is_locked_later(void)
{
	uint8_t *p =
		mmap(NULL, LARGE / 64, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	NEED(p != MAP_FAILED);
	open_both();
	probe_open(&here, &there, 0);
	expect_traffic();
	/* Sanitizers' mlockall() does nothing. */
	if (SANITIZED || !refuse_to_fill() || mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT)) {
		printf("left out: errno %d\n", errno);
		side_stop(&there);
		return;
	}
	munlockall();
	EXPECT(mlockall(MCL_CURRENT | MCL_FUTURE) == 0, "mlockall: errno %d", errno);
	EXPECT(status_kb("VmLck:") < LOCKED_KB, "%zu kB are locked", status_kb("VmLck:"));
	EXPECT(status_kb("RssShmem:") < LOCKED_KB, "%zu kB are there", status_kb("RssShmem:"));
	EXPECT(status_kb("RssAnon:") >= LARGE / 64 / 1024, "the program's pages are not there");
	expect_traffic();
	p = mmap(NULL, LARGE / 64, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	EXPECT(p != MAP_FAILED && status_kb("RssAnon:") >= LARGE / 32 / 1024,
	       "later pages are not there");
	side_stop(&there);
}

static void beyond_the_limit_of_files(void)
{
	struct rlimit rl = {1 << 20, 1 << 20};
	struct ibv_device **list = ibv_get_device_list(NULL);
	char alone[PATH_MAX];

	NEED(snprintf(alone, sizeof(alone), "%s/alone", getenv("ANYVERBS_DIR")) < PATH_MAX);
	NEED(mkdir(alone, 0700) == 0 && setenv("ANYVERBS_DIR", alone, 1) == 0);
	NEED(list && list[0] && setrlimit(RLIMIT_FSIZE, &rl) == 0);
	errno = 0;
	EXPECT(!ibv_open_device(list[0]) && errno == EFBIG, "ibv_open_device(): errno %d", errno);
	ibv_free_device_list(list);
	EXPECT(rmdir(alone) == 0, "a folder stays");
}

/* A program may close its device with everything that it has made. */
static void leave_opened_queue_pair(void)
{
	struct ibv_context *ctx = node_open_device();
	struct ibv_xrcd *xrcd = node_open_xrcd(ctx);
	static struct ibv_qp *left[4]; /* a leak checker finds them here */
	static int n;

	NEED(xrcd && (left[n] = node_create_xrc_recv(ctx, xrcd)));
	left[n + 1] = node_open_xrc_recv(ctx, xrcd, left[n]->qp_num);
	EXPECT(left[n + 1], "ibv_open_qp: errno %d", errno);
	n += 2;
	EXPECT(ibv_close_device(ctx) == 0, "ibv_close_device");
}

static void of_an_opened_queue_pair_that_is_left(void)
{
	size_t before;

	leave_opened_queue_pair();
	before = status_kb("VmSize:");
	leave_opened_queue_pair();
	EXPECT(status_kb("VmSize:") < before + LOCKED_KB, "a segment stays mapped");
}

static const struct test_row {
	const char *name;
	void (*run)(void);
} rows[] = {
	{"in another PID namespace", in_another_pid_namespace},
	{"of a stopped process", of_a_stopped_process},
	{"beside a stopped process", beside_a_stopped_process},
	{"of the killed, nothing stays", of_the_killed},
	{"of those killed later, nothing stays", of_those_killed_later},
	{"of the killed that lied", of_the_killed_that_lied},
	{"of an opened queue pair that is left, nothing stays",
	 of_an_opened_queue_pair_that_is_left},
	{"in core dumps", in_core_dumps},
	{"beyond the limit of files", beyond_the_limit_of_files},
	{"where all memory is locked", where_all_memory_is_locked},
	{"where all memory is locked later", where_all_memory_is_locked_later},
	{"a limit of files later", a_limit_of_files_later},
};

/* In a process of its own, which may unshare what it likes. */
static void in_child(const struct test_row *r)
{
	int status;
	pid_t pid;

	row("%s", r->name);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		time_limit(120);
		r->run();
		exit(summary());
	}
	waitpid(pid, &status, 0);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "it ended with %#x", status);
}

int main(int argc, char **argv)
{
	sides_begin(argc, argv, 280);
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		in_child(&rows[i]);
	return summary();
}
