/* SPDX-License-Identifier: MIT */
/*
 * Memory regions, windows, device memory and the address space below them, changed at random by one process
 * and accessed at random by another, step by step, against a model that predicts the outcome of every call
 * and request, and every byte. All the while a third process writes to a region that nobody changes, which
 * must never fail.
 *
 * TORTURE_SEED repeats a run; TORTURE_SECONDS (10) is its length, TORTURE_STEPS ends it earlier.
 *
 * A further kind of region is a row of kinds[], a further thing to do a row of actions[].
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/flood.h"
#include "lib/probe.h"
#include "lib/sandbox.h"
#include "lib/spawn.h"

#define WORD	  "--actor"
#define PAGE	  4096u
#define PAGES	  48u
#define SPACE	  (PAGES * PAGE)
#define BLOCKS	  8u
#define OBJECTS	  48u
#define DEAD_KEYS 64u
#define QPS	  2
#define QP_FLOOD  3
#define IOVA	  0x600000000000ull
#define MAX_BYTES 12288u    /* of one access */
#define BUFFER	  0x100000u /* the other process' buffer, an offset in its arena */

/* An address that nothing else is mapped at, and far from where the kernel puts mappings by itself. */
#ifdef __SANITIZE_THREAD__
#define SPACE_AT 0x1000000000ul
#else
#define SPACE_AT 0x200000000000ul
#endif

#define REMOTE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define CHANGE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
#define WRITER (IBV_ACCESS_LOCAL_WRITE | CHANGE | IBV_ACCESS_MW_BIND)
#define FULL   (IBV_ACCESS_LOCAL_WRITE | REMOTE | IBV_ACCESS_MW_BIND)

/* --- chance, and what has happened --- */

static uint64_t seed, random_state, step;
static uint64_t done, denied; /* requests */

static uint64_t rnd(uint64_t n)
{
	uint64_t x = random_state += 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return n ? (x ^ x >> 31) % n : 0;
}

static bool chance(unsigned int percent)
{
	return rnd(100) < percent;
}

#define HISTORY 40
static char history[HISTORY][360];

/* What this step does: shown if something goes wrong in it or soon after. */
static void say(const char *fmt, ...) TEST_PRINTF(1, 2);
static void say(const char *fmt, ...)
{
	char *line = history[step % HISTORY];
	int n = snprintf(line, sizeof(history[0]), "%8lu ", step);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line + n, sizeof(history[0]) - (size_t)n, fmt, ap);
	va_end(ap);
}

/* The model and the device differ: nothing that follows would mean anything. */
static void differ(const char *file, int line, const char *fmt, ...) TEST_PRINTF(3, 4);
static void differ(const char *file, int line, const char *fmt, ...)
{
	char text[300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	for (uint64_t i = step >= HISTORY ? step - HISTORY + 1 : 0; i <= step; i++)
		printf("%s\n", history[i % HISTORY]);
	die_at(file, line, "step %lu of TORTURE_SEED=%lu: %s", step, seed, text);
}

#define MUST(cond, ...)                                          \
	do {                                                     \
		if (!(cond))                                     \
			differ(__FILE__, __LINE__, __VA_ARGS__); \
	} while (0)

/* --- the process that accesses --- */

enum order_kind { CONNECT, ACCESS, SEND_INV, DUMP, FILL, END };

struct order {
	enum order_kind kind;
	int qp;
	struct node_link link;
	enum ibv_wr_opcode opcode;
	uint64_t addr, compare_add, swap;
	uint32_t key, bytes;
	uint8_t data[MAX_BYTES];
};

struct answer {
	uint32_t qpn;
	union ibv_gid gid;
	uint64_t base; /* of its buffer */
	uint32_t key;
	enum ibv_wc_status status;
	uint8_t data[MAX_BYTES];
};

static void actor_connect(struct node *node, const struct order *o, struct answer *r)
{
	struct node_qp_spec spec = spec_default();
	struct ibv_wc wc;

	if (!node->qp[o->qp] && node_create_qp(node, o->qp, &spec))
		DIE("ibv_create_qp");
	if (node_set_state(node, o->qp, IBV_QPS_RESET) || node_connect(node, o->qp, &o->link))
		DIE("connecting");
	while (node_async(node, 0).any || node_poll(node, 0, 1, 0, &wc) > 0)
		;
	r->qpn = node->qp[o->qp]->qp_num;
	r->gid = node->info.gid;
	r->base = (uintptr_t)node->arena + BUFFER;
	r->key = node->info.key[KEY_FULL];
}

static void actor_access(struct node *node, const struct order *o, struct answer *r)
{
	struct node_send s = {
		.opcode = o->opcode,
		.flags = IBV_SEND_SIGNALED,
		.imm = o->kind == SEND_INV ? o->key : 0,
		.remote_addr = o->addr,
		.rkey = o->key,
		.compare_add = o->compare_add,
		.swap = o->swap,
		.num_sge = o->bytes > 0,
		.sge = {{(uintptr_t)node->arena + BUFFER, o->bytes, node->info.key[KEY_FULL]}},
	};
	struct ibv_wc wc;

	memcpy(node->arena + BUFFER, o->data, o->bytes);
	if (node_post_send(node, o->qp, &s, 1).ret || node_poll(node, 0, 1, 20000, &wc) != 1)
		DIE("no completion");
	r->status = wc.status;
	memcpy(r->data, node->arena + BUFFER, o->bytes);
}

static void actor_main(int sock)
{
	static struct node node;
	static struct order o;
	static struct answer r;

	node_open(&node, NULL);
	while (spawn_receive_any(sock, &o, sizeof(o)) > 0 && o.kind != END) {
		if (o.kind == CONNECT)
			actor_connect(&node, &o, &r);
		else if (o.kind == DUMP)
			memcpy(r.data, node.arena + BUFFER, o.bytes);
		else if (o.kind == FILL)
			memcpy(node.arena + BUFFER, o.data, o.bytes);
		else
			actor_access(&node, &o, &r);
		spawn_send(sock, &r, offsetof(struct answer, data) + o.bytes);
	}
	node_close(&node);
	exit(failures() != 0);
}

static struct side a; /* this process */
static struct node *n;
static struct spawned actor;
static struct flood flood;
static struct order order;
static struct answer answer;

static void ask(enum order_kind kind)
{
	order.kind = kind;
	spawn_send(actor.sock, &order, offsetof(struct order, data) + order.bytes);
	MUST(spawn_receive_any(actor.sock, &answer, sizeof(answer)) > 0, "the other process has ended");
}

static void reconnect(int qp)
{
	struct node_link link = link_default();
	struct ibv_wc wc;

	if (node_set_state(n, qp, IBV_QPS_RESET))
		DIE("to RESET");
	while (node_async(n, 0).any || node_poll(n, 0, 1, 0, &wc) > 0 || node_poll(n, 1, 1, 0, &wc) > 0)
		;
	order.qp = qp;
	order.bytes = 0;
	order.link = link;
	order.link.dest_qpn = n->qp[qp]->qp_num;
	order.link.dgid = n->info.gid;
	ask(CONNECT);
	link.dest_qpn = answer.qpn;
	link.dgid = answer.gid;
	if (node_connect(n, qp, &link))
		DIE("connecting");
}

/* --- the model of memory: what each byte must be --- */

enum page_state { RW, RO, NO_RIGHTS, GONE };

struct store {
	uint64_t size;
	uint8_t *shadow;
	struct ibv_dm *dm;  /* NULL: the address space, whose pages have states */
	unsigned int users; /* regions */
};

static uint8_t *space;
static uint8_t shadow[SPACE];
static enum page_state state[PAGES];
static struct store pages = {.size = SPACE, .shadow = shadow};
static struct store block[BLOCKS];
static uint64_t dm_used, dm_max;

/* Can these bytes be accessed? *good: how many from the beginning can. */
static bool present(const struct store *s, uint64_t at, uint64_t bytes, bool write, uint64_t *good)
{
	*good = bytes;
	if (s != &pages || bytes == 0)
		return true;
	for (uint64_t p = at / PAGE; p <= (at + bytes - 1) / PAGE; p++) {
		if (state[p] == RW || (state[p] == RO && !write))
			continue;
		*good = p * PAGE > at ? p * PAGE - at : 0;
		return false;
	}
	return true;
}

static void compare(const uint8_t *real, const uint8_t *model, uint64_t at, uint64_t bytes, const char *what)
{
	if (memcmp(real, model + at, bytes) == 0)
		return;
	for (uint64_t i = 0; i < bytes; i++)
		MUST(real[i] == model[at + i], "%s: byte 0x%lx is 0x%02x, not 0x%02x", what, at + i, real[i],
		     model[at + i]);
}

static void check_pages(uint64_t from, uint64_t to)
{
	for (uint64_t p = from / PAGE; p * PAGE < to; p++)
		if (state[p] == RW || state[p] == RO)
			compare(space + p * PAGE, shadow, p * PAGE, PAGE, "address space");
}

static void check_block(const struct store *s)
{
	static uint8_t copy[1 << 20];

	for (uint64_t at = 0; at < s->size; at += sizeof(copy)) {
		uint64_t bytes = s->size - at < sizeof(copy) ? s->size - at : sizeof(copy);

		MUST(ibv_memcpy_from_dm(copy, s->dm, at, bytes) == 0, "ibv_memcpy_from_dm: errno %d", errno);
		compare(copy, s->shadow, at, bytes, "device memory");
	}
}

static void check_store(const struct store *s, uint64_t at, uint64_t bytes)
{
	uint64_t from = at > PAGE ? at - PAGE : 0,
		 to = at + bytes + PAGE < s->size ? at + bytes + PAGE : s->size;

	if (s == &pages)
		check_pages(from, to);
	else if (s->size <= 65536 || chance(2))
		check_block(s);
}

static void check_everything(void)
{
	check_pages(0, SPACE);
	for (size_t i = 0; i < BLOCKS; i++)
		if (block[i].dm)
			check_block(&block[i]);
}

/* A transfer stopped at a page that is not there: of the pages before, some first bytes are new. */
static void adopt_prefix(struct store *s, uint64_t at, const uint8_t *data, uint64_t good)
{
	uint64_t i = 0;

	while (i < good && space[at + i] == data[i])
		i++;
	/* Bytes that are equal by chance are no sign of either. */
	compare(space + at + i, s->shadow, at + i, good - i, "behind the part that was written");
	memcpy(s->shadow + at, data, i);
}

/* --- objects: what there is, and the model of it --- */

struct kind;

struct object {
	const struct kind *kind; /* NULL: a free place */
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	int pd; /* 0: the queue pairs' */
	unsigned int access;
	uint64_t base, length; /* in its own address space */
	struct store *store;
	uint64_t at;	      /* of the first byte, in the store */
	uint32_t key;	      /* that is good, 0: none */
	unsigned int windows; /* bound to it */
	struct object *under; /* of a bound window */
	int qp;		      /* of a bound window of type 2 */
};

struct kind {
	const char *name;
	unsigned int weight;	 /* how often one is made */
	enum ibv_mw_type window; /* 0: a region */
	unsigned int extra;	 /* access flags all have */
	bool asks_for_pages;	 /* registration fails if pages are missing */
	bool bindable, changeable;
	void (*create)(struct object *o);
};

static struct object object[OBJECTS];
static uint32_t dead[DEAD_KEYS];
static uint64_t deaths;

static const char *name_of(const struct object *o)
{
	static char text[4][120];
	static unsigned int turn;
	char *t = text[turn++ % 4];
	long place = o >= object && o < object + OBJECTS ? o - object : -1;

	snprintf(t, sizeof(text[0]),
		 "%s %ld (key 0x%x, base 0x%lx, length 0x%lx, at 0x%lx, access 0x%x, pd %d)", o->kind->name,
		 place, o->key, o->base, o->length, o->at, o->access, o->pd);
	return t;
}

static struct ibv_pd *pd_of(int pd)
{
	return pd ? n->other_pd : n->pd;
}

static void bury(uint32_t key)
{
	if (key)
		dead[deaths++ % DEAD_KEYS] = key;
}

/* A key that becomes good: not one that died a short while ago, unless the program chose it. */
static void be_born(uint32_t key, bool chosen)
{
	for (size_t i = 0; i < DEAD_KEYS; i++) {
		if (dead[i] != key)
			continue;
		MUST(chosen, "key 0x%x is good again", key);
		dead[i] = 0;
	}
}

static struct object *pick(bool (*suits)(const struct object *o))
{
	size_t from = rnd(OBJECTS);

	for (size_t i = 0; i < OBJECTS; i++) {
		struct object *o = &object[(from + i) % OBJECTS];

		if (suits(o))
			return o;
	}
	return NULL;
}

static bool is_free(const struct object *o)
{
	return !o->kind;
}

static bool is_any(const struct object *o)
{
	return o->kind;
}

static bool is_window(const struct object *o)
{
	return o->kind && o->mw;
}

static bool is_region(const struct object *o)
{
	return o->kind && o->mr;
}

static bool is_keyed(const struct object *o)
{
	return o->kind && o->key;
}

static unsigned int random_rights(void)
{
	unsigned int access = FULL;

	if (chance(30))
		access &= (unsigned int)rnd(FULL + 1);
	if (chance(80) && access & CHANGE)
		access |= IBV_ACCESS_LOCAL_WRITE;
	return access;
}

static bool bad_rights(unsigned int access)
{
	return access & CHANGE && !(access & IBV_ACCESS_LOCAL_WRITE);
}

static void random_range(uint64_t *at, uint64_t *length)
{
	*length = 1 + rnd(chance(50) ? 4 * PAGE : 1000);
	*at = rnd(SPACE - *length);
	if (chance(50))
		*at &= ~7ul;
	if (chance(20))
		*at &= ~(uint64_t)(PAGE - 1);
}

/* errno of registering that range with these rights, 0: good. */
static int range_error(const struct kind *k, uint64_t at, uint64_t length, unsigned int access)
{
	uint64_t first = at & ~(uint64_t)(PAGE - 1), good;

	if (bad_rights(access))
		return EINVAL;
	if (k->asks_for_pages && !present(&pages, first, at + length - first, access & WRITER, &good))
		return EFAULT;
	return 0;
}

/* --- making regions and windows --- */

static void region_made(struct object *o, struct ibv_mr *mr, int want)
{
	int err = errno;

	MUST(!mr == !!want && (mr || err == want), "errno %d instead of %d", mr ? 0 : err, want);
	if (!mr) {
		o->kind = NULL;
		return;
	}
	o->mr = mr;
	o->key = mr->lkey;
	be_born(o->key, false);
	MUST(mr->length == o->length && mr->pd == pd_of(o->pd) && mr->context == n->ctx,
	     "fields of the region");
	if (o->store)
		o->store->users++;
}

static void create_region(struct object *o)
{
	enum { VIRTUAL, ZERO_BASED, CHOSEN } form = chance(60) ? VIRTUAL : chance(50) ? ZERO_BASED : CHOSEN;
	struct ibv_mr *mr;
	uint64_t iova;

	o->store = &pages;
	random_range(&o->at, &o->length);
	o->access = random_rights() | o->kind->extra | (form == ZERO_BASED ? IBV_ACCESS_ZERO_BASED : 0u);
	o->base = form == ZERO_BASED ? 0 : form == CHOSEN ? IOVA + o->at : SPACE_AT + o->at;
	iova = form == CHOSEN ? o->base : SPACE_AT + o->at;
	say("register %s", name_of(o));
	errno = 0;
	mr = ibv_reg_mr_iova(pd_of(o->pd), space + o->at, o->length, iova, o->access);
	region_made(o, mr, range_error(o->kind, o->at, o->length, o->access));
}

static void create_device(struct object *o)
{
	struct store *s = &block[rnd(BLOCKS)];
	bool good;
	int want;

	if (!s->dm) {
		say("no device memory");
		o->kind = NULL;
		return;
	}
	o->store = s;
	o->at = rnd(s->size + 1) & ~3ul;
	o->length = rnd(s->size - o->at + 1) + (chance(5) ? 1 : 0);
	o->access = (random_rights() & ~(unsigned int)IBV_ACCESS_MW_BIND) | o->kind->extra;
	if (chance(5))
		o->access |= IBV_ACCESS_MW_BIND;
	good = o->length <= s->size - o->at && !bad_rights(o->access) && !(o->access & IBV_ACCESS_MW_BIND);
	want = good ? 0 : EINVAL;
	say("register %s of block %ld", name_of(o), s - block);
	errno = 0;
	region_made(o, ibv_reg_dm_mr(pd_of(o->pd), s->dm, o->at, o->length, o->access), want);
}

static void create_null(struct object *o)
{
	o->length = SIZE_MAX;
	o->access = IBV_ACCESS_LOCAL_WRITE;
	say("allocate %s", name_of(o));
	region_made(o, ibv_alloc_null_mr(pd_of(o->pd)), 0);
}

static void create_window(struct object *o)
{
	say("allocate %s", name_of(o));
	o->mw = ibv_alloc_mw(pd_of(o->pd), o->kind->window);
	MUST(o->mw, "ibv_alloc_mw: errno %d", errno);
	be_born(o->mw->rkey, false);
}

static const struct kind kinds[] = {
	{"region", 40, 0, 0, true, true, true, create_region},
	{"device region", 15, 0, IBV_ACCESS_ZERO_BASED, false, false, false, create_device},
	{"null region", 3, 0, 0, false, false, false, create_null},
	{"window of type 1", 15, IBV_MW_TYPE_1, 0, false, false, false, create_window},
	{"window of type 2", 20, IBV_MW_TYPE_2, 0, false, false, false, create_window},
};

static bool is_null(const struct object *o)
{
	return o->mr && !o->store;
}

static const struct kind *random_kind(void)
{
	unsigned int sum = 0;
	uint64_t at;

	for (size_t i = 0; i < COUNT_OF(kinds); i++)
		sum += kinds[i].weight;
	at = rnd(sum);
	for (size_t i = 0;; i++) {
		if (at < kinds[i].weight)
			return &kinds[i];
		at -= kinds[i].weight;
	}
}

static void act_create(void)
{
	struct object *o = pick(is_free);

	if (!o)
		return say("no place for another object");
	*o = (struct object){.kind = random_kind(), .pd = chance(90) ? 0 : 1};
	o->kind->create(o);
}

static void forget_binding(struct object *w)
{
	bury(w->key);
	if (w->under)
		w->under->windows--;
	w->under = NULL;
	w->key = 0;
}

static void destroy_region(struct object *o)
{
	int ret = ibv_dereg_mr(o->mr), want = o->windows ? EBUSY : 0;

	MUST(ret == want, "ibv_dereg_mr: %d, not %d", ret, want);
	if (ret)
		return;
	bury(o->key);
	if (o->store)
		o->store->users--;
	o->kind = NULL;
}

static void act_destroy(void)
{
	struct object *o = pick(is_any);

	if (!o)
		return say("nothing to destroy");
	say("destroy %s", name_of(o));
	if (o->mr)
		return destroy_region(o);
	MUST(ibv_dealloc_mw(o->mw) == 0, "ibv_dealloc_mw: errno %d", errno);
	forget_binding(o);
	o->kind = NULL;
}

/* --- re-registration --- */

/* What it will be if it is done. Return: error of the device, 0: good */
static int after_change(struct object *next, int flags)
{
	const struct object *o = next;
	bool moved = flags & IBV_REREG_MR_CHANGE_TRANSLATION, had_writer = o->access & WRITER;
	unsigned int zero = o->access & IBV_ACCESS_ZERO_BASED; /* that flag stays as it is */

	if (moved) {
		random_range(&next->at, &next->length);
		next->base = zero ? 0 : SPACE_AT + next->at;
	}
	if (flags & IBV_REREG_MR_CHANGE_PD)
		next->pd = chance(80) ? 0 : 1;
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		next->access = random_rights() | zero | o->kind->extra;
	if (flags == 0 || !o->kind->changeable || bad_rights(next->access))
		return EINVAL;
	/* Pages are asked for when there are new ones, or when they must permit more than before. */
	return moved || (next->access & WRITER && !had_writer)
		       ? range_error(o->kind, next->at, next->length, next->access)
		       : 0;
}

static void act_change(void)
{
	struct object *o = pick(is_region), next;
	int flags = (int)rnd(8), error, ret, want, err;

	if (!o)
		return say("nothing to re-register");
	next = *o;
	error = after_change(&next, flags);
	say("re-register %s with flags %d: %s", name_of(o), flags, name_of(&next));
	errno = 0;
	ret = ibv_rereg_mr(o->mr, flags, pd_of(next.pd), space + next.at, next.length,
			   flags & IBV_REREG_MR_CHANGE_ACCESS ? (int)next.access : 0);
	err = errno;
	want = is_null(o) ? IBV_REREG_MR_ERR_INPUT : error || o->windows ? IBV_REREG_MR_ERR_CMD : 0;
	MUST(ret == want, "ibv_rereg_mr: %d, errno %d, instead of %d, errno %d", ret, err, want, error);
	if (want)
		MUST(err == (is_null(o) ? EINVAL : error) || (o->windows && err == EBUSY), "errno %d", err);
	else
		*o = next;
	MUST(o->mr->lkey == o->key && o->mr->rkey == (is_null(o) ? 0 : o->key), "keys");
	MUST(o->mr->pd == pd_of(o->pd) && o->mr->length == o->length, "fields");
}

/* --- windows --- */

static bool inside(uint64_t addr, uint64_t bytes, const struct object *o)
{
	return addr >= o->base && addr - o->base <= o->length && bytes <= o->length - (addr - o->base);
}

/* A completion of this process' own request. */
static enum ibv_wc_status own_completion(int qp)
{
	struct ibv_wc wc;

	MUST(node_poll(n, 0, 1, 20000, &wc) == 1, "no completion");
	if (wc.status)
		reconnect(qp);
	return wc.status;
}

static bool may_bind(const struct object *w, const struct object *o, const struct ibv_mw_bind_info *info)
{
	bool type1 = w->kind->window == IBV_MW_TYPE_1;

	if (w->pd || info->mw_access_flags & IBV_ACCESS_MW_BIND)
		return false;
	if (type1 && info->length == 0)
		return true;
	if (!o || info->length == 0 || (!type1 && w->key))
		return false;
	if (o->pd || !o->kind->bindable || !(o->access & IBV_ACCESS_MW_BIND) ||
	    o->access & IBV_ACCESS_ZERO_BASED)
		return false;
	if (info->mw_access_flags & CHANGE && !(o->access & IBV_ACCESS_LOCAL_WRITE))
		return false;
	return inside(info->addr, info->length, o);
}

/* What ibv_bind_mw() itself refuses. */
static int call_error(const struct object *w, const struct object *o, const struct ibv_mw_bind_info *info)
{
	if (!o && (info->addr || info->length))
		return EINVAL;
	if (o && o->pd != w->pd)
		return EPERM;
	if (info->mw_access_flags & IBV_ACCESS_ZERO_BASED)
		return EINVAL;
	return o && (is_null(o) || o->store != &pages) ? ENOTSUP : 0;
}

static void random_bind(const struct object *w, const struct object *o, struct ibv_mw_bind_info *info)
{
	*info = (struct ibv_mw_bind_info){.mw_access_flags = REMOTE};
	if (chance(30))
		info->mw_access_flags &= (unsigned int)rnd(REMOTE + 1);
	if (chance(w->kind->window == IBV_MW_TYPE_1 ? 3 : 20))
		info->mw_access_flags |= IBV_ACCESS_ZERO_BASED;
	if (chance(1))
		info->mw_access_flags |= IBV_ACCESS_MW_BIND;
	if (!o)
		return;
	info->mr = o->mr;
	info->addr = o->base + rnd(o->length < SPACE ? o->length : SPACE);
	info->length = chance(2) ? 0 : 1 + rnd(is_null(o) ? 64 : o->base + o->length - info->addr);
	if (chance(3))
		info->length += rnd(9000);
}

static int post_bind(int qp, struct object *w, uint32_t key, const struct ibv_mw_bind_info *info)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED, .bind_info = *info};

	if (w->kind->window == IBV_MW_TYPE_1)
		return ibv_bind_mw(n->qp[qp], w->mw, &bind);
	wr.bind_mw.mw = w->mw;
	wr.bind_mw.rkey = key;
	wr.bind_mw.bind_info = *info;
	return ibv_post_send(n->qp[qp], &wr, &bad);
}

static void bound(struct object *w, struct object *o, const struct ibv_mw_bind_info *info, int qp)
{
	bool type1 = w->kind->window == IBV_MW_TYPE_1;

	forget_binding(w);
	if (info->length == 0)
		return;
	w->key = w->mw->rkey;
	be_born(w->key, true);
	w->access = info->mw_access_flags;
	w->base = w->access & IBV_ACCESS_ZERO_BASED ? 0 : info->addr;
	w->length = info->length;
	w->store = o->store;
	w->at = o->at + (info->addr - o->base);
	w->qp = type1 ? -1 : qp;
	w->under = o;
	o->windows++;
}

static void act_bind(void)
{
	struct object *w = pick(is_window), *o = chance(95) ? pick(is_region) : NULL;
	int qp = (int)rnd(QPS), ret, refused;
	struct ibv_mw_bind_info info;
	enum ibv_wc_status got, want;
	bool type1;
	uint32_t key;

	if (!w)
		return say("no window to bind");
	type1 = w->kind->window == IBV_MW_TYPE_1;
	random_bind(w, o, &info);
	say("bind %s on %d to %s, 0x%lx + 0x%lx, access 0x%x", name_of(w), qp, o ? name_of(o) : "nothing",
	    info.addr, info.length, info.mw_access_flags);
	key = type1 ? ibv_inc_rkey(w->mw->rkey) : (w->mw->rkey & ~0xffu) | (uint32_t)rnd(256);
	refused = type1 ? call_error(w, o, &info) : 0;
	ret = post_bind(qp, w, key, &info);
	MUST(ret == refused, "the bind returned %d, not %d", ret, refused);
	if (ret)
		return;
	MUST(w->mw->rkey == key, "key 0x%x of the window, not 0x%x", w->mw->rkey, key);
	want = may_bind(w, o, &info) ? IBV_WC_SUCCESS : IBV_WC_MW_BIND_ERR;
	got = own_completion(qp);
	MUST(got == want, "'%s', not '%s'", ibv_wc_status_str(got), ibv_wc_status_str(want));
	if (got == IBV_WC_SUCCESS)
		bound(w, o, &info, qp);
}

static void act_invalidate(void)
{
	struct object *w = pick(is_window);
	struct ibv_send_wr wr = {.opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED}, *bad;
	enum ibv_wc_status got, want;
	bool good;
	int qp;

	if (!w)
		return say("no window to invalidate");
	qp = w->key && w->qp >= 0 && chance(90) ? w->qp : (int)rnd(QPS);
	wr.invalidate_rkey = w->key && chance(95) ? w->key : w->mw->rkey;
	good = w->key && w->kind->window == IBV_MW_TYPE_2 && w->qp == qp && wr.invalidate_rkey == w->key;
	want = good ? IBV_WC_SUCCESS : IBV_WC_MW_BIND_ERR;
	say("invalidate 0x%x of %s on %d", wr.invalidate_rkey, name_of(w), qp);
	MUST(ibv_post_send(n->qp[qp], &wr, &bad) == 0, "ibv_post_send");
	got = own_completion(qp);
	MUST(got == want, "'%s', not '%s'", ibv_wc_status_str(got), ibv_wc_status_str(want));
	if (good)
		forget_binding(w);
}

static bool is_bound_type2(const struct object *o)
{
	return is_window(o) && o->key && o->qp >= 0;
}

static void act_send_inv(void)
{
	struct object *w = pick(is_bound_type2);
	struct node_recv r = {.num_sge = 0};
	struct ibv_wc wc;

	if (!w)
		return say("no window for SEND_WITH_INV");
	say("SEND_WITH_INV of %s on %d", name_of(w), w->qp);
	MUST(node_post_recv(n, w->qp, &r, 1).ret == 0, "ibv_post_recv");
	order.qp = w->qp;
	order.opcode = IBV_WR_SEND_WITH_INV;
	order.key = w->key;
	order.bytes = 0;
	ask(SEND_INV);
	MUST(answer.status == IBV_WC_SUCCESS, "'%s'", ibv_wc_status_str(answer.status));
	MUST(node_poll(n, 1, 1, 20000, &wc) == 1 && wc.status == IBV_WC_SUCCESS, "receive");
	MUST(wc.wc_flags == IBV_WC_WITH_INV && wc.invalidated_rkey == w->key, "invalidated key 0x%x",
	     wc.invalidated_rkey);
	forget_binding(w);
}

/* --- accesses of the other process --- */

static unsigned int right_for(enum ibv_wr_opcode op)
{
	return op == IBV_WR_RDMA_WRITE	? IBV_ACCESS_REMOTE_WRITE
	       : op == IBV_WR_RDMA_READ ? IBV_ACCESS_REMOTE_READ
					: IBV_ACCESS_REMOTE_ATOMIC;
}

static bool is_atomic(enum ibv_wr_opcode op)
{
	return op == IBV_WR_ATOMIC_FETCH_AND_ADD || op == IBV_WR_ATOMIC_CMP_AND_SWP;
}

static uint64_t word_under(const struct object *o)
{
	uint64_t w = 0;

	if (o && o->store && inside(order.addr, 8, o))
		memcpy(&w, o->store->shadow + o->at + (order.addr - o->base), 8);
	return w;
}

/* Does the access store anything? A comparison that fails does not. */
static bool stores(const struct object *o)
{
	if (order.opcode == IBV_WR_ATOMIC_CMP_AND_SWP)
		return word_under(o) == order.compare_add;
	return order.opcode != IBV_WR_RDMA_READ;
}

/* @o: whose key it is, NULL: nobody's. *good: bytes from the beginning that can be accessed. */
static enum ibv_wc_status predict(const struct object *o, uint64_t *good)
{
	bool atomic = is_atomic(order.opcode);
	uint64_t at;

	*good = 0;
	if (order.bytes == 0)
		return IBV_WC_SUCCESS;
	if (atomic && order.addr & 7)
		return IBV_WC_REM_INV_REQ_ERR;
	if (!o || is_null(o) || o->pd || (o->mw && o->qp >= 0 && o->qp != order.qp))
		return IBV_WC_REM_ACCESS_ERR;
	if (!(o->access & right_for(order.opcode)) || !inside(order.addr, order.bytes, o))
		return IBV_WC_REM_ACCESS_ERR;
	at = o->at + (order.addr - o->base);
	if (atomic && at & 7)
		return IBV_WC_REM_INV_REQ_ERR;
	return present(o->store, at, order.bytes, stores(o), good) ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR;
}

static void apply_atomic(uint8_t *at)
{
	uint64_t old, now;

	memcpy(&old, at, sizeof(old));
	MUST(memcmp(answer.data, &old, sizeof(old)) == 0, "old value 0x%lx, not 0x%lx",
	     *(uint64_t *)answer.data, old);
	now = order.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? old + order.compare_add
	      : old == order.compare_add		  ? order.swap
							  : old;
	memcpy(at, &now, sizeof(now));
}

static void apply(struct object *o)
{
	uint64_t at = o->at + (order.addr - o->base);

	if (order.opcode == IBV_WR_RDMA_WRITE)
		memcpy(o->store->shadow + at, order.data, order.bytes);
	else if (order.opcode == IBV_WR_RDMA_READ)
		compare(answer.data, o->store->shadow + at, 0, order.bytes, "READ");
	else
		apply_atomic(o->store->shadow + at);
	check_store(o->store, at, order.bytes);
}

static void do_access(struct object *o)
{
	uint64_t good, at;
	enum ibv_wc_status want = predict(o, &good);

	say("%s on %d: 0x%lx + %u under 0x%x of %s: '%s'", probe_name(order.opcode), order.qp, order.addr,
	    order.bytes, order.key, o ? name_of(o) : "nobody", ibv_wc_status_str(want));
	ask(order.opcode == IBV_WR_SEND_WITH_INV ? SEND_INV : ACCESS);
	MUST(answer.status == want, "'%s', not '%s'", ibv_wc_status_str(answer.status),
	     ibv_wc_status_str(want));
	*(want == IBV_WC_SUCCESS ? &done : &denied) += 1;
	if (want == IBV_WC_SUCCESS && order.bytes)
		apply(o);
	if (want == IBV_WC_SUCCESS)
		return;
	if (order.opcode == IBV_WR_RDMA_WRITE && good) {
		at = o->at + (order.addr - o->base);
		adopt_prefix(o->store, at, order.data, good);
	}
	reconnect(order.qp);
}

static uint32_t random_size(uint64_t most)
{
	uint64_t size = rnd(chance(50) ? 64 : chance(60) ? PAGE : MAX_BYTES) + 1;

	return (uint32_t)(size < most ? size : most);
}

static void random_data(void)
{
	for (uint32_t i = 0; i < order.bytes; i += 8) {
		uint64_t x = rnd(0) ^ random_state;

		memcpy(order.data + i, &x, order.bytes - i < 8 ? order.bytes - i : 8);
	}
}

/* Somewhere in [base, base + length), mostly. */
static void random_place(uint64_t base, uint64_t length)
{
	uint64_t offset = rnd(length);

	order.bytes = is_atomic(order.opcode) ? 8 : random_size(length - offset + (chance(4) ? 5000 : 0));
	if (is_atomic(order.opcode) && chance(95))
		offset = length > 16 ? rnd(length - 15) : 0;
	order.addr = base + offset;
	if (is_atomic(order.opcode) && chance(95))
		order.addr = (order.addr + 7) & ~7ul;
	if (chance(2))
		order.addr = base - 1 - rnd(64);
	if (!is_atomic(order.opcode) && chance(2))
		order.bytes = 0;
}

static void random_access(const struct object *o, uint64_t base, uint64_t length)
{
	static const enum ibv_wr_opcode ops[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						 IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP};

	order.opcode = ops[chance(60) ? rnd(2) : rnd(COUNT_OF(ops))];
	order.qp = (int)rnd(QPS);
	if (o && o->mw && o->qp >= 0 && chance(90))
		order.qp = o->qp;
	random_place(base, length < SPACE ? length : SPACE);
	random_data();
	order.compare_add = chance(70) ? word_under(o) : rnd(0);
	order.swap = rnd(0);
}

static void act_access(void)
{
	struct object *o = pick(is_keyed);

	if (!o || o->length == 0)
		return say("nothing to access");
	order.key = o->key;
	random_access(o, o->base, o->length);
	do_access(o);
}

/* Keys that were good once, and keys of windows that are not bound. */
static void act_access_dead(void)
{
	struct object *w = chance(30) ? pick(is_window) : NULL;

	order.key = w ? w->mw->rkey : dead[rnd(DEAD_KEYS)];
	for (size_t i = 0; i < OBJECTS; i++)
		if (object[i].kind && object[i].key == order.key)
			return say("the key is alive");
	random_access(NULL, SPACE_AT, SPACE);
	do_access(NULL);
}

/* --- accesses of this process, by lkey --- */

/* The element is in the null region, in front of the other one. */
static int null_element(struct ibv_sge *sge, uint32_t bytes)
{
	struct object *o = chance(30) ? pick(is_region) : NULL;

	if (!o || !is_null(o) || o->pd)
		return 0;
	*sge = (struct ibv_sge){.addr = rnd(0), .length = bytes, .lkey = o->key};
	return 1;
}

static enum ibv_wc_status predict_local(const struct object *o, uint64_t addr, uint32_t bytes, bool write,
					uint64_t *good)
{
	*good = 0;
	if (bytes == 0)
		return IBV_WC_SUCCESS;
	if (o->mw || o->pd || (write && !(o->access & IBV_ACCESS_LOCAL_WRITE)))
		return IBV_WC_LOC_PROT_ERR;
	if (is_null(o))
		return IBV_WC_SUCCESS;
	if (!inside(addr, bytes, o) || !present(o->store, o->at + (addr - o->base), bytes, write, good))
		return IBV_WC_LOC_PROT_ERR;
	return IBV_WC_SUCCESS;
}

/* What the other process has now: zeros for null elements, the object's bytes behind them. */
static void expect_sent(const struct object *o, uint64_t addr, uint32_t zeros, uint32_t bytes)
{
	static uint8_t want[MAX_BYTES];

	memset(want, 0, sizeof(want));
	if (!is_null(o) && bytes)
		memcpy(want + zeros, o->store->shadow + o->at + (addr - o->base), bytes);
	order.bytes = zeros + bytes;
	ask(DUMP);
	compare(answer.data, want, 0, zeros + bytes, "WRITE of this process");
}

static void fetched(struct object *o, uint64_t addr, uint32_t skip, uint32_t bytes, uint64_t good,
		    bool success)
{
	uint64_t at = o->at + (addr - o->base);

	if (is_null(o) || o->mw)
		return;
	if (success && bytes) {
		memcpy(o->store->shadow + at, order.data + skip, bytes);
		check_store(o->store, at, bytes);
	} else if (good) {
		adopt_prefix(o->store, at, order.data + skip, good);
	}
}

/* One request from or to an element of @o, perhaps behind one in the null region. */
static void do_local(struct object *o, uint64_t addr, uint32_t bytes, bool read)
{
	struct node_send s = {.opcode = read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
			      .flags = IBV_SEND_SIGNALED,
			      .remote_addr = answer.base,
			      .rkey = answer.key};
	enum ibv_wc_status want, got;
	int qp = (int)rnd(QPS);
	uint32_t skip;
	uint64_t good;

	s.num_sge = null_element(&s.sge[0], 100);
	skip = s.num_sge ? 100 : 0;
	s.sge[s.num_sge++] = (struct ibv_sge){.addr = addr, .length = bytes, .lkey = o->key};
	order.bytes = skip + bytes;
	random_data();
	ask(FILL);
	want = predict_local(o, addr, bytes, read, &good);
	say("own %s on %d: %u nulls, 0x%lx + %u under %s: '%s'", probe_name(s.opcode), qp, skip, addr, bytes,
	    name_of(o), ibv_wc_status_str(want));
	MUST(node_post_send(n, qp, &s, 1).ret == 0, "ibv_post_send");
	got = own_completion(qp);
	MUST(got == want, "'%s', not '%s'", ibv_wc_status_str(got), ibv_wc_status_str(want));
	*(want == IBV_WC_SUCCESS ? &done : &denied) += 1;
	if (read)
		fetched(o, addr, skip, bytes, good, got == IBV_WC_SUCCESS);
	else if (got == IBV_WC_SUCCESS)
		expect_sent(o, addr, skip, bytes);
}

static void act_local(void)
{
	struct object *o = pick(is_keyed);

	if (!o || o->length == 0)
		return say("nothing to use locally");
	order.opcode = IBV_WR_RDMA_WRITE;
	random_place(o->base, o->length < SPACE ? o->length : SPACE);
	do_local(o, order.addr, order.bytes < 8000 ? order.bytes : 8000, chance(50));
}

/* --- device memory --- */

static void alloc_block(struct store *s)
{
	struct ibv_alloc_dm_attr attr = {.length = 64 * (1 + rnd(chance(70) ? 512 : dm_max / 64 + 10)),
					 .log_align_req = 3 + (uint32_t)rnd(4)};
	int want = attr.length > dm_max ? EINVAL : attr.length > dm_max - dm_used ? ENOMEM : 0;

	say("allocate device memory: %zu of %lu", attr.length, dm_max - dm_used);
	errno = 0;
	s->dm = ibv_alloc_dm(n->ctx, &attr);
	MUST(!s->dm == !!want && (s->dm || errno == want), "errno %d, not %d", s->dm ? 0 : errno, want);
	if (!s->dm)
		return;
	s->size = attr.length;
	s->users = 0;
	s->shadow = malloc(s->size);
	for (uint64_t i = 0; i < s->size; i += 8)
		memcpy(s->shadow + i, &(uint64_t){rnd(0) ^ i}, 8);
	MUST(ibv_memcpy_to_dm(s->dm, 0, s->shadow, s->size) == 0, "ibv_memcpy_to_dm");
	dm_used += s->size;
}

static void free_block(struct store *s)
{
	int ret, want = s->users ? EBUSY : 0;

	say("free device memory block %ld with %u regions", s - block, s->users);
	ret = ibv_free_dm(s->dm);
	MUST(ret == want, "ibv_free_dm: %d, not %d", ret, want);
	if (ret)
		return;
	dm_used -= s->size;
	free(s->shadow);
	*s = (struct store){.size = 0};
}

static void copy_block(struct store *s)
{
	uint64_t at = rnd(s->size) & ~3ul;
	uint64_t bytes = rnd(s->size - at + 1) & ~3ul;
	int ret;

	order.bytes = (uint32_t)(bytes < MAX_BYTES ? bytes : MAX_BYTES);
	random_data();
	say("copy %u bytes to block %ld at 0x%lx", order.bytes, s - block, at);
	ret = ibv_memcpy_to_dm(s->dm, at, order.data, order.bytes);
	MUST(ret == 0, "ibv_memcpy_to_dm: %d", ret);
	memcpy(s->shadow + at, order.data, order.bytes);
	check_store(s, at, order.bytes);
}

static void act_device(void)
{
	struct store *s = &block[rnd(BLOCKS)];

	if (!s->dm)
		alloc_block(s);
	else if (chance(30))
		free_block(s);
	else
		copy_block(s);
}

/* --- the address space --- */

static void set_state(uint64_t first, uint64_t count, enum page_state to)
{
	for (uint64_t p = first; p < first + count; p++)
		state[p] = to;
}

static void map_pages(uint64_t first, uint64_t count)
{
	uint8_t *at = space + first * PAGE;

	say("map pages %lu + %lu anew", first, count);
	if (mmap(at, count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
	    at)
		DIE("mmap");
	memset(shadow + first * PAGE, 0, count * PAGE);
	set_state(first, count, RW);
}

static void unmap_pages(uint64_t first, uint64_t count)
{
	say("unmap pages %lu + %lu", first, count);
	if (munmap(space + first * PAGE, count * PAGE))
		DIE("munmap");
	set_state(first, count, GONE);
}

/* Other pages come to lie there. */
static void move_pages(uint64_t first, uint64_t count)
{
	uint8_t *at = space + first * PAGE;
	uint8_t *from = mmap(NULL, count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	say("move other pages to %lu + %lu", first, count);
	if (from == MAP_FAILED)
		DIE("mmap");
	for (uint64_t i = 0; i < count * PAGE; i += 8)
		memcpy(from + i, &(uint64_t){rnd(0) ^ i}, 8);
	memcpy(shadow + first * PAGE, from, count * PAGE);
	if (mremap(from, count * PAGE, count * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at) != at)
		DIE("mremap");
	set_state(first, count, RW);
}

static void protect_pages(uint64_t first, uint64_t count)
{
	static const int prot[] = {[RW] = PROT_READ | PROT_WRITE, [RO] = PROT_READ, [NO_RIGHTS] = PROT_NONE};
	enum page_state to = chance(60) ? RW : chance(60) ? RO : NO_RIGHTS;

	say("protect pages %lu + %lu: %d", first, count, (int)to);
	for (uint64_t p = first; p < first + count; p++) {
		if (state[p] == GONE)
			continue;
		if (mprotect(space + p * PAGE, PAGE, prot[to]))
			DIE("mprotect");
		state[p] = to;
	}
}

static void drop_pages(uint64_t first, uint64_t count)
{
	say("MADV_DONTNEED of pages %lu + %lu", first, count);
	for (uint64_t p = first; p < first + count; p++) {
		if (state[p] == GONE)
			continue;
		if (madvise(space + p * PAGE, PAGE, MADV_DONTNEED))
			DIE("madvise");
		memset(shadow + p * PAGE, 0, PAGE);
	}
}

static void act_pages(void)
{
	static void (*const change[])(uint64_t first, uint64_t count) = {
		map_pages, map_pages, unmap_pages, move_pages, protect_pages, drop_pages};
	uint64_t count = 1 + rnd(3), first = rnd(PAGES - count + 1);

	change[rnd(COUNT_OF(change))](first, count);
}

/* The program itself stores. */
static void act_store(void)
{
	uint64_t p = rnd(PAGES), at = p * PAGE + rnd(PAGE), bytes = 1 + rnd(PAGE - at % PAGE);

	say("store at 0x%lx + %lu", at, bytes);
	if (state[p] != RW)
		return;
	order.bytes = (uint32_t)bytes;
	random_data();
	memcpy(space + at, order.data, bytes);
	memcpy(shadow + at, order.data, bytes);
}

/* --- steps --- */

static const struct {
	unsigned int weight;
	void (*act)(void);
} actions[] = {
	{8, act_create},     {5, act_destroy},	{8, act_change},  {8, act_bind},
	{3, act_invalidate}, {1, act_send_inv}, {40, act_access}, {4, act_access_dead},
	{12, act_local},     {3, act_device},	{6, act_pages},	  {4, act_store},
};

static void one_step(void)
{
	unsigned int sum = 0;
	uint64_t at;
	size_t i = 0;

	for (size_t k = 0; k < COUNT_OF(actions); k++)
		sum += actions[k].weight;
	at = rnd(sum);
	while (at >= actions[i].weight)
		at -= actions[i++].weight;
	actions[i].act();
}

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 0) : otherwise;
}

static void steps(uint64_t seconds)
{
	uint64_t end = now_ms() + seconds * 1000, most = number("TORTURE_STEPS", UINT64_MAX);

	for (step = 0; step < most && (step % 64 || now_ms() < end); step++) {
		one_step();
		if (step % 512)
			continue;
		check_everything();
		MUST(!flood_failed(&flood), "the bystander failed");
	}
	printf("%lu steps, %lu requests done, %lu refused, all as predicted (state 0x%lx)\n", step, done,
	       denied, random_state);
	EXPECT(done > step / 8 && denied > step / 16, "the model predicts too little of one kind");
}

/* --- beginning and end --- */

static void open_all(void)
{
	struct ibv_device_attr_ex attr;
	struct node_qp_spec spec = spec_default();

	side_open(&a, NULL);
	n = a.node;
	spawn_self(&actor, WORD);
	for (int qp = 0; qp < QPS; qp++) {
		if (node_create_qp(n, qp, &spec))
			DIE("ibv_create_qp");
		reconnect(qp);
	}
	if (ibv_query_device_ex(n->ctx, NULL, &attr))
		DIE("ibv_query_device_ex");
	dm_max = attr.max_dm_size;
	space = mmap((void *)SPACE_AT, SPACE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (space != (void *)SPACE_AT)
		DIE("nothing can be mapped at 0x%lx", SPACE_AT);
}

static void bystander_start(void)
{
	flood_start(&flood, &a, QP_FLOOD);
	flood_go(&flood,
		 &(struct flood_work){IBV_WR_RDMA_WRITE, (uintptr_t)n->arena, n->info.key[KEY_FULL], 16384});
}

static void bystander_end(void)
{
	struct flood_report report = flood_stop(&flood);

	row("the bystander's traffic");
	EXPECT(report.status == IBV_WC_SUCCESS && report.done > 0, "%lu requests, '%s'", report.done,
	       ibv_wc_status_str(report.status));
	printf("%lu requests of the bystander\n", report.done);
	flood_end(&flood);
}

static void close_all(void)
{
	row("everything can be destroyed in the end");
	for (size_t i = 0; i < OBJECTS; i++)
		if (is_window(&object[i]))
			EXPECT(ibv_dealloc_mw(object[i].mw) == 0, "ibv_dealloc_mw");
	for (size_t i = 0; i < OBJECTS; i++)
		if (is_region(&object[i]))
			EXPECT(ibv_dereg_mr(object[i].mr) == 0, "ibv_dereg_mr");
	for (size_t i = 0; i < BLOCKS; i++) {
		if (block[i].dm)
			EXPECT(ibv_free_dm(block[i].dm) == 0, "ibv_free_dm");
		free(block[i].shadow);
	}
	order.bytes = 0;
	order.kind = END;
	spawn_send(actor.sock, &order, offsetof(struct order, data));
	spawn_wait(&actor);
	side_stop(&a);
}

int main(int argc, char **argv)
{
	int sock = spawn_role(argc, argv, WORD);
	uint64_t seconds = number("TORTURE_SECONDS", 10);

	if (sock >= 0)
		actor_main(sock);
	flood_agent_main(argc, argv);
	time_limit((unsigned int)seconds + 60);
	seed = random_state = number("TORTURE_SEED", (uint64_t)time(NULL) * 1000003u + (uint64_t)getpid());
	printf("TORTURE_SEED=%lu\n", seed);
	row("TORTURE_SEED=%lu", seed);
	fflush(stdout);
	sandbox_enter();
	open_all();
	bystander_start();
	steps(seconds);
	bystander_end();
	close_all();
	sandbox_leave();
	return summary();
}
