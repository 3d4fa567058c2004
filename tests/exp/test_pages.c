/* SPDX-License-Identifier: MIT */
/*
 * What the seed documents (docs/SEEDS.md) print as code, verbatim: it compiles, and does what the
 * page says. Only the white space is ours. Where a fragment is no C as it is printed (a letter is
 * missing, a keyword has a capital, three dots), the difference is made by the preprocessor, or
 * named beside it.
 */
#include <stddef.h>
#include <string.h>
#include <infiniband/verbs_exp.h>

#include "lib/expect.h"
#include "lib/probe.h"
#include "lib/two_sides.h"

#define QP_SELF 4
#define BYTES	8192u
#define AT	0x200000u

/* clang-format off */

/* --- prototypes: they agree with the headers', or this does not compile ------------- */

int ibv_advise_mr(struct ibv_pd *pd,
                  enum ibv_advise_mr_advice advice,
                  uint32_t flags,
                  struct ibv_sge *sg_list,
                  uint32_t num_sge);

#undef ibv_rereg_mr
int ibv_rereg_mr(struct ibv_mr *mr,
                 int flags,
                 struct ibv_pd *pd,
                 void *addr,
                 size_t length,
                 int access);

struct ibv_mr *ibv_alloc_null_mr(struct ibv_pd *pd);

struct ibv_dm *ibv_alloc_dm(struct ibv_context *context,
                            struct ibv_alloc_dm_attr *attr);

int ibv_free_dm(struct ibv_dm *dm);

/* libibverbs has it as const void *: callers see no difference. */
#define ibv_memcpy_to_dm page_memcpy_to_dm
int ibv_memcpy_to_dm(struct ibv_dm *dm, uint64_t dm_offset,
                     void *host_addr, size_t length);
#undef ibv_memcpy_to_dm

int ibv_memcpy_from_dm(void *host_addr, struct ibv_dm *dm,
                   uint64_t dm_offset, size_t length);

int ibv_exp_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
uint64_t access, struct ibv_exp_rereg_mr_attr *attr);

/* libibverbs has no @access of uint32_t in ibv_reg_dm_mr() but one of unsigned int: the same. */
#undef ibv_reg_dm_mr
struct ibv_mr* ibv_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t dm_offset,
                  size_t length, uint32_t access);

/* --- types: they are laid out, and numbered, as the headers' ------------------------ */

#define ibv_alloc_dm_attr page_alloc_dm_attr
struct ibv_alloc_dm_attr {
        size_t length;           /* Length of desired device memory buffer */
        uint32_t log_align_req;       /* Log base 2 of address alignment requirement */
        uint32_t comp_mask;      /* Compatibility mask that defines which of the following
                                    variables are valid */
};
#undef ibv_alloc_dm_attr

#define ibv_exp_odp_caps page_odp_caps
struct ibv_exp_odp_caps { uint64_t general_odp_caps; struct { uint32_t rc_odp_caps;
uint32_t uc_odp_caps; uint32_t ud_odp_caps; uint32_t dc_odp_caps; uint32_t xrc_odp_caps;
uint32_t raw_eth_odp_caps; } per_transport_caps; };
#undef ibv_exp_odp_caps

enum { SEND_OF_HEADER = IBV_EXP_ODP_SUPPORT_SEND, RECV_OF_HEADER = IBV_EXP_ODP_SUPPORT_RECV,
       WRITE_OF_HEADER = IBV_EXP_ODP_SUPPORT_WRITE, READ_OF_HEADER = IBV_EXP_ODP_SUPPORT_READ,
       ATOMIC_OF_HEADER = IBV_EXP_ODP_SUPPORT_ATOMIC,
       SRQ_RECV_OF_HEADER = IBV_EXP_ODP_SUPPORT_SRQ_RECV };
#define ibv_odp_transport_cap_bits page_odp_transport_cap_bits
#define IBV_EXP_ODP_SUPPORT_SEND page_send
#define IBV_EXP_ODP_SUPPORT_RECV page_recv
#define IBV_EXP_ODP_SUPPORT_WRITE page_write
#define IBV_EXP_ODP_SUPPORT_READ page_read
#define IBV_EXP_ODP_SUPPORT_ATOMIC page_atomic
#define IBV_EXP_ODP_SUPPORT_SRQ_RECV page_srq_recv
enum ibv_odp_transport_cap_bits { IBV_EXP_ODP_SUPPORT_SEND = 1 << 0, IBV_EXP_ODP_SUPPORT_RECV =
1 << 1, IBV_EXP_ODP_SUPPORT_WRITE = 1 << 2, IBV_EXP_ODP_SUPPORT_READ = 1 << 3,
IBV_EXP_ODP_SUPPORT_ATOMIC = 1 << 4, IBV_EXP_ODP_SUPPORT_SRQ_RECV = 1 << 5, };
#undef IBV_EXP_ODP_SUPPORT_SEND
#undef IBV_EXP_ODP_SUPPORT_RECV
#undef IBV_EXP_ODP_SUPPORT_WRITE
#undef IBV_EXP_ODP_SUPPORT_READ
#undef IBV_EXP_ODP_SUPPORT_ATOMIC
#undef IBV_EXP_ODP_SUPPORT_SRQ_RECV

/* clang-format on */

#define ALIKE(page, header, member) \
	_Static_assert(offsetof(struct page, member) == offsetof(struct header, member), #member)

ALIKE(page_alloc_dm_attr, ibv_alloc_dm_attr, length);
ALIKE(page_alloc_dm_attr, ibv_alloc_dm_attr, log_align_req);
ALIKE(page_alloc_dm_attr, ibv_alloc_dm_attr, comp_mask);
ALIKE(page_odp_caps, ibv_exp_odp_caps, general_odp_caps);
ALIKE(page_odp_caps, ibv_exp_odp_caps, per_transport_caps.rc_odp_caps);
ALIKE(page_odp_caps, ibv_exp_odp_caps, per_transport_caps.uc_odp_caps);
ALIKE(page_odp_caps, ibv_exp_odp_caps, per_transport_caps.ud_odp_caps);
ALIKE(page_odp_caps, ibv_exp_odp_caps, per_transport_caps.dc_odp_caps);
ALIKE(page_odp_caps, ibv_exp_odp_caps, per_transport_caps.xrc_odp_caps);
ALIKE(page_odp_caps, ibv_exp_odp_caps, per_transport_caps.raw_eth_odp_caps);
_Static_assert(sizeof(struct page_odp_caps) == sizeof(struct ibv_exp_odp_caps), "size");
_Static_assert((int)page_send == SEND_OF_HEADER && (int)page_recv == RECV_OF_HEADER &&
		       (int)page_write == WRITE_OF_HEADER && (int)page_read == READ_OF_HEADER &&
		       (int)page_atomic == ATOMIC_OF_HEADER &&
		       (int)page_srq_recv == SRQ_RECV_OF_HEADER,
	       "enum ibv_odp_transport_cap_bits");

/* --- statements -------------------------------------------------------------------- */

static struct node *n;
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_qp *qp;
static uint8_t *buf, *addr;
static const size_t size = BYTES, length = BYTES;

/* Let what has been posted before complete: a WRITE of 8 bytes by @key. Return: its status */
static enum ibv_wc_status write_by(uint32_t key)
{
	struct node_send s =
		side_rdma(IBV_WR_RDMA_WRITE, side_sge(&a, KEY_FULL, 0, 8), (uintptr_t)buf, key);
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};

	if (node_post_send(n, QP_SELF, &s, 1).ret || node_poll(n, 0, 1, PROBE_PATIENCE, &wc) != 1)
		DIE("no completion");
	return wc.status;
}

/* clang-format off */

/* The page: "truct ibv_exp_device_attr"; and it shows no end of the block. */
static bool windows_are_supported(void)
{
	bool supported = false;

struct ibv_exp_device_attr device_attr = {.comp_mask = IBV_EXP_DEVICE_ATTR_RESERVED - 1};
ibv_exp_query_device(context, & device_attr);
if (device_attr.exp_device_cap_flags & IBV_EXP_DEVICE_MEM_WINDOW ||
device_attr.exp_device_cap_flags & IBV_EXP_DEVICE_MW_TYPE_2B) {
/* Memory window is supported */
	supported = true;
	}
	return supported;
}

/* The page has one statement for either type: "IBV_MW_TYPE_2/ IBV_MW_TYPE_1". */
static struct ibv_mw *window(enum ibv_mw_type type)
{
	enum ibv_mw_type type_mw;
	struct ibv_mw *mw;

type_mw = type;
mw = ibv_alloc_mw(pd, type_mw);
	return mw;
}

static int bind(struct ibv_mw *mw, struct ibv_exp_mw_bind_info what)
{
	int ret;

struct ibv_exp_mw_bind mw_bind = { .comp_mask = IBV_EXP_BIND_MW_RESERVED - 1 };
	mw_bind.bind_info = what;
ret = ibv_exp_bind_mw(qp, mw, &mw_bind);
	return ret;
}

#define If if
static bool paging_is_supported(bool *sends)
{
	bool supported = false;
	int ret;

	*sends = false;
struct ibv_exp_device_attr dattr;
	memset(&dattr, 0xa5, sizeof(dattr)); /* as a stack has it */
dattr.comp_mask = IBV_EXP_DEVICE_ATTR_ODP | IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS;
ret = ibv_exp_query_device(context, &dattr);
	if (dattr.exp_device_cap_flags & IBV_EXP_DEVICE_ODP)
	//On-Demand Paging is supported.
		supported = ret == 0;
	If (dattr.odp_caps.per_transport_caps.rc_odp_caps & IBV_EXP_ODP_SUPPORT_SEND)
	//RC supports send operations with ODP MR
		*sends = true;
	return supported;
}

/* The page: "IBV_EXP_ACCESS_ON_DEMAND| ...". */
static struct ibv_mr *register_explicit(void)
{
struct ibv_exp_reg_mr_in in;
	memset(&in, 0xa5, sizeof(in));
struct ibv_mr *mr;
in.pd = pd;
in.addr = buf;
in.length = size;
in.exp_access = IBV_EXP_ACCESS_ON_DEMAND| IBV_EXP_ACCESS_LOCAL_WRITE;
in.comp_mask = 0;
mr = ibv_exp_reg_mr(&in);
	return mr;
}

/* "use in->addr = 0 and in->length = IBV_EXP_IMPLICIT_MR_SIZE" */
static struct ibv_mr *register_implicit(void)
{
	struct ibv_exp_reg_mr_in all = {
		.pd = pd, .exp_access = IBV_EXP_ACCESS_ON_DEMAND| IBV_EXP_ACCESS_LOCAL_WRITE
	}, *in = &all;

in->addr = 0;
in->length = IBV_EXP_IMPLICIT_MR_SIZE;
	return ibv_exp_reg_mr(in);
}

/* The page does not look at what the call returns. */
#define ibv_exp_prefetch_mr(mr, attr) (ret = ibv_exp_prefetch_mr(mr, attr))
static int prefetch(struct ibv_mr *mr)
{
	int ret = -1;

struct ibv_exp_prefetch_attr prefetch_attr;
prefetch_attr.flags = IBV_EXP_PREFETCH_WRITE_ACCESS;
prefetch_attr.addr = addr;
prefetch_attr.length = length;
prefetch_attr.comp_mask = 0;
ibv_exp_prefetch_mr(mr, &prefetch_attr);
	return ret;
}

static int reregister(struct ibv_mr *mr, struct ibv_exp_rereg_mr_attr *attr)
{
	int flags =
IBV_EXP_REREG_MR_CHANGE_TRANSLATION /* Change translation (location and length) */ |
IBV_EXP_REREG_MR_CHANGE_PD/* Change protection domain*/ |
IBV_EXP_REREG_MR_CHANGE_ACCESS/* Change access flags*/;
	uint64_t access =
IBV_ACCESS_ALLOCATE_MR /* Let the library allocate the memory for
 * the user, tries to get contiguous pages */;

	return ibv_exp_rereg_mr(mr, flags, n->other_pd, NULL, BYTES,
				access | IBV_EXP_ACCESS_LOCAL_WRITE, attr);
}

/* clang-format on */

/* --- what they do ------------------------------------------------------------------ */

static void window_rows(void)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, buf, BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	const struct ibv_exp_mw_bind_info what = {mr, (uintptr_t)buf, BYTES,
						  IBV_EXP_ACCESS_REMOTE_WRITE};
	struct ibv_exp_mw_bind one = {.bind_info = what};
	struct ibv_mw *mw;

	row("memory windows: the query");
	EXPECT(windows_are_supported(), "not supported");
	row("memory windows: allocation");
	mw = window(IBV_MW_TYPE_2);
	EXPECT(mw && mw->type == IBV_MW_TYPE_2 && ibv_dealloc_mw(mw) == 0, "type 2");
	mw = window(IBV_MW_TYPE_1);
	if (!EXPECT(mw && mw->type == IBV_MW_TYPE_1, "type 1"))
		return;
	row("memory windows: a bind");
	EXPECT(bind(mw, what) == 0, "ibv_exp_bind_mw");
	EXPECT(write_by(mw->rkey) == IBV_WC_SUCCESS, "the key gives no access");
	row("memory windows: the same with one argument, and as a compound literal");
	one.qp = qp;
	one.mw = mw;
	EXPECT(ibv_exp_bind_mw(&one) == 0, "ibv_exp_bind_mw");
	EXPECT(write_by(mw->rkey) == IBV_WC_SUCCESS, "the key gives no access");
	EXPECT(ibv_exp_bind_mw(&(struct ibv_exp_mw_bind){.qp = qp, .mw = mw}) == 0, "of nothing");
	EXPECT(ibv_exp_bind_mw(&(struct ibv_exp_mw_bind){
		       .qp = qp, .mw = mw, .wr_id = 1, .bind_info = what}) == 0,
	       "ibv_exp_bind_mw");
	EXPECT(write_by(mw->rkey) == IBV_WC_SUCCESS, "the key gives no access");
	row("memory windows: the page's bind, which names no region");
	EXPECT(bind(mw, (struct ibv_exp_mw_bind_info){0}) == 0, "ibv_exp_bind_mw");
	EXPECT(ibv_dealloc_mw(mw) == 0 && ibv_dereg_mr(mr) == 0, "the end");
}

static void paging_rows(void)
{
	struct ibv_mr *mr;
	bool sends;

	row("on-demand paging: the query");
	EXPECT(paging_is_supported(&sends) && sends, "not supported");
	row("on-demand paging: an explicit region, and prefetching");
	mr = register_explicit();
	if (EXPECT(mr != NULL, "ibv_exp_reg_mr")) {
		EXPECT(prefetch(mr) == 0, "ibv_exp_prefetch_mr");
		EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	}
	row("on-demand paging: the implicit region, and prefetching");
	mr = register_implicit();
	if (EXPECT(mr != NULL, "ibv_exp_reg_mr")) {
		EXPECT(prefetch(mr) == 0, "ibv_exp_prefetch_mr");
		EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	}
}

static void rereg_row(void)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, buf, BYTES, IBV_ACCESS_LOCAL_WRITE);

	row("re-registration: translation, domain and rights, with memory of the library's");
	EXPECT(reregister(mr, NULL) == 0, "ibv_exp_rereg_mr");
	EXPECT(mr->pd == n->other_pd && mr->addr && mr->addr != buf && mr->length == BYTES,
	       "fields");
	memset(mr->addr, 1, BYTES);
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
}

int main(int argc, char **argv)
{
	two_sides_open(argc, argv);
	n = a.node;
	context = n->ctx;
	pd = n->pd;
	buf = addr = n->arena + AT;
	pair_create(&a, QP_SELF, &a, QP_SELF, NULL);
	pair_connect(&a, QP_SELF, NULL, &a, QP_SELF, NULL);
	qp = n->qp[QP_SELF];
	window_rows();
	paging_rows();
	rereg_row();
	pair_destroy(&a, QP_SELF, &a, QP_SELF);
	return two_sides_close();
}
