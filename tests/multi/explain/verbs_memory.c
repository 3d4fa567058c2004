/* SPDX-License-Identifier: MIT */
/* Verbs that refuse: regions, windows, device memory, advice. */
#include <errno.h>
#include <sys/mman.h>

#include "base/newer_verbs.h"
#include "verbs.h"

static int reg_access(uint64_t access)
{
	return failed(ibv_reg_mr(n->pd, n->arena, 4096, (int)access));
}

static int reg_wrap(uint64_t length)
{
	return failed(ibv_reg_mr(n->pd, (void *)(UINTPTR_MAX - 4095), length, 0));
}

static int reg_iova(uint64_t iova)
{
	return failed(ibv_reg_mr_iova(n->pd, n->arena, 4096, iova, 0));
}

static int reg_unmapped(uint64_t unused)
{
	void *p = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int err = failed(ibv_reg_mr(n->pd, p, 4096, IBV_ACCESS_LOCAL_WRITE));

	munmap(p, 4096);
	return err;
}

static int reg_other_pd(uint64_t unused)
{
	struct ibv_pd pd = *n->pd;

	return failed(ibv_reg_mr(&pd, n->arena, 4096, 0));
}

/* enum ibv_rereg_mr_err_code and errno: the latter. */
static int rereg(int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return ibv_rereg_mr(n->mr[KEY_FULL], flags, pd, addr, length, access) ? errno : 0;
}

static int rereg_flags(uint64_t flags)
{
	return rereg((int)flags, NULL, NULL, 0, 0);
}

static int rereg_paging(uint64_t access)
{
	return rereg(IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, (int)access);
}

static int rereg_pd(uint64_t unused)
{
	struct ibv_pd pd = *n->pd;

	return rereg(IBV_REREG_MR_CHANGE_PD, &pd, NULL, 0, 0);
}

static int mw_type(uint64_t type)
{
	return failed(ibv_alloc_mw(n->pd, (enum ibv_mw_type)type));
}

static int bind_mw(struct ibv_mr *mr, unsigned int access)
{
	struct ibv_mw *mw = ibv_alloc_mw(n->pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {.bind_info = {.mr = mr,
						 .addr = (uintptr_t)n->arena,
						 .length = 64,
						 .mw_access_flags = access}};
	int err = ibv_bind_mw(n->qp[1], mw, &bind);

	ibv_dealloc_mw(mw);
	return err;
}

static int mw_zero_based(uint64_t unused)
{
	return bind_mw(n->mr[KEY_FULL], IBV_ACCESS_ZERO_BASED);
}

static int mw_region(uint64_t unused)
{
	struct ibv_mr *null = ibv_alloc_null_mr(n->pd);
	int err = bind_mw(null, IBV_ACCESS_REMOTE_READ);

	ibv_dereg_mr(null);
	return err;
}

static int advise(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		  uint32_t lkey)
{
	struct ibv_sge sge = {.addr = (uintptr_t)n->arena, .length = 8, .lkey = lkey};

	return ibv_advise_mr(pd, advice, flags, &sge, 1);
}

static int advise_flags(uint64_t flags)
{
	return advise(n->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, (uint32_t)flags, 0);
}

static int advise_advice(uint64_t advice)
{
	return advise(n->pd, (enum ibv_advise_mr_advice)advice, IBV_ADVISE_MR_FLAG_FLUSH, 0);
}

static int advise_key(uint64_t unused)
{
	return advise(n->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH,
		      n->info.key[KEY_FULL]);
}

static int advise_region(struct ibv_pd *pd, enum ibv_advise_mr_advice advice)
{
	struct ibv_mr *mr = ibv_reg_mr(n->pd, n->arena, 4096, IBV_ACCESS_ON_DEMAND);
	int err = advise(pd, advice, IBV_ADVISE_MR_FLAG_FLUSH, mr->lkey);

	ibv_dereg_mr(mr);
	return err;
}

static int advise_pd(uint64_t unused)
{
	return advise_region(n->other_pd, IBV_ADVISE_MR_ADVICE_PREFETCH);
}

static int advise_right(uint64_t unused)
{
	return advise_region(n->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE);
}

static int dm_alloc(uint64_t length, uint32_t align)
{
	struct ibv_alloc_dm_attr attr = {.length = length, .log_align_req = align};

	return failed(ibv_alloc_dm(n->ctx, &attr));
}

static int dm_length(uint64_t length)
{
	return dm_alloc(length, 0);
}

static int dm_align(uint64_t align)
{
	return dm_alloc(64, (uint32_t)align);
}

static int with_dm(int (*use)(struct ibv_dm *dm, uint64_t value), uint64_t value)
{
	struct ibv_alloc_dm_attr attr = {.length = 64};
	struct ibv_dm *dm = ibv_alloc_dm(n->ctx, &attr);
	int err = use(dm, value);

	ibv_free_dm(dm);
	return err;
}

static int copy_to(struct ibv_dm *dm, uint64_t offset)
{
	return ibv_memcpy_to_dm(dm, offset, n->arena, 8);
}

static int reg_dm_access(struct ibv_dm *dm, uint64_t access)
{
	return failed(ibv_reg_dm_mr(n->pd, dm, 0, 64, (unsigned int)access));
}

static int dm_copy(uint64_t offset)
{
	return with_dm(copy_to, offset);
}

static int dm_access(uint64_t access)
{
	return with_dm(reg_dm_access, access);
}

static int dm_used_up(uint64_t unused)
{
	struct ibv_dm *dm[64];
	struct ibv_alloc_dm_attr attr = {.length = 1};
	struct ibv_device_attr_ex device;
	unsigned int count = 0;
	int err = ibv_query_device_ex(n->ctx, NULL, &device);

	attr.length = device.max_dm_size / 4 + 64;
	while (err == 0 && count < COUNT_OF(dm)) {
		dm[count] = ibv_alloc_dm(n->ctx, &attr);
		err = failed(dm[count]);
		count += err == 0;
	}
	while (count > 0)
		ibv_free_dm(dm[--count]);
	return err;
}

/* clang-format off */
static const struct verb_row rows[] = {
	{"damaged PD",          "ibv_reg_mr",    AV_CHECK_OBJECT_UNKNOWN, ENOENT, reg_other_pd, 0, ANY, ANY, false},
	{"unmapped memory",     "ibv_reg_mr",    AV_CHECK_MEMORY_FORBIDS, EFAULT, reg_unmapped, 0, ANY, ANY, false},
	{"device memory used up", "ibv_alloc_dm", AV_CHECK_DM_FULL,       ENOMEM, dm_used_up, 0, ANY, ANY, false},
	{"REMOTE_WRITE alone",  "ibv_reg_mr",    AV_CHECK_MR_NEEDS_LOCAL, EINVAL, reg_access, IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_LOCAL_WRITE, false},
	{"REMOTE_ATOMIC alone", "ibv_reg_mr",    AV_CHECK_MR_NEEDS_LOCAL, EINVAL, reg_access, IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_LOCAL_WRITE, false},
	{"persistent memory",   "ibv_reg_mr",    AV_CHECK_MR_PERSISTENT,  EOPNOTSUPP, reg_access, AV_ACCESS_FLUSH_PERSISTENT, AV_ACCESS_FLUSH_PERSISTENT, ANY, false},
	{"unknown flag",        "ibv_reg_mr",    AV_CHECK_MR_FLAGS,       EINVAL, reg_access, 1 << 15, 1 << 15, ANY, false},
	{"region wraps",        "ibv_reg_mr",    AV_CHECK_MR_WRAPS,       EINVAL, reg_wrap, 8192, ANY, 8192, false},
	{"iova elsewhere in its page", "ibv_reg_mr", AV_CHECK_MR_IOVA,    EINVAL, reg_iova, 24, 0, 24, false},
	{"re-register: unknown flags", "ibv_rereg_mr", AV_CHECK_REREG_INPUT, EINVAL, rereg_flags, 64, 64, 0, false},
	{"re-register: nothing", "ibv_rereg_mr", AV_CHECK_REREG_FLAGS,    EINVAL, rereg_flags, 0, 0, ANY, false},
	{"re-register: on demand", "ibv_rereg_mr", AV_CHECK_REREG_PAGING, EOPNOTSUPP, rereg_paging, IBV_ACCESS_ON_DEMAND, IBV_ACCESS_ON_DEMAND, ANY, false},
	{"re-register: no PD",  "ibv_rereg_mr",  AV_CHECK_REREG_PD,       ENOENT, rereg_pd, 0, ANY, ANY, false},
	{"window type",         "ibv_alloc_mw",  AV_CHECK_MW_TYPE,        EINVAL, mw_type, 9, 9, ANY, false},
	{"zero-based window of type 1", "ibv_bind_mw", AV_CHECK_MW_ZERO_BASED, EINVAL, mw_zero_based, 0, ANY, ANY, false},
	{"window on a null region", "ibv_bind_mw", AV_CHECK_MW_REGION, ENOTSUP, mw_region, 0, ANY, ANY, false},
	{"flags of an advice",  "ibv_advise_mr", AV_CHECK_FLAGS,          EINVAL, advise_flags, 64, 64, IBV_ADVISE_MR_FLAG_FLUSH, false},
	{"advice",              "ibv_advise_mr", AV_CHECK_ADVISE_ADVICE,  EOPNOTSUPP, advise_advice, 9, 9, ANY, false},
	{"advised region not on demand", "ibv_advise_mr", AV_CHECK_ADVISE_KEY, ENOENT, advise_key, 0, ANY, ANY, false},
	{"advised region of another domain", "ibv_advise_mr", AV_CHECK_ADVISE_PD, EPERM, advise_pd, 0, ANY, ANY, false},
	{"advised region not writable", "ibv_advise_mr", AV_CHECK_ADVISE_RIGHT, EPERM, advise_right, 0, ANY, ANY, false},
	{"device memory, length", "ibv_alloc_dm", AV_CHECK_DM_LENGTH,     EINVAL, dm_length, 1ull << 50, 1ull << 50, ANY, false},
	{"device memory, alignment", "ibv_alloc_dm", AV_CHECK_DM_ALIGN,   EINVAL, dm_align, 60, 60, ANY, false},
	{"copy behind device memory", "ibv_memcpy_to_dm", AV_CHECK_DM_RANGE, EFAULT, dm_copy, 60, 68, 64, false},
	{"copy to an odd place", "ibv_memcpy_to_dm", AV_CHECK_DM_UNIT,    EINVAL, dm_copy, 3, 3, ANY, false},
	{"rights of device memory", "ibv_reg_dm_mr", AV_CHECK_DM_ACCESS,  EINVAL, dm_access, IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_LOCAL_WRITE, ANY, false},
};
/* clang-format on */

void verbs_of_memory(void)
{
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		verb_run(&rows[i]);
}
