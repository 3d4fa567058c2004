/* SPDX-License-Identifier: MIT */
#include "lib/flood.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "lib/expect.h"
#include "lib/newer_verbs.h"

#define WORD   "--flood"
#define BUFFER 0x100000u /* offset in its arena */

enum command { CONNECT, GO, STOP, END };

struct order {
	enum command command;
	struct node_link link;
	struct flood_work work;
};

struct answer {
	union ibv_gid gid;
	uint32_t qpn;
	struct flood_report report;
};

/* --- in the other process -------------------------------------------------------- */

static struct node node;

static void connect_node(const struct order *o, struct answer *a)
{
	struct node_qp_spec spec = spec_default();

	if (!node.qp[0] && node_create_qp(&node, 0, &spec))
		DIE("ibv_create_qp");
	if (node_set_state(&node, 0, IBV_QPS_RESET) || node_connect(&node, 0, &o->link))
		DIE("connecting");
	a->qpn = node.qp[0]->qp_num;
}

static uint64_t torn_packets(const struct flood_work *w)
{
	const uint64_t *word = (const uint64_t *)(node.arena + BUFFER);
	uint64_t torn = 0;

	for (uint32_t at = 0; at < w->bytes / 8; at += FLOOD_PACKET / 8) {
		bool equal = true;

		for (uint32_t i = at; i < at + FLOOD_PACKET / 8 && i < w->bytes / 8; i++)
			equal &= word[i] == word[at];
		torn += !equal;
	}
	return torn;
}

static void fill_words(uint32_t bytes, uint64_t value)
{
	uint64_t *word = (uint64_t *)(node.arena + BUFFER);

	for (uint32_t i = 0; i < bytes / 8; i++)
		word[i] = value;
}

static enum ibv_wc_status one_request(const struct flood_work *w, uint64_t number)
{
	struct node_send s = {
		.opcode = w->opcode,
		.flags = IBV_SEND_SIGNALED,
		.remote_addr = w->remote_addr,
		.rkey = w->rkey,
		.compare_add = 1,
		.num_sge = 1,
		.sge = {{.addr = (uintptr_t)node.arena + BUFFER,
			 .length = w->bytes,
			 .lkey = node.info.lkey[KEY_FULL]}},
	};
	struct ibv_wc wc;

	if (w->opcode == IBV_WR_RDMA_WRITE || w->opcode == WR_ATOMIC_WRITE)
		fill_words(w->bytes, number);
	if (node_post_send(&node, 0, &s, 1).ret || node_poll(&node, 0, 1, 20000, &wc) != 1)
		DIE("request %lu has no completion", number);
	return wc.status;
}

/*
 * Sends the report when a request fails or upon an order to stop. STARTED says that the first
 * request is done.
 */
static void work(int sock, const struct flood_work *w)
{
	struct answer started = {.report = {.done = 1}}, a = {.report = {.done = 0}};
	struct order stop;
	static uint64_t number;

	do {
		a.report.status = one_request(w, ++number);
		if (a.report.status == IBV_WC_SUCCESS && a.report.done++ == 0)
			spawn_send(sock, &started, sizeof(started));
		if (a.report.status == IBV_WC_SUCCESS && w->opcode == IBV_WR_RDMA_READ)
			a.report.torn += torn_packets(w);
	} while (a.report.status == IBV_WC_SUCCESS && !spawn_pending(sock));
	if (a.report.done == 0) /* wakes the caller that waits for the start */
		spawn_send(sock, &started, sizeof(started));
	spawn_send(sock, &a, sizeof(a));
	spawn_receive(sock, &stop, sizeof(stop)); /* always arrives */
}

void flood_agent_main(int argc, char **argv)
{
	int sock = spawn_role(argc, argv, WORD);
	struct answer a = {.qpn = 0};
	struct order o;

	if (sock < 0)
		return;
	node_open(&node, NULL);
	a.gid = node.info.gid;
	while (spawn_receive_any(sock, &o, sizeof(o)) == sizeof(o) && o.command != END) {
		if (o.command == GO) {
			work(sock, &o.work);
			continue;
		}
		connect_node(&o, &a);
		spawn_send(sock, &a, sizeof(a));
	}
	node_close(&node);
	exit(failures() != 0);
}

/* --- in this process -------------------------------------------------------------- */

static void tell(struct flood *f, const struct order *o)
{
	spawn_send(f->process.sock, o, sizeof(*o));
}

static struct answer answer(struct flood *f)
{
	struct answer a;

	spawn_receive(f->process.sock, &a, sizeof(a));
	return a;
}

static void connect_both(struct flood *f)
{
	struct order o = {.command = CONNECT, .link = link_default()};
	struct answer a;

	o.link.dest_qpn = side_qpn(f->target, f->qp);
	o.link.dgid = f->target->info.gid;
	o.link.timeout = 16; /* 268 ms */
	tell(f, &o);
	a = answer(f);
	f->link = link_default();
	f->link.dest_qpn = a.qpn;
	f->link.dgid = a.gid;
	if (side_connect(f->target, f->qp, &f->link))
		DIE("connecting");
}

void flood_start(struct flood *f, struct side *target, int qp)
{
	struct node_qp_spec spec = spec_default();

	*f = (struct flood){.target = target, .qp = qp};
	spawn_self(&f->process, WORD);
	if (side_create_qp(target, qp, &spec, NULL))
		DIE("ibv_create_qp");
	connect_both(f);
}

void flood_reconnect(struct flood *f)
{
	while (side_async(f->target, 0).any)
		;
	if (side_set_state(f->target, f->qp, IBV_QPS_RESET))
		DIE("to RESET");
	connect_both(f);
}

void flood_go(struct flood *f, const struct flood_work *work)
{
	struct order o = {.command = GO, .work = *work};

	tell(f, &o);
	(void)answer(f);
	f->working = true;
}

bool flood_failed(struct flood *f)
{
	return spawn_pending(f->process.sock);
}

struct flood_report flood_stop(struct flood *f)
{
	struct order o = {.command = STOP};

	tell(f, &o);
	f->working = false;
	return answer(f).report;
}

struct flood_report flood_until_failure(struct flood *f)
{
	struct flood_report report = answer(f).report;
	struct order o = {.command = STOP};

	tell(f, &o);
	f->working = false;
	return report;
}

void flood_end(struct flood *f)
{
	struct order o = {.command = END};

	if (f->working)
		(void)flood_stop(f);
	tell(f, &o);
	spawn_wait(&f->process);
	while (side_async(f->target, 0).any)
		;
	EXPECT(side_destroy_qp(f->target, f->qp) == 0, "ibv_destroy_qp");
}
