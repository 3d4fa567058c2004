/* SPDX-License-Identifier: MIT */
#include "lib/request.h"

#include <arpa/inet.h>

struct node_send request_make(const struct side *from, const struct side *to,
			      const struct request *r)
{
	struct node_send s = {
		.wr_id = 1,
		.opcode = r->op,
		.flags = r->flags,
		.imm = htonl(REQUEST_IMM),
		.remote_addr = to->info.base[r->rkey] + r->remote_at,
		.rkey = to->info.key[r->rkey],
		.compare_add = REQUEST_GIVEN,
		.swap = REQUEST_SWAPPED,
		.num_sge = r->elements < 0 ? 0
			   : r->elements   ? r->elements
					   : 1,
	};

	for (int i = 0; i < s.num_sge; i++)
		s.sge[i] = side_sge(from, r->lkey, r->local_at, r->bytes);
	return s;
}

bool request_is_atomic(enum ibv_wr_opcode op)
{
	return op == CAS || op == FAA;
}

bool request_receives(enum ibv_wr_opcode op)
{
	return op == SEND || op == SENDI || op == WRITI || op == IBV_WR_SEND_WITH_INV;
}

void request_connect(struct side *from, struct side *to, const struct request_limits *limits)
{
	struct node_link la = link_default(), lb = link_default();
	struct node_qp_spec spec = spec_default();

	la.rnr_retry = 1;
	la.rd_atomic = limits->no_rd_atomic ? 0 : 4;
	lb.dest_rd_atomic = limits->no_dest_rd_atomic ? 0 : 4;
	lb.access &= ~limits->denied;
	spec.type = limits->type;
	pair_create(from, 0, to, 0, &spec);
	pair_connect(from, 0, &la, to, 0, &lb);
}
