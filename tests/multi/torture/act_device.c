/* SPDX-License-Identifier: MIT */
/* Allocating, filling and freeing device memory. */
#include "torture/actions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "torture/peer.h"
#include "torture/random_request.h"
#include "torture/random_run.h"
#include "torture/store.h"

static void alloc_block(struct store *s)
{
	struct ibv_alloc_dm_attr attr = {.length = 64 *
						   (1 + rnd(chance(70) ? 512 : dm_max / 64 + 10)),
					 .log_align_req = 3 + (uint32_t)rnd(4)};
	int want = attr.length > dm_max ? EINVAL : attr.length > dm_max - dm_used ? ENOMEM : 0;

	say("allocate device memory: %zu of %lu", attr.length, dm_max - dm_used);
	errno = 0;
	s->dm = ibv_alloc_dm(n->ctx, &attr);
	MUST(!s->dm == !!want && (s->dm || errno == want), "errno %d, not %d", s->dm ? 0 : errno,
	     want);
	if (!s->dm)
		return;
	s->size = attr.length;
	s->users = 0;
	s->shadow = malloc(s->size);
	for (uint64_t i = 0; i < s->size; i += 8)
		memcpy(s->shadow + i, &(uint64_t){rnd(0) ^ i}, 8);
	MUST(ibv_memcpy_to_dm(s->dm, 0, s->shadow, s->size) == 0, "ibv_memcpy_to_dm");
	dm_used += s->size;
}

static void free_block(struct store *s)
{
	int ret, want = s->users ? EBUSY : 0;

	say("free device memory block %ld with %u regions", s - block, s->users);
	ret = ibv_free_dm(s->dm);
	MUST(ret == want, "ibv_free_dm: %d, not %d", ret, want);
	if (ret)
		return;
	dm_used -= s->size;
	free(s->shadow);
	*s = (struct store){.size = 0};
}

static void copy_block(struct store *s)
{
	uint64_t at = rnd(s->size) & ~3ul;
	uint64_t bytes = rnd(s->size - at + 1) & ~3ul;
	int ret;

	order.bytes = (uint32_t)(bytes < MAX_BYTES ? bytes : MAX_BYTES);
	random_data();
	say("copy %u bytes to block %ld at 0x%lx", order.bytes, s - block, at);
	ret = ibv_memcpy_to_dm(s->dm, at, order.data, order.bytes);
	MUST(ret == 0, "ibv_memcpy_to_dm: %d", ret);
	memcpy(s->shadow + at, order.data, order.bytes);
	check_store(s, at, order.bytes);
}

void act_device(void)
{
	struct store *s = &block[rnd(BLOCKS)];

	if (!s->dm)
		alloc_block(s);
	else if (chance(30))
		free_block(s);
	else
		copy_block(s);
}
