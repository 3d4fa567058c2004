/* SPDX-License-Identifier: MIT */
/*
 * Extended and masked atomics whose queue pair goes by packets: none carries their operands. They
 * fail at the requester, which says why, and nothing changes; plain ones work.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/exp_objects.h"
#include "lib/expect.h"
#include "lib/probe.h"
#include "lib/two_sides.h"

#define AT  0x20000u
#define WHY "no packet has room for the operands of an extended atomic operation"

static struct node *n;
static int said; /* what goes to stderr */

static enum ibv_wc_status post(enum ibv_exp_wr_opcode opcode, uint64_t flags)
{
	struct ibv_sge sge = side_sge(&a, KEY_FULL, AT, 8);
	struct ibv_exp_send_wr wr, *bad;
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};

	memset(&wr, 0, sizeof(wr));
	wr.exp_opcode = opcode;
	wr.exp_send_flags = IBV_EXP_SEND_SIGNALED | flags;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.wr.atomic.remote_addr = b.info.base[KEY_FULL] + AT;
	wr.wr.atomic.rkey = b.info.key[KEY_FULL];
	wr.wr.atomic.compare_add = 1;
	wr.ext_op.masked_atomics.log_arg_sz = 3;
	wr.ext_op.masked_atomics.remote_addr = wr.wr.atomic.remote_addr;
	wr.ext_op.masked_atomics.rkey = wr.wr.atomic.rkey;
	wr.ext_op.masked_atomics.wr_data.inline_data.op.fetch_add.add_val = 1;
	EXPECT(ibv_exp_post_send(n->qp[0], &wr, &bad) == 0, "ibv_exp_post_send");
	if (node_poll(n, 0, 1, PROBE_PATIENCE, &wc) != 1)
		DIE("no completion");
	return wc.status;
}

static bool was_said(const char *sentence)
{
	char text[4096];
	ssize_t bytes = pread(said, text, sizeof(text) - 1, 0);

	text[bytes > 0 ? bytes : 0] = '\0';
	return strstr(text, sentence) != NULL;
}

static void rows(void)
{
	static const enum ibv_exp_wr_opcode opcodes[] = {IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP,
							 IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD,
							 IBV_EXP_WR_ATOMIC_CMP_AND_SWP,
							 IBV_EXP_WR_ATOMIC_FETCH_AND_ADD};
	enum ibv_wc_status status;

	for (size_t i = 0; i < COUNT_OF(opcodes); i++) {
		row("opcode %d, extended", (int)opcodes[i]);
		side_poke(&b, AT, 1);
		status = post(opcodes[i], IBV_EXP_SEND_EXT_ATOMIC_INLINE);
		EXPECT(status == IBV_WC_LOC_QP_OP_ERR, "'%s'", ibv_wc_status_str(status));
		EXPECT(side_peek(&b, AT) == 1, "it is done");
		probe_reconnect(&a, &b, 0);
	}
	row("the reason, of the first at least");
	EXPECT(was_said(WHY), "another one, or none");
	row("plain");
	side_set_patience(&a, 0, 18, 7); /* 8 s: the peer may have no core */
	EXPECT(post(IBV_EXP_WR_ATOMIC_FETCH_AND_ADD, 0) == IBV_WC_SUCCESS, "it fails");
	EXPECT(side_peek(&b, AT) == 2, "it is not done");
}

int main(int argc, char **argv)
{
	struct ibv_exp_qp_init_attr init = {.comp_mask = IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG,
					    .max_atomic_arg = 32};
	struct node_qp_spec spec = spec_default();
	int stderr_;

	setenv("ANYVERBS_TRANSPORT", "wire", 1);
	setenv("ANYVERBS_EXPLAIN", "1", 1);
	two_sides_open(argc, argv);
	n = a.node;
	exp_need_rc(n, 0, &init);
	NEED(side_create_qp(&b, 0, &spec, NULL) == 0);
	pair_connect(&a, 0, NULL, &b, 0, NULL);
	said = memfd_create("stderr", MFD_CLOEXEC);
	stderr_ = dup(2);
	dup2(said, 2);
	rows();
	dup2(stderr_, 2);
	close(stderr_);
	close(said);
	pair_destroy(&a, 0, &b, 0);
	return two_sides_close();
}
