/* SPDX-License-Identifier: MIT */
/* Shared memory regions: who may register them and how, and what their keys permit. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "exp/shared_mr_fixture.h"
#include "lib/apart.h"
#include "lib/expect.h"
#include "lib/page_backing.h"
#include "lib/probe.h"
#include "lib/sandbox.h"

#define PLACE ((void *)(APART_AT + 64 * MB))

static void create_rows(void)
{
	static uint8_t own[8192] __attribute__((aligned(4096)));
	const struct {
		const char *name;
		void *addr;
		size_t length;
		uint64_t access;
		int want;
	} rows[] = {
		{"readable", NULL, 8192, RIGHTS | IBV_EXP_ACCESS_ALLOCATE_MR | U_READ, 0},
		{"every right", NULL, 8192,
		 SHARE | IBV_EXP_ACCESS_SHARED_MR_GROUP_READ |
			 IBV_EXP_ACCESS_SHARED_MR_GROUP_WRITE |
			 IBV_EXP_ACCESS_SHARED_MR_OTHER_READ | IBV_EXP_ACCESS_SHARED_MR_OTHER_WRITE,
		 0},
		{"large", NULL, 5 * MB, SHARE, 0},
		{"to be mapped only", NULL, 8192, SHARE | IBV_EXP_ACCESS_NO_RDMA, 0},
		{"not whole pages", NULL, 8191, SHARE, EINVAL},
		{"length 0", NULL, 0, SHARE, EINVAL},
		{"the program's memory", own, 8192, RIGHTS | U_READ | U_WRITE, EINVAL},
		{"the program's memory, not aligned", own + 1, 4096, RIGHTS | U_READ | U_WRITE,
		 EINVAL},
		{"on demand", NULL, 8192, SHARE | IBV_EXP_ACCESS_ON_DEMAND, EINVAL},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_exp_reg_mr_in in = {.pd = a.node->pd,
					       .addr = rows[i].addr,
					       .length = rows[i].length,
					       .exp_access = rows[i].access};
		struct ibv_mr *mr;

		row("registering a shared region: %s", rows[i].name);
		errno = 0;
		mr = ibv_exp_reg_mr(&in);
		EXPECT(rows[i].want ? !mr && errno == rows[i].want : mr && in.addr == mr->addr,
		       "%p, errno %d", (void *)mr, errno);
		if (mr)
			dereg(mr);
	}
}

static void attach_rows(void)
{
	struct ibv_mr *original = create(a.node->pd, BYTES, SHARE);
	struct ibv_mr *second = attach(a.node->pd, original->handle, NULL, RIGHTS);
	struct ibv_mr *plain = a.node->mr[KEY_FULL];
	struct ibv_mr *allocated = create(a.node->pd, 4096, RIGHTS | IBV_EXP_ACCESS_ALLOCATE_MR);
	const struct {
		const char *name;
		uint32_t handle;
		void *addr;
		uint64_t access;
		uint32_t comp_mask;
		int want;
	} rows[] = {
		{"all rights", original->handle, NULL, RIGHTS, 0, 0},
		{"no rights", original->handle, NULL, 0, 0, 0},
		{"as programs ask for a mapping", original->handle, NULL,
		 U_READ | U_WRITE | IBV_EXP_ACCESS_NO_RDMA, 0, 0},
		{"in a place", original->handle, PLACE, RIGHTS, 0, 0},
		{"in a place between pages", original->handle, (uint8_t *)PLACE + 1, RIGHTS, 0,
		 EINVAL},
		{"in a place that is taken", original->handle, original->addr, RIGHTS, 0, EEXIST},
		{"unknown mask", original->handle, NULL, RIGHTS, 1, EINVAL},
		{"unknown rights", original->handle, NULL, 1ull << 5, 0, EINVAL},
		{"remote writing alone", original->handle, NULL, IBV_EXP_ACCESS_REMOTE_WRITE, 0,
		 EINVAL},
		{"on demand", original->handle, NULL, RIGHTS | IBV_EXP_ACCESS_ON_DEMAND, 0, EINVAL},
		{"zero based", original->handle, NULL, RIGHTS | IBV_EXP_ACCESS_MW_ZERO_BASED, 0,
		 EINVAL},
		{"handle of a region that is not shared", plain->handle, NULL, RIGHTS, 0, EINVAL},
		{"handle of an allocated region that is not shared", allocated->handle, NULL,
		 RIGHTS, 0, EINVAL},
		{"handle 0", 0, NULL, RIGHTS, 0, EINVAL},
		{"handle UINT32_MAX", UINT32_MAX, NULL, RIGHTS, 0, EINVAL},
		{"handle of another context's place", original->handle ^ 1u << 20, NULL, RIGHTS, 0,
		 EINVAL},
		{"handle of a region on a shared one", second->handle, NULL, RIGHTS, 0, EINVAL},
		{"the next handle", original->handle + 4, NULL, RIGHTS, 0, EINVAL},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_exp_reg_shared_mr_in in = {rows[i].handle, a.node->pd, rows[i].addr,
						      rows[i].access, rows[i].comp_mask};
		struct ibv_mr *mr;

		row("ibv_exp_reg_shared_mr: %s", rows[i].name);
		errno = 0;
		mr = ibv_exp_reg_shared_mr(&in);
		EXPECT(rows[i].want ? !mr && errno == rows[i].want : mr != NULL, "%p, errno %d",
		       (void *)mr, errno);
		if (!mr)
			continue;
		EXPECT(mr->length == BYTES && mr->addr != original->addr &&
			       (!rows[i].addr || mr->addr == rows[i].addr),
		       "%zu bytes at %p", mr->length, mr->addr);
		pattern_fill(original->addr, BYTES, i, 0);
		EXPECT(pattern_check(mr->addr, BYTES, i, 0) == -1, "other bytes");
		dereg(mr);
		EXPECT(pattern_check(original->addr, BYTES, i, 0) == -1, "bytes went with it");
	}
	row("ibv_exp_reg_shared_mr: the region has ended");
	dereg(original);
	dereg(second);
	EXPECT_NULL(attach(a.node->pd, rows[0].handle, NULL, RIGHTS), EINVAL);
	dereg(allocated);
}

/* What the original gives against what is asked for, as of a file of the same user: groups and
 * others do not count. */
static void rights_rows(void)
{
	const uint64_t group = IBV_EXP_ACCESS_SHARED_MR_GROUP_READ |
			       IBV_EXP_ACCESS_SHARED_MR_GROUP_WRITE,
		       others = IBV_EXP_ACCESS_SHARED_MR_OTHER_READ |
				IBV_EXP_ACCESS_SHARED_MR_OTHER_WRITE;
	static const struct {
		const char *name;
		uint64_t access;
		bool writes;
	} asked[] = {
		{"nothing", 0, false},
		{"to read", U_READ, false},
		{"remote reading", IBV_EXP_ACCESS_REMOTE_READ, false},
		{"to write", U_WRITE, true},
		{"local writing", IBV_EXP_ACCESS_LOCAL_WRITE, true},
		{"remote writing", IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_REMOTE_WRITE, true},
		{"remote atomics", IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_REMOTE_ATOMIC, true},
	};
	const struct {
		const char *name;
		uint64_t bits;
		bool read, write;
	} given[] = {
		{"user reads", U_READ, true, false},
		{"user writes", U_WRITE, false, false}, /* what may not be read is not mapped */
		{"user both", U_READ | U_WRITE, true, true},
		{"group both", group, false, false},
		{"others both", others, false, false},
		{"all but the user", group | others, false, false},
		{"user reads, all others both", U_READ | group | others, true, false},
		{"everybody", U_READ | U_WRITE | group | others, true, true},
	};
	struct spawned other;

	spawn_self(&other, WORD);
	for (size_t i = 0; i < COUNT_OF(given); i++) {
		struct ibv_mr *mr = create(a.node->pd, 8192,
					   RIGHTS | IBV_EXP_ACCESS_ALLOCATE_MR | given[i].bits);

		if (!EXPECT(mr != NULL, "errno %d", errno))
			continue;
		for (size_t j = 0; j < COUNT_OF(asked); j++) {
			int want =
				given[i].read && (given[i].write || !asked[j].writes) ? 0 : EACCES;
			struct order o = {
				.what = DO_ATTACH, .handle = mr->handle, .access = asked[j].access};
			struct answer r;

			row("rights: given %s, asked for %s", given[i].name, asked[j].name);
			r = tell(&other, o);
			EXPECT(r.err == want, "errno %d, not %d", r.err, want);
			if (r.err)
				continue;
			*(uint8_t *)mr->addr = 7;
			r = tell(&other, (struct order){.what = DO_STORE});
			EXPECT(r.err == (asked[j].writes ? 0 : EFAULT), "storing: errno %d", r.err);
			EXPECT(*(uint8_t *)mr->addr == (asked[j].writes ? 0 : 7), "the byte");
			EXPECT(tell(&other, (struct order){.what = DO_DEREG}).err == 0,
			       "ibv_dereg_mr");
		}
		dereg(mr);
	}
	end(&other);
}

/* Rights of the key, and none at all. */
static void key_rows(void)
{
	struct ibv_mr *original = create(a.node->pd, 8192, SHARE);
	static const struct {
		const char *name;
		uint64_t access;
		enum ibv_wc_status write, read;
	} rows[] = {
		{"all rights", RIGHTS, IBV_WC_SUCCESS, IBV_WC_SUCCESS},
		{"remote reading", IBV_EXP_ACCESS_REMOTE_READ, IBV_WC_REM_ACCESS_ERR,
		 IBV_WC_SUCCESS},
		{"nothing", 0, IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR},
		{"all rights, mapped only", RIGHTS | IBV_EXP_ACCESS_NO_RDMA, IBV_WC_REM_ACCESS_ERR,
		 IBV_WC_REM_ACCESS_ERR},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_mr *mr = attach(a.node->pd, original->handle, NULL, rows[i].access);

		row("keys of a shared region: %s", rows[i].name);
		if (!EXPECT(mr != NULL, "errno %d", errno))
			continue;
		EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_WRITE, (uintptr_t)mr->addr, mr->rkey, 64,
			     rows[i].write);
		EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)mr->addr, mr->rkey, 64,
			     rows[i].read);
		dereg(mr);
	}
	row("rights of a shared region, changed");
	{
		struct ibv_mr *reader;
		struct answer r;
		struct spawned other;

		spawn_self(&other, WORD);
		r = tell_create(&other, 8192, RIGHTS | IBV_EXP_ACCESS_ALLOCATE_MR | U_READ);
		reader = attach(a.node->pd, r.handle, NULL, IBV_EXP_ACCESS_REMOTE_READ);
		EXPECT(reader && ibv_exp_rereg_mr(reader, IBV_EXP_REREG_MR_CHANGE_ACCESS, NULL,
						  NULL, 0, RIGHTS, NULL) == EACCES,
		       "a reader became a writer");
		EXPECT(reader && ibv_exp_rereg_mr(reader, IBV_EXP_REREG_MR_CHANGE_ACCESS, NULL,
						  NULL, 0, 0, NULL) == 0,
		       "errno %d", errno);
		dereg(reader);
		end(&other);
	}
	dereg(original);
}

int main(int argc, char **argv)
{
	fixture_open(argc, argv);
	create_rows();
	attach_rows();
	rights_rows();
	key_rows();
	return fixture_close();
}
