/* SPDX-License-Identifier: MIT */
/* Devices, regions, connections. */
#include "crash/end.h"

#include <errno.h>
#include <sys/mman.h>

#include "lib/to_rts.h"
#include "lib/expect.h"
#include "lib/pattern.h"

void end_open(struct end *e)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	e->ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	if (!e->ctx)
		DIE("no device: errno %d", errno);
	ibv_free_device_list(list);
	e->pd = ibv_alloc_pd(e->ctx);
	e->buffer = mmap(NULL, BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!e->pd || e->buffer == MAP_FAILED || ibv_query_gid(e->ctx, 1, 0, &e->gid))
		DIE("PD, memory or GID");
	pattern_fill(e->buffer + STATIC_AT, SLOT, STATIC_SEED, 0);
	pattern_fill(e->buffer + FLOW_BYTES + STATIC_AT, SLOT, STATIC_SEED, 0);
	e->mr = ibv_reg_mr(e->pd, e->buffer, BUFFER,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	if (!e->mr)
		DIE("ibv_reg_mr: errno %d", errno);
}

void end_close(struct end *e)
{
	EXPECT(ibv_dereg_mr(e->mr) == 0 && ibv_dealloc_pd(e->pd) == 0 &&
		       ibv_close_device(e->ctx) == 0,
	       "closing");
	munmap(e->buffer, BUFFER);
}

struct ibv_qp *create_qp(struct end *e, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = {.max_send_wr = 2 * WINDOW + 1,
			.max_recv_wr = WINDOW,
			.max_send_sge = 1,
			.max_recv_sge = 1},
	};
	struct ibv_qp *qp = ibv_create_qp(e->pd, &attr);

	NEED(qp);
	return qp;
}

static struct ibv_qp_attr attributes(const struct hello *peer)
{
	struct ibv_qp_attr attr = connect_attr(peer->qpn, &peer->gid);

	attr.min_rnr_timer = 5;
	return attr;
}

void to_init(struct ibv_qp *qp)
{
	if (connect_step(qp, attributes(&(struct hello){0}), IBV_QPS_INIT))
		DIE("to INIT");
}

void to_rtr(struct ibv_qp *qp, const struct hello *peer)
{
	NEED(connect_step(qp, attributes(peer), IBV_QPS_RTR) == 0);
}

void to_rts(struct ibv_qp *qp, uint8_t timeout)
{
	struct ibv_qp_attr attr = attributes(&(struct hello){0});

	attr.timeout = timeout;
	NEED(connect_step(qp, attr, IBV_QPS_RTS) == 0);
}
