/* SPDX-License-Identifier: MIT */
/* What the owner's own receives and requests find when the region that they name has changed. */
#include <errno.h>

#include "rereg_fixture.h"

/* A receive that names memory the region no longer covers, or may no longer write. */
static void receive_row(const char *name, const struct args *args, bool works)
{
	struct state s = state_old();
	struct ibv_mr *mr;
	struct node_recv recv = {.wr_id = 7, .num_sge = 1};
	struct node_send send = side_message(side_sge(&b, KEY_FULL, PROBE_AT, 4096));
	struct node_posted posted;
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR}, sent;

	row("a posted receive, then %s", name);
	mr = region(&s);
	recv.sge[0] = (struct ibv_sge){.addr = (uintptr_t)s.addr, .length = 4096, .lkey = mr->lkey};
	EXPECT(side_post_recv(&a, 0, &recv, 1).ret == 0, "ibv_post_recv");
	EXPECT(call(mr, args) == 0, "errno %d", errno);
	posted = side_post_send(&b, 0, &send, 1);
	EXPECT(posted.ret == 0 && side_poll(&b, 0, 1, PROBE_PATIENCE, &sent) == 1, "no completion");
	EXPECT(side_poll(&a, 1, 1, PROBE_PATIENCE, &wc) == 1 && wc.wr_id == 7, "no receive");
	EXPECT(sent.status == (works ? IBV_WC_SUCCESS : IBV_WC_REM_OP_ERR), "sender: '%s'",
	       ibv_wc_status_str(sent.status));
	EXPECT(wc.status == (works ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR), "receiver: '%s'",
	       ibv_wc_status_str(wc.status));
	probe_reconnect(&b, &a, 0);
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
}

/* The owner's own request from the region. */
static void source_row(const char *name, const struct args *args, bool works)
{
	struct state s = state_old();
	struct node_send write = {.opcode = IBV_WR_RDMA_WRITE,
				  .flags = IBV_SEND_SIGNALED,
				  .remote_addr = b.info.base[KEY_FULL] + PROBE_AT,
				  .rkey = b.info.key[KEY_FULL],
				  .num_sge = 1};
	enum ibv_wc_status got, want = works ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR;
	struct ibv_mr *mr;

	row("%s, then a request from the old place", name);
	mr = region(&s);
	EXPECT(call(mr, args) == 0, "errno %d", errno);
	write.sge[0] = (struct ibv_sge){.addr = (uintptr_t)s.addr, .length = 64, .lkey = mr->lkey};
	got = probe_request(&a, &b, 0, &write);
	EXPECT(got == want, "'%s'", ibv_wc_status_str(got));
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
}

static void local_rows(void)
{
	static const struct args moved = {TRANSLATION, PD_NULL, AT_NEW, NEW_LEN, 0};
	static const struct args other = {PD, PD_OTHER, AT_NULL, 0, 0};
	static const struct args no_write = {ACCESS, PD_NULL, AT_NULL, 0, 0};
	static const struct args more = {ACCESS, PD_NULL, AT_NULL, 0,
					 PROBE_ALL | IBV_ACCESS_MW_BIND};

	receive_row("another place", &moved, false);
	receive_row("another domain", &other, false);
	receive_row("no right to write", &no_write, false);
	receive_row("more rights", &more, true);
	source_row("another place", &moved, false);
	source_row("another domain", &other, false);
	source_row("no right to write", &no_write, true);
}

int main(int argc, char **argv)
{
	return rereg_test(argc, argv, local_rows);
}
