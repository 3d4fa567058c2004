/* SPDX-License-Identifier: MIT */
/*
 * Device memory: the checks of each call, the size that all processes share, and access through
 * keys - local and from another process - by byte offset.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/probe.h"
#include "lib/spawn.h"
#include "lib/two_sides.h"

#define WORD   "--dm"
#define ACCESS (PROBE_ALL | IBV_ACCESS_ZERO_BASED)

static struct node *n;
static size_t max_dm;
static uint8_t host[1 << 16];

static size_t query_max(struct ibv_context *ctx)
{
	struct ibv_device_attr_ex attr = {.max_dm_size = 0};

	NEED(ibv_query_device_ex(ctx, NULL, &attr) == 0);
	return attr.max_dm_size;
}

static struct ibv_dm *alloc(struct ibv_context *ctx, size_t length, uint32_t log_align,
			    uint32_t comp_mask)
{
	struct ibv_alloc_dm_attr attr = {
		.length = length, .log_align_req = log_align, .comp_mask = comp_mask};

	errno = 0;
	return ibv_alloc_dm(ctx, &attr);
}

static struct ibv_dm *need(size_t length)
{
	struct ibv_dm *dm = alloc(n->ctx, length, 0, 0);

	if (!dm)
		DIE("ibv_alloc_dm of %zu: errno %d", length, errno);
	return dm;
}

static void expect_free(struct ibv_dm *dm)
{
	EXPECT(dm && ibv_free_dm(dm) == 0, "ibv_free_dm: errno %d", errno);
}

/* --- ibv_alloc_dm ---------------------------------------------------------------- */

static void alloc_rows(void)
{
	const struct {
		const char *name;
		size_t length;
		uint32_t log_align, comp_mask;
		int error;
	} rows[] = {
		{"length 0", 0, 0, 0, EINVAL},
		{"length max_dm_size + 1", max_dm + 1, 0, 0, EINVAL},
		{"length SIZE_MAX", SIZE_MAX, 0, 0, EINVAL},
		{"unknown comp_mask bit 0", 64, 0, 1, EINVAL},
		{"unknown comp_mask bit 31", 64, 0, 1u << 31, EINVAL},
		{"alignment 2^40", 64, 40, 0, EINVAL},
		{"alignment 2^32", 64, 32, 0, EINVAL},
		{"alignment 2^64", 64, 64, 0, EINVAL},
		{"alignment UINT32_MAX", 64, UINT32_MAX, 0, EINVAL},
		{"1 byte", 1, 0, 0, 0},
		{"an odd length", 777, 0, 0, 0},
		{"half", max_dm / 2, 6, 0, 0},
		{"max_dm_size", max_dm, 0, 0, 0},
		{"max_dm_size once more", max_dm, 0, 0, 0},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_dm *dm;

		row("ibv_alloc_dm: %s", rows[i].name);
		dm = alloc(n->ctx, rows[i].length, rows[i].log_align, rows[i].comp_mask);
		EXPECT(!dm == !!rows[i].error && errno == (rows[i].error ? rows[i].error : errno),
		       "%p, errno %d", (void *)dm, errno);
		if (!dm)
			continue;
		EXPECT(dm->context == n->ctx && dm->memcpy_to_dm && dm->memcpy_from_dm, "fields");
		expect_free(dm);
	}
	row("max_dm_size is even and not 0");
	EXPECT(max_dm >= 4096 && max_dm % 40 == 0, "%zu", max_dm);
}

/* Where these bytes are in a file that has only some parts; -1: nowhere. */
static int64_t find_in(int fd, const void *bytes, size_t length)
{
	static uint8_t part[1 << 20];
	off_t at = lseek(fd, 0, SEEK_DATA);

	while (at >= 0) {
		ssize_t got = pread(fd, part, sizeof(part), at);
		uint8_t *found = got > 0 ? memmem(part, (size_t)got, bytes, length) : NULL;

		if (found)
			return at + (found - part);
		at = lseek(fd, got < (ssize_t)sizeof(part) ? at + 4096 : at + got - 4096,
			   SEEK_DATA);
	}
	return -1;
}

/* The block's place in the device's memory, found by what is in it. */
static int64_t place_of(struct ibv_dm *dm, uint64_t mark)
{
	const uint64_t bytes[2] = {mark, ~mark};
	int64_t at = -1;

	EXPECT(ibv_memcpy_to_dm(dm, 0, bytes, sizeof(bytes)) == 0, "ibv_memcpy_to_dm");
	for (int fd = 0; fd < 4096 && at < 0; fd++) {
		char name[64], to[64] = "";

		snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
		if (readlink(name, to, sizeof(to) - 1) > 0 && strstr(to, "memfd:anyverbs-c"))
			at = find_in(fd, bytes, sizeof(bytes));
	}
	return at;
}

/* Among blocks that are not aligned so by chance. */
static void align_rows(void)
{
	struct ibv_dm *odd[8], *dm[8];

	for (uint32_t log_align = 0; log_align <= 12; log_align++) {
		row("a block is aligned to 2^%u", log_align);
		for (size_t i = 0; i < COUNT_OF(dm); i++) {
			int64_t at;

			odd[i] = need(4);
			dm[i] = alloc(n->ctx, 16 + i, log_align, 0);
			at = place_of(dm[i], PROBE_SEED + (log_align << 8) + i);
			EXPECT(at > 0 && at % (1 << log_align) == 0, "it is at 0x%lx", at);
		}
		for (size_t i = 0; i < COUNT_OF(dm); i++) {
			expect_free(dm[i]);
			expect_free(odd[i]);
		}
	}
}

/* --- ibv_memcpy_to_dm, ibv_memcpy_from_dm ---------------------------------------- */

#define DM_BYTES 4096u

static void copy_rows(void)
{
	static const struct {
		const char *name;
		uint64_t offset;
		size_t length;
		int want;
	} rows[] = {
		{"all", 0, DM_BYTES, 0},
		{"the last word", DM_BYTES - 4, 4, 0},
		{"nothing", 0, 0, 0},
		{"nothing at the end", DM_BYTES, 0, 0},
		{"one word too many", 0, DM_BYTES + 4, EFAULT},
		{"offset at the end", DM_BYTES, 4, EFAULT},
		{"offset behind the end", DM_BYTES + 4, 4, EFAULT},
		{"nothing behind the end", DM_BYTES + 4, 0, EFAULT},
		{"offset 2^64 - 4, which wraps", UINT64_MAX - 3, 8, EFAULT},
		{"length SIZE_MAX - 3, which wraps", 4, SIZE_MAX - 3, EFAULT},
		{"offset 1", 1, 4, EINVAL},
		{"offset 2", 2, 4, EINVAL},
		{"length 1", 0, 1, EINVAL},
		{"length 7", 8, 7, EINVAL},
		{"the last byte", DM_BYTES - 1, 1, EINVAL},
		{"one byte too many", 1, DM_BYTES, EFAULT},
		{"odd and outside", DM_BYTES + 1, 3, EFAULT},
	};
	struct ibv_dm *dm = need(DM_BYTES);

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		row("copy to and from device memory: %s", rows[i].name);
		pattern_fill(host, sizeof(host), i, 0);
		EXPECT_RET(ibv_memcpy_to_dm(dm, rows[i].offset, host, rows[i].length),
			   rows[i].want);
		memset(host, 0x5a, sizeof(host));
		EXPECT_RET(ibv_memcpy_from_dm(host, dm, rows[i].offset, rows[i].length),
			   rows[i].want);
		EXPECT(host[rows[i].want ? 0 : rows[i].length] == 0x5a, "bytes beyond the length");
		if (rows[i].want == 0)
			EXPECT(pattern_check(host, rows[i].length, i, 0) == -1, "bytes");
	}
	expect_free(dm);
}

/* Host memory that is not there is an error, not a crash. */
static void bad_host_row(void)
{
	struct ibv_dm *dm = need(DM_BYTES);

	row("copy with a host address that is not mapped");
	EXPECT_RET(ibv_memcpy_to_dm(dm, 0, (void *)8, 64), EFAULT);
	EXPECT_RET(ibv_memcpy_from_dm((void *)8, dm, 0, 64), EFAULT);
	expect_free(dm);
}

/* Refused copies change nothing; pieces do not touch each other. */
static void pieces_row(void)
{
	struct ibv_dm *dm[3] = {need(64), need(DM_BYTES), need(12)};

	row("blocks do not touch each other");
	for (unsigned int i = 0; i < 3; i++) {
		size_t length = i == 0 ? 64 : i == 1 ? DM_BYTES : 12;

		pattern_fill(host, length, i, 0);
		EXPECT(ibv_memcpy_to_dm(dm[i], 0, host, length) == 0, "to %u", i);
		EXPECT(ibv_memcpy_to_dm(dm[i], 4, host, length) == EFAULT, "beyond %u", i);
	}
	for (unsigned int i = 0; i < 3; i++) {
		size_t length = i == 0 ? 64 : i == 1 ? DM_BYTES : 12;

		EXPECT(ibv_memcpy_from_dm(host, dm[i], 0, length) == 0, "from %u", i);
		EXPECT(pattern_check(host, length, i, 0) == -1, "block %u", i);
		expect_free(dm[i]);
	}
}

/* --- ibv_reg_dm_mr --------------------------------------------------------------- */

static void register_rows(void)
{
	static const struct {
		const char *name;
		uint64_t offset;
		size_t length;
		unsigned int access;
		int error;
	} rows[] = {
		{"all", 0, DM_BYTES, ACCESS, 0},
		{"the last 8 bytes", DM_BYTES - 8, 8, ACCESS, 0},
		{"odd offset and length", 3, 77, ACCESS, 0},
		{"no rights but the base", 0, 8, IBV_ACCESS_ZERO_BASED, 0},
		{"optional bits", 0, 8, ACCESS | IBV_ACCESS_RELAXED_ORDERING | 1u << 29, 0},
		{"length 0", 0, 0, ACCESS, 0},
		{"length 0 at the end", DM_BYTES, 0, ACCESS, 0},
		{"not zero-based", 0, 8, PROBE_ALL, EINVAL},
		{"no flags", 0, 8, 0, EINVAL},
		{"REMOTE_WRITE without LOCAL_WRITE", 0, 8,
		 IBV_ACCESS_ZERO_BASED | IBV_ACCESS_REMOTE_WRITE, EINVAL},
		{"REMOTE_ATOMIC without LOCAL_WRITE", 0, 8,
		 IBV_ACCESS_ZERO_BASED | IBV_ACCESS_REMOTE_ATOMIC, EINVAL},
		{"MW_BIND", 0, 8, ACCESS | IBV_ACCESS_MW_BIND, EINVAL},
		{"ON_DEMAND", 0, 8, ACCESS | IBV_ACCESS_ON_DEMAND, EINVAL},
		{"HUGETLB", 0, 8, ACCESS | IBV_ACCESS_HUGETLB, EINVAL},
		{"an unknown bit", 0, 8, ACCESS | 1u << 12, EINVAL},
		{"one byte too many", 0, DM_BYTES + 1, ACCESS, EINVAL},
		{"offset behind the end", DM_BYTES + 1, 0, ACCESS, EINVAL},
		{"offset and length together too many", DM_BYTES - 8, 9, ACCESS, EINVAL},
		{"offset that wraps", UINT64_MAX - 7, 16, ACCESS, EINVAL},
		{"length that wraps", 8, SIZE_MAX - 7, ACCESS, EINVAL},
	};
	struct ibv_dm *dm = need(DM_BYTES);

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_mr *mr;

		row("ibv_reg_dm_mr: %s", rows[i].name);
		errno = 0;
		mr = ibv_reg_dm_mr(n->pd, dm, rows[i].offset, rows[i].length, rows[i].access);
		EXPECT(!mr == !!rows[i].error && (!rows[i].error || errno == rows[i].error),
		       "%p, errno %d", (void *)mr, errno);
		if (!mr)
			continue;
		EXPECT(mr->addr == NULL && mr->length == rows[i].length && mr->pd == n->pd &&
			       mr->context == n->ctx,
		       "fields");
		EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	}
	expect_free(dm);
}

/* --- EBUSY and handles ----------------------------------------------------------- */

static void busy_rows(void)
{
	struct ibv_pd *pd = ibv_alloc_pd(n->ctx);
	struct ibv_dm *dm = need(DM_BYTES);
	struct ibv_mr *one = ibv_reg_dm_mr(pd, dm, 0, 64, ACCESS),
		      *two = ibv_reg_dm_mr(pd, dm, 32, 0, ACCESS);

	row("ibv_free_dm while regions are registered");
	EXPECT_RET(ibv_free_dm(dm), EBUSY);
	EXPECT_RET(ibv_dealloc_pd(pd), EBUSY);
	EXPECT(ibv_dereg_mr(one) == 0, "ibv_dereg_mr");
	row("ibv_free_dm while one of length 0 is registered");
	EXPECT_RET(ibv_free_dm(dm), EBUSY);
	EXPECT(ibv_memcpy_from_dm(host, dm, 0, 64) == 0, "no longer usable after a refusal");
	EXPECT(ibv_dereg_mr(two) == 0, "ibv_dereg_mr");
	row("ibv_free_dm when none is left");
	expect_free(dm);
	EXPECT(ibv_dealloc_pd(pd) == 0, "ibv_dealloc_pd");
}

static void damaged_row(void)
{
	struct ibv_dm *dm = need(64);
	uint32_t handle = dm->handle;

	row("damaged handle");
	dm->handle ^= 0x1234567;
	EXPECT_RET(ibv_free_dm(dm), ENOENT);
	EXPECT(!ibv_reg_dm_mr(n->pd, dm, 0, 8, ACCESS), "ibv_reg_dm_mr");
	EXPECT(ibv_memcpy_from_dm(host, dm, 0, 8) != 0, "ibv_memcpy_from_dm");
	dm->handle = handle;
	expect_free(dm);
}

/* --- access through keys --------------------------------------------------------- */

static struct {
	struct ibv_dm *dm;
	struct ibv_mr *mr;
} m;

static void open_dm(size_t length, uint64_t offset, size_t part, uint32_t log_align,
		    unsigned int access)
{
	m.dm = alloc(n->ctx, length, log_align, 0);
	m.mr = m.dm ? ibv_reg_dm_mr(n->pd, m.dm, offset, part, access) : NULL;
	if (!m.mr)
		DIE("device memory: errno %d", errno);
}

static void close_dm(void)
{
	EXPECT(ibv_dereg_mr(m.mr) == 0, "ibv_dereg_mr");
	expect_free(m.dm);
}

static void remote_rows(void)
{
	static const struct {
		uint64_t at; /* in the region */
		uint32_t bytes;
	} rows[] = {{0, 8},	{0, 61},    {1, 1}, {100, 5000},
		    {0, 65536}, {65535, 1}, {0, 0}, {65536, 0}};
	const uint64_t offset = 4096 + 64;

	open_dm(80000, offset, 65536, 0, ACCESS);
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		uint32_t bytes = rows[i].bytes;

		row("WRITE from another process: %u bytes at %lu", bytes, rows[i].at);
		memset(host, 0, sizeof(host));
		EXPECT(ibv_memcpy_to_dm(m.dm, offset, host, 65536) == 0, "ibv_memcpy_to_dm");
		EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_WRITE, rows[i].at, m.mr->rkey, bytes,
			     IBV_WC_SUCCESS);
		EXPECT(ibv_memcpy_from_dm(host, m.dm, offset, 65536) == 0, "ibv_memcpy_from_dm");
		EXPECT(pattern_check(host + rows[i].at, bytes, PROBE_SEED, 0) == -1, "bytes");
		EXPECT(rows[i].at == 0 || host[rows[i].at - 1] == 0, "a byte before");
		EXPECT(rows[i].at + bytes >= 65536 || host[rows[i].at + bytes] == 0,
		       "a byte behind");
		row("READ from another process: %u bytes at %lu", bytes, rows[i].at);
		pattern_fill(host, 65536, 3, 0);
		EXPECT(ibv_memcpy_to_dm(m.dm, offset, host, 65536) == 0, "ibv_memcpy_to_dm");
		EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, rows[i].at, m.mr->rkey, bytes,
			     IBV_WC_SUCCESS);
		EXPECT(side_check(&b, PROBE_AT, bytes, 3, rows[i].at) == -1, "bytes");
	}
	close_dm();
}

static void atomic_rows(void)
{
	uint64_t word = 40;

	for (uint32_t log_align = 0; log_align <= 6; log_align++) {
		struct ibv_dm *odd = need(4); /* so that the next block is not aligned by chance */

		row("atomics from another process, alignment 2^%u", log_align);
		open_dm(24, 0, 24, log_align, ACCESS);
		EXPECT(ibv_memcpy_to_dm(m.dm, 16, &word, 8) == 0, "ibv_memcpy_to_dm");
		EXPECT_PROBE(&b, &a, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, 16, m.mr->rkey, 8,
			     IBV_WC_SUCCESS);
		EXPECT(side_peek(&b, PROBE_AT) == 40, "old value %lu", side_peek(&b, PROBE_AT));
		EXPECT_PROBE(&b, &a, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, 16, m.mr->rkey, 8,
			     IBV_WC_SUCCESS);
		EXPECT(ibv_memcpy_from_dm(host, m.dm, 16, 8) == 0, "ibv_memcpy_from_dm");
		EXPECT(*(uint64_t *)host == 42, "value %lu", *(uint64_t *)host);
		EXPECT_PROBE(&b, &a, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, 4, m.mr->rkey, 8,
			     IBV_WC_REM_INV_REQ_ERR);
		close_dm();
		expect_free(odd);
	}
}

static void refused_rows(void)
{
	static const struct {
		const char *name;
		unsigned int access;
		enum ibv_wr_opcode op;
		uint64_t at;
		uint32_t bytes;
	} rows[] = {
		{"WRITE one byte too many", ACCESS, IBV_WR_RDMA_WRITE, 0, 65},
		{"READ one byte too many", ACCESS, IBV_WR_RDMA_READ, 1, 64},
		{"WRITE behind the end", ACCESS, IBV_WR_RDMA_WRITE, 64, 1},
		{"READ at an offset that wraps", ACCESS, IBV_WR_RDMA_READ, UINT64_MAX - 7, 16},
		{"FETCH_AND_ADD behind the end", ACCESS, IBV_WR_ATOMIC_FETCH_AND_ADD, 64, 8},
		{"WRITE without the right", ACCESS & ~IBV_ACCESS_REMOTE_WRITE, IBV_WR_RDMA_WRITE, 0,
		 8},
		{"READ without the right", ACCESS & ~IBV_ACCESS_REMOTE_READ, IBV_WR_RDMA_READ, 0,
		 8},
		{"FETCH_AND_ADD without the right", ACCESS & ~IBV_ACCESS_REMOTE_ATOMIC,
		 IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8},
		{"READ of a region without rights", IBV_ACCESS_ZERO_BASED, IBV_WR_RDMA_READ, 0, 8},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		row("refused: %s", rows[i].name);
		open_dm(DM_BYTES, 64, 64, 0, rows[i].access);
		EXPECT_PROBE(&b, &a, 0, rows[i].op, rows[i].at, m.mr->rkey, rows[i].bytes,
			     IBV_WC_REM_ACCESS_ERR);
		close_dm();
	}
}

static void other_domain_row(void)
{
	struct ibv_dm *dm = need(64);
	struct ibv_mr *mr = ibv_reg_dm_mr(n->other_pd, dm, 0, 64, ACCESS);
	uint32_t rkey = mr->rkey;

	row("refused: region of another domain, and a deregistered one");
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, 0, rkey, 8, IBV_WC_REM_ACCESS_ERR);
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, 0, rkey, 8, IBV_WC_REM_ACCESS_ERR);
	expect_free(dm);
}

/* A region of length 0 permits nothing but nothing. */
static void empty_row(void)
{
	row("region of length 0");
	open_dm(64, 32, 0, 0, ACCESS);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_WRITE, 0, m.mr->rkey, 0, IBV_WC_SUCCESS);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_WRITE, 0, m.mr->rkey, 1, IBV_WC_REM_ACCESS_ERR);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, 0, m.mr->rkey, 1, IBV_WC_REM_ACCESS_ERR);
	close_dm();
}

/* --- as local buffers ------------------------------------------------------------ */

static enum ibv_wc_status local(enum ibv_wr_opcode op, uint64_t at, uint32_t bytes, uint64_t theirs)
{
	struct node_send s = {.opcode = op,
			      .flags = IBV_SEND_SIGNALED,
			      .remote_addr = b.info.base[KEY_FULL] + theirs,
			      .rkey = b.info.key[KEY_FULL],
			      .compare_add = 1,
			      .num_sge = 1,
			      .sge = {{.addr = at, .length = bytes, .lkey = m.mr->lkey}}};

	return probe_request(&a, &b, 0, &s);
}

static void local_rows(void)
{
	static const uint32_t sizes[] = {4, 60, 5000, 40000};

	open_dm(65536, 0, 65536, 0, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED);
	for (size_t i = 0; i < COUNT_OF(sizes); i++) {
		uint32_t bytes = sizes[i];

		row("device memory as source and destination of %u bytes", bytes);
		pattern_fill(host, bytes, i, 0);
		EXPECT(ibv_memcpy_to_dm(m.dm, 8, host, bytes) == 0, "ibv_memcpy_to_dm");
		EXPECT(local(IBV_WR_RDMA_WRITE, 8, bytes, 0x200000) == IBV_WC_SUCCESS, "WRITE");
		EXPECT(side_check(&b, 0x200000, bytes, i, 0) == -1, "bytes of WRITE");
		side_recv_one(&b, 0, 1, 0x300000, bytes);
		EXPECT(local(IBV_WR_SEND, 8, bytes, 0) == IBV_WC_SUCCESS, "SEND");
		EXPECT(side_poll(&b, 1, 1, PROBE_PATIENCE, &(struct ibv_wc){.wr_id = 0}) == 1,
		       "receive");
		EXPECT(side_check(&b, 0x300000, bytes, i, 0) == -1, "bytes of SEND");
		side_fill(&b, 0x200000, bytes, i + 100, 0);
		EXPECT(local(IBV_WR_RDMA_READ, 16, bytes, 0x200000) == IBV_WC_SUCCESS, "READ");
		EXPECT(ibv_memcpy_from_dm(host, m.dm, 16, bytes) == 0, "ibv_memcpy_from_dm");
		EXPECT(pattern_check(host, bytes, i + 100, 0) == -1, "bytes of READ");
	}
	row("device memory as a local buffer, one byte too many");
	EXPECT(local(IBV_WR_RDMA_WRITE, 65529, 8, 0x200000) == IBV_WC_LOC_PROT_ERR, "WRITE");
	EXPECT(local(IBV_WR_RDMA_READ, 65536, 1, 0x200000) == IBV_WC_LOC_PROT_ERR, "READ");
	close_dm();
}

static void receive_row(uint32_t bytes)
{
	struct node_recv r = {.num_sge = 1};
	struct node_send s = side_message(side_sge(&b, KEY_FULL, PROBE_AT, bytes));
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};

	row("receive of %u bytes into device memory", bytes);
	open_dm(65536, 0, 65536, 0, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED);
	side_fill(&b, PROBE_AT, bytes, 5, 0);
	r.sge[0] = (struct ibv_sge){.addr = 8, .length = bytes, .lkey = m.mr->lkey};
	EXPECT(side_post_recv(&a, 0, &r, 1).ret == 0, "ibv_post_recv");
	EXPECT(probe_request(&b, &a, 0, &s) == IBV_WC_SUCCESS, "SEND");
	EXPECT(side_poll(&a, 1, 1, PROBE_PATIENCE, &wc) == 1 && wc.status == IBV_WC_SUCCESS,
	       "receive");
	EXPECT(ibv_memcpy_from_dm(host, m.dm, 8, bytes) == 0, "ibv_memcpy_from_dm");
	EXPECT(pattern_check(host, bytes, 5, 0) == -1, "bytes");
	close_dm();
}

static void receive_denied_row(void)
{
	struct node_recv r = {.num_sge = 1};
	struct node_send s = side_message(side_sge(&b, KEY_FULL, PROBE_AT, 8));
	enum ibv_wc_status got;

	row("receive into device memory without LOCAL_WRITE");
	open_dm(64, 0, 64, 0, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ZERO_BASED);
	r.sge[0] = (struct ibv_sge){.addr = 0, .length = 8, .lkey = m.mr->lkey};
	EXPECT(side_post_recv(&a, 0, &r, 1).ret == 0, "ibv_post_recv");
	got = probe_request(&b, &a, 0, &s);
	EXPECT(got == IBV_WC_REM_OP_ERR, "'%s'", ibv_wc_status_str(got));
	close_dm();
}

/* --- the size is the device's ---------------------------------------------------- */

enum command { ALLOC, FREE, REGISTER, END };

struct order {
	enum command command;
	size_t length;
};

struct answer {
	int error;
	uint32_t rkey;
	size_t max;
};

/* The other process: a stack of blocks. */
static void dm_agent(int sock)
{
	struct ibv_context *ctx = node_open_device();
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_dm *dm[64];
	unsigned int count = 0;
	struct order o;

	while (spawn_receive_any(sock, &o, sizeof(o)) == sizeof(o) && o.command != END) {
		struct answer reply = {.max = query_max(ctx)};
		struct ibv_mr *mr;

		if (o.command == ALLOC) {
			dm[count] = alloc(ctx, o.length, 0, 0);
			reply.error = dm[count] ? 0 : errno;
			count += dm[count] != NULL;
		} else if (o.command == FREE) {
			reply.error = ibv_free_dm(dm[--count]);
		} else {
			mr = ibv_reg_dm_mr(pd, dm[count - 1], 0, o.length, ACCESS);
			reply.error = mr ? 0 : errno;
			reply.rkey = mr ? mr->rkey : 0;
		}
		spawn_send(sock, &reply, sizeof(reply));
	}
	while (count > 0)
		EXPECT(ibv_free_dm(dm[--count]) == 0, "ibv_free_dm");
	EXPECT(ibv_dealloc_pd(pd) == 0 && ibv_close_device(ctx) == 0, "closing");
	exit(failures() != 0);
}

static struct answer ask(struct spawned *s, enum command command, size_t length)
{
	struct order o = {command, length};
	struct answer reply = {.error = 0};

	spawn_send(s->sock, &o, sizeof(o));
	spawn_receive(s->sock, &reply, sizeof(reply));
	return reply;
}

static void end_agent(struct spawned *s)
{
	struct order o = {.command = END};

	spawn_send(s->sock, &o, sizeof(o));
	spawn_wait(s);
}

static void expect_no_room(size_t length)
{
	struct ibv_dm *dm = alloc(n->ctx, length, 0, 0);

	EXPECT(!dm && errno == ENOMEM, "%p, errno %d", (void *)dm, errno);
	if (dm)
		expect_free(dm);
}

static void shared_rows(void)
{
	size_t half = max_dm / 2;
	struct spawned p;
	struct ibv_dm *dm;

	spawn_self(&p, WORD);
	row("max_dm_size is the same in all processes");
	EXPECT(ask(&p, ALLOC, half).max == max_dm, "another size");
	row("two processes have the whole together");
	dm = need(max_dm - half);
	row("one byte more than the whole is refused in both");
	expect_no_room(1);
	EXPECT(ask(&p, ALLOC, 1).error == ENOMEM, "the other process got it");
	row("what one frees the other can have");
	expect_free(dm);
	EXPECT(ask(&p, ALLOC, max_dm - half).error == 0, "refused");
	expect_no_room(1);
	EXPECT(ask(&p, FREE, 0).error == 0, "ibv_free_dm");
	expect_free(need(max_dm - half));
	row("what a process has that ends comes back");
	end_agent(&p);
	expect_free(need(max_dm));
}

static void killed_rows(void)
{
	for (unsigned int i = 0; i < 5; i++) {
		struct spawned p;

		row("what a killed process has comes back, round %u", i);
		spawn_self(&p, WORD);
		EXPECT(ask(&p, ALLOC, 4096).error == 0, "refused");
		EXPECT(ask(&p, ALLOC, max_dm - 4096).error == 0, "refused");
		EXPECT(ask(&p, REGISTER, 4096).error == 0, "ibv_reg_dm_mr");
		expect_no_room(1);
		spawn_kill(&p);
		expect_free(need(max_dm));
	}
}

/* Pieces of all sizes until nothing is left: the sum never exceeds the size, and comes back whole.
 */
static void fill_up_row(void)
{
	struct ibv_dm *dm[2000];
	size_t sum = 0, count = 0, length = 1;

	row("many blocks until nothing is left, and all of it again");
	while (count < COUNT_OF(dm) && (dm[count] = alloc(n->ctx, length, 0, 0))) {
		count++;
		sum += length;
		length = 1 + (length * 7 + 13) % 20000;
	}
	EXPECT(count == COUNT_OF(dm) || errno == ENOMEM, "errno %d", errno);
	EXPECT(sum <= max_dm && (count == COUNT_OF(dm) || sum + 20000 * 2 > max_dm / 2),
	       "%zu of %zu in %zu blocks", sum, max_dm, count);
	while (count > 0)
		expect_free(dm[--count]);
	expect_free(need(max_dm));
}

static void run(void)
{
	alloc_rows();
	align_rows();
	copy_rows();
	bad_host_row();
	pieces_row();
	register_rows();
	busy_rows();
	damaged_row();
	probe_open(&b, &a, 0);
	remote_rows();
	atomic_rows();
	refused_rows();
	other_domain_row();
	empty_row();
	local_rows();
	receive_row(8);
	receive_row(5000);
	receive_row(40000);
	receive_denied_row();
	probe_close(&b, &a, 0);
	shared_rows();
	killed_rows();
	fill_up_row();
}

int main(int argc, char **argv)
{
	int sock = spawn_role(argc, argv, WORD);

	if (sock >= 0)
		dm_agent(sock);
	two_sides_open(argc, argv);
	n = a.node;
	max_dm = query_max(n->ctx);
	run();
	return two_sides_close();
}
