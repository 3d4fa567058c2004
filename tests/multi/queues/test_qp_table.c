/* SPDX-License-Identifier: MIT */
/*
 * ibv_modify_qp() on queue pairs of every type: each pair of states with each bit of the mask, the
 * states a program may claim, and the values of attributes. Which masks are right is
 * lib/qp_table.h's matter. What is refused changes nothing, what is accepted is stored and nothing
 * else is.
 *
 * No request of these tests leads to SQE; its cells are reached by claiming it.
 */
#include <errno.h>
#include <string.h>

#include "lib/expect.h"
#include "lib/node.h"
#include "lib/qp_table.h"
#include "lib/sandbox.h"

#define BIT(n)	((int)(1u << (n)))
#define NOWHERE 99 /* no state */

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_xrcd *xrcd;
static struct ibv_cq *cq;
static union ibv_gid gid;
static struct ibv_device_attr device;
static struct ibv_port_attr port;
static struct ibv_qp *qp[QP_TABLE_SERVICES];

/* --- queue pairs of every type --------------------------------------------------- */

static struct ibv_qp *create(enum ibv_qp_type type)
{
	const bool domain = type == IBV_QPT_XRC_RECV;
	struct ibv_qp_init_attr_ex init = {
		.qp_type = type,
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.comp_mask = domain ? IBV_QP_INIT_ATTR_XRCD : IBV_QP_INIT_ATTR_PD,
		.pd = domain ? NULL : pd,
		.xrcd = domain ? xrcd : NULL,
	};

	return ibv_create_qp_ex(ctx, &init);
}

static void open_all(void)
{
	ctx = node_open_device();
	pd = ibv_alloc_pd(ctx);
	xrcd = node_open_xrcd(ctx);
	cq = ibv_create_cq(ctx, 64, NULL, NULL, 0);
	if (!pd || !xrcd || !cq || ibv_query_gid(ctx, 1, 0, &gid) ||
	    ibv_query_device(ctx, &device) || ibv_query_port(ctx, 1, &port))
		DIE("cannot open: errno %d", errno);
	for (int s = 0; s < QP_TABLE_SERVICES; s++) {
		qp[s] = create(qp_table_type(s));
		if (!qp[s])
			DIE("%s: errno %d", qp_table_service(s), errno);
	}
}

static void close_all(void)
{
	row("destroy");
	for (int s = 0; s < QP_TABLE_SERVICES; s++)
		EXPECT(ibv_destroy_qp(qp[s]) == 0, "%s: errno %d", qp_table_service(s), errno);
	EXPECT(ibv_destroy_cq(cq) == 0 && ibv_close_xrcd(xrcd) == 0 && ibv_dealloc_pd(pd) == 0 &&
		       ibv_close_device(ctx) == 0,
	       "errno %d", errno);
}

/* --- attributes ------------------------------------------------------------------ */

/* Good ones, connected with itself. Two sets with nothing in common that can differ. */
static struct ibv_qp_attr good(int service, int to, bool other)
{
	return (struct ibv_qp_attr){
		.qp_state = (enum ibv_qp_state)to,
		.path_mtu = other ? IBV_MTU_512 : IBV_MTU_1024,
		.path_mig_state = IBV_MIG_MIGRATED,
		.qkey = other ? 0x22222222 : 0x11111111,
		.rq_psn = other ? 0x222222 : 0x111111,
		.sq_psn = other ? 0x444444 : 0x333333,
		.dest_qp_num = qp[service]->qp_num + other,
		.qp_access_flags = other ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = gid, .hop_limit = other ? 32 : 64}},
		.en_sqd_async_notify = 1,
		.max_rd_atomic = other ? 5 : 3,
		.max_dest_rd_atomic = other ? 6 : 4,
		.min_rnr_timer = other ? 9 : 12,
		.port_num = 1,
		.timeout = other ? 15 : 14,
		.retry_cnt = other ? 2 : 6,
		.rnr_retry = other ? 3 : 5,
	};
}

static struct ibv_qp_attr query(int service)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	memset(&attr, 0, sizeof(attr));
	EXPECT(ibv_query_qp(qp[service], &attr, -1, &init) == 0, "ibv_query_qp: errno %d", errno);
	return attr;
}

/* Every attribute that a mask can name, with its bit. */
#define EACH_ATTRIBUTE(DO)                                  \
	DO(IBV_QP_ACCESS_FLAGS, qp_access_flags)            \
	DO(IBV_QP_PKEY_INDEX, pkey_index)                   \
	DO(IBV_QP_PORT, port_num)                           \
	DO(IBV_QP_QKEY, qkey)                               \
	DO(IBV_QP_AV, ah_attr.is_global)                    \
	DO(IBV_QP_AV, ah_attr.grh.hop_limit)                \
	DO(IBV_QP_AV, ah_attr.grh.sgid_index)               \
	DO(IBV_QP_AV, ah_attr.grh.dgid.global.interface_id) \
	DO(IBV_QP_PATH_MTU, path_mtu)                       \
	DO(IBV_QP_TIMEOUT, timeout)                         \
	DO(IBV_QP_RETRY_CNT, retry_cnt)                     \
	DO(IBV_QP_RNR_RETRY, rnr_retry)                     \
	DO(IBV_QP_RQ_PSN, rq_psn)                           \
	DO(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic)          \
	DO(IBV_QP_MIN_RNR_TIMER, min_rnr_timer)             \
	DO(IBV_QP_SQ_PSN, sq_psn)                           \
	DO(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic)   \
	DO(IBV_QP_PATH_MIG_STATE, path_mig_state)           \
	DO(IBV_QP_DEST_QPN, dest_qp_num)

/* The queue pair is in @state, has what @given says under @mask, and is for the rest as it was
 * @before. */
static void expect_attributes(int service, int state, const struct ibv_qp_attr *before,
			      const struct ibv_qp_attr *given, int mask)
{
	const struct ibv_qp_attr now = query(service);

	EXPECT((int)now.qp_state == state && (int)qp[service]->state == state,
	       "mask 0x%x: state %s, not %s", (unsigned int)mask, qp_table_state((int)now.qp_state),
	       qp_table_state(state));
#define COMPARE(bit, field)                                                \
	EXPECT(now.field == (mask & (bit) ? given->field : before->field), \
	       "mask 0x%x: " #field " is 0x%llx", (unsigned int)mask,      \
	       (unsigned long long)now.field);
	EACH_ATTRIBUTE(COMPARE)
#undef COMPARE
}

/* --- single modifications -------------------------------------------------------- */

static void take_drained(void)
{
	struct ibv_async_event event;
	bool any;

	while ((any = ibv_get_async_event(ctx, &event) == 0) &&
	       event.event_type == IBV_EVENT_GID_CHANGE) /* the host's own */
		ibv_ack_async_event(&event);
	if (EXPECT(any && event.event_type == IBV_EVENT_SQ_DRAINED, "no SQ_DRAINED"))
		ibv_ack_async_event(&event);
}

/* From wherever it is to @state, with the table's required attributes. */
static void bring(int service, int state)
{
	static const int path[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};
	int at = IBV_QPS_RESET;

	for (size_t i = 0; i < COUNT_OF(path); i++) {
		struct ibv_qp_attr attr = good(service, path[i], false);

		if (ibv_modify_qp(qp[service], &attr,
				  IBV_QP_STATE | qp_table_cell(service, at, path[i]).required))
			DIE("%s to %s", qp_table_service(service), qp_table_state(path[i]));
		at = path[i];
		if (at == state)
			return;
	}
	if (ibv_modify_qp(qp[service], &(struct ibv_qp_attr){.qp_state = (enum ibv_qp_state)state},
			  IBV_QP_STATE))
		DIE("%s to %s", qp_table_service(service), qp_table_state(state));
}

static void refuse(int service, struct ibv_qp_attr *attr, int mask)
{
	const struct ibv_qp_attr before = query(service);
	int ret;

	errno = 0;
	ret = ibv_modify_qp(qp[service], attr, mask);
	EXPECT(ret == EINVAL && errno == EINVAL, "mask 0x%x: returned %d, errno %d",
	       (unsigned int)mask, ret, errno);
	expect_attributes(service, (int)before.qp_state, &before, &before, 0);
	if (ret == 0)
		bring(service, (int)before.qp_state);
}

/* It ends in @to, and is brought back to where it was. */
static void accept_at(int service, struct ibv_qp_attr *attr, int mask, int to, int ignored)
{
	const struct ibv_qp_attr before = query(service);
	int ret = ibv_modify_qp(qp[service], attr, mask);

	if (EXPECT(ret == 0, "mask 0x%x: returned %d", (unsigned int)mask, ret))
		expect_attributes(service, to, &before, attr, mask & ~ignored);
	if (ret == 0 && mask & IBV_QP_EN_SQD_ASYNC_NOTIFY)
		take_drained();
	bring(service, (int)before.qp_state);
}

/* --- every cell, every bit ------------------------------------------------------- */

/* Right as far as the mask goes, and never accepted: no migration of paths is offered. */
static bool never(int mask)
{
	return mask & IBV_QP_ALT_PATH;
}

static void try_mask(const struct qp_cell *c, int mask)
{
	struct ibv_qp_attr attr = good(c->service, c->to, true);
	const int allowed = c->required | c->optional | c->ignored;

	attr.cur_qp_state = (enum ibv_qp_state)c->from;
	if (c->valid && (mask & c->required) == c->required && !(mask & ~allowed) && !never(mask))
		accept_at(c->service, &attr, IBV_QP_STATE | mask, c->to, c->ignored);
	else
		refuse(c->service, &attr, IBV_QP_STATE | mask);
}

static void cell_row(const struct qp_cell *c)
{
	row("%s: %s to %s", qp_table_service(c->service), qp_table_state(c->from),
	    qp_table_state(c->to));
	try_mask(c, c->required);
	try_mask(c, c->required | (c->optional & ~IBV_QP_ALT_PATH));
	try_mask(c, c->required | (c->optional & ~IBV_QP_ALT_PATH) | c->ignored);
	for (int bit = 1; bit < QP_TABLE_BITS; bit++)
		try_mask(c, c->required ^ BIT(bit)); /* one missing, or one more */
	if (c->valid)
		return;
	for (int other = 0; other < QP_TABLE_STATES;
	     other++) { /* nor with what would be right elsewhere */
		try_mask(c, qp_table_cell(c->service, c->from, other).required);
		try_mask(c, qp_table_cell(c->service, other, c->to).required);
	}
	try_mask(c, ~(IBV_QP_STATE | IBV_QP_ALT_PATH));
}

/* Without IBV_QP_STATE it stays where it is, and the state given is not looked at. */
static void stay_row(int service, int from)
{
	const struct qp_cell c = qp_table_cell(service, from, from);
	const int all = c.required | c.optional;
	struct ibv_qp_attr attr = good(service, NOWHERE, true);

	row("%s: attributes changed in %s", qp_table_service(service), qp_table_state(from));
	attr.cur_qp_state = (enum ibv_qp_state)from;
	for (int bit = 1; bit < QP_TABLE_BITS; bit++) {
		if (c.valid && (all | c.ignored) & BIT(bit) && !never(BIT(bit)))
			accept_at(service, &attr, BIT(bit), from, c.ignored);
		else
			refuse(service, &attr, BIT(bit));
	}
	if (c.valid)
		accept_at(service, &attr, all & ~IBV_QP_ALT_PATH, from, 0);
	else
		refuse(service, &attr, 0);
}

static void unknown_state_rows(int service, int from)
{
	static const int states[] = {QP_TABLE_STATES, QP_TABLE_STATES + 1, NOWHERE, 64, 256, -1,
				     INT32_MAX};

	row("%s: %s to states that are none", qp_table_service(service), qp_table_state(from));
	for (size_t i = 0; i < COUNT_OF(states); i++) {
		struct ibv_qp_attr attr = good(service, states[i], true);

		refuse(service, &attr, IBV_QP_STATE);
		for (int to = 0; to < QP_TABLE_STATES; to++)
			refuse(service, &attr,
			       IBV_QP_STATE | qp_table_cell(service, from, to).required);
	}
}

/* --- the state claimed ----------------------------------------------------------- */

/* The cell is that of the state claimed, whatever the state is; only four may be claimed. */
static void claim(int service, int from, int claimed, int to)
{
	const bool claimable = claimed >= IBV_QPS_RTR && claimed <= IBV_QPS_SQE;
	const struct qp_cell c = qp_table_cell(service, claimable ? claimed : from, to);
	const int mask = IBV_QP_STATE | IBV_QP_CUR_STATE | c.required;
	struct ibv_qp_attr attr = good(service, to, true);

	attr.cur_qp_state = (enum ibv_qp_state)claimed;
	if (claimable && c.valid && c.optional & IBV_QP_CUR_STATE)
		accept_at(service, &attr, mask, to, c.ignored);
	else
		refuse(service, &attr, mask);
}

static void claim_rows(int service, int from)
{
	static const int none[] = {QP_TABLE_STATES, NOWHERE, 256 + IBV_QPS_RTS, -1, INT32_MAX};

	for (int claimed = 0; claimed < QP_TABLE_STATES; claimed++) {
		row("%s: claimed to be in %s, is in %s", qp_table_service(service),
		    qp_table_state(claimed), qp_table_state(from));
		for (int to = 0; to < QP_TABLE_STATES; to++)
			claim(service, from, claimed, to);
	}
	row("%s: claimed to be in states that are none, is in %s", qp_table_service(service),
	    qp_table_state(from));
	for (size_t i = 0; i < COUNT_OF(none); i++)
		for (int to = 0; to < QP_TABLE_STATES; to++)
			claim(service, from, none[i], to);
}

/* What was claimed to be connected and is not leads nowhere, and can be reset. */
static void false_claim_row(void)
{
	struct ibv_qp *own = create(IBV_QPT_RC);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_RTS};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_wc wc;
	int got = 0;

	row("RC: claimed to be in RTS, was never connected, sends");
	if (!own || ibv_modify_qp(own, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE) ||
	    ibv_post_send(own, &wr, &bad))
		DIE("errno %d", errno);
	for (uint64_t end = now_ms() + 30000; got == 0 && now_ms() < end;)
		got = ibv_poll_cq(cq, 1, &wc);
	EXPECT(got == 1 && wc.status != IBV_WC_SUCCESS, "%d completions, '%s'", got,
	       ibv_wc_status_str(wc.status));
	attr.qp_state = IBV_QPS_RESET;
	EXPECT(ibv_modify_qp(own, &attr, IBV_QP_STATE) == 0 && ibv_destroy_qp(own) == 0, "errno %d",
	       errno);
}

/* --- values ---------------------------------------------------------------------- */

struct value {
	const char *name;
	int bit;
	uint64_t value;
	bool ok;
	void (*set)(struct ibv_qp_attr *attr, uint64_t value);
};

#define SETTER(name, field)                                          \
	static void set_##name(struct ibv_qp_attr *attr, uint64_t v) \
	{                                                            \
		attr->field = (typeof(attr->field))v;                \
	}
SETTER(port, port_num)
SETTER(pkey, pkey_index)
SETTER(mtu, path_mtu)
SETTER(timeout, timeout)
SETTER(retry, retry_cnt)
SETTER(rnr, rnr_retry)
SETTER(min_rnr, min_rnr_timer)
SETTER(rd, max_rd_atomic)
SETTER(dest_rd, max_dest_rd_atomic)
SETTER(access, qp_access_flags)
SETTER(mig, path_mig_state)
SETTER(av_port, ah_attr.port_num)
SETTER(av_global, ah_attr.is_global)
SETTER(av_sgid, ah_attr.grh.sgid_index)
SETTER(qkey, qkey)

/* In every cell that takes the attribute. Those that a service ignores may be anything. */
static void value_cell(const struct value *v, const struct qp_cell *c)
{
	struct ibv_qp_attr attr = good(c->service, c->to, true);
	const int mask = IBV_QP_STATE | c->required | v->bit;

	if (!c->valid || !((c->required | c->optional | c->ignored) & v->bit))
		return;
	v->set(&attr, v->value);
	if (v->ok || c->ignored & v->bit)
		accept_at(c->service, &attr, mask, c->to, c->ignored);
	else
		refuse(c->service, &attr, mask);
}

static void value_row(const struct value *v)
{
	row("%s %lld is %s", v->name, (long long)v->value, v->ok ? "accepted" : "refused");
	for (int s = 0; s < QP_TABLE_SERVICES; s++)
		for (int from = 0; from < QP_TABLE_STATES; from++) {
			if (from == IBV_QPS_SQE)
				continue;
			bring(s, from);
			for (int to = 0; to < QP_TABLE_STATES; to++) {
				const struct qp_cell c = qp_table_cell(s, from, to);

				value_cell(v, &c);
			}
		}
}

/* From @first up to @last, that and one more. */
static void range_rows(const char *name, int bit, void (*set)(struct ibv_qp_attr *, uint64_t),
		       uint64_t first, uint64_t last, uint64_t most)
{
	const struct value rows[] = {
		{name, bit, first, true, set},
		{name, bit, last, true, set},
		{name, bit, last + 1, false, set},
		{name, bit, most, false, set},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++)
		value_row(&rows[i]);
	if (first > 0)
		value_row(&(struct value){name, bit, first - 1, false, set});
}

/* From 0 to @last. What becomes of wider numbers: fields/test_fields_modify.c */
static void width_rows(const char *name, int bit, void (*set)(struct ibv_qp_attr *, uint64_t),
		       uint64_t last)
{
	value_row(&(struct value){name, bit, 0, true, set});
	value_row(&(struct value){name, bit, last, true, set});
}

/* Those of regions, and those that newer headers name, mean nothing here. */
static void access_rows(void)
{
	for (unsigned int bit = 0; bit < 32; bit++)
		value_row(&(struct value){"access flag", IBV_QP_ACCESS_FLAGS, 1ull << bit, true,
					  set_access});
}

static unsigned int gids_there(void)
{
	struct ibv_gid_entry entries[256];
	ssize_t count = ibv_query_gid_table(ctx, entries, COUNT_OF(entries), 0);

	return count > 0 ? (unsigned int)count : 0;
}

static void address_rows(void)
{
	static const uint64_t ports[] = {0, 2, 255};
	const unsigned int gids = gids_there();

	for (size_t i = 0; i < COUNT_OF(ports); i++)
		value_row(&(struct value){"port of the address", IBV_QP_AV, ports[i], false,
					  set_av_port});
	value_row(&(struct value){"GRH", IBV_QP_AV, 0, false, set_av_global});
	range_rows("index of the source GID", IBV_QP_AV, set_av_sgid, 0, gids - 1, 255);
	value_row(&(struct value){"index of the source GID", IBV_QP_AV,
				  (uint64_t)port.gid_tbl_len - 1, false, set_av_sgid});
}

static void value_rows(void)
{
	const uint64_t rd = (uint64_t)device.max_qp_init_rd_atom,
		       dest = (uint64_t)device.max_qp_rd_atom;

	range_rows("port", IBV_QP_PORT, set_port, 1, 1, 255);
	range_rows("index of the P_Key", IBV_QP_PKEY_INDEX, set_pkey, 0, 0, 0xffff);
	range_rows("path MTU", IBV_QP_PATH_MTU, set_mtu, IBV_MTU_256, port.max_mtu, UINT32_MAX);
	width_rows("timeout", IBV_QP_TIMEOUT, set_timeout, 31);
	width_rows("retry_cnt", IBV_QP_RETRY_CNT, set_retry, 7);
	width_rows("rnr_retry", IBV_QP_RNR_RETRY, set_rnr, 7);
	width_rows("min_rnr_timer", IBV_QP_MIN_RNR_TIMER, set_min_rnr, 31);
	range_rows("max_rd_atomic", IBV_QP_MAX_QP_RD_ATOMIC, set_rd, 0, rd, 255);
	range_rows("max_dest_rd_atomic", IBV_QP_MAX_DEST_RD_ATOMIC, set_dest_rd, 0, dest, 255);
	range_rows("path_mig_state", IBV_QP_PATH_MIG_STATE, set_mig, IBV_MIG_MIGRATED,
		   IBV_MIG_MIGRATED, 3);
	value_row(&(struct value){"Q_Key", IBV_QP_QKEY, 0, true, set_qkey});
	value_row(&(struct value){"Q_Key", IBV_QP_QKEY, UINT32_MAX, true, set_qkey});
	access_rows();
	address_rows();
}

static void number_row(int service)
{
	struct ibv_qp_attr attr = good(service, IBV_QPS_RTR, false), now;
	const struct qp_cell rtr = qp_table_cell(service, IBV_QPS_INIT, IBV_QPS_RTR);
	const struct qp_cell rts = qp_table_cell(service, IBV_QPS_RTR, IBV_QPS_RTS);

	row("%s: numbers are cut to 24 bits", qp_table_service(service));
	bring(service, IBV_QPS_INIT);
	attr.rq_psn = 0xab123456;
	attr.sq_psn = 0xcd654321;
	attr.dest_qp_num |= 0xef000000;
	EXPECT(ibv_modify_qp(qp[service], &attr, IBV_QP_STATE | rtr.required) == 0,
	       "to RTR: errno %d", errno);
	attr.qp_state = IBV_QPS_RTS;
	EXPECT(ibv_modify_qp(qp[service], &attr, IBV_QP_STATE | rts.required) == 0,
	       "to RTS: errno %d", errno);
	now = query(service);
	EXPECT(now.sq_psn == 0x654321, "sq_psn 0x%x", now.sq_psn);
	EXPECT(!(rtr.required & IBV_QP_RQ_PSN) || now.rq_psn == 0x123456, "rq_psn 0x%x",
	       now.rq_psn);
	EXPECT(!(rtr.required & IBV_QP_DEST_QPN) || now.dest_qp_num == qp[service]->qp_num,
	       "dest_qp_num 0x%x", now.dest_qp_num);
}

/* --- types that there are not ---------------------------------------------------- */

static void type_rows(void)
{
	static const struct {
		int type, want;
	} rows[] = {
		{IBV_QPT_RAW_PACKET, EOPNOTSUPP},
		{IBV_QPT_DRIVER, EOPNOTSUPP},
		{0, EINVAL},
		{1, EINVAL},
		{5, EINVAL},
		{7, EINVAL},
		{11, EINVAL},
		{-1, EINVAL},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_qp *got;

		row("no queue pair of type %d", rows[i].type);
		errno = 0;
		got = create((enum ibv_qp_type)rows[i].type);
		EXPECT(!got && errno == rows[i].want, "errno %d", errno);
	}
}

static void state_rows(int service, int from)
{
	bring(service, from);
	for (int to = 0; to < QP_TABLE_STATES; to++) {
		const struct qp_cell c = qp_table_cell(service, from, to);

		cell_row(&c);
	}
	stay_row(service, from);
	unknown_state_rows(service, from);
	claim_rows(service, from);
}

int main(void)
{
	sandbox_begin(200);
	open_all();
	for (int s = 0; s < QP_TABLE_SERVICES; s++)
		for (int from = 0; from < QP_TABLE_STATES; from++)
			if (from != IBV_QPS_SQE)
				state_rows(s, from);
	false_claim_row();
	value_rows();
	for (int s = 0; s < QP_TABLE_SERVICES; s++)
		number_row(s);
	type_rows();
	close_all();
	return sandbox_end();
}
