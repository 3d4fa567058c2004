/* SPDX-License-Identifier: MIT */
/* Requests of this process, from and to its own memory. */
#include "torture/actions.h"

#include <string.h>

#include "lib/probe.h"
#include "torture/object.h"
#include "torture/peer.h"
#include "torture/random_request.h"
#include "torture/random_run.h"

/* The element is in the null region, in front of the other one. */
static int null_element(struct ibv_sge *sge, uint32_t bytes)
{
	struct object *o = chance(30) ? pick(is_region) : NULL;

	if (!o || !is_null(o) || o->pd)
		return 0;
	*sge = (struct ibv_sge){.addr = rnd(0), .length = bytes, .lkey = o->key};
	return 1;
}

static enum ibv_wc_status predict_local(const struct object *o, uint64_t addr, uint32_t bytes,
					bool write, uint64_t *good)
{
	*good = 0;
	if (bytes == 0)
		return IBV_WC_SUCCESS;
	if (o->mw || o->pd || (write && !(o->access & IBV_ACCESS_LOCAL_WRITE)))
		return IBV_WC_LOC_PROT_ERR;
	if (is_null(o))
		return IBV_WC_SUCCESS;
	if (!inside(addr, bytes, o) || is_lost(o, o->at + (addr - o->base), bytes))
		return IBV_WC_LOC_PROT_ERR;
	return present(o->store, o->at + (addr - o->base), bytes, write, good)
		       ? IBV_WC_SUCCESS
		       : IBV_WC_LOC_PROT_ERR;
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
	say("own %s on %d: %u nulls, 0x%lx + %u under %s: '%s'", probe_name(s.opcode), qp, skip,
	    addr, bytes, name_of(o), ibv_wc_status_str(want));
	MUST(node_post_send(n, qp, &s, 1).ret == 0, "ibv_post_send");
	got = own_completion(qp);
	MUST(got == want, "'%s', not '%s'", ibv_wc_status_str(got), ibv_wc_status_str(want));
	*(want == IBV_WC_SUCCESS ? &requests_done : &requests_denied) += 1;
	if (read)
		fetched(o, addr, skip, bytes, good, got == IBV_WC_SUCCESS);
	else if (got == IBV_WC_SUCCESS)
		expect_sent(o, addr, skip, bytes);
}

void act_local(void)
{
	struct object *o = pick(is_keyed);
	uint64_t base, length;

	if (!o || o->length == 0)
		return say("nothing to use locally");
	order.opcode = IBV_WR_RDMA_WRITE;
	target(o, &base, &length);
	random_place(base, length);
	do_local(o, order.addr, order.bytes < 8000 ? order.bytes : 8000, chance(50));
}
