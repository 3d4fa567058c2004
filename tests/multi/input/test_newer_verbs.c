/* SPDX-License-Identifier: MIT */
/*
 * Functions that libibverbs has got since rdma-core 44, as programs built with newer headers find
 * them: by name and version node. What they register is written to by another process; what this
 * device has not is refused, of any device.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/probe.h"
#include "lib/two_sides.h"

#define AT    0x200000u
#define LEN   0x3000u
#define IOVA  0x7000000000u
#define SIZE  0x5000u /* of a buffer */
#define OTHER UINT64_C(0x5a5a)

/* Under names of their own: the header may have them. */
enum { MASK_IOVA = 1, MASK_ADDR = 2, MASK_FD = 4, MASK_OFFSET = 8, MASK_DMAH = 16, MASK_BUF = 32 };
enum { MAY_BE_UNPROTECTED = 4 }; /* of a parent domain */

struct mr_attr {
	size_t length;
	int access;
	uint64_t mask, iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah, *buf;
};

typedef struct ibv_mr *reg_mr_ex(struct ibv_pd *, struct mr_attr *);
typedef void *alloc_buf(struct ibv_pd *, size_t, void **);
typedef void free_buf(void *);
typedef struct ibv_mr *reg_buf_mr(struct ibv_pd *, void *, void *, size_t, int);
typedef int port_speed(struct ibv_context *, uint32_t, uint64_t *);
typedef int on_object(void *);
typedef int on_counter(void *, uint64_t);
typedef int read_counter(void *, uint64_t *);
typedef void *create(struct ibv_context *, void *);
typedef int query_caps(struct ibv_context *, void *, size_t);
typedef int attach(struct ibv_qp *, void *, void *);

static struct node *n;
static reg_mr_ex *reg_ex;
static alloc_buf *buf_alloc;
static free_buf *buf_free;
static reg_buf_mr *buf_reg;
static on_object *buf_export;

static void *need(const char *name, const char *node)
{
	void *f = dlvsym(RTLD_DEFAULT, name, node);

	if (!f)
		DIE("%s@%s is not there", name, node);
	return f;
}

/* Has the system's own library that node, too? Then it is asked about devices that are not ours. */
static bool behind(const char *name, const char *node)
{
	void *lib = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
	void *f = lib ? dlvsym(lib, name, node) : NULL;

	if (lib)
		dlclose(lib);
	return f;
}

static void expect_written(struct ibv_mr *mr, uint64_t addr, const void *memory, uint32_t bytes)
{
	memset((void *)(uintptr_t)memory, 0, bytes);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_WRITE, addr, mr->rkey, bytes, IBV_WC_SUCCESS);
	EXPECT(pattern_check(memory, bytes, PROBE_SEED, 0) == -1, "bytes");
}

/* --- ibv_reg_mr_ex --------------------------------------------------------------- */

static struct mr_attr attr_default(uint64_t mask)
{
	return (struct mr_attr){.length = LEN,
				.access = PROBE_ALL,
				.mask = mask,
				.iova = IOVA,
				.addr = n->arena + AT,
				.fd = -1};
}

static void mask_rows(void)
{
	static const struct {
		const char *name;
		uint64_t mask;
		int error;
	} rows[] = {
		{"nothing", 0, EINVAL},
		{"an address", MASK_ADDR, 0},
		{"an address and a base", MASK_ADDR | MASK_IOVA, 0},
		{"a base alone", MASK_IOVA, EINVAL},
		{"an address with a file's offset", MASK_ADDR | MASK_OFFSET, EINVAL},
		{"a file that is not open", MASK_FD | MASK_OFFSET | MASK_IOVA, EBADF},
		{"a file without offset", MASK_FD | MASK_IOVA, EINVAL},
		{"a file without base", MASK_FD | MASK_OFFSET, EINVAL},
		{"a file and an address", MASK_FD | MASK_OFFSET | MASK_IOVA | MASK_ADDR, EINVAL},
		{"a DMA handle", MASK_ADDR | MASK_DMAH, EOPNOTSUPP},
		{"a buffer without address", MASK_BUF, EINVAL},
		{"a buffer and a file", MASK_BUF | MASK_ADDR | MASK_FD | MASK_OFFSET | MASK_IOVA,
		 EINVAL},
		{"an unknown bit", MASK_ADDR | 64, EOPNOTSUPP},
		{"the last bit", MASK_ADDR | 1ull << 63, EOPNOTSUPP},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct mr_attr attr = attr_default(rows[i].mask);
		uint64_t addr = rows[i].mask & MASK_IOVA ? attr.iova : (uintptr_t)attr.addr;
		struct ibv_mr *mr;

		row("ibv_reg_mr_ex: %s", rows[i].name);
		errno = 0;
		mr = reg_ex(n->pd, &attr);
		EXPECT(!mr == !!rows[i].error && errno == rows[i].error, "%p, errno %d", (void *)mr,
		       errno);
		if (!mr)
			continue;
		EXPECT(mr->addr == attr.addr && mr->length == LEN && mr->pd == n->pd &&
			       mr->context == n->ctx,
		       "fields");
		expect_written(mr, addr, attr.addr, LEN);
		EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	}
}

static void access_row(void)
{
	struct mr_attr attr = attr_default(MASK_ADDR);
	struct ibv_mr *mr;

	row("ibv_reg_mr_ex: rights");
	attr.access = IBV_ACCESS_REMOTE_READ;
	mr = reg_ex(n->pd, &attr);
	if (!EXPECT(mr, "errno %d", errno))
		return;
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)attr.addr, mr->rkey, 64,
		     IBV_WC_SUCCESS);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_WRITE, (uintptr_t)attr.addr, mr->rkey, 64,
		     IBV_WC_REM_ACCESS_ERR);
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	attr.access = IBV_ACCESS_REMOTE_WRITE;
	EXPECT_NULL(reg_ex(n->pd, &attr), EINVAL);
}

/* The structure of headers without a member ends before it: that memory need not be there. */
static void short_row(void)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), known = offsetof(struct mr_attr, dmah);
	const struct mr_attr attr = attr_default(MASK_ADDR);
	uint8_t *p =
		mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;

	row("ibv_reg_mr_ex: members behind those of the mask");
	if (p == MAP_FAILED || mprotect(p + page, page, PROT_NONE))
		DIE("mmap");
	memcpy(p + page - known, &attr, known);
	mr = reg_ex(n->pd, (struct mr_attr *)(void *)(p + page - known));
	EXPECT(mr && ibv_dereg_mr(mr) == 0, "errno %d", errno);
	munmap(p, 2 * page);
}

/* --- buffers --------------------------------------------------------------------- */

static void *need_buf(size_t size, void **handle)
{
	void *p = buf_alloc(n->pd, size, handle);

	NEED(p);
	EXPECT((uintptr_t)p % (uintptr_t)sysconf(_SC_PAGESIZE) == 0, "%p", p);
	return p;
}

static void range_rows(void)
{
	static const struct {
		const char *name;
		int64_t off;
		size_t length;
		int error;
	} rows[] = {
		{"all", 0, SIZE, 0},
		{"an inner part", 100, 1000, 0},
		{"the last byte", SIZE - 1, 1, 0},
		{"one byte beyond", 0, SIZE + 1, EINVAL},
		{"one byte before", -1, 8, EINVAL},
		{"behind it", SIZE + 1, 0, EINVAL},
		{"a length that wraps", 8, SIZE_MAX, EINVAL},
	};
	void *handle;
	uint8_t *p = need_buf(SIZE, &handle);

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		void *at = (void *)((uintptr_t)p + (uintptr_t)rows[i].off);
		struct ibv_mr *mr;

		row("ibv_reg_buf_mr: %s", rows[i].name);
		errno = 0;
		mr = buf_reg(n->pd, handle, at, rows[i].length, PROBE_ALL);
		EXPECT(!mr == !!rows[i].error && errno == rows[i].error, "%p, errno %d", (void *)mr,
		       errno);
		if (!mr)
			continue;
		expect_written(mr, (uintptr_t)at, at, (uint32_t)rows[i].length);
		EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	}
	row("a buffer");
	EXPECT_MINUS_ONE(buf_export(handle), ENODATA);
	buf_free(handle);
}

static void base_row(void)
{
	struct mr_attr attr = attr_default(MASK_BUF | MASK_ADDR | MASK_IOVA);
	struct ibv_mr *mr;

	row("ibv_reg_mr_ex: a buffer, and a base");
	attr.addr = need_buf(LEN, &attr.buf);
	mr = reg_ex(n->pd, &attr);
	if (EXPECT(mr, "errno %d", errno)) {
		expect_written(mr, IOVA, attr.addr, LEN);
		EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	}
	buf_free(attr.buf);
}

static void expect_refused(const char *what, struct ibv_pd *pd, void *handle, void *p)
{
	EXPECT(!buf_reg(pd, handle, p, 8, PROBE_ALL) && errno == EINVAL, "%s: errno %d", what,
	       errno);
}

/* Which buffer a handle is of, and that it is of none. */
static void handle_row(void)
{
	static uint64_t nothing[8];
	void *handle[3], *p[3];
	struct ibv_mr *mr;

	row("handles of buffers");
	for (unsigned int i = 0; i < 3; i++)
		p[i] = need_buf(SIZE, &handle[i]);
	expect_refused("another's memory", n->pd, handle[0], p[1]);
	expect_refused("another domain", n->other_pd, handle[0], p[0]);
	expect_refused("nobody's handle", n->pd, nothing, p[0]);
	expect_refused("no handle", n->pd, NULL, p[0]);
	buf_free(handle[1]);
	expect_refused("a freed one", n->pd, handle[1], p[1]);
	for (unsigned int i = 0; i < 3; i += 2) {
		mr = buf_reg(n->pd, handle[i], p[i], SIZE, PROBE_ALL);
		EXPECT(mr && ibv_dereg_mr(mr) == 0, "buffer %u: errno %d", i, errno);
		buf_free(handle[i]);
		expect_refused("freed", n->pd, handle[i], p[i]);
	}
	if (behind("ibv_free_buf", "IBVERBS_1.17"))
		return;
	buf_free(nothing);
	EXPECT_MINUS_ONE(buf_export(nothing), EOPNOTSUPP);
}

/* Whoever permits that the guest's host reads the buffers gets memory as any other. */
static void unprotected_row(void)
{
	struct ibv_parent_domain_init_attr init = {.pd = n->pd, .comp_mask = MAY_BE_UNPROTECTED};
	struct ibv_pd *parent = ibv_alloc_parent_domain(n->ctx, &init);
	struct ibv_mr *mr;
	void *handle, *p;

	row("a buffer of a domain that may have unprotected ones");
	if (!EXPECT(parent, "ibv_alloc_parent_domain: errno %d", errno))
		return;
	p = buf_alloc(parent, SIZE, &handle);
	NEED(p);
	expect_refused("another domain", n->pd, handle, p);
	mr = buf_reg(parent, handle, p, SIZE, PROBE_ALL);
	if (EXPECT(mr, "errno %d", errno)) {
		expect_written(mr, (uintptr_t)p, p, SIZE);
		EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	}
	buf_free(handle);
	EXPECT(ibv_dealloc_pd(parent) == 0, "ibv_dealloc_pd");
}

static void no_memory_row(void)
{
	void *handle = n;

	row("a buffer larger than memory");
	if (!TEST_SANITIZED) /* whose allocators end the program */
		EXPECT(!buf_alloc(n->pd, SIZE_MAX / 2, &handle) && errno == ENOMEM && handle == n,
		       "errno %d", errno);
}

/* --- what there is of the port --------------------------------------------------- */

static void speed_row(void)
{
	port_speed *speed = need("ibv_query_port_speed", "IBVERBS_1.16");
	struct ibv_port_attr port;
	uint64_t got = OTHER;

	row("ibv_query_port_speed");
	if (ibv_query_port(n->ctx, 1, &port))
		DIE("ibv_query_port");
	EXPECT(port.active_width == 2 && port.active_speed == 32,
	       "not 4X EDR, of which the next line speaks");
	EXPECT(speed(n->ctx, 1, &got) == 0 && got == 1000, "%lu", got);
	got = OTHER;
	EXPECT(speed(n->ctx, 0, &got) == EINVAL && speed(n->ctx, 2, &got) == EINVAL &&
		       speed(n->ctx, 257, &got) == EINVAL && got == OTHER,
	       "other ports: %lu", got);
}

/* --- what is refused: of our device, and of one that the system's library would know --- */

static void refused_rows(struct ibv_context *ctx)
{
	static const char *const on_value[] = {"ibv_set_comp_cntr", "ibv_set_err_comp_cntr",
					       "ibv_inc_comp_cntr", "ibv_inc_err_comp_cntr"};
	static const char *const reading[] = {"ibv_read_comp_cntr", "ibv_read_err_comp_cntr"};
	struct ibv_qp qp = {.context = ctx};
	struct ibv_dm dm = {.context = ctx};
	uint64_t caps[] = {OTHER, OTHER, OTHER}, attr[4] = {0}, value = OTHER;

	EXPECT_NULL(((create *)need("ibv_alloc_dmah", "IBVERBS_1.15"))(ctx, attr), EOPNOTSUPP);
	EXPECT_RET(((on_object *)need("ibv_dealloc_dmah", "IBVERBS_1.15"))(&ctx), EOPNOTSUPP);
	errno = 0;
	EXPECT(((on_object *)need("ibv_dm_export_dmabuf_fd", "IBVERBS_1.16"))((void *)&dm) == -1 &&
		       errno == EOPNOTSUPP,
	       "ibv_dm_export_dmabuf_fd: errno %d", errno);
	EXPECT_NULL(((create *)need("ibv_create_comp_cntr", "IBVERBS_1.18"))(ctx, attr),
		    EOPNOTSUPP);
	EXPECT_RET(((on_object *)need("ibv_destroy_comp_cntr", "IBVERBS_1.18"))(&ctx), EOPNOTSUPP);
	EXPECT_RET(((query_caps *)need("_ibv_query_comp_cntr_caps", "IBVERBS_1.18"))(ctx, caps, 16),
		   EOPNOTSUPP);
	EXPECT(caps[0] == 0 && caps[1] == 0 && caps[2] == OTHER, "capabilities");
	EXPECT_RET(((attach *)need("ibv_qp_attach_comp_cntr", "IBVERBS_1.18"))(&qp, &ctx, attr),
		   EOPNOTSUPP);
	for (size_t i = 0; i < COUNT_OF(on_value); i++)
		EXPECT_RET(((on_counter *)need(on_value[i], "IBVERBS_1.18"))(&ctx, 1), EOPNOTSUPP);
	for (size_t i = 0; i < COUNT_OF(reading); i++)
		EXPECT_RET(((read_counter *)need(reading[i], "IBVERBS_1.18"))(&ctx, &value),
			   EOPNOTSUPP);
	EXPECT(value == OTHER, "value");
}

/* A library that is too old for a call cannot be asked. */
static void foreign_row(void)
{
	struct ibv_device device = {.name = "other"};
	struct ibv_context ctx = {.device = &device};
	struct ibv_pd pd = {.context = &ctx};
	struct mr_attr attr = attr_default(MASK_ADDR);
	port_speed *speed = need("ibv_query_port_speed", "IBVERBS_1.16");
	uint64_t value;
	void *handle;

	row("another device, and a system's library without these verbs");
	if (behind("ibv_reg_mr_ex", "IBVERBS_1.15"))
		return;
	refused_rows(&ctx);
	EXPECT_NULL(reg_ex(&pd, &attr), EOPNOTSUPP);
	EXPECT_NULL(buf_alloc(&pd, SIZE, &handle), EOPNOTSUPP);
	EXPECT_NULL(buf_reg(&pd, &attr, attr.addr, 8, 0), EOPNOTSUPP);
	EXPECT_RET(speed(&ctx, 1, &value), EOPNOTSUPP);
}

int main(int argc, char **argv)
{
	two_sides_open(argc, argv);
	n = a.node;
	probe_open(&b, &a, 0);
	reg_ex = need("ibv_reg_mr_ex", "IBVERBS_1.15");
	buf_alloc = need("ibv_alloc_buf", "IBVERBS_1.17");
	buf_free = need("ibv_free_buf", "IBVERBS_1.17");
	buf_reg = need("ibv_reg_buf_mr", "IBVERBS_1.17");
	buf_export = need("ibv_export_buf_dmabuf_fd", "IBVERBS_1.18");
	mask_rows();
	access_row();
	short_row();
	range_rows();
	base_row();
	handle_row();
	unprotected_row();
	no_memory_row();
	speed_row();
	row("what this device has not");
	refused_rows(n->ctx);
	foreign_row();
	probe_close(&b, &a, 0);
	return two_sides_close();
}
