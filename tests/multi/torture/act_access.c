/* SPDX-License-Identifier: MIT */
/* Requests of the other process, by keys that are good and keys that are not. */
#include "torture/actions.h"

#include <string.h>

#include "lib/on_the_wire.h"
#include "lib/probe.h"
#include "torture/object.h"
#include "torture/peer.h"
#include "torture/random_request.h"
#include "torture/random_run.h"

static unsigned int right_for(enum ibv_wr_opcode op)
{
	return op == IBV_WR_RDMA_WRITE	? IBV_ACCESS_REMOTE_WRITE
	       : op == IBV_WR_RDMA_READ ? IBV_ACCESS_REMOTE_READ
					: IBV_ACCESS_REMOTE_ATOMIC;
}

/* Where the access begins, in the store. */
static uint64_t offset(const struct object *o)
{
	return o->at + (order.addr - o->base);
}

static uint64_t word_under(const struct object *o)
{
	uint64_t w = 0;

	if (o && o->store && inside(order.addr, 8, o) && offset(o) <= o->store->size - 8)
		memcpy(&w, o->store->shadow + offset(o), 8);
	return w;
}

/*
 * Does the access store anything? A comparison that fails does not; but on the wire the owner's
 * process executes it, by an instruction that always does.
 */
static bool stores(const struct object *o)
{
	if (order.opcode == IBV_WR_ATOMIC_CMP_AND_SWP && !on_the_wire())
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
	at = offset(o);
	if (is_lost(o, at, order.bytes))
		return IBV_WC_REM_ACCESS_ERR;
	if (atomic && at & 7)
		return IBV_WC_REM_INV_REQ_ERR;
	return present(o->store, at, order.bytes, stores(o), good) ? IBV_WC_SUCCESS
								   : IBV_WC_REM_ACCESS_ERR;
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
	uint64_t at = offset(o);

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

	say("%s on %d: 0x%lx + %u under 0x%x of %s: '%s'", probe_name(order.opcode), order.qp,
	    order.addr, order.bytes, order.key, o ? name_of(o) : "nobody", ibv_wc_status_str(want));
	ask(order.opcode == IBV_WR_SEND_WITH_INV ? SEND_INV : ACCESS);
	MUST(answer.status == want, "'%s', not '%s'", ibv_wc_status_str(answer.status),
	     ibv_wc_status_str(want));
	*(want == IBV_WC_SUCCESS ? &requests_done : &requests_denied) += 1;
	if (want == IBV_WC_SUCCESS && order.bytes)
		apply(o);
	if (want == IBV_WC_SUCCESS)
		return;
	if (order.opcode == IBV_WR_RDMA_WRITE && good) {
		at = offset(o);
		adopt_prefix(o->store, at, order.data, good);
	}
	reconnect(order.qp);
}

static void random_access(const struct object *o, uint64_t base, uint64_t length)
{
	static const enum ibv_wr_opcode ops[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						 IBV_WR_ATOMIC_FETCH_AND_ADD,
						 IBV_WR_ATOMIC_CMP_AND_SWP};

	order.opcode = ops[chance(60) ? rnd(2) : rnd(COUNT_OF(ops))];
	order.qp = (int)rnd(QPS);
	if (o && o->mw && o->qp >= 0 && chance(90))
		order.qp = o->qp;
	random_place(base, length);
	random_data();
	order.compare_add = chance(70) ? word_under(o) : rnd(0);
	order.swap = rnd(0);
}

void act_access(void)
{
	struct object *o = pick(is_keyed);
	uint64_t base, length;

	if (!o || o->length == 0)
		return say("nothing to access");
	order.key = o->key;
	target(o, &base, &length);
	random_access(o, base, length);
	do_access(o);
}

/* Keys that were good once, and keys of windows that are not bound. */
void act_access_dead(void)
{
	struct object *w = chance(30) ? pick(is_window) : NULL;

	order.key = w ? w->mw->rkey : dead[rnd(DEAD_KEYS)];
	for (size_t i = 0; i < OBJECTS; i++)
		if (object[i].kind && object[i].key == order.key)
			return say("the key is alive");
	random_access(NULL, SPACE_AT, SPACE);
	do_access(NULL);
}
