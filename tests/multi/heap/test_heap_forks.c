/* SPDX-License-Identifier: MIT */
/*
 * A program forks again and again while threads of it and a peer use a region on the shared heap in
 * every way, which becomes private meanwhile: no store is lost, no system call fails, what is
 * discarded is zero, and each child has the bytes of its moment. Each thread has pages of its own,
 * and counts what is not as it left it.
 *
 * The argument: how many forks.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "heap_fixture.h"
#include "lib/peer_memory.h"
#include "lib/wait.h"

#define FORKS  40
#define WORDS  (PAGE / sizeof(uint64_t))
#define KINDS  12
#define OWN    4ul			  /* pages of each thread, */
#define STILL  (KINDS * OWN * PAGE)	  /* of nobody, */
#define PEERS  (STILL + OWN * PAGE)	  /* and of the peer: a number each, */
#define OVER   (PEERS + (OWN - 1) * PAGE) /* but for the last one, which says that it ends */
#define REGION (PEERS + OWN * PAGE)

struct worker {
	uint8_t *page; /* OWN of them, in the region */
	_Atomic uint64_t turns;
	uint64_t wrong;
	pthread_t thread;
	void (*turn)(struct worker *w);
};

static _Atomic bool stop;

static void check(struct worker *w, bool good)
{
	w->wrong += !good;
}

/* --- what threads do, once ------------------------------------------------------- */

/* Every word of it. */
static void increment(struct worker *w)
{
	_Atomic uint64_t *word = (void *)w->page;

	for (size_t i = 0; i < OWN * WORDS; i++)
		check(w, atomic_fetch_add_explicit(&word[i], 1, memory_order_relaxed) == w->turns);
}

/* The one word in each page, so that each page is soon missed. */
static void hop(struct worker *w)
{
	for (size_t i = 0; i < OWN; i++) {
		_Atomic uint64_t *word = (void *)(w->page + i * PAGE);

		check(w, atomic_fetch_add_explicit(word, 1, memory_order_relaxed) == w->turns);
	}
}

static void store(struct worker *w)
{
	volatile uint64_t *word = (void *)w->page;

	for (size_t i = 0; i < OWN * WORDS; i += 16) {
		check(w, word[i] == w->turns);
		word[i] = w->turns + 1;
	}
}

/* Through a pipe: write(2) from a page, read(2) into another. */
static void pass(struct worker *w)
{
	static int ends[2];

	if (!ends[1] && pipe(ends))
		DIE("pipe: errno %d", errno);
	memset(w->page, (int)w->turns, PAGE);
	check(w, write(ends[1], w->page, PAGE) == (ssize_t)PAGE);
	memset(w->page, 0, PAGE);
	check(w, read(ends[0], w->page + PAGE, PAGE) == (ssize_t)PAGE);
	for (size_t i = 0; i < PAGE; i += 64)
		check(w, w->page[PAGE + i] == (uint8_t)w->turns && w->page[i] == 0);
}

/* The kernel stores the time and a name. */
static void ask(struct worker *w)
{
	struct timespec *now = (void *)w->page, before = *now;

	check(w, syscall(SYS_clock_gettime, CLOCK_MONOTONIC, now) == 0);
	check(w, now->tv_sec > before.tv_sec || now->tv_nsec > before.tv_nsec);
	check(w, syscall(SYS_getcwd, w->page + PAGE, PAGE) > 0 && w->page[PAGE] == '/');
	w->page[PAGE] = 0;
}

static void discard(struct worker *w)
{
	memset(w->page, 0xff, OWN * PAGE);
	check(w, madvise(w->page, OWN * PAGE, MADV_DONTNEED) == 0);
	for (size_t i = 0; i < OWN * PAGE; i += 64)
		check(w, w->page[i] == 0);
}

/* The rights of a page that keeps its bytes. */
static void protect(struct worker *w)
{
	w->page[0] = (uint8_t)w->turns;
	check(w, mprotect(w->page, PAGE, PROT_READ) == 0 && w->page[0] == (uint8_t)w->turns);
	check(w, mprotect(w->page, PAGE, PROT_READ | PROT_WRITE) == 0);
	w->page[0] = 0;
}

/* Regions within the region. */
static void reregister(struct worker *w)
{
	uint8_t value = (uint8_t)w->turns;
	struct ibv_mr *mr;

	memset(w->page, value, 2 * PAGE);
	mr = ibv_reg_mr(a.node->pd, w->page + 100, PAGE, PROBE_ALL);
	check(w, mr && ibv_dereg_mr(mr) == 0);
	check(w, w->page[0] == value && !memcmp(w->page, w->page + 1, 2 * PAGE - 1));
}

/* Blocks of all sizes that are its own from end to end. */
static void allocate(struct worker *w)
{
	size_t bytes = (size_t)w->turns * 7919 % 300000 + 1, more = bytes / 2 * 3 + 1;
	uint8_t *p = w->turns % 4 ? malloc(bytes) : calloc(bytes, 1), *q;
	uint8_t value = (uint8_t)(w->turns + 1);

	memset(p, value, bytes);
	q = map_private(PAGE + bytes);
	memset(q, value, bytes);
	p = realloc(p, more);
	check(w, p[0] == value && !memcmp(p, p + 1, bytes - 1));
	check(w, q[0] == value && !memcmp(q, q + 1, bytes - 1));
	free(p);
	peer_memory_unmap(q, PAGE + bytes);
}

/*
 * A block moves page by page: every other page has memory. ThreadSanitizer does not know mremap(2):
 * the block moves to where this thread has mapped something.
 */
static void move(struct worker *w)
{
	const size_t bytes = 64 * PAGE;
	uint8_t *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *to = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t value = (uint8_t)(w->turns + 1), *q;

	for (size_t i = 0; i < bytes; i += 2 * PAGE)
		p[i] = value;
	q = mremap(p, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to);
	check(w, q == to);
	for (size_t i = 0; q != MAP_FAILED && i < bytes; i += PAGE)
		check(w, q[i] == (i / PAGE % 2 ? 0 : value));
	munmap(p, bytes);
	munmap(q, bytes);
}

/* Two threads that wait for each other in that memory. */
struct table {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint64_t ball;
};

static void play(struct worker *w, uint64_t side)
{
	struct table *t = (void *)(w->page - side * OWN * PAGE);

	pthread_mutex_lock(&t->mutex);
	while (t->ball % 2 != side && !atomic_load(&stop))
		pthread_cond_wait(&t->cond, &t->mutex);
	if (t->ball % 2 == side) {
		check(w, t->ball == 2 * w->turns + side);
		t->ball++;
	}
	pthread_cond_signal(&t->cond);
	pthread_mutex_unlock(&t->mutex);
}

static void ping(struct worker *w)
{
	play(w, 0);
}

static void pong(struct worker *w)
{
	play(w, 1);
}

static const struct kind {
	const char *name;
	void (*turn)(struct worker *w);
} kinds[KINDS] = {
	{"a mutex and a condition, one side", ping},
	{"a mutex and a condition, the other side", pong},
	{"atomic increments", increment},
	{"increments here and there", hop},
	{"plain stores", store},
	{"read(2) and write(2)", pass},
	{"results of system calls", ask},
	{"madvise(MADV_DONTNEED)", discard},
	{"mprotect()", protect},
	{"ibv_reg_mr()", reregister},
	{"blocks of all sizes", allocate},
	{"mremap()", move},
};

static void *worker_main(void *arg)
{
	struct worker *w = arg;

	while (!atomic_load(&stop)) {
		w->turn(w);
		w->turns++;
	}
	return NULL;
}

/* --- what the peer does ---------------------------------------------------------- */

/* A request of 8 bytes from or to @at, and its end. */
static bool transfer(struct node *n, enum ibv_wr_opcode opcode, void *at, uint64_t remote,
		     uint32_t rkey)
{
	struct ibv_sge sge = {(uintptr_t)at, 8, n->mr[KEY_FULL]->lkey};
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	wr.wr.rdma.remote_addr = remote;
	wr.wr.rdma.rkey = rkey;
	if (ibv_post_send(n->qp[0], &wr, &bad))
		return false;
	while (ibv_poll_cq(n->cq[0], 1, &wc) == 0)
		;
	return wc.status == IBV_WC_SUCCESS;
}

/* READ each number, which was written a turn ago, and WRITE the next. Return: how often it was
 * another, or a request failed */
static uint64_t count_up(struct node *n, const struct side_job *job)
{
	uint64_t *number = (void *)n->arena, at = job->arg[0], wrong = 0;
	uint32_t rkey = (uint32_t)job->arg[1];

	number[16] = 0;
	for (uint64_t i = 1; wrong == 0 && !number[16]; i++) {
		for (size_t page = 0; page < OWN - 1; page++) {
			number[0] = i;
			number[8] = ~0ull;
			wrong += !transfer(n, IBV_WR_RDMA_READ, &number[8], at + page * PAGE, rkey);
			wrong += number[8] != i - 1;
			wrong += !transfer(n, IBV_WR_RDMA_WRITE, number, at + page * PAGE, rkey);
		}
		wrong += !transfer(n, IBV_WR_RDMA_READ, &number[16], at + (OWN - 1) * PAGE, rkey);
	}
	return wrong;
}

/* --- together -------------------------------------------------------------------- */

static void start(struct worker *w, uint8_t *p, uint32_t rkey)
{
	struct table *t = (void *)p;

	pthread_mutex_init(&t->mutex, NULL);
	pthread_cond_init(&t->cond, NULL);
	atomic_store(&stop, false);
	side_begin(&b, &(struct side_job){.arg = {(uintptr_t)p + PEERS, rkey}});
	for (size_t i = 0; i < KINDS; i++) {
		w[i] = (struct worker){.page = p + i * OWN * PAGE, .turn = kinds[i].turn};
		NEED(pthread_create(&w[i].thread, NULL, worker_main, &w[i]) == 0);
	}
	for (size_t i = 0; i < KINDS; i++)
		while (atomic_load(&w[i].turns) == 0)
			sched_yield();
	while (atomic_load((_Atomic uint64_t *)(void *)(p + PEERS)) == 0)
		sched_yield();
}

static void finish(struct worker *w, uint8_t *p)
{
	struct table *t = (void *)p;
	uint64_t wrong;

	pthread_mutex_lock(&t->mutex);
	atomic_store(&stop, true);
	pthread_cond_broadcast(&t->cond);
	pthread_mutex_unlock(&t->mutex);
	for (size_t i = 0; i < KINDS; i++) {
		pthread_join(w[i].thread, NULL);
		EXPECT(w[i].wrong == 0, "%s: %lu wrong in %lu turns", kinds[i].name,
		       (unsigned long)w[i].wrong, (unsigned long)w[i].turns);
	}
	atomic_store((_Atomic uint64_t *)(void *)(p + OVER), 1);
	wrong = side_end(&b);
	EXPECT(wrong == 0, "%lu of the peer's numbers were others", (unsigned long)wrong);
}

/* The bytes of its moment, whatever the parent and its peer do. */
static int in_child(uint8_t *p, int go)
{
	uint64_t before[OWN], now[OWN];
	char c;

	for (size_t i = 0; i < OWN; i++)
		memcpy(&before[i], p + PEERS + i * PAGE, sizeof(uint64_t));
	if (read(go, &c, 1) != 1 || same(p + STILL, OWN * PAGE, 5) != OWN * PAGE)
		return 1;
	for (size_t i = 0; i < OWN; i++)
		memcpy(&now[i], p + PEERS + i * PAGE, sizeof(uint64_t));
	memset(p + STILL, 0xee, REGION - STILL);
	return memcmp(before, now, sizeof(now)) != 0;
}

static void fork_once(uint8_t *p)
{
	int status = -1, go[2];
	pid_t child;

	NEED(pipe(go) == 0);
	fill(p + STILL, OWN * PAGE, 5);
	child = fork();
	if (child == 0)
		_exit(in_child(p, go[0]));
	fill(p + STILL, OWN * PAGE, 6);
	let_go_on(300);
	NEED(write(go[1], "", 1) == 1);
	waitpid(child, &status, 0);
	EXPECT(status == 0, "the child's memory is another: status %d", status);
	expect_filled(p + STILL, OWN * PAGE, 6);
	close(go[0]);
	close(go[1]);
}

/* Memory that is shared until the fork, of each round anew. */
static void one_round(void)
{
	uint8_t *p = map_private(REGION);
	struct worker w[KINDS];
	struct ibv_mr *mr = reg(p, REGION);

	start(w, p, mr->rkey);
	expect_shared(p, true);
	fork_once(p);
	expect_shared(p, false);
	finish(w, p);
	dereg(mr);
	peer_memory_unmap(p, REGION);
}

/* What a killed peer leaves behind does not stop the program. */
static void kill_row(void)
{
	uint8_t *p = map_private(REGION);
	struct ibv_mr *mr = reg(p, REGION);

	row("the peer is killed in the middle");
	side_begin(&b, &(struct side_job){.arg = {(uintptr_t)p + PEERS, mr->rkey}});
	while (atomic_load((_Atomic uint64_t *)(void *)(p + PEERS)) < 100)
		sched_yield();
	side_kill(&b);
	fork_once(p);
	dereg(mr);
	peer_memory_unmap(p, REGION);
}

static int forks = FORKS;

static void run(void)
{
	row("%d forks beside threads and a peer", forks);
	time_limit(200 + (unsigned int)forks);
	for (int i = 0; i < forks && failures() == 0; i++)
		one_round();
	kill_row();
}

int main(int argc, char **argv)
{
	side_work = count_up;
	if (argc > 1 && atoi(argv[1]) > 0)
		forks = atoi(argv[1]);
	return heap_test(argc, argv, run);
}
