/* SPDX-License-Identifier: MIT */
/* Which rights a region may have, and when a change of them needs other rights on its pages. */
#include <errno.h>

#include "base/compiler.h"
#include "base/newer_verbs.h"
#include "device/device.h"
#include "device/switches.h"
#include "lib/unit.h"
#include "memory/key.h"
#include "memory/region.h"
#include "unit/memory/fake_seg.h"

#define LW IBV_ACCESS_LOCAL_WRITE
#define RW IBV_ACCESS_REMOTE_WRITE
#define RR IBV_ACCESS_REMOTE_READ
#define RA IBV_ACCESS_REMOTE_ATOMIC
#define MW IBV_ACCESS_MW_BIND
#define ON AV_SWITCH_BIT(AV_SWITCH_TUNNELED_ATOMIC)

static const struct {
	uint32_t access;
	int err;
} rows[] = {
	{0, 0},
	{LW, 0},
	{RR, 0},
	{RW, EINVAL},
	{RA, EINVAL},
	{RW | RA | RR, EINVAL},
	{LW | RW, 0},
	{LW | RA, 0},
	{LW | RW | RR | RA | MW, 0},
	{MW, 0},
	{IBV_ACCESS_ON_DEMAND, 0},
	{IBV_ACCESS_ZERO_BASED, 0},
	{IBV_ACCESS_HUGETLB, 0},
	{IBV_ACCESS_RELAXED_ORDERING, 0},
	{IBV_ACCESS_OPTIONAL_RANGE, 0},
	{AV_ACCESS_FLUSH_GLOBAL, 0},
	{AV_ACCESS_FLUSH_PERSISTENT, EOPNOTSUPP},
	{AV_ACCESS_FLUSH_PERSISTENT | 1u << 15, EOPNOTSUPP},
	{RW | AV_ACCESS_FLUSH_PERSISTENT, EINVAL},
	{1u << 15, EINVAL},
	{LW | 1u << 15, EINVAL},
};

TEST(each_combination_is_checked)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++)
		if (av_region_check_access(rows[i].access) != rows[i].err)
			fail_msg("access 0x%x", rows[i].access);
}

static const struct {
	uint32_t switches, access;
	int err;
} tunneled[] = {
	{0, LW, 0},
	{0, AV_ACCESS_TUNNELED | LW, EINVAL},
	{ON, AV_ACCESS_TUNNELED | LW, 0},
	{ON, AV_ACCESS_TUNNELED, EINVAL},
	{ON, AV_ACCESS_TUNNELED | LW | 1u << 15, EINVAL},
};

TEST(tunneled_atomics_want_the_switch_and_a_local_right)
{
	struct fake_seg fake;

	fake_open(&fake, 1);
	for (size_t i = 0; i < AV_ARRAY_SIZE(tunneled); i++) {
		fake.seg.head->switches = tunneled[i].switches;
		if (av_region_check_rights(&fake.seg, tunneled[i].access) != tunneled[i].err)
			fail_msg("row %zu", i);
	}
	fake_close(&fake);
}

/* Pages that may be written may be read, too. */
static const struct {
	uint32_t from, to;
	bool same;
} changes[] = {
	{0, 0, true},	      {0, RR, true},  {RR, 0, true},	   {0, LW, false},
	{RR, LW | RW, false}, {LW, 0, true},  {LW, LW, true},	   {LW | RW, RR, true},
	{RR, MW, false},      {MW, LW, true}, {0, LW | RA, false},
};

TEST(writing_needs_more_than_reading)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(changes); i++)
		if (av_region_same_rights(changes[i].from, changes[i].to) != changes[i].same)
			fail_msg("row %zu", i);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
