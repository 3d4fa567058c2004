/* SPDX-License-Identifier: MIT */
/*
 * ibv_advise_mr(3), rule by rule: what each call returns, how many pages it made valid for the
 * device, and how many of them a READ and then a WRITE of another process still fault.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/apart.h"
#include "lib/expect.h"
#include "lib/odp_sysfs.h"
#include "lib/probe.h"
#include "lib/two_sides.h"
#include "lib/userfaultfd.h"

/*
 * Each row takes the next place: the device may hear late of what the last row unmapped (a busy
 * machine; docs/ODP.md), and would take it for this one's.
 */
#define STEP	  (16ul << 20) /* more than what is invalidated together */
#define PAGE	  4096u
#define PAGES	  16u /* of each region that has a size */
#define BYTES	  (PAGES * PAGE)
#define ODP	  (PROBE_ALL | IBV_ACCESS_ON_DEMAND)
#define IOVA	  0x7000000000ul
#define SETTLE_MS 20000u /* until a call that does not wait has been followed */
#define ELEMENTS  2
#define TRIES	  5000
#define ANY	  (-1) /* the document does not say */

#define READ	 IBV_ADVISE_MR_ADVICE_PREFETCH
#define WRITE	 IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE
#define NO_FAULT IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT
#define FLUSH	 IBV_ADVISE_MR_FLAG_FLUSH

/* --- counters -------------------------------------------------------------------- */

struct numbers {
	uint64_t handled, pages, faults, fault_pages;
};

static struct numbers read_all(void)
{
	return (struct numbers){odp_counter(ODP_PREFETCHES), odp_counter(ODP_PREFETCH_PAGES),
				odp_counter(ODP_FAULTS), odp_counter(ODP_FAULT_PAGES)};
}

/* --- keys ------------------------------------------------------------------------ */

/* The space: room for two regions, a hole, and memory that cannot be written. */
enum place { FIRST = 0, SECOND = PAGES, HOLE = 2 * PAGES, READABLE = 3 * PAGES, SPACE = 4 * PAGES };

enum what {
	W_FULL,
	W_SECOND,
	W_HOLED,	 /* SECOND and the hole behind it */
	W_READ_ONLY,	 /* REMOTE_READ */
	W_NO_RIGHTS,	 /* ON_DEMAND alone */
	W_LOCAL_WRITE,	 /* writable, but not by others */
	W_MEM_READ_ONLY, /* all rights, over memory without */
	W_ZERO_BASED,
	W_IOVA,
	W_IMPLICIT,
	W_IMPLICIT_READ,
	W_OTHER_PD,
	W_PINNED,
	W_FOREIGN, /* of another context of this process */
	W_FOREIGN_PINNED,
	W_FOREIGN_READ,
	W_DM,
	W_REGIONS, /* those above are described in spec[] */
	W_NULL = W_REGIONS,
	W_MW1,
	W_MW1_BOUND,
	W_MW2,
	W_DEAD,
	W_FOREIGN_DEAD,
	W_WRONG,
	W_ZERO,
	W_N
};

static const struct {
	size_t page, pages; /* of the space; no pages: the whole address space */
	unsigned int access;
	uint64_t base; /* the address of its first byte; 0: as it is */
} spec[W_REGIONS] = {
	[W_FULL] = {FIRST, PAGES, ODP, 0},
	[W_SECOND] = {SECOND, PAGES, ODP, 0},
	[W_HOLED] = {SECOND, 2 * PAGES, ODP, 0},
	[W_READ_ONLY] = {FIRST, PAGES, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ON_DEMAND, 0},
	[W_NO_RIGHTS] = {FIRST, PAGES, IBV_ACCESS_ON_DEMAND, 0},
	[W_LOCAL_WRITE] = {FIRST, PAGES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND, 0},
	[W_MEM_READ_ONLY] = {READABLE, PAGES, ODP, 0},
	[W_ZERO_BASED] = {FIRST, PAGES, ODP | IBV_ACCESS_ZERO_BASED, 0},
	[W_IOVA] = {FIRST, PAGES, ODP, IOVA},
	[W_IMPLICIT] = {FIRST, 0, ODP, 0},
	[W_IMPLICIT_READ] = {FIRST, 0, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ON_DEMAND, 0},
	[W_OTHER_PD] = {FIRST, PAGES, ODP, 0},
	[W_PINNED] = {FIRST, PAGES, PROBE_ALL | IBV_ACCESS_MW_BIND, 0},
	[W_FOREIGN] = {FIRST, PAGES, ODP, 0},
	[W_FOREIGN_PINNED] = {FIRST, PAGES, PROBE_ALL, 0},
	[W_FOREIGN_READ] = {FIRST, PAGES, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ON_DEMAND, 0},
};

static uint8_t *space = (uint8_t *)APART_AT;

static uint64_t base_of(enum what w)
{
	if (w == W_ZERO_BASED)
		return 0;
	if (w < W_REGIONS && spec[w].base)
		return spec[w].base;
	return (uintptr_t)space + (w < W_REGIONS ? spec[w].page * PAGE : 0);
}

static void map_at(enum place from, enum place to, int prot)
{
	uint8_t *want = space + from * PAGE;
	size_t bytes = (size_t)(to - from) * PAGE;

	if (mmap(want, bytes, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != want)
		DIE("mmap: errno %d, or something is mapped there", errno);
}

static void map_space(void)
{
	map_at(FIRST, HOLE, PROT_READ | PROT_WRITE);
	map_at(READABLE, SPACE, PROT_READ);
}

static void unmap_space(void)
{
	munmap(space, (size_t)SPACE * PAGE);
	space += STEP;
}

static struct ibv_dm *dm;
static struct ibv_mw *mw;
static struct ibv_pd *foreign; /* a domain of a context of its own */

static struct ibv_pd *open_foreign(void)
{
	struct ibv_pd *pd = ibv_alloc_pd(node_open_device());

	NEED(pd);
	return pd;
}

static void close_foreign(struct ibv_pd *pd)
{
	struct ibv_context *ctx = pd->context;

	EXPECT(ibv_dealloc_pd(pd) == 0 && ibv_close_device(ctx) == 0, "closing the other context");
}

static struct ibv_pd *domain_of(enum what w)
{
	if (w >= W_FOREIGN && w <= W_FOREIGN_READ)
		return foreign;
	return w == W_OTHER_PD ? a.node->other_pd : a.node->pd;
}

static struct ibv_mr *make_dm(void)
{
	struct ibv_alloc_dm_attr attr = {.length = BYTES};

	dm = ibv_alloc_dm(a.node->ctx, &attr);
	NEED(dm);
	return ibv_reg_dm_mr(a.node->pd, dm, 0, BYTES, PROBE_ALL | IBV_ACCESS_ZERO_BASED);
}

static struct ibv_mr *make_region(enum what w)
{
	struct ibv_pd *pd = domain_of(w);
	void *at = space + spec[w].page * PAGE;

	if (w == W_DM)
		return make_dm();
	if (spec[w].pages == 0)
		return ibv_reg_mr(pd, NULL, SIZE_MAX, spec[w].access);
	if (spec[w].base)
		return ibv_reg_mr_iova(pd, at, spec[w].pages * PAGE, spec[w].base, spec[w].access);
	return ibv_reg_mr(pd, at, spec[w].pages * PAGE, spec[w].access);
}

static uint32_t make_window(enum what w, struct ibv_mr *mr)
{
	struct ibv_mw_bind bind = {
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = {mr, (uintptr_t)space, BYTES, IBV_ACCESS_REMOTE_READ},
	};
	struct ibv_wc wc;

	mw = ibv_alloc_mw(a.node->pd, w == W_MW2 ? IBV_MW_TYPE_2 : IBV_MW_TYPE_1);
	NEED(mw);
	if (w == W_MW1_BOUND && (ibv_bind_mw(a.node->qp[0], mw, &bind) ||
				 side_poll(&a, 0, 1, PROBE_PATIENCE, &wc) != 1 || wc.status))
		DIE("ibv_bind_mw");
	return mw->rkey;
}

/* The objects of one row. */
struct objects {
	struct ibv_mr *mr[ELEMENTS];
	uint32_t lkey[ELEMENTS];
};

static struct ibv_mr *make_mr(enum what w)
{
	struct ibv_mr *mr = w < W_REGIONS	  ? make_region(w)
			    : w == W_NULL	  ? ibv_alloc_null_mr(a.node->pd)
			    : w < W_DEAD	  ? make_region(W_PINNED)
			    : w == W_FOREIGN_DEAD ? make_region(W_FOREIGN)
						  : make_region(W_FULL);

	if (!mr)
		DIE("registration of kind %d: errno %d", w, errno);
	return mr;
}

static void make(struct objects *o, int i, enum what w)
{
	o->mr[i] = make_mr(w);
	o->lkey[i] = o->mr[i]->lkey;
	if (w >= W_MW1 && w <= W_MW2)
		o->lkey[i] = make_window(w, o->mr[i]);
	if (w == W_WRONG)
		o->lkey[i] ^= 0x7fff0000;
	if (w == W_ZERO)
		o->lkey[i] = 0;
	if (w == W_DEAD || w == W_FOREIGN_DEAD) {
		EXPECT(ibv_dereg_mr(o->mr[i]) == 0, "ibv_dereg_mr");
		o->mr[i] = NULL;
	}
}

/* Deregistration waits for advice that was given without FLUSH. */
static void unmake(struct objects *o)
{
	if (mw)
		EXPECT(ibv_dealloc_mw(mw) == 0, "ibv_dealloc_mw");
	for (int i = 0; i < ELEMENTS; i++)
		if (o->mr[i])
			EXPECT(ibv_dereg_mr(o->mr[i]) == 0, "ibv_dereg_mr");
	if (dm)
		EXPECT(ibv_free_dm(dm) == 0, "ibv_free_dm");
	mw = NULL;
	dm = NULL;
}

/* --- the rules ------------------------------------------------------------------- */

struct element {
	enum what what;
	uint64_t offset; /* in the region, bytes */
	uint32_t bytes;	 /* 0: no element */
	bool absolute;	 /* offset is the address */
};

struct rule {
	const char *name;
	int advice;
	uint32_t flags;
	struct element sge[ELEMENTS];
	int want;    /* errno value */
	int handled; /* calls counted */
	int pages;   /* that became valid */
	int reads;   /* pages a READ of the first element then faults; ANY: none is tried */
	int writes;  /* likewise a WRITE after it */
	int touched; /* the program has written that many pages before */
};

#define LIST(...)           \
	{                   \
		__VA_ARGS__ \
	}
#define PART(what, offset, bytes)          \
	{                                  \
		what, offset, bytes, false \
	}
#define AT_ADDRESS(what, addr, bytes)   \
	{                               \
		what, addr, bytes, true \
	}
#define ALL(what) PART(what, 0, BYTES)
#define REFUSED	  0, 0, ANY, ANY
#define BEYOND	  ((uint64_t)BYTES)
#define LAST_PAGE (-(uint64_t)PAGE)

static const struct rule rules[] = {
	/* The three advices, done when the call returns. */
	{"PREFETCH: valid for reading", READ, FLUSH, LIST(ALL(W_FULL)), 0, 1, 16, 0, 16, 0},
	{"PREFETCH_WRITE: valid for both", WRITE, FLUSH, LIST(ALL(W_FULL)), 0, 1, 16, 0, 0, 0},
	{"NO_FAULT: the pages the program has", NO_FAULT, FLUSH, LIST(ALL(W_FULL)), 0, 1, 5, 11, 16,
	 5},
	{"NO_FAULT: the program has none", NO_FAULT, FLUSH, LIST(ALL(W_FULL)), 0, 1, 0, 16, 16, 0},
	{"NO_FAULT: the program has all", NO_FAULT, FLUSH, LIST(ALL(W_FULL)), 0, 1, 16, 0, 16, 16},
	{"PREFETCH of pages the program has", READ, FLUSH, LIST(ALL(W_FULL)), 0, 1, 16, 0, 16, 16},
	{"a part, from the middle of a page", READ, FLUSH, LIST(PART(W_FULL, PAGE + 9, PAGE)), 0, 1,
	 2, 0, 2, 0},
	{"the last byte", READ, FLUSH, LIST(PART(W_FULL, BYTES - 1, 1)), 0, 1, 1, 0, 1, 0},

	/* Later: the call has no more to say, and dereg or the counter tells that it was done. */
	{"PREFETCH without FLUSH", READ, 0, LIST(ALL(W_FULL)), 0, 1, 16, 0, 16, 0},
	{"PREFETCH_WRITE without FLUSH", WRITE, 0, LIST(ALL(W_FULL)), 0, 1, 16, 0, 0, 0},
	{"NO_FAULT without FLUSH", NO_FAULT, 0, LIST(ALL(W_FULL)), 0, 1, 5, 11, 16, 5},
	{"a hole, without FLUSH", READ, 0, LIST(PART(W_HOLED, 0, 2 * BYTES)), 0, 0, ANY, ANY, ANY,
	 0},
	{"read-only memory, without FLUSH", WRITE, 0, LIST(ALL(W_MEM_READ_ONLY)), 0, 0, 0, ANY, ANY,
	 0},
	{"out of bounds, without FLUSH", READ, 0, LIST(PART(W_FULL, BEYOND, 1)), 0, 0, 0, ANY, ANY,
	 0},

	{"out of bounds, then mapped, without FLUSH", READ, 0,
	 LIST(PART(W_FULL, BEYOND, 1), ALL(W_SECOND)), 0, 0, 16, ANY, ANY, 0},
	{"unmapped, then mapped, without FLUSH", READ, 0,
	 LIST(PART(W_HOLED, BYTES, PAGE), ALL(W_FULL)), 0, 0, 16, ANY, ANY, 0},
	{"read-only memory, then other, without FLUSH", WRITE, 0,
	 LIST(ALL(W_MEM_READ_ONLY), ALL(W_SECOND)), 0, 0, 16, ANY, ANY, 0},
	{"unmapped, then mapped, NO_FAULT without FLUSH", NO_FAULT, 0,
	 LIST(PART(W_HOLED, BYTES, PAGE), ALL(W_FULL)), 0, 0, 5, ANY, ANY, 5},

	/* Lists. */
	{"two regions", READ, FLUSH, LIST(ALL(W_FULL), ALL(W_SECOND)), 0, 1, 32, 0, 16, 0},
	{"two regions, for writing", WRITE, FLUSH, LIST(ALL(W_SECOND), ALL(W_FULL)), 0, 1, 32, 0, 0,
	 0},
	{"two regions, later", READ, 0, LIST(ALL(W_FULL), ALL(W_SECOND)), 0, 1, 32, 0, 16, 0},
	{"two ranges of one region", READ, FLUSH,
	 LIST(PART(W_FULL, 0, PAGE), PART(W_FULL, 8 * PAGE, PAGE)), 0, 1, 2, 0, 1, 0},
	{"the same range twice", READ, FLUSH, LIST(ALL(W_FULL), ALL(W_FULL)), 0, 1, 16, 0, 16, 0},
	{"the second is unmapped: the first stays", READ, FLUSH,
	 LIST(ALL(W_FULL), PART(W_HOLED, BYTES, PAGE)), EFAULT, 0, 16, 0, 16, 0},
	{"the second is out of bounds: the first stays", READ, FLUSH,
	 LIST(ALL(W_FULL), PART(W_SECOND, BEYOND, 1)), EFAULT, 0, 16, 0, 16, 0},
	{"the second is no ODP region", READ, FLUSH, LIST(ALL(W_FULL), ALL(W_PINNED)), ENOENT, 0,
	 ANY, ANY, ANY, 0},
	{"the second's key is dead, later", READ, 0, LIST(ALL(W_FULL), ALL(W_DEAD)), ENOENT, 0, ANY,
	 ANY, ANY, 0},
	{"the second is of another PD, later", READ, 0, LIST(ALL(W_FULL), ALL(W_OTHER_PD)), EPERM,
	 0, ANY, ANY, ANY, 0},

	/* EFAULT */
	{"one byte beyond the end", READ, FLUSH, LIST(PART(W_FULL, 1, BYTES)), EFAULT, REFUSED, 0},
	{"wholly beyond the end", READ, FLUSH, LIST(PART(W_FULL, BEYOND, 1)), EFAULT, REFUSED, 0},
	{"one byte before the beginning", READ, FLUSH, LIST(PART(W_FULL, -1ull, 2)), EFAULT,
	 REFUSED, 0},
	{"address and length overflow", READ, FLUSH, LIST(AT_ADDRESS(W_FULL, LAST_PAGE, 2 * PAGE)),
	 EFAULT, REFUSED, 0},
	{"overflow to the very beginning", READ, FLUSH, LIST(AT_ADDRESS(W_FULL, LAST_PAGE, PAGE)),
	 EFAULT, REFUSED, 0},
	{"out of bounds, for writing", WRITE, FLUSH, LIST(PART(W_FULL, 1, BYTES)), EFAULT, REFUSED,
	 0},
	{"out of bounds, NO_FAULT", NO_FAULT, FLUSH, LIST(PART(W_FULL, 1, BYTES)), EFAULT, REFUSED,
	 0},
	{"out of the bounds it chose", READ, FLUSH, LIST(PART(W_IOVA, BEYOND, 1)), EFAULT, REFUSED,
	 0},
	{"unmapped", READ, FLUSH, LIST(PART(W_HOLED, BYTES, BYTES)), EFAULT, REFUSED, 0},
	{"unmapped, for writing", WRITE, FLUSH, LIST(PART(W_HOLED, BYTES, BYTES)), EFAULT, REFUSED,
	 0},
	{"unmapped, NO_FAULT", NO_FAULT, FLUSH, LIST(PART(W_HOLED, BYTES, BYTES)), EFAULT, REFUSED,
	 0},
	{"partly unmapped", READ, FLUSH, LIST(PART(W_HOLED, BYTES - PAGE, 2 * PAGE)), EFAULT, 0,
	 ANY, ANY, ANY, 0},
	{"mapped part of a region with a hole", READ, FLUSH, LIST(ALL(W_HOLED)), 0, 1, 16, 0, 16,
	 0},
	{"memory that cannot be written", WRITE, FLUSH, LIST(ALL(W_MEM_READ_ONLY)), EFAULT, REFUSED,
	 0},
	{"such memory, for reading", READ, FLUSH, LIST(ALL(W_MEM_READ_ONLY)), 0, 1, 16, 0, ANY, 0},

	/* EINVAL */
	{"an unknown flag", READ, 2, LIST(ALL(W_FULL)), EINVAL, REFUSED, 0},
	{"an unknown flag with FLUSH", READ, FLUSH | 1u << 31, LIST(ALL(W_FULL)), EINVAL, REFUSED,
	 0},
	{"no elements", READ, FLUSH, LIST(PART(W_FULL, 0, 0)), EINVAL, REFUSED, 0},
	{"no elements, later", WRITE, 0, LIST(PART(W_FULL, 0, 0)), EINVAL, REFUSED, 0},
	{"a window of type 1", READ, FLUSH, LIST(ALL(W_MW1)), EINVAL, REFUSED, 0},
	{"a window of type 1, bound", READ, FLUSH, LIST(ALL(W_MW1_BOUND)), EINVAL, REFUSED, 0},
	{"a window of type 2", READ, FLUSH, LIST(ALL(W_MW2)), EINVAL, REFUSED, 0},
	{"a window, later", READ, 0, LIST(ALL(W_MW1)), EINVAL, REFUSED, 0},

	/* EOPNOTSUPP, which is ENOTSUP */
	{"the first unknown advice", NO_FAULT + 1, FLUSH, LIST(ALL(W_FULL)), ENOTSUP, REFUSED, 0},
	{"an unknown advice, later", 1000, 0, LIST(ALL(W_FULL)), ENOTSUP, REFUSED, 0},
	{"a negative advice", -1, FLUSH, LIST(ALL(W_FULL)), EOPNOTSUPP, REFUSED, 0},

	/* ENOENT */
	{"a pinned region", READ, FLUSH, LIST(ALL(W_PINNED)), ENOENT, REFUSED, 0},
	{"a pinned region, later", READ, 0, LIST(ALL(W_PINNED)), ENOENT, REFUSED, 0},
	{"device memory", READ, FLUSH, LIST(ALL(W_DM)), ENOENT, REFUSED, 0},
	{"the null region", READ, FLUSH, LIST(ALL(W_NULL)), ENOENT, REFUSED, 0},
	{"a deregistered region", READ, FLUSH, LIST(ALL(W_DEAD)), ENOENT, REFUSED, 0},
	{"a key that was never given out", READ, FLUSH, LIST(ALL(W_WRONG)), ENOENT, REFUSED, 0},
	{"key 0", READ, FLUSH, LIST(ALL(W_ZERO)), ENOENT, REFUSED, 0},
	{"a pinned region of another context", READ, FLUSH, LIST(ALL(W_FOREIGN_PINNED)), ENOENT,
	 REFUSED, 0},
	{"a deregistered region of another context", READ, FLUSH, LIST(ALL(W_FOREIGN_DEAD)), ENOENT,
	 REFUSED, 0},

	/* EPERM */
	{"a region of another PD", READ, FLUSH, LIST(ALL(W_OTHER_PD)), EPERM, REFUSED, 0},
	{"a region of another PD, later", NO_FAULT, 0, LIST(ALL(W_OTHER_PD)), EPERM, REFUSED, 0},
	{"a region of another context", READ, FLUSH, LIST(ALL(W_FOREIGN)), EPERM, REFUSED, 0},
	{"a region of another context, later", WRITE, 0, LIST(ALL(W_FOREIGN)), EPERM, REFUSED, 0},
	{"a region of another context, NO_FAULT", NO_FAULT, FLUSH, LIST(ALL(W_FOREIGN_READ)), EPERM,
	 REFUSED, 0},
	{"a region of another context, out of bounds", READ, FLUSH,
	 LIST(PART(W_FOREIGN, BEYOND, 1)), EPERM, REFUSED, 0},
	{"the second is of another context", READ, FLUSH, LIST(ALL(W_FULL), ALL(W_FOREIGN)), EPERM,
	 0, 0, ANY, ANY, 0},
	{"for writing, region read-only", WRITE, FLUSH, LIST(ALL(W_READ_ONLY)), EPERM, REFUSED, 0},
	{"the same, later", WRITE, 0, LIST(ALL(W_READ_ONLY)), EPERM, REFUSED, 0},
	{"for writing, region without rights", WRITE, FLUSH, LIST(ALL(W_NO_RIGHTS)), EPERM, REFUSED,
	 0},
	{"for writing, implicit and read-only", WRITE, FLUSH, LIST(ALL(W_IMPLICIT_READ)), EPERM,
	 REFUSED, 0},
	{"for reading, region read-only", READ, FLUSH, LIST(ALL(W_READ_ONLY)), 0, 1, 16, 0, ANY, 0},
	{"NO_FAULT, region read-only", NO_FAULT, FLUSH, LIST(ALL(W_READ_ONLY)), 0, 1, 3, 13, ANY,
	 3},
	{"for reading, region without rights", READ, FLUSH, LIST(ALL(W_NO_RIGHTS)), 0, 1, 16, ANY,
	 ANY, 0},
	{"for writing, LOCAL_WRITE only", WRITE, FLUSH, LIST(ALL(W_LOCAL_WRITE)), 0, 1, 16, ANY,
	 ANY, 0},

	/* Addresses are the region's, not the program's. */
	{"zero-based", READ, FLUSH, LIST(PART(W_ZERO_BASED, PAGE, PAGE)), 0, 1, 1, 0, 1, 0},
	{"a chosen address", WRITE, FLUSH, LIST(PART(W_IOVA, PAGE, 3 * PAGE)), 0, 1, 3, 0, 0, 0},

	/* The implicit region. */
	{"implicit, for reading", READ, FLUSH, LIST(ALL(W_IMPLICIT)), 0, 1, 16, 0, 16, 0},
	{"implicit, for writing", WRITE, FLUSH, LIST(ALL(W_IMPLICIT)), 0, 1, 16, 0, 0, 0},
	{"implicit, NO_FAULT", NO_FAULT, FLUSH, LIST(ALL(W_IMPLICIT)), 0, 1, 4, 12, 16, 4},
	{"implicit, later", READ, 0, LIST(ALL(W_IMPLICIT)), 0, 1, 16, 0, 16, 0},
	{"implicit, unmapped", READ, FLUSH, LIST(PART(W_IMPLICIT, (uint64_t)HOLE *PAGE, PAGE)),
	 EFAULT, REFUSED, 0},
	{"implicit, overflow", READ, FLUSH, LIST(AT_ADDRESS(W_IMPLICIT, LAST_PAGE, 2 * PAGE)),
	 EFAULT, REFUSED, 0},
	{"implicit, page 0", READ, FLUSH, LIST(AT_ADDRESS(W_IMPLICIT, 0, PAGE)), EFAULT, REFUSED,
	 0},
	{"implicit, with an explicit one", READ, FLUSH, LIST(ALL(W_SECOND), ALL(W_IMPLICIT)), 0, 1,
	 32, 0, 16, 0},
};

/* --- doing ----------------------------------------------------------------------- */

static void expect_added(const char *what, uint64_t before, uint64_t now, int want)
{
	EXPECT(want == ANY || now - before == (uint64_t)want, "%s: %+ld, not %+d", what,
	       (int64_t)(now - before), want);
}

static void expect_access(enum ibv_wr_opcode op, const struct ibv_sge *sge, const struct ibv_mr *mr,
			  int want)
{
	struct numbers before = read_all(), now;

	if (want == ANY)
		return;
	EXPECT_PROBE(&b, &a, 0, op, sge->addr, mr->rkey, sge->length, IBV_WC_SUCCESS);
	now = read_all();
	expect_added("page faults", before.faults, now.faults, want > 0);
	expect_added("faulted pages", before.fault_pages, now.fault_pages, want);
}

static bool in_page_table(const uint8_t *p)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t entry = 0;

	if (fd < 0 || pread(fd, &entry, 8, (off_t)((uintptr_t)p / PAGE * 8)) != 8)
		DIE("pagemap: errno %d", errno);
	close(fd);
	return entry >> 63;
}

static unsigned int pages_of_program(void)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < PAGES; i++)
		n += in_page_table(space + (size_t)i * PAGE);
	return n;
}

static int advise(struct ibv_pd *pd, int advice, uint32_t flags, struct ibv_sge *sge,
		  uint32_t count)
{
	int ret;

	errno = 0;
	ret = ibv_advise_mr(pd, (enum ibv_advise_mr_advice)advice, flags, sge, count);
	EXPECT(ret == 0 || errno == ret, "returns %d, errno %d", ret, errno);
	return ret;
}

static void call(const struct rule *r, struct objects *o)
{
	struct numbers before = read_all(), now;
	struct ibv_sge sge[ELEMENTS];
	uint32_t n = 0;
	int ret;

	for (; n < ELEMENTS && r->sge[n].bytes; n++)
		sge[n] = (struct ibv_sge){(r->sge[n].absolute ? 0 : base_of(r->sge[n].what)) +
						  r->sge[n].offset,
					  r->sge[n].bytes, o->lkey[n]};
	ret = advise(a.node->pd, r->advice, r->flags, n ? sge : NULL, n);
	EXPECT(ret == r->want, "returns %d (%s), not %d", ret, strerror(ret), r->want);
	if (r->advice == NO_FAULT && r->want == 0)
		EXPECT(pages_of_program() == (unsigned int)r->touched, "brought in %u pages",
		       pages_of_program() - (unsigned int)r->touched);
	if (!(r->flags & FLUSH) && r->handled > 0)
		odp_counter_wait(0, ODP_PREFETCHES, before.handled + 1, SETTLE_MS);
	else if (!(r->flags & FLUSH))
		return;
	now = read_all();
	expect_added("pages", before.pages, now.pages, r->pages);
	expect_access(IBV_WR_RDMA_READ, &sge[0], o->mr[0], r->reads);
	expect_access(IBV_WR_RDMA_WRITE, &sge[0], o->mr[0], r->writes);
}

static void check(const struct rule *r)
{
	struct numbers before = read_all(), now;
	struct objects o = {{NULL}, {0}};

	row("%s", r->name);
	map_space();
	for (int i = 0; i < ELEMENTS && (i == 0 || r->sge[i].bytes); i++)
		make(&o, i, r->sge[i].what);
	/* A pinned region has brought its pages in. */
	madvise(space, BYTES, MADV_DONTNEED);
	for (int i = 0; i < r->touched; i++)
		space[(size_t)i * PAGE] = 1;
	call(r, &o);
	unmake(&o);
	now = read_all();
	expect_added("calls handled", before.handled, now.handled, r->handled);
	expect_added("pages in the end", before.pages, now.pages, r->pages);
	unmap_space();
}

/* --- what is not a row of the table ---------------------------------------------- */

static struct ibv_mr *whole_region(void)
{
	struct ibv_mr *mr;

	map_space();
	mr = make_region(W_FULL);
	NEED(mr);
	return mr;
}

static void end_region(struct ibv_mr *mr)
{
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	unmap_space();
}

/* A protection domain that is none. */
static void invalid_pd_row(void)
{
	struct ibv_mr *mr = whole_region();
	struct ibv_sge sge = {(uintptr_t)space, BYTES, mr->lkey};
	struct ibv_pd fake = {.context = a.node->ctx, .handle = 0x00fffff0};
	int ret;

	row("a protection domain that does not exist");
	ret = advise(&fake, READ, FLUSH, &sge, 1);
	EXPECT(ret == EINVAL, "returns %d", ret);
	row("no list");
	ret = advise(a.node->pd, READ, FLUSH, NULL, 1);
	EXPECT(ret == EINVAL, "returns %d", ret);
	end_region(mr);
}

/* Keys differ from context to context by chance only: opened again and again, one has the own
 * one's. */
static void key_of_both_row(void)
{
	struct ibv_pd *own = open_foreign();
	struct ibv_mr *mr, *theirs;
	struct ibv_sge sge;
	int tries = TRIES, ret;

	row("a key of this context and of another one is this one's");
	map_space();
	mr = ibv_reg_mr(own, space, BYTES, ODP);
	NEED(mr);
	for (foreign = open_foreign();
	     (theirs = make_mr(W_FOREIGN))->lkey != mr->lkey && --tries;) {
		ibv_dereg_mr(theirs);
		close_foreign(foreign);
		foreign = open_foreign();
	}
	EXPECT(theirs->lkey == mr->lkey, "no context of %d has it", TRIES);
	sge = (struct ibv_sge){(uintptr_t)space, BYTES, mr->lkey};
	ret = advise(own, READ, FLUSH, &sge, 1);
	EXPECT(ret == 0, "returns %d", ret);
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	ret = advise(own, READ, FLUSH, &sge, 1);
	EXPECT(ret == EPERM, "returns %d when it is the other's alone", ret);
	end_region(theirs);
	close_foreign(foreign);
	close_foreign(own);
}

#define MANY 300u

static void many_elements_row(void)
{
	struct ibv_mr *mr = whole_region();
	struct ibv_sge sge[MANY];
	struct numbers before = read_all(), now;
	int ret;

	row("%u elements", MANY);
	for (unsigned int i = 0; i < MANY; i++)
		sge[i] = (struct ibv_sge){(uintptr_t)space + (size_t)(i % PAGES) * PAGE, PAGE,
					  mr->lkey};
	ret = advise(a.node->pd, WRITE, FLUSH, sge, MANY);
	EXPECT(ret == 0, "returns %d", ret);
	now = read_all();
	expect_added("calls handled", before.handled, now.handled, 1);
	expect_added("pages", before.pages, now.pages, PAGES);
	end_region(mr);
}

/* The region is where the bytes come from (WRITE) or go to (READ). */
static void expect_local(enum ibv_wr_opcode op, const struct ibv_mr *mr, int want)
{
	struct node_send request =
		side_rdma_to(op, (struct ibv_sge){(uintptr_t)space, BYTES, mr->lkey}, &b, PROBE_AT);
	struct numbers before = read_all(), now;
	enum ibv_wc_status status = probe_request(&a, &b, 0, &request);

	EXPECT(status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(status));
	now = read_all();
	expect_added("page faults", before.faults, now.faults, want > 0);
	expect_added("faulted pages", before.fault_pages, now.fault_pages, want);
}

static void local_access_rows(void)
{
	static const struct {
		const char *name;
		int advice; /* ANY: none */
		int sent, received;
	} rows[] = {
		{"without advice, local access faults", ANY, 16, 16},
		{"after PREFETCH, sending does not", READ, 0, 16},
		{"after PREFETCH_WRITE, receiving does not, either", WRITE, 0, 0},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_mr *mr = whole_region();
		struct ibv_sge sge = {(uintptr_t)space, BYTES, mr->lkey};

		row("%s", rows[i].name);
		if (rows[i].advice != ANY)
			EXPECT(advise(a.node->pd, rows[i].advice, FLUSH, &sge, 1) == 0,
			       "ibv_advise_mr");
		expect_local(IBV_WR_RDMA_WRITE, mr, rows[i].sent);
		expect_local(IBV_WR_RDMA_READ, mr, rows[i].received);
		end_region(mr);
	}
}

/* What advice relies on: a region says what may be done, not what is there. */
static void late_mapping_rows(void)
{
	static const struct {
		const char *name;
		enum what what;
		enum ibv_wc_status writes;
	} rows[] = {
		{"an explicit region, mapped afterwards", W_FULL, IBV_WC_SUCCESS},
		{"the implicit region, mapped afterwards", W_IMPLICIT, IBV_WC_SUCCESS},
		{"an explicit region that may be read, mapped afterwards", W_READ_ONLY,
		 IBV_WC_REM_ACCESS_ERR},
		{"an implicit region that may be read, mapped afterwards", W_IMPLICIT_READ,
		 IBV_WC_REM_ACCESS_ERR},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_mr *mr = make_mr(rows[i].what);
		struct ibv_sge sge = {(uintptr_t)space, BYTES, mr->lkey};

		row("%s", rows[i].name);
		EXPECT(advise(a.node->pd, READ, FLUSH, &sge, 1) == EFAULT, "advice before");
		map_space();
		expect_access(IBV_WR_RDMA_READ, &sge, mr, PAGES);
		EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_WRITE, sge.addr, mr->rkey, BYTES,
			     rows[i].writes);
		end_region(mr);
	}
}

/* --- */

/* Its first keys are passed over, so that none of it is one of the node's, by chance. */
static void rules_rows(void)
{
	foreign = open_foreign();
	map_space();
	for (int i = 0; i < KEY_N; i++)
		EXPECT(ibv_dereg_mr(make_mr(W_FOREIGN)) == 0, "ibv_dereg_mr");
	unmap_space();
	for (size_t i = 0; i < COUNT_OF(rules); i++)
		check(&rules[i]);
	close_foreign(foreign);
}

static void run(void)
{
	rules_rows();
	key_of_both_row();
	invalid_pd_row();
	many_elements_row();
	local_access_rows();
	late_mapping_rows();
}

int main(int argc, char **argv)
{
	/* What one row unmaps would be valid in the next. */
	need_userfaultfd();
	setenv("ANYVERBS_DEVICES", "any0", 1);
	two_sides_open(argc, argv);
	probe_open(&b, &a, 0);
	run();
	probe_close(&b, &a, 0);
	return two_sides_close();
}
