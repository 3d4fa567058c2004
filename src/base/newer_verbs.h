/* SPDX-License-Identifier: MIT */
/*
 * What <infiniband/verbs.h> declares since rdma-core 39, for programs built with newer headers.
 * verbs/ops.c compares values with such a header, the compiler prototypes. Sources: rdma-core 65;
 * for device_cap_flags_ex, the kernel's enum ib_uverbs_device_cap_flags.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#define AV_DEVICE_FLUSH_GLOBAL (1ull << 38)
#define AV_DEVICE_ATOMIC_WRITE (1ull << 40)

enum {
	AV_WR_ATOMIC_WRITE = 15,
	AV_WC_ATOMIC_WRITE = 9,
	AV_QP_EX_WITH_ATOMIC_WRITE = 1 << 12,
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

/* Builders, and their offsets in struct ibv_qp_ex: behind the last member of rdma-core 39's. */
typedef void av_wr_atomic_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
				const void *atomic_wr);
typedef void av_wr_flush(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, size_t length,
			 uint8_t type, uint8_t level);
#define AV_WR_ATOMIC_WRITE_SLOT (offsetof(struct ibv_qp_ex, wr_abort) + sizeof(void (*)(void)))
#define AV_WR_FLUSH_SLOT	(AV_WR_ATOMIC_WRITE_SLOT + sizeof(void (*)(void)))

/* Of a parent domain: a guest's buffers may be in memory that its host can read. */
enum { AV_PARENT_DOMAIN_MAY_BE_UNPROTECTED = 1 << 2 };

/* Of ibv_reg_mr_ex(). Without its bit in the mask a member does not exist. */
enum {
	AV_REG_MR_IOVA = 1 << 0,
	AV_REG_MR_ADDR = 1 << 1,
	AV_REG_MR_FD = 1 << 2,
	AV_REG_MR_FD_OFFSET = 1 << 3,
	AV_REG_MR_DMAH = 1 << 4,
	AV_REG_MR_BUF = 1 << 5,
};

struct av_mr_init_attr {
	size_t length;
	int access;
	uint64_t comp_mask;
	uint64_t iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	struct ibv_dmah *dmah;
	struct ibv_buf *buf;
};

/* The beginning of DMA handles and completion counters. */
struct av_newer_object {
	struct ibv_context *context;
};

/* --- the functions, by the version node that they came with ---------------------- */

struct ibv_buf; /* opaque */
struct ibv_comp_cntr;
struct ibv_comp_cntr_caps;
struct ibv_comp_cntr_init_attr;
struct ibv_dmah;
struct ibv_dmah_init_attr;
struct ibv_mr_init_attr;
struct ibv_qp_attach_comp_cntr_attr;

/* IBVERBS_1.15 */
struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *context, struct ibv_dmah_init_attr *attr);
int ibv_dealloc_dmah(struct ibv_dmah *dmah);
struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attr);

/* IBVERBS_1.16 */
int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm);
int ibv_query_port_speed(struct ibv_context *context, uint32_t port, uint64_t *speed);

/* IBVERBS_1.17 */
void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);
void ibv_free_buf(struct ibv_buf *buf);
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
			      int access);

/* IBVERBS_1.18 */
int _ibv_query_comp_cntr_caps(struct ibv_context *context, struct ibv_comp_cntr_caps *caps,
			      size_t size);
struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *context,
					   struct ibv_comp_cntr_init_attr *attr);
int ibv_destroy_comp_cntr(struct ibv_comp_cntr *counter);
int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf);
int ibv_inc_comp_cntr(struct ibv_comp_cntr *counter, uint64_t amount);
int ibv_inc_err_comp_cntr(struct ibv_comp_cntr *counter, uint64_t amount);
int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *counter,
			    struct ibv_qp_attach_comp_cntr_attr *attr);
int ibv_read_comp_cntr(struct ibv_comp_cntr *counter, uint64_t *value);
int ibv_read_err_comp_cntr(struct ibv_comp_cntr *counter, uint64_t *value);
int ibv_set_comp_cntr(struct ibv_comp_cntr *counter, uint64_t value);
int ibv_set_err_comp_cntr(struct ibv_comp_cntr *counter, uint64_t value);
