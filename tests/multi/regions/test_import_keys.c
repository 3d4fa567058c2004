/* SPDX-License-Identifier: MIT */
/*
 * The keys of an imported region: both are those of the region, and each is good for what it is
 * there. Once the import is deregistered, neither gives access.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "lib/expect.h"
#include "lib/node.h"
#include "lib/sandbox.h"
#include "lib/to_rts.h"
#include "lib/wait.h"

#define BYTES	 4096u
#define HALF	 (BYTES / 2)
#define PATIENCE 20000u /* ms */
#define RIGHTS	 (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static struct ibv_context *owner, *into;
static struct ibv_pd *own, *domain; /* @domain is @own, imported */
static struct ibv_cq *cq;
static struct ibv_qp *qp; /* of the importing context, connected to itself */
static uint8_t bytes[BYTES];

static void open_all(void)
{
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .cap = {1, 1, 1, 1, 0}};
	union ibv_gid gid;

	owner = node_open_device();
	own = ibv_alloc_pd(owner);
	into = ibv_import_device(fcntl(owner->cmd_fd, F_DUPFD_CLOEXEC, 0));
	NEED(own && into);
	domain = ibv_import_pd(into, own->handle);
	cq = ibv_create_cq(into, 4, NULL, NULL, 0);
	NEED(domain && cq && ibv_query_gid(into, 1, 0, &gid) == 0);
	init.send_cq = init.recv_cq = cq;
	qp = ibv_create_qp(domain, &init);
	NEED(qp);
	NEED(connect_qp(qp, connect_attr(qp->qp_num, &gid)) == 0);
}

static void close_all(void)
{
	EXPECT(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0, "queues");
	ibv_unimport_pd(domain);
	EXPECT(ibv_close_device(into) == 0, "ibv_close_device");
	EXPECT(ibv_dealloc_pd(own) == 0, "ibv_dealloc_pd");
	EXPECT(ibv_close_device(owner) == 0, "ibv_close_device");
}

/* RDMA WRITE of the first half of the bytes to the second. */
static enum ibv_wc_status write_half(uint32_t lkey, uint32_t rkey)
{
	struct ibv_sge sge = {(uintptr_t)bytes, HALF, lkey};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {(uintptr_t)bytes + HALF, rkey},
	};
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	NEED(ibv_post_send(qp, &wr, &bad) == 0);
	NEED(WAIT_UNTIL(ibv_poll_cq(cq, 1, &wc) == 1, PATIENCE));
	return wc.status;
}

static void access_row(void)
{
	struct ibv_mr *mr = ibv_reg_mr(own, bytes, BYTES, RIGHTS), *imported;
	uint32_t rkey;

	row("the keys of a region that is imported");
	NEED(mr);
	imported = ibv_import_mr(domain, mr->handle);
	NEED(imported);
	EXPECT(imported->lkey == mr->lkey, "lkey 0x%x, not 0x%x", imported->lkey, mr->lkey);
	EXPECT(imported->rkey == mr->rkey, "rkey 0x%x, not 0x%x", imported->rkey, mr->rkey);
	memset(bytes, 0x5a, HALF);
	EXPECT(write_half(imported->lkey, imported->rkey) == IBV_WC_SUCCESS, "WRITE");
	EXPECT(bytes[BYTES - 1] == 0x5a, "the bytes have not come");

	row("... and deregistered where it was imported");
	rkey = imported->rkey;
	EXPECT(ibv_dereg_mr(imported) == 0, "ibv_dereg_mr");
	imported = ibv_reg_mr(domain, bytes, BYTES, RIGHTS);
	NEED(imported);
	memset(bytes, 0xa5, HALF);
	/* In packets, the queue pair's responder fails first, which flushes the request. */
	EXPECT(write_half(imported->lkey, rkey) != IBV_WC_SUCCESS, "WRITE");
	EXPECT(bytes[BYTES - 1] == 0x5a, "bytes have come");
	EXPECT(ibv_dereg_mr(imported) == 0, "ibv_dereg_mr");
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
}

int main(void)
{
	sandbox_begin(60);
	open_all();
	access_row();
	close_all();
	return sandbox_end();
}
