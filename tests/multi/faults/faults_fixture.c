/* SPDX-License-Identifier: MIT */
#include "faults_fixture.h"

#include "lib/sandbox.h"
#include "lib/ways.h"

struct side a, b;
const char *faults_mode;

/* --- bystanders ------------------------------------------------------------------ */

/* Queue pair 1 of either side: moves data in both directions by both kinds of operation. */
static void bystander_send(struct side *from, struct side *to, uint64_t seed)
{
	struct node_send list[2] = {
		{.wr_id = 1,
		 .opcode = WRITE,
		 .num_sge = 1,
		 .sge = {side_sge(from, KEY_FULL, 0x100000, 5000)},
		 .remote_addr = to->info.base[KEY_FULL] + 0x110000,
		 .rkey = to->info.key[KEY_FULL]},
		{.wr_id = 2,
		 .opcode = SEND,
		 .flags = IBV_SEND_SIGNALED,
		 .num_sge = 1,
		 .sge = {side_sge(from, KEY_FULL, 0x100000, 3000)}},
	};
	struct ibv_wc wc[2];

	side_fill(from, 0x100000, 5000, seed, 0);
	side_recv_one(to, 1, seed, 0x120000, 3000);
	EXPECT(side_post_send(from, 1, list, 2).ret == 0, "bystander: post");
	EXPECT(side_poll(from, 2, 1, PATIENCE, wc) == 1 && wc[0].status == IBV_WC_SUCCESS,
	       "bystander: send");
	EXPECT(side_poll(to, 3, 1, PATIENCE, wc) == 1 && wc[0].status == IBV_WC_SUCCESS &&
		       wc[0].wr_id == seed,
	       "bystander: receive");
	EXPECT(side_check(to, 0x110000, 5000, seed, 0) == -1 &&
		       side_check(to, 0x120000, 3000, seed, 0) == -1,
	       "bystander: data");
}

static void bystander_goes_on(void)
{
	static uint64_t seed = 1000;

	bystander_send(&a, &b, ++seed);
	bystander_send(&b, &a, ++seed);
}

static void bystander_start(void)
{
	struct node_qp_spec spec = spec_default();

	spec.send_cq = 2;
	spec.recv_cq = 3;
	if (side_create_cq(&a, 2, 16, false) || side_create_cq(&a, 3, 16, false) ||
	    side_create_cq(&b, 2, 16, false) || side_create_cq(&b, 3, 16, false))
		DIE("CQs of the bystanders");
	pair_create(&a, 1, &b, 1, &spec);
	pair_connect(&a, 1, NULL, &b, 1, NULL);
}

/* --- one row --------------------------------------------------------------------- */

static uint32_t total_bytes(const struct fault_row *r)
{
	return r->elements < 0 ? 0 : r->bytes * (uint32_t)(r->elements ? r->elements : 1);
}

static struct node_send request(const struct fault_row *r)
{
	const struct request request = {
		.op = r->op,
		.flags = r->flags,
		.bytes = r->bytes,
		.elements = r->elements,
		.lkey = r->lkey,
		.rkey = r->rkey,
		.local_at = LOCAL_AT + (uint64_t)r->local_by,
		.remote_at = REMOTE_AT + (uint64_t)r->remote_by,
	};
	struct node_send s = request_make(&a, &b, &request);

	if (r->requester == IBV_WC_SUCCESS)
		s.flags |= IBV_SEND_SIGNALED; /* an error completes in any case */
	return s;
}

static void post_receives(const struct fault_row *r)
{
	uint32_t bytes = r->recv_bytes == UINT32_MAX ? 0
			 : r->recv_bytes	     ? r->recv_bytes
						     : total_bytes(r);
	struct node_recv list[2] = {
		{.wr_id = 11,
		 .num_sge = 1,
		 .sge = {side_sge(&b, r->recv_key, RECV_AT + (uint64_t)r->recv_by, bytes)}},
		{.wr_id = 12, .num_sge = 1, .sge = {side_sge(&b, KEY_FULL, SPARE_AT, 64)}},
	};

	if (r->receives)
		EXPECT(side_post_recv(&b, 0, list, r->receives).ret == 0, "post_recv");
}

struct node_send fault_begin(const struct fault_row *r)
{
	const struct request_limits limits = {r->service, r->denied, r->no_rd_atomic,
					      r->no_dest_rd_atomic};

	request_connect(&a, &b, &limits);
	if (r->no_responder) {
		side_set_patience(&a, 0, 10, 1);
		EXPECT(side_set_state(&b, 0, IBV_QPS_RESET) == 0, "to RESET");
	}
	side_fill(&a, 0, WATCHED, 1, 0);
	side_fill(&b, 0, WATCHED, 2, 0);
	post_receives(r);
	return request(r);
}

void fault_end(void)
{
	bystander_goes_on();
	pair_destroy(&a, 0, &b, 0);
}

static bool either(int got, int want, int other)
{
	return want == ANY || got == want || (other && got == other);
}

/* Return: completions of both requests in @wc */
static int request_both(const struct fault_row *r, const struct node_send *list, struct ibv_wc *wc)
{
	int got, first = r->later ? 1 : 2;

	EXPECT(side_post_send(&a, 0, list, first).ret == 0, "post_send");
	got = side_poll(&a, 0, first, PATIENCE, wc);
	if (!r->later || got != 1)
		return got;
	EXPECT(side_post_send(&a, 0, list + 1, 1).ret == 0, "post_send");
	return 1 + side_poll(&a, 0, 1, PATIENCE, wc + 1);
}

/* The faulty request completes first, and the one behind it is flushed, or done if nothing was
 * wrong. */
static void check_requester(const struct fault_row *r, const struct node_send *list)
{
	int behind = r->requester == IBV_WC_SUCCESS ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR;
	struct ibv_wc wc[3];
	int got = request_both(r, list, wc);

	if (!EXPECT(got == 2, "%d completions at the requester instead of 2", got))
		return;
	EXPECT(wc[0].wr_id == 1 && either((int)wc[0].status, r->requester, r->requester2),
	       "requester: request %d ends as '%s', not '%s'", (int)wc[0].wr_id,
	       ibv_wc_status_str(wc[0].status),
	       ibv_wc_status_str((enum ibv_wc_status)r->requester));
	EXPECT(wc[1].wr_id == 2 && (int)wc[1].status == behind,
	       "requester: request %d behind it ends as '%s'", (int)wc[1].wr_id,
	       ibv_wc_status_str(wc[1].status));
	EXPECT(wc[0].qp_num == side_qpn(&a, 0) && wc[1].qp_num == wc[0].qp_num,
	       "qp_num of the completions");
	EXPECT(side_poll(&a, 0, 1, 0, wc) == 0, "a third completion");
	EXPECT(side_state(&a, 0) == (behind ? IBV_QPS_ERR : IBV_QPS_RTS), "requester in state %d",
	       (int)side_state(&a, 0));
}

/*
 * May the responder have done the request behind the faulty one? On the wire it may be under way
 * when the answer comes, and only then does the requester look where the answer goes.
 */
static bool may_overtake(const struct fault_row *r)
{
	return on_the_wire() && !r->later && r->requester == IBV_WC_LOC_PROT_ERR &&
	       (r->op == READ || request_is_atomic(r->op));
}

/* How many receives complete, and how. */
static void check_receives(const struct fault_row *r)
{
	bool success = r->requester == IBV_WC_SUCCESS && !r->responder_fails;
	int taken = success ? 1 + (request_receives(r->op) && !r->lost) : 0,
	    want = r->responder_fails || taken > r->receives ? r->receives : taken;
	struct ibv_wc wc[3];
	int got = side_poll(&b, 1, want, want ? PATIENCE : 0, wc);

	if (!EXPECT(got == want, "%d receives complete instead of %d", got, want))
		return;
	if (want)
		EXPECT(wc[0].wr_id == 11 && either((int)wc[0].status, r->receive, r->receive2),
		       "receive %d ends as '%s', not '%s'", (int)wc[0].wr_id,
		       ibv_wc_status_str(wc[0].status),
		       ibv_wc_status_str((enum ibv_wc_status)r->receive));
	if (want == 2)
		EXPECT(wc[1].wr_id == 12 &&
			       wc[1].status == (success ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR),
		       "receive %d behind it ends as '%s'", (int)wc[1].wr_id,
		       ibv_wc_status_str(wc[1].status));
	if (!may_overtake(r))
		EXPECT(side_poll(&b, 1, 1, 0, wc) == 0, "one receive completion too many");
	for (int i = 0; i < want; i++)
		EXPECT(wc[i].qp_num == side_qpn(&b, 0), "qp_num of a receive");
}

static void check_responder(const struct fault_row *r)
{
	enum ibv_qp_state want = r->responder_fails ? IBV_QPS_ERR
				 : r->no_responder  ? IBV_QPS_RESET
						    : IBV_QPS_RTS,
			  state = side_state(&b, 0);
	struct node_event e = side_async(&b, r->event >= 0 ? PATIENCE : 0);

	EXPECT(state == want, "responder in state %d instead of %d", (int)state, (int)want);
	if (r->event == NONE)
		EXPECT(!e.any, "event %d", (int)e.type);
	else
		EXPECT(e.any && either((int)e.type, r->event, r->event2) && e.qp == 0,
		       "event %d of QP %d instead of %d", e.any ? (int)e.type : -1, e.qp, r->event);
	e = side_async(&b, 0);
	EXPECT(!e.any, "second event %d", (int)e.type);
	e = side_async(&a, 0);
	EXPECT(!e.any, "event %d at the requester", (int)e.type);
}

static void check_memory(const struct fault_row *r)
{
	if (r->requester == IBV_WC_SUCCESS && !r->lost)
		return;
	EXPECT(side_check(&a, 0, WATCHED, 1, 0) == -1, "the requester's memory changed");
	if (r->must_write) /* and has counted the request */
		EXPECT(side_psns(&b, 0).rq == side_psns(&a, 0).sq, "PSNs: %#x expected after %#x",
		       side_psns(&b, 0).rq, side_psns(&a, 0).sq);
	if (r->must_write)
		EXPECT(side_check(&b, 0, WATCHED, 2, 0) != -1,
		       "the responder's memory is as before");
	else if (!r->may_write)
		EXPECT(side_check(&b, 0, WATCHED, 2, 0) == -1, "the responder's memory changed");
}

void fault_run(const struct fault_row *r)
{
	struct node_send list[2];

	row("[%s] %s: %s", faults_mode, probe_name(r->op), r->name);
	list[0] = fault_begin(r);
	list[1] = (struct node_send){.wr_id = 2, .opcode = SEND, .flags = IBV_SEND_SIGNALED};
	if (r->op == CAS && r->must_write)
		list[0].compare_add = side_peek(&b, REMOTE_AT);
	check_requester(r, list);
	check_receives(r);
	check_responder(r);
	check_memory(r);
	fault_end();
}

/* --- all of them ----------------------------------------------------------------- */

static void (*test_rows)(void);

static void all_rows(const char *way)
{
	faults_mode = way;
	row("[%s] bystanders start", faults_mode);
	bystander_start();
	test_rows();
}

int faults_test(int argc, char **argv, void (*rows)(void))
{
	sides_begin(argc, argv, 200);
	test_rows = rows;
	three_ways(&a, &b, all_rows);
	return sandbox_end();
}
