/* SPDX-License-Identifier: MIT */
/* FLUSH as declared in rdma-core 46 or newer, for tests built with older headers. */
#ifndef TEST_NEWER_VERBS_H
#define TEST_NEWER_VERBS_H

#include <string.h>
#include <infiniband/verbs.h>

#define WR_FLUSH		 14
#define WC_FLUSH		 8
#define QP_EX_WITH_FLUSH	 (1 << 11)
#define ACCESS_FLUSH_GLOBAL	 (1 << 8)
#define ACCESS_FLUSH_PERSISTENT	 (1 << 9)
#define CAP_FLUSH_GLOBAL	 (1ull << 38)
#define CAP_FLUSH_PERSISTENT	 (1ull << 39)
#define ODP_SUPPORT_FLUSH	 (1u << 6)
#define ODP_SUPPORT_ATOMIC_WRITE (1u << 7)
enum { GLOBAL = 1, PERSISTENT = 2 };
enum { RANGE, WHOLE };
typedef void wr_flush(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, size_t len, uint8_t type,
		      uint8_t level);

/* In the structure, the builder lies behind the members that older headers know. */
static inline wr_flush *flush_of(struct ibv_qp_ex *ex)
{
	uintptr_t slot = (uintptr_t)&ex->wr_atomic_write + sizeof(ex->wr_atomic_write);
	wr_flush *f;

	memcpy(&f, (const void *)slot, sizeof(f));
	return f;
}

#endif
