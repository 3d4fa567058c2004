/* SPDX-License-Identifier: MIT */
/*
 * What headers newer than rdma-core 44's have, by value: programs that were built with them are served
 * whichever header this library was built with. front/abi_check.c compares with the header where that has
 * them.
 *
 * Sources: <infiniband/verbs.h> of rdma-core 65; the kernel's enum ib_uverbs_device_cap_flags for the bits of
 * device_cap_flags_ex, which no header of libibverbs names.
 */
#ifndef AV_BASE_NEWER_VERBS_H
#define AV_BASE_NEWER_VERBS_H

#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#define AV_DEVICE_FLUSH_GLOBAL (1ull << 38)
#define AV_DEVICE_ATOMIC_WRITE (1ull << 40)

enum {
	AV_WR_FLUSH = 14,
	AV_WC_FLUSH = 8,
	AV_QP_EX_WITH_FLUSH = 1 << 11,
	AV_ACCESS_FLUSH_GLOBAL = 1 << 8,
	AV_ACCESS_FLUSH_PERSISTENT = 1 << 9,
	AV_ODP_SUPPORT_FLUSH = 1 << 6,
	AV_ODP_SUPPORT_ATOMIC_WRITE = 1 << 7,
};

/* Placement types, a mask, and selectivity levels of ibv_wr_flush(). */
enum { AV_FLUSH_GLOBAL = 1, AV_FLUSH_PERSISTENT = 2 };
enum { AV_FLUSH_RANGE, AV_FLUSH_MR };

/* The builder, and its place in struct ibv_qp_ex: behind what rdma-core 44 has. */
typedef void av_wr_flush(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, size_t length,
			 uint8_t type, uint8_t level);
#define AV_WR_FLUSH_SLOT (offsetof(struct ibv_qp_ex, wr_atomic_write) + sizeof(void (*)(void)))

#endif
