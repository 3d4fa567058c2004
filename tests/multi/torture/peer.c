/* SPDX-License-Identifier: MIT */
/* The process that accesses, and how this one asks it to. */
#include "torture/peer.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "lib/spawn.h"
#include "torture/random_run.h"

#define WORD   "--peer"
#define BUFFER 0x100000u /* of the other process, an offset in its arena */

static void obey_connect(struct node *node, const struct order *o, struct answer *r)
{
	struct node_qp_spec spec = spec_default();
	struct ibv_wc wc;

	if (!node->qp[o->qp] && node_create_qp(node, o->qp, &spec))
		DIE("ibv_create_qp");
	if (node_set_state(node, o->qp, IBV_QPS_RESET) || node_connect(node, o->qp, &o->link))
		DIE("connecting");
	while (node_async(node, 0).any || node_poll(node, 0, 1, 0, &wc) > 0)
		;
	r->qpn = node->qp[o->qp]->qp_num;
	r->gid = node->info.gid;
	r->base = (uintptr_t)node->arena + BUFFER;
	r->key = node->info.key[KEY_FULL];
}

static void obey_access(struct node *node, const struct order *o, struct answer *r)
{
	struct node_send s = {
		.opcode = o->opcode,
		.flags = IBV_SEND_SIGNALED,
		.imm = o->kind == SEND_INV ? o->key : 0,
		.remote_addr = o->addr,
		.rkey = o->key,
		.compare_add = o->compare_add,
		.swap = o->swap,
		.num_sge = o->bytes > 0,
		.sge = {{(uintptr_t)node->arena + BUFFER, o->bytes, node->info.lkey[KEY_FULL]}},
	};
	struct ibv_wc wc;

	memcpy(node->arena + BUFFER, o->data, o->bytes);
	if (node_post_send(node, o->qp, &s, 1).ret || node_poll(node, 0, 1, 20000, &wc) != 1)
		DIE("no completion");
	r->status = wc.status;
	memcpy(r->data, node->arena + BUFFER, o->bytes);
}

static void obey_all(int sock)
{
	static struct node node;
	static struct order o;
	static struct answer r;

	node_open(&node, NULL);
	while (spawn_receive_any(sock, &o, sizeof(o)) > 0 && o.kind != END) {
		if (o.kind == CONNECT)
			obey_connect(&node, &o, &r);
		else if (o.kind == DUMP)
			memcpy(r.data, node.arena + BUFFER, o.bytes);
		else if (o.kind == FILL)
			memcpy(node.arena + BUFFER, o.data, o.bytes);
		else
			obey_access(&node, &o, &r);
		spawn_send(sock, &r, offsetof(struct answer, data) + o.bytes);
	}
	node_close(&node);
	exit(failures() != 0);
}

struct side a;
struct node *n;
struct order order;
struct answer answer;

static struct spawned peer;

void ask(enum order_kind kind)
{
	order.kind = kind;
	spawn_send(peer.sock, &order, offsetof(struct order, data) + order.bytes);
	MUST(spawn_receive_any(peer.sock, &answer, sizeof(answer)) > 0,
	     "the other process has ended");
}

void reconnect(int qp)
{
	struct node_link link = link_default();
	struct ibv_wc wc;

	NEED(node_set_state(n, qp, IBV_QPS_RESET) == 0);
	while (node_async(n, 0).any || node_poll(n, 0, 1, 0, &wc) > 0 ||
	       node_poll(n, 1, 1, 0, &wc) > 0)
		;
	order.qp = qp;
	order.bytes = 0;
	order.link = link;
	order.link.dest_qpn = n->qp[qp]->qp_num;
	order.link.dgid = n->info.gid;
	ask(CONNECT);
	link.dest_qpn = answer.qpn;
	link.dgid = answer.gid;
	if (node_connect(n, qp, &link))
		DIE("connecting");
}

/* A completion of this process' own request. */
enum ibv_wc_status own_completion(int qp)
{
	struct ibv_wc wc;

	MUST(node_poll(n, 0, 1, 20000, &wc) == 1, "no completion");
	if (wc.status)
		reconnect(qp);
	return wc.status;
}

void peer_main(int argc, char **argv)
{
	int sock = spawn_role(argc, argv, WORD);

	if (sock >= 0)
		obey_all(sock);
}

void peer_start(void)
{
	struct node_qp_spec spec = spec_default();

	side_open(&a, NULL);
	n = a.node;
	spawn_self(&peer, WORD);
	for (int qp = 0; qp < QPS; qp++) {
		if (node_create_qp(n, qp, &spec))
			DIE("ibv_create_qp");
		reconnect(qp);
	}
}

void peer_end(void)
{
	order.bytes = 0;
	order.kind = END;
	spawn_send(peer.sock, &order, offsetof(struct order, data));
	spawn_wait(&peer);
	side_stop(&a);
}
