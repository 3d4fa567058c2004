/* SPDX-License-Identifier: MIT */
/*
 * What a program sees that watches its memory while a peer writes to it: when the last word of a
 * message is new, all the others are, and aligned words of 8 bytes come whole. By every way that
 * bytes are copied.
 *
 * In round r every aligned word of the target becomes the word of r. The watcher, in another
 * process, reads the last one and then all the others: none of them may be of an earlier round, or
 * of two rounds.
 *
 * This program is run on the shared heap (mapped by both: copied by av_copy()), and without it
 * (copied by the kernel). Memory paged on demand is never mapped by both; device memory is
 * always mapped.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/peer_memory.h"
#include "lib/two_sides.h"

#define ROW_MS	  60u
#define LOCAL_AT  0x10000u
#define TARGET_AT 0x200000u
#define STOP_AT	  0u	      /* where the sender says that there is no more */
#define MTU_BYTES 1024u	      /* of link_default() */
#define LARGE	  (40u << 20) /* more than any machine leaves to the caches: copy/copy.h */
#define SAMPLES	  16384u      /* words of a target that are looked at, if it has more */
#define SANE	  100 /* rounds during a look, else the last byte says nothing: it counts to 255 */

enum verdict { FINE, TORN, STALE, STALE_BYTE };

/* What is written to. */
enum memory { ARENA, LARGE_MEMORY, ON_DEMAND, DEVICE_MEMORY };

#define ALL_RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

/* Memory of one row besides the arena. */
struct extra {
	uint8_t *at; /* as the program reads it; of device memory a copy */
	uint64_t bytes;
	struct ibv_dm *dm;
	struct ibv_mr *mr;
};

/* Return: is there such memory? */
static bool extra_make(struct extra *e, struct node *n, enum memory kind, uint64_t bytes)
{
	struct ibv_alloc_dm_attr attr = {.length = bytes};
	int access = ALL_RIGHTS | (kind == ON_DEMAND ? IBV_ACCESS_ON_DEMAND : 0);

	*e = (struct extra){.bytes = bytes};
	e->at = peer_memory_map(bytes);
	if (e->at == MAP_FAILED)
		DIE("no memory");
	if (kind == DEVICE_MEMORY) {
		e->dm = ibv_alloc_dm(n->ctx, &attr);
		e->mr = e->dm ? ibv_reg_dm_mr(n->pd, e->dm, 0, bytes,
					      (uint32_t)(ALL_RIGHTS | IBV_ACCESS_ZERO_BASED))
			      : NULL;
	} else {
		e->mr = ibv_reg_mr(n->pd, e->at, bytes, access);
	}
	return e->mr != NULL;
}

static void extra_drop(struct extra *e)
{
	EXPECT(ibv_dereg_mr(e->mr) == 0, "dereg_mr");
	if (e->dm)
		EXPECT(ibv_free_dm(e->dm) == 0, "free_dm");
	peer_memory_unmap(e->at, e->bytes);
}

static uint64_t word_of(uint32_t round)
{
	return (uint64_t)~round << 32 | round;
}

static bool is_word(uint64_t w)
{
	return (uint32_t)(w >> 32) == ~(uint32_t)w;
}

/* --- the watcher ----------------------------------------------------------------- */

struct target {
	const _Atomic uint64_t *words; /* the aligned ones */
	size_t count, stride;
	const _Atomic uint8_t *last;  /* byte behind them, NULL: they are the end */
	const _Atomic uint32_t *half; /* or half a word behind them, likewise */
	size_t cut_first, cut_every;  /* words that two packets share; no @cut_every: none */
	struct ibv_dm *dm;	      /* @words is a copy of this */
};

/* On the wire, packets end within words if the target is not aligned. */
static void cut_in_packets(struct target *t, uintptr_t at)
{
	if (!on_the_wire() || at % 8 == 0)
		return;
	t->cut_every = MTU_BYTES / 8;
	t->cut_first = (at + MTU_BYTES - (uintptr_t)t->words) / 8;
}

static bool is_cut(const struct target *t, size_t at)
{
	return t->cut_every && at >= t->cut_first && (at - t->cut_first) % t->cut_every == 0;
}

static struct target target_at(uint8_t *at, uint64_t bytes)
{
	uintptr_t begin = ((uintptr_t)at + 7) & ~7ul, end = ((uintptr_t)at + bytes) & ~7ul;
	struct target t = {.words = (const _Atomic uint64_t *)begin, .count = (end - begin) / 8};

	t.stride = t.count / SAMPLES | 1;
	cut_in_packets(&t, (uintptr_t)at);
	if ((uintptr_t)at + bytes == end + 1)
		t.last = (const _Atomic uint8_t *)end;
	if ((uintptr_t)at + bytes == end + 4)
		t.half = (const _Atomic uint32_t *)end;
	return t;
}

static uint64_t fault(enum verdict v, size_t at)
{
	return (uint64_t)v << 56 | at;
}

/* Device memory is read by a call: the last word, then all of it. */
static void fetch(const struct target *t)
{
	void *at = (void *)(uintptr_t)t->words;
	uint64_t last = 8 * (t->count - 1);

	if (!t->dm)
		return;
	EXPECT(ibv_memcpy_from_dm((uint8_t *)at + last, t->dm, last, 8) == 0, "memcpy_from_dm");
	if (last > 0)
		EXPECT(ibv_memcpy_from_dm(at, t->dm, 0, last) == 0, "memcpy_from_dm");
}

/*
 * The end of a WRITE is visible last. What precedes it ascends if a process copies; if the kernel
 * does, lines of 64 bytes may become visible in any order (copy/copy.h). Then only the very end
 * says which round all words belong to.
 */
static bool kernel_copies(void)
{
	return !has_peer_memory();
}

/* The round at the end, or at the last whole word, of a target that has been fetched. */
static uint32_t last_round(const struct target *t)
{
	if (t->half && kernel_copies())
		return atomic_load(t->half);
	return (uint32_t)atomic_load(&t->words[t->count - 1]);
}

/* Is that word older than the byte behind all words says? */
static bool is_behind_byte(uint32_t word, uint32_t before, uint8_t byte)
{
	return word - before < SANE && (int8_t)((uint8_t)word - byte) < 0;
}

/* One look at the whole target. Return: FINE and the round in the low bits, or a fault and where.
 */
static uint64_t look(const struct target *t)
{
	uint32_t before = (uint32_t)atomic_load(&t->words[t->count - 1]), round;
	uint8_t byte = t->last ? atomic_load(t->last) : 0;
	bool ascends = !(t->last && kernel_copies());
	uint64_t w;

	fetch(t);
	round = last_round(t);
	for (size_t i = 0; i < t->count; i += t->stride) {
		w = atomic_load_explicit(&t->words[i], memory_order_acquire);
		if (is_cut(t, i))
			continue;
		if (!is_word(w))
			return fault(TORN, i);
		if (ascends && (int32_t)((uint32_t)w - round) < 0)
			return fault(STALE, i);
		if (t->last && (i == 0 || !ascends) && is_behind_byte((uint32_t)w, before, byte))
			return fault(STALE_BYTE, i);
	}
	return round;
}

/* Watch for so long. Return: a fault, or how many different rounds were seen */
static uint64_t watch(const struct target *t, uint64_t ms)
{
	uint64_t end = now_ms() + ms, seen = 0, last = UINT64_MAX;

	while (now_ms() < end) {
		for (int i = 0; i < 16; i++) {
			uint64_t what = look(t);

			if (what >> 56)
				return what;
			seen += what != last;
			last = what;
		}
	}
	return seen;
}

/*
 * A SEND is placed by its receiver: another thread of the watching process. If that lets it wait,
 * it is executed there, with all that is behind it.
 */
struct receiver {
	struct node *n;
	struct node_recv request;
	unsigned int pause_us; /* before each receive request */
	atomic_bool over;
};

static void *receive(void *arg)
{
	struct receiver *r = arg;
	struct ibv_wc wc[1];
	bool posted = false;

	while (!atomic_load(&r->over)) {
		if (!posted)
			usleep(r->pause_us); /* late on purpose: senders find none */
		if (!posted && node_post_recv(r->n, 0, &r->request, 1).ret)
			return NULL; /* the watcher sees nothing */
		posted = node_poll(r->n, 1, 1, 20, wc) == 0;
	}
	return NULL;
}

/* Until the sender has written @stop to where it does: it would wait for a receive request for
 * ever. */
static uint64_t watch_and_receive(struct node *n, const struct target *t, struct receiver *r,
				  uint64_t stop)
{
	const _Atomic uint64_t *word = (const _Atomic uint64_t *)(void *)(n->arena + STOP_AT);
	pthread_t thread;
	uint64_t what;

	atomic_store(&r->over, false);
	NEED(pthread_create(&thread, NULL, receive, r) == 0);
	what = watch(t, ROW_MS);
	while (atomic_load(word) != stop)
		sched_yield();
	atomic_store(&r->over, true);
	pthread_join(thread, NULL);
	return what;
}

enum { WATCH, WATCH_PLACING, WATCH_PULLING, MAKE, KEY, DROP }; /* arg[0] of a job */

/* In the other process. Offset and length of the target are arg[1] and arg[2], of MAKE its kind and
 * length.
 */
static uint64_t work(struct node *n, const struct side_job *job)
{
	static struct extra extra;
	struct receiver r = {.request = {.num_sge = job->arg[0] == WATCH_PLACING}};
	uint8_t *at = extra.mr ? extra.at : n->arena;
	struct target t;

	switch (job->arg[0]) {
	case MAKE:
		return extra_make(&extra, n, (enum memory)job->arg[1], job->arg[2])
			       ? (uint64_t)(extra.dm ? 0 : (uintptr_t)extra.at)
			       : UINT64_MAX;
	case KEY:
		return extra.mr->rkey;
	case DROP:
		extra_drop(&extra);
		extra.mr = NULL;
		return 0;
	default:
		t = target_at(at + job->arg[1], job->arg[2]);
		t.dm = extra.mr ? extra.dm : NULL;
		break;
	}
	if (job->arg[0] == WATCH)
		return watch(&t, job->arg[3]);
	r.n = n;
	if (job->arg[0] == WATCH_PLACING)
		r.request.sge[0] = (struct ibv_sge){(uintptr_t)n->arena + job->arg[1],
						    (uint32_t)job->arg[2], n->info.lkey[KEY_FULL]};
	else
		r.pause_us = 300; /* with messages of no bytes */
	return watch_and_receive(n, &t, &r, job->arg[3]);
}

static uint64_t ask(uint64_t what, uint64_t first, uint64_t second)
{
	const struct side_job job = {{what, first, second}};

	side_begin(&b, &job);
	return side_end(&b);
}

/* --- the writer ------------------------------------------------------------------ */

/* What the target will be in that round, given where it begins. */
static void fill_round(uint8_t *source, uint64_t target, uint32_t bytes, uint32_t round)
{
	uint64_t w = word_of(round);
	uint32_t head = -target & 7;

	memcpy(source, (uint8_t *)&w + (8 - head), head);
	for (uint32_t i = head; i < bytes; i += 8)
		memcpy(source + i, &w, bytes - i < 8 ? bytes - i : 8);
}

/* How a row's messages travel. */
struct path {
	const char *name;
	enum memory memory;
	enum ibv_wr_opcode opcode;
	unsigned int flags;
	int pieces; /* of the source; more than 1: of whole words */
	uint32_t bytes, source, target;
	bool pulled; /* behind a SEND that waits: executed by the target's process */
};

/* What a row works on. */
struct ends {
	uint8_t *source;
	uint32_t lkey, rkey;
	uint64_t offset, remote; /* of the target, for the watcher and for requests */
};

static struct node_send request_of(const struct path *p, const struct ends *e,
				   enum ibv_wr_opcode opcode)
{
	struct node_send s = {
		.opcode = opcode,
		.flags = IBV_SEND_SIGNALED | p->flags,
		.num_sge = p->pieces,
		.remote_addr = e->remote,
		.rkey = e->rkey,
	};
	uint32_t piece = p->pieces > 1 ? p->bytes / (uint32_t)p->pieces & ~7u : p->bytes, done = 0;

	for (int i = 0; i < p->pieces; i++) {
		uint32_t n = i + 1 < p->pieces ? piece : p->bytes - done;

		s.sge[i] = (struct ibv_sge){(uintptr_t)e->source + done, n, e->lkey};
		done += n;
	}
	return s;
}

static void write_rounds(const struct path *p, const struct ends *e, enum ibv_wr_opcode opcode,
			 bool pulled, uint64_t end)
{
	static uint32_t round;
	struct node_send s[2] = {{.opcode = IBV_WR_SEND}, request_of(p, e, opcode)};
	unsigned int before = failures();
	struct ibv_wc wc[1];

	do {
		fill_round(e->source, e->remote, p->bytes, ++round);
		EXPECT(node_post_send(a.node, 0, pulled ? s : s + 1, pulled ? 2 : 1).ret == 0,
		       "post_send");
		EXPECT(node_poll(a.node, 0, 1, 20000, wc) == 1 && wc[0].status == IBV_WC_SUCCESS,
		       "'%s'", ibv_wc_status_str(wc[0].status));
	} while (now_ms() < end && failures() == before);
}

static void stop_receiver(uint64_t stop)
{
	struct node_send s =
		side_rdma_to(IBV_WR_RDMA_WRITE, side_sge(&a, KEY_FULL, STOP_AT, 8), &b, STOP_AT);
	struct ibv_wc wc[1];

	memcpy(a.node->arena + STOP_AT, &stop, 8);
	EXPECT(node_post_send(a.node, 0, &s, 1).ret == 0, "post_send");
	EXPECT(node_poll(a.node, 0, 1, 20000, wc) == 1, "it does not know the end");
}

static uint64_t watched_rounds(const struct path *p, const struct ends *e)
{
	static const char *const name[] = {"", "is torn", "is stale",
					   "is stale after the last byte"};
	static uint64_t stop;
	const bool receives = p->opcode == IBV_WR_SEND || p->pulled;
	const uint64_t ms = p->bytes < LARGE ? ROW_MS : 10 * ROW_MS;
	const struct side_job job = {{p->opcode == IBV_WR_SEND ? WATCH_PLACING
				      : p->pulled	       ? WATCH_PULLING
							       : WATCH,
				      e->offset, p->bytes, receives ? ++stop : ms}};
	uint64_t seen;

	write_rounds(p, e, IBV_WR_RDMA_WRITE, false, 0);
	side_begin(&b, &job);
	write_rounds(p, e, p->opcode, p->pulled, now_ms() + ms);
	if (receives)
		stop_receiver(stop);
	seen = side_end(&b);
	EXPECT(seen >> 56 == FINE, "word %lu %s", seen & 0xffffffff, name[seen >> 56 & 3]);
	return seen & 0xffffffff;
}

static uint64_t arena_row(const struct path *p)
{
	struct ends e = {
		.source = a.node->arena + LOCAL_AT + p->source,
		.lkey = a.info.lkey[KEY_FULL],
		.rkey = b.info.key[KEY_FULL],
		.offset = TARGET_AT + p->target,
		.remote = b.info.base[KEY_FULL] + TARGET_AT + p->target,
	};

	return watched_rounds(p, &e);
}

static uint64_t extra_row(const struct path *p)
{
	uint64_t base = ask(MAKE, p->memory, p->target + p->bytes), seen;
	struct extra source;
	struct ends e;

	if (!EXPECT(base != UINT64_MAX, "no such memory") ||
	    !EXPECT(extra_make(&source, a.node, LARGE_MEMORY, p->source + p->bytes), "no source"))
		return 0;
	e = (struct ends){
		.source = source.at + p->source,
		.lkey = source.mr->lkey,
		.rkey = (uint32_t)ask(KEY, 0, 0),
		.offset = p->target,
		.remote = base + p->target,
	};
	seen = watched_rounds(p, &e);
	extra_drop(&source);
	ask(DROP, 0, 0);
	return seen;
}

static uint64_t order_row(const struct path *p)
{
	row("%s of %u bytes from offset %u to offset %u", p->name, p->bytes, p->source, p->target);
	return p->memory == ARENA ? arena_row(p) : extra_row(p);
}

static uint64_t plain_rows(void)
{
	static const uint32_t sizes[] = {8, 24, 64, 72, 256, 4105, 16384, 65536};
	static const uint32_t sources[] = {0, 1, 4, 8};
	/* The last one runs into the next page. Behind it, the kernel's copy may tear words. */
	static const uint32_t targets[] = {0, 8, 4, 4032};
	uint64_t seen = 0;

	for (size_t i = 0; i < COUNT_OF(sizes) * COUNT_OF(sources) * COUNT_OF(targets); i++) {
		struct path p = {.name = "WRITE",
				 .opcode = IBV_WR_RDMA_WRITE,
				 .pieces = 1,
				 .bytes = sizes[i / 16],
				 .source = sources[i / 4 % 4],
				 .target = targets[i % 4]};

		if (p.bytes > 8 || p.target % 8 == 0) /* there is an aligned word in it */
			seen += order_row(&p);
	}
	return seen;
}

#define WRITE IBV_WR_RDMA_WRITE

static const struct path paths[] = {
	{"WRITE, inline", ARENA, WRITE, IBV_SEND_INLINE, 1, 8, 0, 0, false},
	{"WRITE, inline", ARENA, WRITE, IBV_SEND_INLINE, 1, 24, 1, 4, false},
	{"WRITE, inline", ARENA, WRITE, IBV_SEND_INLINE, 1, 512, 0, 0, false},
	{"WRITE, inline", ARENA, WRITE, IBV_SEND_INLINE, 1, 500, 1, 4, false},
	{"WRITE, gathered", ARENA, WRITE, 0, 3, 72, 0, 0, false},
	{"WRITE, gathered", ARENA, WRITE, 0, 7, 4096, 8, 0, false},
	{"WRITE, gathered", ARENA, WRITE, 0, 31, 65536, 4, 8, false},
	{"WRITE, large", ARENA, WRITE, 0, 1, 1 << 20, 0, 0, false},
	{"WRITE, large", ARENA, WRITE, 0, 1, 1 << 20, 64, 0, false},
	{"WRITE, large", ARENA, WRITE, 0, 1, 1 << 20, 4, 8, false},
	{"WRITE, past the caches", LARGE_MEMORY, WRITE, 0, 1, LARGE, 0, 0, false},
	{"WRITE, past the caches", LARGE_MEMORY, WRITE, 0, 1, LARGE + 100, 8, 60, false},
	{"WRITE to memory on demand", ON_DEMAND, WRITE, 0, 1, 64, 0, 0, false},
	{"WRITE to memory on demand", ON_DEMAND, WRITE, 0, 1, 4105, 1, 4, false},
	{"WRITE to memory on demand", ON_DEMAND, WRITE, 0, 1, 65536, 0, 8, false},
	{"WRITE to device memory", DEVICE_MEMORY, WRITE, 0, 1, 64, 0, 0, false},
	{"WRITE to device memory", DEVICE_MEMORY, WRITE, 0, 1, 4096, 4, 0, false},
	{"WRITE to device memory", DEVICE_MEMORY, WRITE, 0, 1, 32768, 0, 0, false},
	{"WRITE executed by its target", ARENA, WRITE, 0, 1, 64, 4, 0, true},
	{"WRITE executed by its target", ARENA, WRITE, 0, 1, 1024, 0, 8, true},
	{"WRITE executed by its target", ARENA, WRITE, 0, 1, 16384, 0, 0, true},
	{"WRITE executed by its target", ARENA, WRITE, 0, 1, 65536, 8, 4, true},
	{"SEND in its completion", ARENA, IBV_WR_SEND, 0, 1, 24, 1, 4, false},
	{"SEND, staged", ARENA, IBV_WR_SEND, 0, 1, 256, 0, 0, false},
	{"SEND, staged", ARENA, IBV_WR_SEND, 0, 1, 4096, 8, 4, false},
	{"SEND, staged", ARENA, IBV_WR_SEND, 0, 1, 16384, 1, 8, false},
	{"SEND, large", ARENA, IBV_WR_SEND, 0, 1, 65536, 0, 0, false},
	{"SEND, large", ARENA, IBV_WR_SEND, 0, 1, 65536, 4, 8, false},
};

/* A queue pair for each: no receive request of one row is there in the next. */
static uint64_t path_row(const struct path *p)
{
	struct node_link patient = link_default();
	uint64_t seen;

	patient.rnr_retry = 7;
	pair_create(&a, 0, &b, 0, NULL);
	pair_connect(&a, 0, &patient, &b, 0, &patient);
	seen = order_row(p);
	pair_destroy(&a, 0, &b, 0);
	return seen;
}

int main(int argc, char **argv)
{
	uint64_t seen;

	side_work = work;
	two_sides_open(argc, argv);
	pair_create(&a, 0, &b, 0, NULL);
	pair_connect(&a, 0, NULL, &b, 0, NULL);
	seen = plain_rows();
	pair_destroy(&a, 0, &b, 0);
	for (size_t i = 0; i < COUNT_OF(paths); i++)
		seen += path_row(&paths[i]);
	printf("%lu different rounds were seen\n", seen);
	row("the watcher saw the writer at work");
	EXPECT(seen > 50, "only %lu rounds", seen); /* fewer say nothing */
	return two_sides_close();
}
