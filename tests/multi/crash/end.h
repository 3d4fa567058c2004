/* SPDX-License-Identifier: MIT */
/* An opened device with one region, and the steps of a connection. What has to be possible ends the
 * program if it is not. */
#ifndef TEST_CRASH_END_H
#define TEST_CRASH_END_H

#include <stdint.h>
#include <infiniband/verbs.h>

#define WINDOW	    4u		 /* requests outstanding, of each kind */
#define SLOT	    (128u << 10) /* bytes of a message's buffer */
#define SEND_AT	    0u
#define RECV_AT	    (WINDOW * SLOT)
#define STATIC_AT   (2 * WINDOW * SLOT) /* never written: what the peer reads */
#define TARGET_AT   (STATIC_AT + SLOT)	/* what the peer writes */
#define LANDING_AT  (TARGET_AT + SLOT)	/* where our READs and atomics put their results */
#define FLOW_BYTES  (LANDING_AT + WINDOW * SLOT)
#define BUFFER	    (2 * FLOW_BYTES) /* for two flows */
#define STATIC_SEED 77u
#define TIMEOUT	    12
#define RETRY_MS    140u /* (7 + 1) x 4.096 us x 2^12 */
#define PATIENT	    17	 /* where nobody dies: on the wire, it outlasts a busy machine */

/* What either side of a connection tells the other. */
struct hello {
	union ibv_gid gid;
	uint64_t addr;
	uint32_t rkey, qpn;
};

/* An opened device with one region. */
struct end {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	uint8_t *buffer;
	union ibv_gid gid;
};

void end_open(struct end *e);
void end_close(struct end *e);

/* A reliable connection of that end, all requests signalled, and its way to RTS. */
struct ibv_qp *create_qp(struct end *e, struct ibv_cq *cq);
void to_init(struct ibv_qp *qp);
void to_rtr(struct ibv_qp *qp, const struct hello *peer);
void to_rts(struct ibv_qp *qp, uint8_t timeout);

#endif
