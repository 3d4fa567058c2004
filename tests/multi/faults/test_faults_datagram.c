/* SPDX-License-Identifier: MIT */
/*
 * Datagrams whose source is bad, crossed with what makes one that is good disappear. The sender
 * reads its memory in any case, and hears of nothing else.
 */
#include "faults_fixture.h"

#define QP   2
#define QKEY 0x11111111u
#define GRH  40u

enum who { RECEIVER, NOBODY, IN_RESET, OTHER_QKEY };

static const struct {
	const char *name;
	enum who who;
	uint32_t room; /* of the receive; 0: none is posted */
} receivers[] = {
	{"taken", RECEIVER, 2048},
	{"no receive", RECEIVER, 0},
	{"a receive that is too short", RECEIVER, GRH + 4},
	{"no such queue pair", NOBODY, 0},
	{"a queue pair in RESET", IN_RESET, 0},
	{"another Q_Key", OTHER_QKEY, 2048},
};

static const struct {
	const char *name;
	enum ibv_wc_status want;
	enum key lkey;
	int64_t by;
	uint32_t more; /* bytes */
} sources[] = {
	{"fine", IBV_WC_SUCCESS, KEY_READ_ONLY, 0, 0},
	{"lkey of a deregistered region", IBV_WC_LOC_PROT_ERR, KEY_DEAD, 0, 0},
	{"lkey of another domain", IBV_WC_LOC_PROT_ERR, KEY_OTHER_PD, 0, 0},
	{"buffer ends behind its region", IBV_WC_LOC_PROT_ERR, KEY_FULL,
	 (int64_t)(FULL_END - LOCAL_AT - 4), 0},
	{"buffer that is no longer there", IBV_WC_LOC_PROT_ERR, KEY_GONE, 0, 0},
	{"longer than a packet", IBV_WC_LOC_LEN_ERR, KEY_FULL, 0, 4096},
};

static void to_rts(struct side *s)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};

	if (side_modify(s, QP, &attr,
			IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) ||
	    side_set_state(s, QP, IBV_QPS_RTR))
		DIE("to RTR");
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .sq_psn = 1};
	NEED(side_modify(s, QP, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
}

static int send_one(struct ibv_ah *ah, const struct ibv_sge *sge, uint32_t qpn, uint32_t qkey)
{
	struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_SEND,
				       .send_flags = IBV_SEND_SIGNALED,
				       .sg_list = (struct ibv_sge *)(uintptr_t)sge,
				       .num_sge = 1,
				       .wr.ud = {ah, qpn, qkey}};
	struct ibv_wc wc;

	EXPECT(ibv_post_send(a.node->qp[QP], &wr, &bad) == 0, "ibv_post_send");
	return side_poll(&a, 0, 1, PATIENCE, &wc) == 1 ? (int)wc.status : -1;
}

static void cell(struct ibv_ah *ah, size_t s, size_t r, uint32_t bytes)
{
	enum who who = receivers[r].who;
	struct ibv_sge sge = side_sge(&a, sources[s].lkey, LOCAL_AT + (uint64_t)sources[s].by,
				      bytes + sources[s].more);
	uint32_t qpn = who == NOBODY ? 0xabcdef : side_qpn(&b, QP),
		 qkey = who == OTHER_QKEY ? QKEY + 1 : QKEY;
	bool good = sources[s].want == IBV_WC_SUCCESS, taken = good && r == 0;
	struct ibv_wc wc;
	int got;

	row("[%s] %u bytes: %s, %s", faults_mode, bytes, sources[s].name, receivers[r].name);
	to_rts(&a);
	if (who != IN_RESET)
		to_rts(&b);
	if (receivers[r].room)
		side_recv_one(&b, QP, 11, RECV_AT, receivers[r].room);
	got = send_one(ah, &sge, qpn, qkey);
	EXPECT(got == (int)sources[s].want, "'%s', not '%s'",
	       ibv_wc_status_str((enum ibv_wc_status)got), ibv_wc_status_str(sources[s].want));
	EXPECT(side_state(&a, QP) == (good ? IBV_QPS_RTS : IBV_QPS_ERR), "sender in state %d",
	       (int)side_state(&a, QP));
	sge = side_sge(&a, KEY_FULL, LOCAL_AT, 0);
	got = send_one(ah, &sge, 0xabcdef, QKEY);
	EXPECT(got == (good ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR), "the next one: %d", got);
	got = side_poll(&b, 1, 1, taken ? PATIENCE : 0, &wc);
	EXPECT(got == taken && (!taken || wc.status == IBV_WC_SUCCESS), "%d receives", got);
	EXPECT(side_state(&b, QP) == (who == IN_RESET ? IBV_QPS_RESET : IBV_QPS_RTS),
	       "receiver in state %d", (int)side_state(&b, QP));
	EXPECT(!side_async(&a, 0).any && !side_async(&b, 0).any, "an event");
	if (side_set_state(&a, QP, IBV_QPS_RESET) || side_set_state(&b, QP, IBV_QPS_RESET))
		DIE("to RESET");
}

static void run(void)
{
	struct node_qp_spec spec = spec_default();
	struct ibv_ah_attr attr = {
		.is_global = 1, .port_num = 1, .grh = {.dgid = b.info.gid, .hop_limit = 64}};
	struct ibv_ah *ah = ibv_create_ah(a.node->pd, &attr);

	NEED(ah);
	spec.type = IBV_QPT_UD;
	pair_create(&a, QP, &b, QP, &spec);
	for (size_t s = 0; s < COUNT_OF(sources); s++)
		for (size_t r = 0; r < COUNT_OF(receivers); r++)
			for (uint32_t bytes = 8; bytes <= 1000; bytes += 992)
				cell(ah, s, r, bytes);
	pair_destroy(&a, QP, &b, QP);
	EXPECT(ibv_destroy_ah(ah) == 0, "ibv_destroy_ah");
}

int main(int argc, char **argv)
{
	return faults_test(argc, argv, run);
}
