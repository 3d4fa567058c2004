/* SPDX-License-Identifier: MIT */
/* Creating and changing objects through the experimental verbs: one row per rule of what is
 * accepted. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <infiniband/verbs_exp.h>

#include "lib/exp_objects.h"
#include "lib/expect.h"
#include "lib/node.h"
#include "lib/sandbox.h"

#define BYTES	65536ul
#define GARBAGE ((void *)0x5a5a5a5a5a5aul)
#define ALL	(IBV_EXP_ACCESS_LOCAL_WRITE | REMOTE)
#define REMOTE \
	(IBV_EXP_ACCESS_REMOTE_WRITE | IBV_EXP_ACCESS_REMOTE_READ | IBV_EXP_ACCESS_REMOTE_ATOMIC)
#define ODP	 (ALL | IBV_EXP_ACCESS_ON_DEMAND)
#define IMPLICIT IBV_EXP_IMPLICIT_MR_SIZE

static struct ibv_context *ctx;
static struct ibv_pd *pd, *other_pd;
static struct ibv_cq *cq;
static struct ibv_exp_res_domain *domain;
static struct ibv_exp_dm *dm;
static uint8_t *memory, *hole;

/* --- regions --------------------------------------------------------------------- */

static uint8_t *nowhere;
static struct ibv_exp_dm *wild_dm = GARBAGE;

static const struct {
	const char *name;
	uint8_t *const *base;
	size_t length, at;
	uint64_t access;
	uint32_t comp_mask, create_flags;
	struct ibv_exp_dm *const *dm; /* none if NULL */
	int want;
} regions[] = {
	{"plain, garbage behind the mask", &memory, BYTES, .access = ALL,
	 .create_flags = UINT32_MAX, .dm = &wild_dm, .want = 0},
	{"no rights", &memory, BYTES, .want = 0},
	{"relaxed ordering", &memory, BYTES, .access = ALL | IBV_EXP_ACCESS_RELAXED_ORDERING,
	 .want = 0},
	{"create flags 0", &memory, BYTES, .access = ALL, .comp_mask = 1, .dm = &wild_dm,
	 .want = 0},
	{"unknown create flag", &memory, BYTES, .access = ALL, .comp_mask = 1, .create_flags = 2,
	 .want = EINVAL},
	{"unknown mask", &memory, BYTES, .access = ALL, .comp_mask = 4, .want = EINVAL},
	{"access RESERVED", &memory, BYTES, .access = IBV_EXP_ACCESS_RESERVED, .want = EINVAL},
	{"access bit 63", &memory, BYTES, .access = 1ull << 63, .want = EINVAL},
	{"access bit 5", &memory, BYTES, .access = 1 << 5, .want = EINVAL},
	{"access bit 36", &memory, BYTES, .access = 1ull << 36, .want = EINVAL},
	{"remote write alone", &memory, BYTES, .access = IBV_EXP_ACCESS_REMOTE_WRITE,
	 .want = EINVAL},
	{"remote atomic alone", &memory, BYTES, .access = IBV_EXP_ACCESS_REMOTE_ATOMIC,
	 .want = EINVAL},
	{"zero based", &memory, BYTES, .access = ALL | IBV_EXP_ACCESS_MW_ZERO_BASED,
	 .want = EINVAL},
	{"tunneled atomic", &memory, BYTES, .access = ALL | IBV_EXP_ACCESS_TUNNELED_ATOMIC,
	 .want = EINVAL},
	{"shared, of the program's own", &memory, BYTES,
	 .access = ALL | IBV_EXP_ACCESS_SHARED_MR_USER_READ, .want = EINVAL},
	{"allocated, access RESERVED", &nowhere, BYTES,
	 .access = ALL | IBV_EXP_ACCESS_ALLOCATE_MR | IBV_EXP_ACCESS_RESERVED, .want = EINVAL},
	{"physical", &nowhere, 0,
	 .access = IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_PHYSICAL_ADDR, .want = EINVAL},
	{"unmapped", &hole, BYTES, .access = ALL, .want = EFAULT},
	{"allocated, with an address", &memory, BYTES, .access = ALL | IBV_EXP_ACCESS_ALLOCATE_MR,
	 .want = EINVAL},
	{"allocated on demand", &nowhere, BYTES, .access = ODP | IBV_EXP_ACCESS_ALLOCATE_MR,
	 .want = EINVAL},
	{"allocated twice over", &nowhere, BYTES, .access = ALL | IBV_EXP_ACCESS_ALLOCATE_MR,
	 .comp_mask = 1, .create_flags = 1, .want = EINVAL},
	{"on demand", &memory, BYTES, .access = ODP, .create_flags = UINT32_MAX, .dm = &wild_dm,
	 .want = 0},
	{"on demand, unmapped", &hole, BYTES, .access = ODP, .want = 0},
	{"on demand, length 0", &memory, 0, .access = ODP, .want = EINVAL},
	{"implicit", &nowhere, IMPLICIT, .access = ODP, .want = 0},
	{"implicit, local", &nowhere, IMPLICIT, .access = IBV_EXP_ACCESS_ON_DEMAND, .want = 0},
	{"implicit, not from 0", &memory, IMPLICIT, .access = ODP, .want = EINVAL},
	{"relaxed", &memory, BYTES, .access = ODP | IBV_EXP_ACCESS_RELAXED, .want = 0},
	{"relaxed, 128 MiB", &hole, 128ul << 20, .access = ODP | IBV_EXP_ACCESS_RELAXED, .want = 0},
	{"relaxed, more", &hole, (128ul << 20) + 1, .access = ODP | IBV_EXP_ACCESS_RELAXED,
	 .want = EINVAL},
	{"relaxed, not on demand", &memory, BYTES, .access = ALL | IBV_EXP_ACCESS_RELAXED,
	 .want = EINVAL},
	{"device memory", &nowhere, 4096, .access = ALL, .comp_mask = 2, .dm = &dm, .want = 0},
	{"device memory, the end", &nowhere, 96, .at = 4000, .access = ALL, .comp_mask = 3,
	 .dm = &dm, .want = 0},
	{"device memory, too far", &nowhere, 97, .at = 4000, .access = ALL, .comp_mask = 2,
	 .dm = &dm, .want = EFAULT},
	{"device memory, none", &nowhere, 4096, .access = ALL, .comp_mask = 2, .want = EINVAL},
	{"device memory on demand", &nowhere, 4096, .access = ODP, .comp_mask = 2, .dm = &dm,
	 .want = EINVAL},
	{"device memory with MW_BIND", &nowhere, 4096, .access = ALL | IBV_EXP_ACCESS_MW_BIND,
	 .comp_mask = 2, .dm = &dm, .want = EINVAL},
	{"device memory, access RESERVED", &nowhere, 4096, .access = ALL | IBV_EXP_ACCESS_RESERVED,
	 .comp_mask = 2, .dm = &dm, .want = EINVAL},
	{"device memory, remote write alone", &nowhere, 4096, .access = IBV_EXP_ACCESS_REMOTE_WRITE,
	 .comp_mask = 2, .dm = &dm, .want = EINVAL},
};

static void reg_rows(void)
{
	for (size_t i = 0; i < COUNT_OF(regions); i++) {
		struct ibv_exp_reg_mr_in in = {
			.pd = pd,
			.addr = (void *)((uintptr_t)*regions[i].base + regions[i].at),
			.length = regions[i].length,
			.exp_access = regions[i].access,
			.comp_mask = regions[i].comp_mask,
			.create_flags = regions[i].create_flags,
			.dm = regions[i].dm ? *regions[i].dm : NULL};
		struct ibv_mr *mr;

		row("ibv_exp_reg_mr: %s", regions[i].name);
		errno = 0;
		mr = ibv_exp_reg_mr(&in);
		EXPECT_MADE(mr, regions[i].want);
		EXPECT(!mr || (mr->length == in.length && mr->pd == pd && mr->lkey), "fields");
		EXPECT(!mr || ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	}
}

static struct ibv_mr *need_mr(void *addr, size_t length, uint64_t access)
{
	return exp_need_mr((struct ibv_exp_reg_mr_in){
		.pd = pd, .addr = addr, .length = length, .exp_access = access});
}

static void rereg_rows(void)
{
	enum {
		T = IBV_EXP_REREG_MR_CHANGE_TRANSLATION,
		P = IBV_EXP_REREG_MR_CHANGE_PD,
		A = IBV_EXP_REREG_MR_CHANGE_ACCESS,
		K = IBV_EXP_REREG_MR_KEEP_VALID
	};
	const uint64_t allocate = ALL | IBV_EXP_ACCESS_ALLOCATE_MR;
	const struct {
		const char *name;
		int flags;
		void *addr;
		size_t length;
		uint64_t access;
		uint32_t comp_mask;
		int want;
	} rows[] = {
		{"translation, the rest garbage", T, memory + 4096, 4096, ~allocate, 0, 0},
		{"domain, the rest garbage", P, GARBAGE, 0, 0, 0, 0},
		{"rights, the rest garbage", A, GARBAGE, 0, ALL, 0, 0},
		{"everything", T | P | A, memory, 8192, ALL, 0, 0},
		{"unknown flag", 16, memory, 4096, 0, 0, EINVAL},
		{"unknown mask", P, memory, 4096, 0, 1, EINVAL},
		{"length 0", T, memory, 0, 0, 0, EINVAL},
		{"address NULL", T, NULL, 4096, 0, 0, EINVAL},
		{"allocated without translation", A, NULL, 4096, allocate, 0, EINVAL},
		{"allocated with an address", T | A, memory, 4096, allocate, 0, EINVAL},
		{"allocated, length 0", T | A, NULL, 0, allocate, 0, EINVAL},
		{"kept valid", T | K, memory, 4096, 0, 0, ENOTSUP},
		{"impossible rights", A, memory, 4096, IBV_EXP_ACCESS_REMOTE_WRITE, 0, EINVAL},
		{"unknown rights", A, memory, 4096, IBV_EXP_ACCESS_RESERVED, 0, EINVAL},
		{"zero based", A, memory, 4096, IBV_EXP_ACCESS_MW_ZERO_BASED, 0, EINVAL},
		{"unmapped", T, hole, 4096, 0, 0, EFAULT},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_exp_rereg_mr_attr attr = {.comp_mask = rows[i].comp_mask};
		struct ibv_mr *mr = need_mr(memory, BYTES, ALL);
		struct ibv_pd *now = rows[i].flags & P ? other_pd : GARBAGE;

		row("ibv_exp_rereg_mr: %s", rows[i].name);
		EXPECT_RET(ibv_exp_rereg_mr(mr, rows[i].flags, now, rows[i].addr, rows[i].length,
					    rows[i].access, rows[i].comp_mask ? &attr : NULL),
			   rows[i].want);
		if (rows[i].want == 0) {
			bool moved = rows[i].flags & T;

			EXPECT(mr->addr == (moved ? rows[i].addr : memory), "address");
			EXPECT(mr->length == (moved ? rows[i].length : BYTES), "length");
			EXPECT(mr->pd == (rows[i].flags & P ? other_pd : pd), "domain");
		}
		EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	}
}

static void prefetch_rows(void)
{
	struct ibv_mr *plain = need_mr(memory, BYTES, ALL), *odp = need_mr(memory, BYTES, ODP);
	struct ibv_mr *reader = need_mr(memory, BYTES, IBV_EXP_ACCESS_ON_DEMAND),
		      *all = need_mr(NULL, IMPLICIT, ODP);
	struct ibv_mr *gone = need_mr(hole, BYTES, ODP);
	const struct {
		const char *name;
		struct ibv_mr *mr;
		uint32_t flags;
		uint8_t *addr;
		size_t length;
		uint32_t comp_mask;
		int want;
	} rows[] = {
		{"for reading", odp, 0, memory, BYTES, 0, 0},
		{"for writing", odp, IBV_EXP_PREFETCH_WRITE_ACCESS, memory + 1, BYTES - 1, 0, 0},
		{"nothing", odp, 0, memory, 0, 0, 0},
		{"implicit", all, IBV_EXP_PREFETCH_WRITE_ACCESS, memory, BYTES, 0, 0},
		{"implicit, unmapped", all, 0, hole, BYTES, 0, 0},
		{"unmapped", gone, 0, hole, BYTES, 0, 0},
		{"beyond the region", odp, 0, memory, BYTES + 1, 0, 0},
		{"before the region", odp, 0, memory - 1, 1, 0, 0},
		{"not on demand", plain, 0, memory, BYTES, 0, EINVAL},
		{"for writing, not writable", reader, IBV_EXP_PREFETCH_WRITE_ACCESS, memory, BYTES,
		 0, 0},
		{"unknown flag", odp, 2, memory, BYTES, 0, EINVAL},
		{"unknown mask", odp, 0, memory, BYTES, 1, EINVAL},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_exp_prefetch_attr attr = {rows[i].flags, rows[i].addr, rows[i].length,
						     rows[i].comp_mask};

		row("ibv_exp_prefetch_mr: %s", rows[i].name);
		EXPECT_RET(ibv_exp_prefetch_mr(rows[i].mr, &attr), rows[i].want);
	}
	row("ibv_exp_prefetch_mr: with another handle");
	odp->handle++;
	EXPECT_RET(ibv_exp_prefetch_mr(odp, &(struct ibv_exp_prefetch_attr){0}), EINVAL);
	odp->handle--;
	EXPECT(ibv_dereg_mr(plain) == 0 && ibv_dereg_mr(odp) == 0 && ibv_dereg_mr(reader) == 0 &&
		       ibv_dereg_mr(all) == 0 && ibv_dereg_mr(gone) == 0,
	       "ibv_dereg_mr");
}

/* --- device memory --------------------------------------------------------------- */

static void copy_dm(enum ibv_exp_dm_memcpy_dir dir, uint8_t *host, uint64_t offset, size_t length)
{
	struct ibv_exp_memcpy_dm_attr copy = {dir, host, offset, length, 0};

	EXPECT_RET(ibv_exp_memcpy_dm(dm, &copy), 0);
}

/* Any offset and length, there and back: those bytes change, and no others. */
static void dm_byte_rows(void)
{
	enum { ROOM = 32, MOST = 10 };
	uint8_t want[ROOM], got[ROOM], piece[ROOM];

	for (uint64_t offset = 0; offset < 9; offset++)
		for (size_t length = 0; length <= MOST; length++) {
			row("ibv_exp_memcpy_dm: %zu bytes at %d", length, (int)offset);
			memset(want, 0x5a, ROOM);
			copy_dm(IBV_EXP_DM_CPY_TO_DEVICE, want, 0, ROOM);
			for (size_t i = 0; i < length; i++)
				piece[i] = want[offset + i] = (uint8_t)(offset * 16 + i + 1);
			copy_dm(IBV_EXP_DM_CPY_TO_DEVICE, piece, offset, length);
			copy_dm(IBV_EXP_DM_CPY_TO_HOST, got, 0, ROOM);
			EXPECT(memcmp(got, want, ROOM) == 0, "in");
			memset(piece, 0xa5, ROOM);
			copy_dm(IBV_EXP_DM_CPY_TO_HOST, piece, offset, length);
			EXPECT(memcmp(piece, want + offset, length) == 0, "out");
			EXPECT(piece[length] == 0xa5, "a byte too many");
		}
}

static void dm_rows(void)
{
	struct ibv_exp_device_attr device = {.comp_mask = IBV_EXP_DEVICE_ATTR_MAX_DM_SIZE};
	struct ibv_exp_alloc_dm_attr alloc = {.length = 64, .comp_mask = 1};
	uint8_t out[64], in[64];
	const struct {
		const char *name;
		int dir;
		uint64_t offset;
		size_t length;
		uint32_t comp_mask;
		int want;
	} rows[] = {
		{"in", IBV_EXP_DM_CPY_TO_DEVICE, 4032, 64, 0, 0},
		{"out", IBV_EXP_DM_CPY_TO_HOST, 4032, 64, 0, 0},
		{"nothing", IBV_EXP_DM_CPY_TO_HOST, 4096, 0, 0, 0},
		{"beyond the end", IBV_EXP_DM_CPY_TO_DEVICE, 4036, 64, 0, EINVAL},
		{"far away", IBV_EXP_DM_CPY_TO_DEVICE, UINT64_MAX - 3, 64, 0, EINVAL},
		{"one byte too many", IBV_EXP_DM_CPY_TO_HOST, 4093, 4, 0, EINVAL},
		{"no direction", 2, 0, 4, 0, EINVAL},
		{"unknown mask", IBV_EXP_DM_CPY_TO_DEVICE, 0, 4, 1, EINVAL},
	};
	struct ibv_exp_reg_mr_in on = {
		.pd = pd, .length = 64, .exp_access = ALL, .comp_mask = 2, .dm = dm};
	struct ibv_exp_memcpy_dm_attr none = {.memcpy_dir = IBV_EXP_DM_CPY_TO_HOST};
	struct ibv_mr *mr;

	EXPECT(ibv_exp_query_device(ctx, &device) == 0, "ibv_exp_query_device");
	row("ibv_exp_alloc_dm: unknown mask");
	EXPECT_NULL(ibv_exp_alloc_dm(ctx, &alloc), EINVAL);
	row("ibv_exp_alloc_dm: more than there is");
	alloc = (struct ibv_exp_alloc_dm_attr){.length = device.max_dm_size + 1};
	EXPECT_NULL(ibv_exp_alloc_dm(ctx, &alloc), EINVAL);
	for (size_t i = 0; i < sizeof(in); i++)
		out[i] = (uint8_t)(i * 7 + 1);
	memset(in, 0, sizeof(in));
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_exp_memcpy_dm_attr copy = {
			.memcpy_dir = (enum ibv_exp_dm_memcpy_dir)rows[i].dir,
			.host_addr = rows[i].dir == IBV_EXP_DM_CPY_TO_HOST ? in : out,
			.dm_offset = rows[i].offset,
			.length = rows[i].length,
			.comp_mask = rows[i].comp_mask,
		};

		row("ibv_exp_memcpy_dm: %s", rows[i].name);
		EXPECT_RET(ibv_exp_memcpy_dm(dm, &copy), rows[i].want);
	}
	row("ibv_exp_memcpy_dm: the bytes");
	EXPECT(memcmp(in, out, sizeof(in)) == 0, "others came back");
	row("ibv_exp_free_dm: a region on it");
	mr = ibv_exp_reg_mr(&on);
	EXPECT_MADE(mr, 0);
	EXPECT_RET(ibv_exp_free_dm(dm), EBUSY);
	EXPECT(mr && ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	row("device memory with another handle is unknown");
	dm->handle++;
	EXPECT_RET(ibv_exp_free_dm(dm), ENOENT);
	EXPECT_RET(ibv_exp_memcpy_dm(dm, &none), ENOENT);
	dm->handle--;
}

/* --- queue pairs ----------------------------------------------------------------- */

static struct ibv_exp_qp_init_attr qp_attr(uint32_t comp_mask)
{
	return (struct ibv_exp_qp_init_attr){
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.comp_mask = comp_mask,
		.pd = pd,
		.exp_create_flags = 0,
		.max_inl_recv = 64,
		.res_domain = domain,
		.port_num = 1,
	};
}

static void qp_rows(void)
{
	enum {
		PD = IBV_EXP_QP_INIT_ATTR_PD,
		FLAGS = IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS,
		KLMS = IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS,
		ATOMICS = IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG,
		DOMAIN = IBV_EXP_QP_INIT_ATTR_RES_DOMAIN,
		INL = IBV_EXP_QP_INIT_ATTR_INL_RECV
	};
	const struct {
		const char *name;
		uint32_t comp_mask, flags, atomic;
		int want;
	} rows[] = {
		{"domain only", PD, UINT32_MAX, 0, 0},
		{"domain and flags 0", PD | FLAGS, 0, 0, 0},
		{"flags not read without their bit", PD | DOMAIN, UINT32_MAX, 0, 0},
		{"inline receive", PD | INL, 0, 0, 0},
		{"atomics of 8 bytes", PD | ATOMICS, 0, 8, 0},
		{"atomics of 32 bytes", PD | ATOMICS, 0, 32, 0},
		{"atomics of 33 bytes", PD | ATOMICS, 0, 33, EINVAL},
		{"big endian replies", PD | FLAGS | ATOMICS, IBV_EXP_QP_CREATE_ATOMIC_BE_REPLY, 8,
		 0},
		{"resource domain", PD | DOMAIN, 0, 0, 0},
		{"unknown mask", PD | IBV_EXP_QP_INIT_ATTR_RESERVED1, 0, 0, EINVAL},
		{"no protection domain", FLAGS, 0, 0, EINVAL},
		{"flag outside of the mask", PD | FLAGS, IBV_EXP_QP_CREATE_INTERNAL_USE, 0, EINVAL},
		{"UMR without lists", PD | FLAGS, IBV_EXP_QP_CREATE_UMR, 0, EINVAL},
		{"lists without UMR", PD | KLMS, 0, 0, EINVAL},
		{"UMR", PD | FLAGS | KLMS, IBV_EXP_QP_CREATE_UMR, 0, 0},
		{"cross-channel", PD | FLAGS, IBV_EXP_QP_CREATE_CROSS_CHANNEL, 0, ENOTSUP},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_exp_qp_init_attr attr = qp_attr(rows[i].comp_mask);
		struct ibv_qp *qp;

		row("ibv_exp_create_qp: %s", rows[i].name);
		attr.exp_create_flags = rows[i].flags;
		attr.max_atomic_arg = rows[i].atomic;
		errno = 0;
		qp = ibv_exp_create_qp(ctx, &attr);
		EXPECT_MADE(qp, rows[i].want);
		if (qp && (rows[i].comp_mask & INL))
			EXPECT(attr.max_inl_recv == 64 && (attr.comp_mask & INL),
			       "inline receive of %u", attr.max_inl_recv);
		EXPECT(!qp || attr.cap.max_send_wr >= 4, "capabilities");
		EXPECT(!qp || ibv_destroy_qp(qp) == 0, "ibv_destroy_qp");

		row("ibv_exp_create_qp: %s, of too many requests", rows[i].name);
		attr = qp_attr(rows[i].comp_mask);
		attr.exp_create_flags = rows[i].flags;
		attr.max_atomic_arg = rows[i].atomic;
		attr.cap.max_send_wr = UINT32_MAX;
		EXPECT_NULL(ibv_exp_create_qp(ctx, &attr), rows[i].want ? rows[i].want : EINVAL);
	}
}

/* What a queue pair belongs to: with and without its bit, there or not, of another context. */
static void belonging_rows(void)
{
	enum {
		PD = IBV_EXP_QP_INIT_ATTR_PD,
		XRCD = IBV_EXP_QP_INIT_ATTR_XRCD,
		DOMAIN = IBV_EXP_QP_INIT_ATTR_RES_DOMAIN,
		PORT = IBV_EXP_QP_INIT_ATTR_PORT,
		FLAGS = IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS
	};
	struct ibv_context *other = node_open_device();
	struct ibv_pd *their_pd = ibv_alloc_pd(other);
	struct ibv_xrcd *xrcd = node_open_xrcd(ctx), *theirs = node_open_xrcd(other);
	const struct {
		const char *name;
		enum ibv_qp_type type;
		uint32_t comp_mask;
		struct ibv_pd *pd;
		struct ibv_xrcd *xrcd;
		struct ibv_exp_res_domain *domain;
		uint8_t port;
		int want;
	} rows[] = {
		{"its domain", IBV_QPT_RC, PD | FLAGS, pd, GARBAGE, GARBAGE, 9, 0},
		{"domain NULL", IBV_QPT_RC, PD | FLAGS, NULL, NULL, NULL, 1, EINVAL},
		{"another context's domain", IBV_QPT_RC, PD | FLAGS, their_pd, NULL, NULL, 1,
		 EINVAL},
		{"XRC domain", IBV_QPT_XRC_RECV, XRCD | FLAGS, GARBAGE, xrcd, GARBAGE, 9, 0},
		{"XRC domain without its bit", IBV_QPT_XRC_RECV, PD | FLAGS, pd, xrcd, NULL, 1,
		 EINVAL},
		{"XRC domain NULL", IBV_QPT_XRC_RECV, XRCD | FLAGS, NULL, NULL, NULL, 1, EINVAL},
		{"another context's XRC domain", IBV_QPT_XRC_RECV, XRCD | FLAGS, NULL, theirs, NULL,
		 1, EINVAL},
		{"resource domain NULL", IBV_QPT_RC, PD | DOMAIN, pd, NULL, NULL, 1, EINVAL},
		{"port 1", IBV_QPT_RC, PD | PORT, pd, NULL, NULL, 1, 0},
		{"port 2", IBV_QPT_RC, PD | PORT, pd, NULL, NULL, 2, EINVAL},
	};

	if (!their_pd || !xrcd || !theirs)
		DIE("setting up: errno %d", errno);
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_exp_qp_init_attr attr = qp_attr(rows[i].comp_mask);
		struct ibv_qp *qp;

		row("ibv_exp_create_qp: %s", rows[i].name);
		attr.qp_type = rows[i].type;
		if (attr.qp_type == IBV_QPT_XRC_RECV)
			attr.send_cq = attr.recv_cq = NULL;
		attr.pd = rows[i].pd;
		attr.xrcd = rows[i].xrcd;
		attr.res_domain = rows[i].domain;
		attr.port_num = rows[i].port;
		errno = 0;
		qp = ibv_exp_create_qp(ctx, &attr);
		EXPECT_MADE(qp, rows[i].want);
		EXPECT(!qp || ibv_destroy_qp(qp) == 0, "ibv_destroy_qp");
	}
	EXPECT(ibv_close_xrcd(xrcd) == 0 && ibv_close_xrcd(theirs) == 0 &&
		       ibv_dealloc_pd(their_pd) == 0 && ibv_close_device(other) == 0,
	       "closing");
}

/* Features that there are not: asked for, with their bit but without a value, without their bit. */
static void absent_feature_rows(void)
{
	const struct {
		const char *name;
		uint32_t bit;
		struct ibv_exp_qp_init_attr with;
	} rows[] = {
		{"groups", IBV_EXP_QP_INIT_ATTR_QPG, {.qpg.qpg_type = IBV_EXP_QPG_PARENT}},
		{"hashing", IBV_EXP_QP_INIT_ATTR_RX_HASH, {.rx_hash_conf = GARBAGE}},
		{"peer direct", IBV_EXP_QP_INIT_ATTR_PEER_DIRECT, {.peer_direct_attrs = GARBAGE}},
		{"TSO", IBV_EXP_QP_INIT_ATTR_MAX_TSO_HEADER, {.max_tso_header = 64}},
		{"associated", IBV_EXP_QP_INIT_ATTR_ASSOCIATED_QPN, {.associated_qpn = 7}},
	};
	const struct ibv_exp_qp_init_attr nothing = {.qp_type = IBV_QPT_RC};
	enum { ASKED, NO_VALUE, NO_BIT, FORMS };
	static const char *const form[] = {"asked for", "no value", "without its bit"};

	for (size_t i = 0; i < COUNT_OF(rows); i++)
		for (int k = ASKED; k < FORMS; k++) {
			struct ibv_exp_qp_init_attr plain = qp_attr(IBV_EXP_QP_INIT_ATTR_PD),
						    attr = k == NO_VALUE ? nothing : rows[i].with;
			struct ibv_qp *qp;

			row("ibv_exp_create_qp: %s, %s", rows[i].name, form[k]);
			attr.send_cq = attr.recv_cq = cq;
			attr.cap = plain.cap;
			attr.qp_type = plain.qp_type;
			attr.pd = pd;
			attr.comp_mask = plain.comp_mask | IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS |
					 (k == NO_BIT ? 0 : rows[i].bit);
			errno = 0;
			qp = ibv_exp_create_qp(ctx, &attr);
			EXPECT_MADE(qp, k == ASKED ? ENOTSUP : 0);
			EXPECT(!qp || ibv_destroy_qp(qp) == 0, "ibv_destroy_qp");
		}
}

static void modify_qp_rows(void)
{
	const uint64_t init = IBV_EXP_QP_STATE | IBV_EXP_QP_PKEY_INDEX | IBV_EXP_QP_PORT |
			      IBV_EXP_QP_ACCESS_FLAGS;
	const struct {
		const char *name;
		uint64_t mask;
		uint32_t comp_mask;
		int want;
	} rows[] = {
		{"out-of-order placement", init | IBV_EXP_QP_OOO_RW_DATA_PLACEMENT, 0, EINVAL},
		{"rate limit", init | IBV_EXP_QP_RATE_LIMIT, 0, EINVAL},
		{"a plain bit that is none here", init | 1 << 25, 0, EINVAL},
		{"unknown mask", init, IBV_EXP_QP_ATTR_RESERVED, EINVAL},
		{"an attribute is missing", init & ~(uint64_t)IBV_EXP_QP_PORT, 0, EINVAL},
		{"to INIT", init, IBV_EXP_QP_ATTR_RESERVED - 1, 0},
	};
	struct ibv_exp_qp_init_attr create =
		qp_attr(IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS);
	struct ibv_qp *qp = ibv_exp_create_qp(ctx, &create);
	struct ibv_qp_init_attr out;
	struct ibv_qp_attr now;

	NEED(qp);
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_exp_qp_attr attr = {.qp_state = IBV_QPS_INIT,
					       .port_num = 1,
					       .qp_access_flags = IBV_ACCESS_REMOTE_READ,
					       .comp_mask = rows[i].comp_mask};

		row("ibv_exp_modify_qp: %s", rows[i].name);
		EXPECT_RET(ibv_exp_modify_qp(qp, &attr, rows[i].mask), rows[i].want);
	}
	EXPECT(ibv_query_qp(qp, &now, IBV_QP_STATE, &out) == 0 && now.qp_state == IBV_QPS_INIT &&
		       now.qp_access_flags == IBV_ACCESS_REMOTE_READ && now.port_num == 1,
	       "attributes");
	EXPECT(ibv_destroy_qp(qp) == 0, "ibv_destroy_qp");
}

/* --- completion queues, resource domains ----------------------------------------- */

static void cq_rows(void)
{
	enum { FLAGS = IBV_EXP_CQ_INIT_ATTR_FLAGS, DOMAIN = IBV_EXP_CQ_INIT_ATTR_RES_DOMAIN };
	const struct {
		const char *name;
		int cqe;
		uint32_t comp_mask, flags;
		struct ibv_exp_res_domain *domain;
		int want;
	} rows[] = {
		{"all garbage behind the mask", 4, 0, UINT32_MAX, GARBAGE, 0},
		{"flags, garbage domain", 4, FLAGS, 0, GARBAGE, 0},
		{"time stamps", 4, FLAGS, IBV_EXP_CQ_TIMESTAMP, NULL, 0},
		{"compressed", 4, FLAGS, IBV_EXP_CQ_COMPRESSED_CQE, NULL, 0},
		{"AS notify", 4, FLAGS, IBV_EXP_CQ_AS_NOTIFY, NULL, 0},
		{"resource domain", 4, DOMAIN, UINT32_MAX, domain, 0},
		{"no resource domain", 4, DOMAIN, 0, NULL, EINVAL},
		{"unknown flag", 4, FLAGS, 32, NULL, EINVAL},
		{"unknown mask", 4, 8, 0, NULL, EINVAL},
		{"cross-channel", 4, FLAGS, IBV_EXP_CQ_CREATE_CROSS_CHANNEL, NULL, ENOTSUP},
		{"peer direct", 4, IBV_EXP_CQ_INIT_ATTR_PEER_DIRECT, 0, NULL, ENOTSUP},
		{"no entries", 0, 0, 0, NULL, EINVAL},
		{"no entries, with flags", 0, FLAGS, IBV_EXP_CQ_TIMESTAMP, NULL, EINVAL},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_exp_cq_init_attr attr = {rows[i].comp_mask, rows[i].flags,
						    rows[i].domain, GARBAGE};
		struct ibv_cq *new;

		row("ibv_exp_create_cq: %s", rows[i].name);
		errno = 0;
		new = ibv_exp_create_cq(ctx, rows[i].cqe, &attr, NULL, 0, &attr);
		EXPECT_MADE(new, rows[i].want);
		EXPECT(!new || (new->cq_context == &attr &&new->cqe >= 4), "fields");
		EXPECT(!new || ibv_destroy_cq(new) == 0, "ibv_destroy_cq");
	}
}

static void create_srq_rows(void)
{
	struct ibv_xrcd *xrcd = node_open_xrcd(ctx);
	const uint32_t xrc = IBV_EXP_CREATE_SRQ_CQ | IBV_EXP_CREATE_SRQ_XRCD;
	const struct {
		const char *name;
		uint32_t type, comp_mask, max_wr;
		void *pd, *cq, *xrcd;
		int want;
	} rows[] = {
		{"basic", IBV_EXP_SRQT_BASIC, 0, 4, pd, GARBAGE, GARBAGE, 0},
		{"basic, with a CQ and tags", IBV_EXP_SRQT_BASIC, 31, 4, pd, GARBAGE, GARBAGE, 0},
		{"basic, of no request", IBV_EXP_SRQT_BASIC, 0, 0, pd, GARBAGE, GARBAGE, 0},
		{"basic, without a domain", IBV_EXP_SRQT_BASIC, 0, 4, NULL, NULL, NULL, EINVAL},
		{"too large", IBV_EXP_SRQT_BASIC, 0, 1 << 30, pd, NULL, NULL, EINVAL},
		{"XRC", IBV_EXP_SRQT_XRC, xrc, 4, pd, cq, xrcd, 0},
		{"XRC, without the CQ's bit", IBV_EXP_SRQT_XRC, IBV_EXP_CREATE_SRQ_XRCD, 4, pd, cq,
		 xrcd, EINVAL},
		{"XRC, without a CQ", IBV_EXP_SRQT_XRC, xrc, 4, pd, NULL, xrcd, EINVAL},
		{"tag matching", IBV_EXP_SRQT_TAG_MATCHING, 5, 4, pd, cq, NULL, ENOTSUP},
		{"unknown type", 2, 0, 4, pd, NULL, NULL, EINVAL},
		{"unknown mask", IBV_EXP_SRQT_BASIC, 32, 4, pd, NULL, NULL, EINVAL},
	};

	NEED(xrcd);
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_exp_create_srq_attr attr = {
			.base = {.srq_context = &attr,
				 .attr = {.max_wr = rows[i].max_wr, .max_sge = 1}},
			.srq_type = (enum ibv_exp_srq_type)rows[i].type,
			.pd = rows[i].pd,
			.comp_mask = rows[i].comp_mask,
			.cq = rows[i].cq,
			.xrcd = rows[i].xrcd,
		};
		struct ibv_srq *srq;
		uint32_t number;

		row("ibv_exp_create_srq: %s", rows[i].name);
		errno = 0;
		srq = ibv_exp_create_srq(ctx, &attr);
		EXPECT_MADE(srq, rows[i].want);
		if (!srq)
			continue;
		EXPECT(srq->srq_context == &attr &&
			       attr.base.attr.max_wr == (rows[i].max_wr ? rows[i].max_wr : 1),
		       "max_wr %u", attr.base.attr.max_wr);
		EXPECT(ibv_get_srq_num(srq, &number) ==
			       (rows[i].type == IBV_EXP_SRQT_XRC ? 0 : EINVAL),
		       "number");
		EXPECT(ibv_destroy_srq(srq) == 0, "ibv_destroy_srq");
	}
	EXPECT(ibv_close_xrcd(xrcd) == 0, "ibv_close_xrcd");
}

static void modify_cq_rows(void)
{
	const struct {
		const char *name;
		int mask;
		uint16_t count;
		uint32_t caps, comp_mask;
		int want;
	} rows[] = {
		{"nothing", 0, 9, 9, 3, 0},
		{"every completion", IBV_EXP_CQ_MODERATION, 1, 9, 0, 0},
		{"moderation", IBV_EXP_CQ_MODERATION, 16, 0, 0, 0},
		{"no capabilities", IBV_EXP_CQ_CAP_FLAGS, 9, 0, 0, 0},
		{"ignored overruns", IBV_EXP_CQ_CAP_FLAGS, 0, IBV_EXP_CQ_IGNORE_OVERRUN, 0, 0},
		{"unknown capability", IBV_EXP_CQ_CAP_FLAGS, 0, 2, 0, EINVAL},
		{"unknown attribute", 4, 0, 0, 0, EINVAL},
		{"unknown mask", 0, 0, 0, 4, EINVAL},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_exp_cq_attr attr = {.comp_mask = rows[i].comp_mask,
					       .moderation = {rows[i].count, 9},
					       .cq_cap_flags = rows[i].caps};

		row("ibv_exp_modify_cq: %s", rows[i].name);
		EXPECT_RET(ibv_exp_modify_cq(cq, &attr, rows[i].mask), rows[i].want);
	}
}

static void domain_rows(void)
{
	const struct {
		const char *name;
		uint32_t comp_mask, thread, msg;
		int want;
	} rows[] = {
		{"garbage behind the mask", 0, 99, 99, 0},
		{"single thread, low latency", 3, IBV_EXP_THREAD_SINGLE,
		 IBV_EXP_MSG_FORCE_LOW_LATENCY, 0},
		{"unknown thread model", 1, 3, 0, EINVAL},
		{"unknown message model", 2, 0, 4, EINVAL},
		{"unknown mask", 4, 0, 0, EINVAL},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_exp_res_domain_init_attr attr = {
			rows[i].comp_mask, (enum ibv_exp_thread_model)rows[i].thread,
			(enum ibv_exp_msg_model)rows[i].msg};
		struct ibv_exp_destroy_res_domain_attr end = {.comp_mask = 1};
		struct ibv_exp_res_domain *new;

		row("ibv_exp_create_res_domain: %s", rows[i].name);
		errno = 0;
		new = ibv_exp_create_res_domain(ctx, &attr);
		EXPECT_MADE(new, rows[i].want);
		if (!new)
			continue;
		EXPECT_RET(ibv_exp_destroy_res_domain(ctx, new, &end), EINVAL);
		EXPECT_RET(ibv_exp_destroy_res_domain(ctx, new, NULL), 0);
	}
}

/* A domain serves its own context only; what was created with it outlives it. */
static void domain_use_rows(void)
{
	struct ibv_exp_res_domain_init_attr none = {.comp_mask = 0};
	struct ibv_context *other = node_open_device();
	struct ibv_exp_res_domain *theirs = ibv_exp_create_res_domain(other, &none),
				  *ours = ibv_exp_create_res_domain(ctx, &none);
	struct ibv_exp_cq_init_attr attr = {.comp_mask = IBV_EXP_CQ_INIT_ATTR_RES_DOMAIN,
					    .res_domain = theirs};
	struct ibv_exp_qp_init_attr init =
		qp_attr(IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_RES_DOMAIN);
	struct ibv_cq *of_domain;
	struct ibv_qp *qp;

	if (!theirs || !ours)
		DIE("ibv_exp_create_res_domain: errno %d", errno);
	row("resource domain of another context");
	EXPECT_NULL(ibv_exp_create_cq(ctx, 4, NULL, NULL, 0, &attr), EINVAL);
	init.res_domain = theirs;
	EXPECT_NULL(ibv_exp_create_qp(ctx, &init), EINVAL);
	EXPECT_RET(ibv_exp_destroy_res_domain(ctx, theirs, NULL), EINVAL);
	row("resource domain that queues were created with");
	attr.res_domain = init.res_domain = ours;
	of_domain = ibv_exp_create_cq(ctx, 4, NULL, NULL, 0, &attr);
	init.send_cq = init.recv_cq = of_domain;
	qp = of_domain ? ibv_exp_create_qp(ctx, &init) : NULL;
	if (!EXPECT(qp, "errno %d", errno))
		return;
	EXPECT_RET(ibv_exp_destroy_res_domain(ctx, ours, NULL), 0);
	EXPECT(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(of_domain) == 0, "destroying");
	EXPECT(ibv_exp_destroy_res_domain(other, theirs, NULL) == 0 && ibv_close_device(other) == 0,
	       "closing");
}

static void open_all(void)
{
	struct ibv_exp_res_domain_init_attr none = {.comp_mask = 0};
	struct ibv_exp_alloc_dm_attr alloc = {.length = 4096};

	ctx = node_open_device();
	pd = ibv_alloc_pd(ctx);
	other_pd = ibv_alloc_pd(ctx);
	cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
	domain = ibv_exp_create_res_domain(ctx, &none);
	dm = ibv_exp_alloc_dm(ctx, &alloc);
	memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	hole = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!pd || !other_pd || !cq || !domain || !dm || memory == MAP_FAILED || hole == MAP_FAILED)
		DIE("setting up: errno %d", errno);
}

int main(void)
{
	sandbox_begin(200);
	open_all();
	reg_rows();
	rereg_rows();
	prefetch_rows();
	dm_rows();
	dm_byte_rows();
	qp_rows();
	belonging_rows();
	absent_feature_rows();
	modify_qp_rows();
	cq_rows();
	create_srq_rows();
	modify_cq_rows();
	domain_rows();
	domain_use_rows();
	row("the end");
	EXPECT(ibv_exp_free_dm(dm) == 0, "ibv_exp_free_dm");
	EXPECT(ibv_exp_destroy_res_domain(ctx, domain, NULL) == 0, "ibv_exp_destroy_res_domain");
	EXPECT(ibv_destroy_cq(cq) == 0 && ibv_dealloc_pd(other_pd) == 0 &&
		       ibv_dealloc_pd(pd) == 0 && ibv_close_device(ctx) == 0,
	       "closing");
	return sandbox_end();
}
