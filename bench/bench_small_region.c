/* SPDX-License-Identifier: MIT */
/*
 * What 8 bytes cost in another process's region, by how that region's memory is reached. On the
 * shared heap, a region within a block is reached as one of a whole page is. Without the heap each
 * request takes system calls. These alone are measured beside that, on the same bytes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "ends.h"
#include "lib/expect.h"
#include "lib/spawn.h"
#include "measure.h"

#define ROLE	  "--owner"
#define BYTES	  8u
#define PAGE	  4096u
#define BLOCK	  (64u << 10) /* what the shared heap takes for itself */
#define DEPTH	  16
#define TRANSFERS 20000
#define BATCHES	  25

enum kind { WHOLE_PAGE, BY_CALLS, IN_BLOCK, KINDS };
static const char *const kind_name[KINDS] = {"page", "by calls", "in block"};

enum figure { READ, WRITE, ATOMIC, FIGURES };
static const struct {
	enum ibv_wr_opcode opcode;
	const char *name, *ratio;
	int reads, writes; /* system calls that it cannot do without, on memory out of reach */
} figure[FIGURES] = {
	[READ] = {IBV_WR_RDMA_READ, "small_read_us", "small_read/calls", 1, 0},
	[WRITE] = {IBV_WR_RDMA_WRITE, "small_write_us", "small_write/calls", 0, 1},
	[ATOMIC] = {IBV_WR_ATOMIC_FETCH_AND_ADD, "small_atomic_us", "small_atomic/calls", 1, 1},
};
#define CALLS_MOST 1.5

struct hello {
	union ibv_gid gid;
	uint32_t qpn, rkey;
	uint64_t addr;
};

/* --- the owner -------------------------------------------------------------------- */

static void *place(enum kind kind)
{
	void *at = kind == WHOLE_PAGE ? bench_map(PAGE, PROT_READ | PROT_WRITE, 0)
				      : malloc(kind == IN_BLOCK ? BLOCK : BYTES);

	if (!at)
		DIE("no memory");
	return memset(at, 1, BYTES);
}

static void unplace(enum kind kind, void *at)
{
	if (kind == WHOLE_PAGE)
		munmap(at, PAGE);
	else
		free(at);
}

/* Does nothing while others use its memory. */
static void be_owner(int sock)
{
	struct hello mine, theirs;
	struct ibv_mr *mr;
	enum kind kind;
	struct end e;
	void *at;
	char go;

	spawn_receive(sock, &kind, sizeof(kind));
	end_open(&e);
	at = place(kind);
	mr = end_reg(&e, at, kind == WHOLE_PAGE ? PAGE : BYTES, END_RIGHTS);
	mine = (struct hello){e.gid, end_add_qp(&e, DEPTH)->qp_num, mr->rkey, (uintptr_t)at};
	spawn_send(sock, &mine, sizeof(mine));
	spawn_receive(sock, &theirs, sizeof(theirs));
	end_connect(e.qp[0], theirs.qpn, &theirs.gid);
	spawn_send(sock, "", 1);
	spawn_receive(sock, &go, sizeof(go));
	end_dereg(mr);
	end_close(&e);
	unplace(kind, at);
}

/* --- who uses its memory ------------------------------------------------------------ */

static struct end e;
static struct ibv_mr *mr;

static struct owner {
	struct spawned process;
	struct hello hello;
} owner[KINDS];

static void start(struct owner *o, enum kind kind)
{
	int qp = e.qps;
	struct hello mine = {.gid = e.gid, .qpn = end_add_qp(&e, DEPTH)->qp_num};
	char go;

	if (kind == BY_CALLS ? unsetenv("LD_PRELOAD") : setenv("LD_PRELOAD", HEAP_LIBRARY, 1))
		DIE("no memory");
	spawn_self(&o->process, ROLE);
	spawn_send(o->process.sock, &kind, sizeof(kind));
	spawn_receive(o->process.sock, &o->hello, sizeof(o->hello));
	end_connect(e.qp[qp], o->hello.qpn, &o->hello.gid);
	spawn_send(o->process.sock, &mine, sizeof(mine));
	spawn_receive(o->process.sock, &go, sizeof(go));
}

static void stop(struct owner *o)
{
	spawn_send(o->process.sock, "", 1);
	spawn_wait(&o->process);
}

static void request(enum kind kind, int f)
{
	const struct transfer t = {.opcode = figure[f].opcode,
				   .local = (uintptr_t)mr->addr,
				   .remote = owner[kind].hello.addr,
				   .lkey = mr->lkey,
				   .rkey = owner[kind].hello.rkey,
				   .bytes = BYTES};

	end_transfer(&e, e.qp[kind], &t);
}

/* The system call alone. */
static void call(enum kind kind, int write)
{
	struct iovec local = {mr->addr, BYTES},
		     remote = {(void *)(uintptr_t)owner[kind].hello.addr, BYTES};
	pid_t pid = owner[kind].process.pid;

	if ((write ? process_vm_writev(pid, &local, 1, &remote, 1, 0)
		   : process_vm_readv(pid, &local, 1, &remote, 1, 0)) != BYTES)
		DIE("the kernel does not copy: errno %d", errno);
}

/* The owner's process has no part in either: CPU time of this one is all that they take. */
static double timed_us(void (*what)(enum kind kind, int which), enum kind kind, int which)
{
	int each = bench_count(TRANSFERS, BATCHES) / BATCHES;
	double us[BATCHES];

	for (int b = 0; b < BATCHES; b++) {
		uint64_t begin = cpu_ns();

		for (int i = 0; i < each; i++)
			what(kind, which);
		us[b] = (double)(cpu_ns() - begin) / 1000 / each;
	}
	return median_of(us, BATCHES);
}

static struct series us[KINDS][FIGURES], ratio[FIGURES], bare[2];

static void run(void)
{
	double calls[2];

	for (int write = 0; write < 2; write++) {
		calls[write] = timed_us(call, BY_CALLS, write);
		series_add(&bare[write], calls[write]);
	}
	for (int f = 0; f < FIGURES; f++)
		for (int k = 0; k < KINDS; k++) {
			double took = timed_us(request, k, f);

			series_add(&us[k][f], took);
			if (k == BY_CALLS)
				series_add(&ratio[f], took / (figure[f].reads * calls[0] +
							      figure[f].writes * calls[1]));
		}
}

static void print(void)
{
	for (int f = 0; f < FIGURES; f++) {
		for (int k = 0; k < KINDS; k++)
			series_print(&us[k][f], figure[f].name, kind_name[k]);
		series_print_most(&ratio[f], figure[f].ratio, kind_name[BY_CALLS], CALLS_MOST);
	}
	series_print(&bare[0], "small_call_readv_us", kind_name[BY_CALLS]);
	series_print(&bare[1], "small_call_writev_us", kind_name[BY_CALLS]);
}

int main(int argc, char **argv)
{
	int sock = spawn_role(argc, argv, ROLE);
	void *at;

	time_limit(600);
	if (sock >= 0) {
		be_owner(sock);
		return 0;
	}
	at = bench_map(PAGE, PROT_READ | PROT_WRITE, MAP_POPULATE);
	end_open(&e);
	mr = end_reg(&e, at, PAGE, END_RIGHTS);
	for (int k = 0; k < KINDS; k++)
		start(&owner[k], k);
	for (int i = 0; i < BENCH_RUNS; i++)
		run();
	print();
	end_dereg(mr);
	end_close(&e);
	for (int k = 0; k < KINDS; k++)
		stop(&owner[k]);
	munmap(at, PAGE);
	return failures() ? 1 : 0;
}
