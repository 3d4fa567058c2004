/* SPDX-License-Identifier: MIT */
/* Creates, connects and destroys the objects of a hammering process. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "lib/to_rts.h"
#include "lib/hammer_state.h"
#include "lib/node.h"
#include "lib/pattern.h"

#define FILLER_SEED 0x68616d6d6572u

const struct hammer_kind hammer_kinds[HAMMER_KINDS] = {
	{CQ_LOCKED, CQ_LOCKED, NO_SRQ},
	{CQ_LOCKED, CQ_LOCKED, 0},
	{CQ_FREE, CQ_EVENTS, 0},
	{CQ_EVENTS, CQ_FREE, 1},
};

static void make_memory(void)
{
	size_t places = (size_t)LINKS_MAX * HAMMER_THREADS_MAX * WINDOW_SIZE * PLACE_BYTES;

	hammer.memory_bytes = 2 * places + (1 + hammer.buffer_count) * BUFFER_BYTES;
	hammer.memory = mmap(NULL, hammer.memory_bytes, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	HAMMER_NEED(hammer.memory != MAP_FAILED);
	hammer.heads = hammer.memory;
	hammer.targets = hammer.heads + places;
	hammer.filler = hammer.targets + places;
	hammer.buffers = hammer.filler + BUFFER_BYTES;
	pattern_fill(hammer.filler, BUFFER_BYTES, FILLER_SEED, 0);
	hammer.mr = ibv_reg_mr(hammer.pd, hammer.memory, hammer.memory_bytes,
			       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	HAMMER_NEED(hammer.mr);
}

static void make_queues(void)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = SRQ_DEPTH, .max_sge = 1}};
	int entries = (int)(hammer.links * SEND_DEPTH + hammer.buffer_count);

	hammer.channel = ibv_create_comp_channel(hammer.ctx);
	HAMMER_NEED(hammer.channel);
	HAMMER_NEED(!fcntl(hammer.channel->fd, F_SETFL, O_NONBLOCK));
	for (enum cq_kind k = 0; k < CQ_N; k++) {
		hammer.cq[k] = ibv_create_cq(hammer.ctx, entries, NULL,
					     k == CQ_EVENTS ? hammer.channel : NULL, 0);
		HAMMER_NEED(hammer.cq[k]);
	}
	HAMMER_NEED(!ibv_req_notify_cq(hammer.cq[CQ_EVENTS], 0));
	for (uint32_t i = 0; i < SRQS; i++) {
		hammer.srq[i] = ibv_create_srq(hammer.pd, &init);
		HAMMER_NEED(hammer.srq[i]);
	}
}

static void make_link(struct link *l, uint32_t peer, uint32_t kind)
{
	struct ibv_qp_init_attr init = {
		.send_cq = hammer.cq[hammer_kinds[kind].send_cq],
		.recv_cq = hammer.cq[hammer_kinds[kind].recv_cq],
		.srq = hammer_kinds[kind].srq == NO_SRQ ? NULL : hammer.srq[hammer_kinds[kind].srq],
		.cap = {.max_send_wr = SEND_DEPTH,
			.max_recv_wr = RQ_DEPTH,
			.max_send_sge = 2,
			.max_recv_sge = 1,
			.max_inline_data = INLINE_BYTES},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};

	l->peer = peer;
	l->kind = kind;
	l->qp = ibv_create_qp(hammer.pd, &init);
	HAMMER_NEED(l->qp);
	for (uint32_t t = 0; t < HAMMER_THREADS_MAX; t++) {
		window_init(&l->stream[t].sent);
		window_init(&l->stream[t].received);
	}
}

static void make_buffers(void)
{
	uint32_t n = 0;

	hammer.buffer = calloc(hammer.buffer_count, sizeof(*hammer.buffer));
	HAMMER_NEED(hammer.buffer);
	for (uint32_t i = 0; i < hammer.links; i++)
		for (uint32_t k = 0;
		     k < RQ_DEPTH && hammer_kinds[hammer.link[i].kind].srq == NO_SRQ; k++)
			hammer.buffer[n++].link = &hammer.link[i];
	for (uint32_t i = 0; i < SRQS * SRQ_DEPTH; i++)
		hammer.buffer[n++].srq = hammer.srq[i % SRQS];
	HAMMER_NEED(n == hammer.buffer_count);
}

void hammer_open(const struct hammer_plan *plan, struct hammer_address *own)
{
	hammer.plan = *plan;
	hammer.senders = plan->threads - (plan->threads + 3) / 4;
	hammer.links = plan->processes * HAMMER_KINDS;
	hammer.buffer_count = SRQS * SRQ_DEPTH;
	for (uint32_t k = 0; k < HAMMER_KINDS; k++)
		hammer.buffer_count +=
			hammer_kinds[k].srq == NO_SRQ ? plan->processes * RQ_DEPTH : 0;
	pthread_mutex_init(&hammer.lock, NULL);
	hammer.table = mmap(NULL, sizeof(*hammer.table), PROT_READ | PROT_WRITE, MAP_SHARED,
			    plan->table_fd, 0);
	HAMMER_NEED(hammer.table != MAP_FAILED);
	hammer.ctx = node_open_device();
	hammer.pd = ibv_alloc_pd(hammer.ctx);
	HAMMER_NEED(hammer.pd);
	make_queues();
	make_memory();
	for (uint32_t p = 0; p < plan->processes; p++)
		for (uint32_t k = 0; k < HAMMER_KINDS; k++) {
			make_link(hammer_link_to(p, k), p, k);
			own->qpn[p][k] = hammer_link_to(p, k)->qp->qp_num;
		}
	make_buffers();
	HAMMER_NEED(!ibv_query_gid(hammer.ctx, 1, 0, &own->gid));
	own->targets = (uintptr_t)hammer.targets;
	own->rkey = hammer.mr->rkey;
}

static void connect_link(struct link *l, const struct hammer_address *to)
{
	struct ibv_qp_attr attr = connect_attr(to->qpn[hammer.plan.index][l->kind], &to->gid);

	attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	attr.min_rnr_timer = 1; /* 10 us */
	attr.timeout = 18;
	HAMMER_NEED(!connect_qp(l->qp, attr));
	l->targets = to->targets;
	l->rkey = to->rkey;
}

void hammer_post_receive(uint32_t number)
{
	struct buffer *b = &hammer.buffer[number];
	struct ibv_sge sge = {
		.addr = (uintptr_t)(hammer.buffers + (size_t)number * BUFFER_BYTES),
		.length = BUFFER_BYTES,
		.lkey = hammer.mr->lkey,
	};
	struct ibv_recv_wr wr = {.wr_id = number, .sg_list = &sge, .num_sge = 1}, *bad;

	atomic_store(&b->posted, true);
	HAMMER_NEED(!(b->link ? ibv_post_recv(b->link->qp, &wr, &bad)
			      : ibv_post_srq_recv(b->srq, &wr, &bad)));
}

void hammer_connect(const struct hammer_address *all)
{
	for (uint32_t i = 0; i < hammer.links; i++)
		connect_link(&hammer.link[i], &all[hammer.link[i].peer]);
	for (uint32_t i = 0; i < hammer.buffer_count; i++)
		hammer_post_receive(i);
}

void hammer_destroy(void)
{
	for (uint32_t i = 0; i < hammer.links; i++)
		HAMMER_NEED(!ibv_destroy_qp(hammer.link[i].qp));
	for (uint32_t i = 0; i < SRQS; i++)
		HAMMER_NEED(!ibv_destroy_srq(hammer.srq[i]));
	for (enum cq_kind k = 0; k < CQ_N; k++)
		HAMMER_NEED(!ibv_destroy_cq(hammer.cq[k]));
	HAMMER_NEED(!ibv_destroy_comp_channel(hammer.channel));
	HAMMER_NEED(!ibv_dereg_mr(hammer.mr) && !ibv_dealloc_pd(hammer.pd) &&
		    !ibv_close_device(hammer.ctx));
	munmap(hammer.memory, hammer.memory_bytes);
	munmap(hammer.table, sizeof(*hammer.table));
	free(hammer.buffer);
}
