/* SPDX-License-Identifier: MIT */
/*
 * A peer is stopped for good in the middle of a copy to or from memory of this process. It holds up
 * no fork(), close, exit or deregistration here; and when it goes on, it changes no byte that is
 * not registered any more, whatever memory that is.
 *
 * The peer's copy is caught by a page that does not come (lib/stall.h): of its mapping of our
 * segment, or, of a copy by system calls, of its own buffer. It stops itself then, and lets the
 * copy go on as soon as it is continued.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <infiniband/verbs_exp.h>

#include "lib/expect.h"
#include "lib/page_backing.h"
#include "lib/peer_memory.h"
#include "lib/probe.h"
#include "lib/sandbox.h"
#include "lib/side.h"
#include "lib/stall.h"
#include "lib/wait.h"

#define PAGE	 4096ul
#define PAGES	 64ul
#define BYTES	 (PAGES * PAGE)
#define CAUGHT	 16ul				  /* the page that does not come */
#define LIMIT	 (TEST_SANITIZED ? 3000u : 1900u) /* ms: less than a wait of 2 s */
#define NAPS	 100u				  /* of who waits */
#define PATIENCE 20000u
#define ROW	 "--row"
#define OLD	 0x11 /* what our memory holds before, */
#define NEW	 0x22 /* what the peer writes, */
#define LATER	 0x33 /* and what the program stores afterwards */

static struct side owner, peer;

/* --- in the peer ------------------------------------------------------------------ */

static void *stop_when_caught(void *arg)
{
	int stall = *(int *)arg;

	if (!stall_wait(stall, PATIENCE))
		abort(); /* the copy did not go there */
	raise(SIGSTOP);
	stall_end(stall);
	return NULL;
}

enum { JOB_WHERE, JOB_KEY, JOB_OPCODE, JOB_BY_CALLS };

/* A file's, which is copied piece by piece since the other end is aligned in another way. */
static struct ibv_mr *own_buffer(struct node *n)
{
	uint8_t *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *its =
		at == MAP_FAILED ? NULL : ibv_reg_mr(n->pd, at, BYTES, IBV_ACCESS_LOCAL_WRITE);

	if (!its)
		abort();
	return its;
}

/* Return: the completion's status; after a READ of anything but OLD: ~0 */
static uint64_t copy_and_stop(struct node *n, const struct side_job *job)
{
	struct ibv_mr *its = job->arg[JOB_BY_CALLS] ? own_buffer(n) : NULL;
	uint8_t *at = its ? its->addr : n->arena + PROBE_AT, *there;
	struct node_send s = side_rdma((enum ibv_wr_opcode)job->arg[JOB_OPCODE],
				       (struct ibv_sge){(uintptr_t)at, (uint32_t)BYTES,
							(its ? its : n->mr[KEY_FULL])->lkey},
				       job->arg[JOB_WHERE], (uint32_t)job->arg[JOB_KEY]);
	pthread_t watcher;
	struct ibv_wc wc;
	int stall;

	memset(at, NEW, BYTES);
	there = its ? at : stall_mapped_here(getppid(), job->arg[JOB_WHERE]);
	stall = there ? stall_begin(there + CAUGHT * PAGE, PAGE) : -1;
	if (stall < 0 || pthread_create(&watcher, NULL, stop_when_caught, &stall))
		abort();
	if (node_post_send(n, 0, &s, 1).ret || node_poll(n, 0, 1, PATIENCE, &wc) != 1)
		abort();
	pthread_join(watcher, NULL);
	if (its && ibv_dereg_mr(its))
		abort();
	for (size_t i = 0; s.opcode == IBV_WR_RDMA_READ && i < BYTES; i++)
		if (wc.status == IBV_WC_SUCCESS && at[i] != OLD)
			return ~0ull;
	return wc.status;
}

/* --- the row's memory ------------------------------------------------------------- */

static uint8_t *memory;
static struct ibv_mr *mr, *other_mr;
static bool threaded; /* the program has a thread by the time of the verb */
static enum memory_kind {
	SHARED,	     /* the shared heap's */
	OVERLAPPED,  /* the same: of two regions, of which one stays */
	OF_A_FILE,   /* and so not shared */
	ON_DEMAND,   /* the same */
	SHARED_FILE, /* the program has shared it itself */
	ALLOCATED,   /* by the library, with the region */
} kind;

/* Does the peer reach it by system calls? */
static bool by_calls(void)
{
	return kind == OF_A_FILE || kind == ON_DEMAND;
}

/* What waits for a stopped peer would wait for ever: somebody continues it after all. */
static void *continue_late(void *arg)
{
	usleep(2 * LIMIT * 1000);
	kill(peer.pid, SIGCONT);
	return arg;
}

static void start_thread(void)
{
	pthread_t thread;

	NEED(pthread_create(&thread, NULL, continue_late, NULL) == 0 &&
	     pthread_detach(thread) == 0);
}

static bool all(const uint8_t *p, uint8_t value)
{
	return p[0] == value && memcmp(p, p + 1, BYTES - 1) == 0;
}

static uint8_t *map(int fd)
{
	int flags = kind == SHARED_FILE ? MAP_SHARED : MAP_PRIVATE;
	uint8_t *p = fd < 0 ? peer_memory_map(BYTES + PAGE)
			    : mmap(NULL, BYTES + PAGE, PROT_READ | PROT_WRITE, flags, fd, 0);

	NEED(p != MAP_FAILED);
	return p;
}

static uint8_t *take_memory(void)
{
	int fd = memfd_create("memory", MFD_CLOEXEC);

	NEED(fd >= 0 && ftruncate(fd, BYTES + PAGE) == 0);
	return map(kind == OF_A_FILE || kind == SHARED_FILE ? fd : -1) +
	       (by_calls() ? 8 : 0); /* aligned as no source */
}

static void register_memory(void)
{
	struct ibv_exp_reg_mr_in in = {.pd = owner.node->pd,
				       .length = BYTES,
				       .exp_access = PROBE_ALL | IBV_EXP_ACCESS_ALLOCATE_MR};
	unsigned int more = kind == ON_DEMAND ? IBV_ACCESS_ON_DEMAND : IBV_ACCESS_MW_BIND;

	if (kind == ALLOCATED) {
		mr = ibv_exp_reg_mr(&in);
		NEED(mr);
		memory = mr->addr;
		return;
	}
	memory = take_memory();
	NEED(memory);
	mr = ibv_reg_mr(owner.node->pd, memory, BYTES, PROBE_ALL | more);
	NEED(mr && (by_calls() || !pages_private(memory)));
	if (kind == OVERLAPPED)
		other_mr = ibv_reg_mr(owner.node->pd, memory, BYTES / 2, PROBE_ALL);
	NEED(kind != OVERLAPPED || other_mr);
}

static void open_both(void)
{
	side_open(&owner, NULL);
	if (by_calls())
		setenv("ANYVERBS_WATCH", "odp", 1); /* pages that are watched cannot be held back */
	side_start(&peer);
	unsetenv("ANYVERBS_WATCH");
	probe_open(&peer, &owner, 0);
	register_memory();
	memset(memory, OLD, BYTES);
	/* it has our segment mapped from here on */
	EXPECT_PROBE(&peer, &owner, 0, IBV_WR_RDMA_READ, (uintptr_t)memory, mr->rkey, 8,
		     IBV_WC_SUCCESS);
}

static void let_peer_copy_and_stop(enum ibv_wr_opcode op)
{
	int status;

	side_begin(&peer, &(struct side_job){{(uintptr_t)memory, mr->rkey, op, by_calls()}});
	NEED(waitpid(peer.pid, &status, WUNTRACED) == peer.pid && WIFSTOPPED(status));
	if (threaded)
		start_thread();
}

static void let_peer_finish(void)
{
	uint64_t status;

	kill(peer.pid, SIGCONT);
	status = side_end(&peer);
	EXPECT(status == IBV_WC_SUCCESS, "the copy ended with %#lx", (unsigned long)status);
}

static uint64_t began;

static void begin_verb(void)
{
	began = undisturbed_ms();
}

static void expect_short(const char *verb)
{
	const uint64_t took = undisturbed_ms() - began;

	EXPECT(took < LIMIT, "%s took %lu ms", verb, (unsigned long)took);
}

static blkcnt_t segment_blocks(void)
{
	struct stat st;

	NEED(fstat(owner.node->ctx->cmd_fd, &st) == 0);
	return st.st_blocks;
}

/* --- rows ------------------------------------------------------------------------- */

/* @bytes: of the segment, that were the region's */
static void expect_nothing_deferred(blkcnt_t before, size_t bytes)
{
	mr = ibv_reg_mr(owner.node->pd, memory, 8, PROBE_ALL); /* the next occasion */
	NEED(mr && ibv_dereg_mr(mr) == 0);
	EXPECT(segment_blocks() <= before - (blkcnt_t)(bytes / 512), "%ld blocks, %ld before",
	       (long)segment_blocks(), (long)before);
}

/* What cannot be had for the program's memory any more, the peer does without. */
static void let_peer_finish_in_vain(void)
{
	uint64_t status;

	kill(peer.pid, SIGCONT);
	status = side_end(&peer);
	EXPECT(status == IBV_WC_REM_ACCESS_ERR, "the copy ended with %#lx", (unsigned long)status);
}

/* The region that is left serves as before. */
static void expect_other_region(void)
{
	if (!other_mr)
		return;
	EXPECT_PROBE(&peer, &owner, 0, IBV_WR_RDMA_WRITE, (uintptr_t)memory, other_mr->rkey, 8,
		     IBV_WC_SUCCESS);
	EXPECT(memory[0] != LATER && memory[8] == LATER, "the other region's WRITE is lost");
	EXPECT(ibv_dereg_mr(other_mr) == 0, "ibv_dereg_mr of the other region");
}

static void dereg_during(enum ibv_wr_opcode op)
{
	blkcnt_t before;

	open_both();
	let_peer_copy_and_stop(op);
	before = segment_blocks();
	begin_verb();
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	expect_short("ibv_dereg_mr()");
	EXPECT(op == IBV_WR_RDMA_WRITE ? memory[0] == NEW && memory[BYTES - 1] == OLD
				       : all(memory, OLD),
	       "the bytes have changed");
	EXPECT(by_calls() || pages_private(memory), "the pages are still a peer's");
	memset(memory, LATER, BYTES);
	if (by_calls())
		let_peer_finish_in_vain();
	else
		let_peer_finish();
	EXPECT(all(memory, LATER), "bytes changed after the deregistration");
	expect_other_region();
	expect_nothing_deferred(before, 0);
	side_stop(&peer);
	side_stop(&owner);
}

static void dereg_during_write(void)
{
	dereg_during(IBV_WR_RDMA_WRITE);
}

static void dereg_during_read(void)
{
	dereg_during(IBV_WR_RDMA_READ);
}

/* Nothing is left of it in the program: what is mapped there afterwards is the program's. */
static void dereg_allocated(void)
{
	blkcnt_t before;
	uint8_t *later;

	open_both();
	let_peer_copy_and_stop(IBV_WR_RDMA_WRITE);
	before = segment_blocks();
	begin_verb();
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	expect_short("ibv_dereg_mr()");
	later = mmap(memory, BYTES, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	NEED(later == memory);
	memset(memory, LATER, BYTES);
	let_peer_finish();
	EXPECT(all(memory, LATER), "bytes changed after the deregistration");
	expect_nothing_deferred(before, BYTES - PAGE);
	side_stop(&peer);
	side_stop(&owner);
}

static void dereg_and_kill(void)
{
	blkcnt_t before;

	open_both();
	let_peer_copy_and_stop(IBV_WR_RDMA_WRITE);
	before = segment_blocks();
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	side_kill(&peer);
	expect_nothing_deferred(before, 0);
	side_stop(&owner);
}

/* Of the dead nobody expects anything. */
static void dereg_and_kill_file(void)
{
	open_both();
	let_peer_copy_and_stop(IBV_WR_RDMA_WRITE);
	EXPECT(ibv_dereg_mr(mr) == EBUSY, "ibv_dereg_mr");
	side_kill(&peer);
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	side_stop(&owner);
}

/* Where the copy cannot be led elsewhere, the verb is refused, and nothing has changed. */
static void refused_during_write(int (*verb)(void))
{
	uint64_t took;
	int err;

	open_both();
	let_peer_copy_and_stop(IBV_WR_RDMA_WRITE);
	begin_verb();
	err = verb();
	EXPECT(err == EBUSY, "errno %d", err);
	took = undisturbed_ms() - began;
	EXPECT(took < 5 * LIMIT, "it took %lu ms", (unsigned long)took);
	let_peer_finish();
	EXPECT(all(memory, NEW), "the WRITE did not arrive");
	EXPECT_PROBE(&peer, &owner, 0, IBV_WR_RDMA_READ, (uintptr_t)memory, mr->rkey, 8,
		     IBV_WC_SUCCESS);
	err = verb();
	EXPECT(err == 0, "errno %d", err);
	side_stop(&peer);
	side_stop(&owner);
}

static int dereg(void)
{
	return ibv_dereg_mr(mr);
}

/* What others map cannot be exchanged for anything. */
static void dereg_of_file(void)
{
	refused_during_write(dereg);
}

/* The key stays, and what is behind it changes. */
static int rereg(void)
{
	static uint8_t *other;
	int ret;

	other = other ? other : map(-1);
	ret = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, other, BYTES, 0);
	if (ret)
		return errno;
	EXPECT_PROBE(&peer, &owner, 0, IBV_WR_RDMA_WRITE, (uintptr_t)other, mr->rkey, 8,
		     IBV_WC_SUCCESS);
	return ibv_dereg_mr(mr);
}

static void rereg_during_write(void)
{
	refused_during_write(rereg);
}

/* The child has the memory of that moment; the rest of the WRITE is the parent's alone. */
static void fork_during_write(void)
{
	int go[2], status;
	pid_t child;
	char c = 0;

	open_both();
	let_peer_copy_and_stop(IBV_WR_RDMA_WRITE);
	NEED(pipe(go) == 0);
	begin_verb();
	child = fork();
	if (child == 0) {
		bool right = memory[0] == NEW && memory[BYTES - 1] == OLD;

		right = read(go[0], &c, 1) == 1 && right && memory[BYTES - 1] == OLD;
		memset(memory, LATER, BYTES);
		_exit(!right);
	}
	expect_short("fork()");
	NEED(child > 0);
	let_peer_finish();
	EXPECT(all(memory, NEW), "the WRITE did not arrive");
	NEED(write(go[1], &c, 1) == 1 && waitpid(child, &status, 0) == child);
	EXPECT(status == 0, "the child's memory: %#x", status);
	EXPECT(all(memory, NEW), "the child's stores are the parent's");
	memset(memory, OLD, BYTES);
	EXPECT_PROBE(&peer, &owner, 0, IBV_WR_RDMA_READ, (uintptr_t)memory, mr->rkey, 8,
		     IBV_WC_SUCCESS);
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	side_stop(&peer);
	side_stop(&owner);
}

/* Other memory can be registered and deregistered meanwhile. */
static void others_during_write(void)
{
	uint8_t *other[2];
	struct ibv_mr *its[2];

	open_both();
	for (int i = 0; i < 2; i++) {
		other[i] = peer_memory_map(BYTES);
		NEED(other[i] != MAP_FAILED);
		memset(other[i], OLD, BYTES);
	}
	its[0] = ibv_reg_mr(owner.node->pd, other[0], BYTES, PROBE_ALL);
	let_peer_copy_and_stop(IBV_WR_RDMA_WRITE);
	begin_verb();
	its[1] = ibv_reg_mr(owner.node->pd, other[1], BYTES, PROBE_ALL);
	NEED(its[0] && its[1]);
	expect_short("ibv_reg_mr()");
	for (int i = 0; i < 2; i++) {
		EXPECT(!pages_private(other[i]), "region %d is private", i);
		begin_verb();
		EXPECT(ibv_dereg_mr(its[i]) == 0, "ibv_dereg_mr");
		expect_short("ibv_dereg_mr() of other memory");
		EXPECT(all(other[i], OLD), "other bytes have changed");
	}
	let_peer_finish();
	EXPECT(ibv_dereg_mr(mr) == 0 && all(memory, NEW), "the WRITE did not arrive");
	side_stop(&peer);
	side_stop(&owner);
}

/* The queue pair stays: the end of one waits for its executor. */
static void close_with_region(bool left)
{
	open_both();
	let_peer_copy_and_stop(IBV_WR_RDMA_WRITE);
	begin_verb();
	EXPECT(left || ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	EXPECT(ibv_close_device(owner.node->ctx) == 0, "ibv_close_device");
	expect_short("ibv_close_device()");
	memset(memory, LATER, BYTES);
	kill(peer.pid, SIGCONT);
	(void)side_end(&peer); /* perhaps nobody was there any more */
	EXPECT(left || all(memory, LATER), "bytes changed after the end of the device");
	side_kill(&peer);
}

static void close_during_write(void)
{
	close_with_region(false);
}

static void close_with_region_left(void)
{
	close_with_region(true);
}

static void exit_during_write(void)
{
	open_both();
	let_peer_copy_and_stop(IBV_WR_RDMA_WRITE); /* which does not go on before this has ended */
}

static _Atomic pid_t freer;

/* After the invalidation no access may happen: while the peer may go on, it has to wait. */
static void *free_window(void *window)
{
	atomic_store(&freer, gettid());
	return (void *)(intptr_t)ibv_dealloc_mw(window);
}

static void window_during_write(void)
{
	struct ibv_mw_bind bind = {
		.bind_info = {.length = BYTES, .mw_access_flags = IBV_ACCESS_REMOTE_WRITE}};
	struct ibv_mw *mw;
	struct ibv_wc wc;
	pthread_t thread;
	void *ret;

	open_both();
	mw = ibv_alloc_mw(owner.node->pd, IBV_MW_TYPE_1);
	bind.bind_info.mr = mr;
	bind.bind_info.addr = (uintptr_t)memory;
	bind.send_flags = IBV_SEND_SIGNALED;
	NEED(mw && ibv_bind_mw(owner.node->qp[0], mw, &bind) == 0 &&
	     node_poll(owner.node, 0, 1, PATIENCE, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	mr->rkey = mw->rkey;
	let_peer_copy_and_stop(IBV_WR_RDMA_WRITE);
	atomic_store(&freer, 0);
	NEED(pthread_create(&thread, NULL, free_window, mw) == 0);
	EXPECT(WAIT_UNTIL(task_waits(atomic_load(&freer)) > NAPS, PATIENCE), "it does not wait");
	EXPECT(pthread_tryjoin_np(thread, &ret) == EBUSY, "the window ended under a copy");
	let_peer_finish();
	NEED(pthread_join(thread, &ret) == 0);
	EXPECT(!ret && all(memory, NEW), "the WRITE did not arrive");
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	side_stop(&peer);
	side_stop(&owner);
}

static const struct test_row {
	const char *name;
	void (*run)(void);
	bool threaded;
	enum memory_kind kind;
} rows[] = {
	{"deregistration during a WRITE", dereg_during_write, false, SHARED},
	{"deregistration during a WRITE, with a thread", dereg_during_write, true, SHARED},
	{"deregistration of one of two regions during a WRITE", dereg_during_write, false,
	 OVERLAPPED},
	{"deregistration of one of two regions, with a thread", dereg_during_write, true,
	 OVERLAPPED},
	{"deregistration of a file during a WRITE", dereg_during_write, true, OF_A_FILE},
	{"deregistration of ODP memory during a WRITE", dereg_during_write, true, ON_DEMAND},
	{"deregistration of a file during a READ", dereg_during_read, false, OF_A_FILE},
	{"deregistration during a READ", dereg_during_read, false, SHARED},
	{"deregistration of allocated memory", dereg_allocated, true, ALLOCATED},
	{"deregistration during a WRITE of one that is killed", dereg_and_kill, false, SHARED},
	{"deregistration of a shared file", dereg_of_file, false, SHARED_FILE},
	{"deregistration of a shared file, whose copier is killed", dereg_and_kill_file, false,
	 SHARED_FILE},
	{"re-registration during a WRITE", rereg_during_write, false, SHARED},
	{"fork during a WRITE", fork_during_write, false, SHARED},
	{"fork during a WRITE, with a thread", fork_during_write, true, SHARED},
	{"fork during a WRITE to a file", fork_during_write, false, OF_A_FILE},
	{"fork during a WRITE to ODP memory", fork_during_write, false, ON_DEMAND},
	{"registering and deregistering other memory", others_during_write, false, SHARED},
	{"close during a WRITE", close_during_write, false, SHARED},
	{"close during a WRITE, the region is left", close_with_region_left, false, SHARED},
	{"exit during a WRITE", exit_during_write, false, SHARED},
	{"a window's end during a WRITE", window_during_write, false, SHARED},
};

static int run_row(const struct test_row *r)
{
	row("%s", r->name);
	time_limit(20);
	threaded = r->threaded;
	kind = r->kind;
	r->run();
	return failures() > 0;
}

/*
 * In a process of its own, which may hang: another program, since a forked one has no shared heap.
 * Whatever it leaves behind is ended.
 */
static void in_process(const struct test_row *r)
{
	char number[24];
	int status;
	pid_t pid;

	row("%s", r->name);
	if (r->kind <= OVERLAPPED && !has_peer_memory()) {
		printf("SKIPPED [%s]: no shared heap here\n", r->name);
		return;
	}
	fflush(stdout);
	snprintf(number, sizeof(number), "%td", r - rows);
	pid = fork();
	if (pid == 0) {
		execl("/proc/self/exe", "test_stopped_copier", ROW, number, NULL);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "it ended with %#x", status);
	while ((pid = waitpid(-1, &status, WUNTRACED)) > 0)
		if (WIFSTOPPED(status))
			kill(pid, SIGKILL);
}

int main(int argc, char **argv)
{
	side_work = copy_and_stop;
	side_agent_main(argc, argv);
	if (argc == 3 && !strcmp(argv[1], ROW))
		return run_row(&rows[strtoul(argv[2], NULL, 10) % COUNT_OF(rows)]);
	time_limit(280);
	if (!stall_possible()) {
		printf("SKIPPED: pages cannot be held back here\n");
		return 77;
	}
	sandbox_enter();
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		in_process(&rows[i]);
	return sandbox_end();
}
