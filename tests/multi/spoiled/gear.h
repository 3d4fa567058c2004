/* SPDX-License-Identifier: MIT */
/*
 * What either process has: queue pairs of several kinds, regions of several kinds between guards,
 * and random traffic over them.
 */
#ifndef SPOILED_GEAR_H
#define SPOILED_GEAR_H

#include <infiniband/verbs_exp.h>

#include "spoiled/chance.h"

enum gear_qp { QP_PLAIN, QP_SHARED, QP_UMR, QP_DATAGRAM, QP_N };
enum gear_key { KEY_PINNED, KEY_ON_DEMAND, KEY_LIST, KEYS };

#define REGION_BYTES 524288u
#define GUARD_BYTES  65536u

/* What the other side has to know. */
struct gear_info {
	union ibv_gid gid;
	uint32_t qpn[QP_N];
	uint32_t key[KEYS];
	uint64_t base[KEYS];
};

struct gear {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq[2]; /* of sends, of receives */
	struct ibv_srq *srq;
	struct ibv_qp *qp[QP_N];
	struct ibv_mr *mr[KEYS];
	struct ibv_ah *ah;
	uint8_t *room; /* guard, region, guard, region, guard */
	struct gear_info info, peer;
	struct chance chance;
	bool broken[QP_N]; /* a request or a receive has failed */
	uint64_t completed, failed;
};

void gear_open(struct gear *g, uint64_t seed);
/* The queue pairs leave whatever state they are in, and are connected with @peer's. Return: errno
 * value of the first failure.
 */
int gear_reset(struct gear *g);
int gear_connect(struct gear *g, const struct gear_info *peer);
/* One random call. */
void gear_step(struct gear *g);
/* Are the bytes of no region as they were? */
bool gear_guards_intact(const struct gear *g);
void gear_close(struct gear *g);

/* The verb that is being called, and since when (0: none): for whoever watches. */
extern _Atomic(const char *) verb_name;
extern _Atomic uint64_t verb_since_ms;
void verb_begin(const char *name);
void verb_end(void);
#define VERB(call)                     \
	({                             \
		verb_begin(#call);     \
		__auto_type r_ = call; \
		verb_end();            \
		r_;                    \
	})

#endif
