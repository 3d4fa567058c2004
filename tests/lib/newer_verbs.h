/* SPDX-License-Identifier: MIT */
/*
 * ATOMIC_WRITE and FLUSH as declared in rdma-core 42 and 46, for tests built with older headers:
 * Ubuntu 22.04 has those of 39.
 */
#ifndef TEST_NEWER_VERBS_H
#define TEST_NEWER_VERBS_H

#include <string.h>
#include <infiniband/verbs.h>

#define WR_ATOMIC_WRITE		 15
#define WC_ATOMIC_WRITE		 9
#define QP_EX_WITH_ATOMIC_WRITE	 (1 << 12)
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
typedef void wr_atomic_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, const void *value);
typedef void wr_flush(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, size_t len, uint8_t type,
		      uint8_t level);

/* The builders lie behind the last member that the oldest header knows. */
static inline void *newer_builder(struct ibv_qp_ex *ex, size_t index)
{
	void *f;

	memcpy(&f, (uint8_t *)(&ex->wr_abort + 1) + index * sizeof(f), sizeof(f));
	return f;
}

static inline wr_atomic_write *atomic_write_of(struct ibv_qp_ex *ex)
{
	return (wr_atomic_write *)newer_builder(ex, 0);
}

static inline wr_flush *flush_of(struct ibv_qp_ex *ex)
{
	return (wr_flush *)newer_builder(ex, 1);
}

#endif
