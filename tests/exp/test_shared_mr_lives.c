/* SPDX-License-Identifier: MIT */
/* Shared memory regions: the memory stays until the last region on it has gone, however its
 * processes end, and no longer. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "exp/shared_mr_fixture.h"
#include "lib/apart.h"
#include "lib/expect.h"
#include "lib/page_backing.h"
#include "lib/probe.h"
#include "lib/sandbox.h"

#define SHARED_BYTES (64ul << 10)
#define ROUNDS	     (TEST_SANITIZED ? 100 : 1000)

/* The orders in which two regions on the same memory can end, the other process' way being one of
 * these. */
enum way { WAY_DEREG, WAY_CLOSE, WAY_EXIT, WAY_KILL, WAY_N };
static const char *const way_name[] = {"deregisters", "closes its device", "exits", "is killed"};

static void leave(struct spawned *s, enum way way)
{
	switch (way) {
	case WAY_DEREG:
		EXPECT(tell(s, (struct order){.what = DO_DEREG}).err == 0, "ibv_dereg_mr there");
		break;
	case WAY_CLOSE:
		EXPECT(tell(s, (struct order){.what = DO_CLOSE}).err == 0,
		       "ibv_close_device there");
		break;
	case WAY_EXIT:
		end(s);
		break;
	case WAY_KILL:
	case WAY_N:
		spawn_kill(s);
		break;
	}
}

static void finish(struct spawned *s, enum way way)
{
	if (way == WAY_DEREG || way == WAY_CLOSE)
		end(s);
}

/* The creator goes first: the bytes stay, here and for RDMA, also for a peer that sees them only
 * now. */
static void creator_leaves_rows(bool seen_before)
{
	for (int way = 0; way < WAY_N; way++) {
		struct spawned creator;
		struct answer r;
		struct ibv_mr *mr;
		size_t bytes;
		uint8_t *at;

		row("the creator %s first, %s", way_name[way],
		    seen_before ? "a peer knows the region" : "no peer does");
		spawn_self(&creator, WORD);
		r = tell_create(&creator, BYTES, SHARE);
		mr = attach(a.node->pd, r.handle, NULL, RIGHTS);
		if (!EXPECT(mr != NULL, "errno %d", errno)) {
			end(&creator);
			continue;
		}
		at = mr->addr;
		(void)tell(&creator, (struct order){.what = DO_FILL, .seed = (uint64_t)way});
		if (seen_before)
			EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)at, mr->rkey, 4096,
				     IBV_WC_SUCCESS);
		leave(&creator, (enum way)way);
		EXPECT(pattern_check(at, BYTES, (uint64_t)way, 0) == -1, "bytes");
		EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)at + MB, mr->rkey, 4096,
			     IBV_WC_SUCCESS);
		EXPECT(side_check(&b, PROBE_AT, 4096, (uint64_t)way, MB) == -1, "bytes by RDMA");
		*(uint64_t *)at = 1;
		EXPECT_PROBE(&b, &a, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, (uintptr_t)at, mr->rkey, 8,
			     IBV_WC_SUCCESS);
		EXPECT(*(uint64_t *)at == 2, "an atomic");
		EXPECT_NULL(attach(a.node->pd, r.handle, NULL, RIGHTS), EINVAL);
		if (way == WAY_DEREG) { /* its pages are not given to somebody else meanwhile */
			r = tell_create(&creator, BYTES, SHARE);
			(void)tell(&creator, (struct order){.what = DO_FILL, .seed = 99});
			EXPECT(pattern_check(at + 8, 4088, (uint64_t)way, 8) == -1,
			       "overwritten by a new region");
		}
		bytes = way == WAY_DEREG ? segment_bytes(creator.pid) : 0;
		dereg(mr);
		EXPECT(!pages_mapped(at), "still mapped");
		if (way == WAY_DEREG) /* others have no segment any more */
			EXPECT(segment_bytes(creator.pid) + BYTES <= bytes,
			       "pages stay: %zu of %zu bytes", segment_bytes(creator.pid), bytes);
		finish(&creator, (enum way)way);
	}
}

/* The second process goes first: nothing changes for the creator. */
static void second_leaves_rows(void)
{
	for (int way = 0; way < WAY_N; way++) {
		struct ibv_mr *mr = create(a.node->pd, BYTES, SHARE);
		struct spawned second;
		size_t bytes;
		struct answer r;

		row("the second process %s first", way_name[way]);
		spawn_self(&second, WORD);
		r = tell(&second,
			 (struct order){.what = DO_ATTACH, .handle = mr->handle, .access = RIGHTS});
		EXPECT(r.err == 0, "errno %d", r.err);
		(void)tell(&second, (struct order){.what = DO_FILL, .seed = 5});
		leave(&second, (enum way)way);
		EXPECT(pattern_check(mr->addr, BYTES, 5, 0) == -1, "bytes");
		EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)mr->addr, mr->rkey, 4096,
			     IBV_WC_SUCCESS);
		EXPECT(side_check(&b, PROBE_AT, 4096, 5, 0) == -1, "bytes by RDMA");
		bytes = segment_bytes(getpid());
		dereg(mr);
		EXPECT(segment_bytes(getpid()) + BYTES <= bytes, "pages stay: %zu of %zu bytes",
		       segment_bytes(getpid()), bytes);
		finish(&second, (enum way)way);
	}
}

/* A child that lives longer than its parent holds nothing. */
static void child_row(void)
{
	struct spawned creator;
	struct ibv_mr *mr;
	struct answer r;

	row("a creator with a child is killed");
	spawn_self(&creator, WORD);
	r = tell_create(&creator, BYTES, SHARE);
	mr = attach(a.node->pd, r.handle, NULL, RIGHTS);
	(void)tell(&creator, (struct order){.what = DO_FILL, .seed = 6});
	(void)tell(&creator, (struct order){.what = DO_FORK});
	spawn_kill(&creator);
	if (EXPECT(mr != NULL, "errno %d", errno)) {
		EXPECT(pattern_check(mr->addr, BYTES, 6, 0) == -1, "bytes");
		dereg(mr);
	}
}

/* Two processes in turn create and register each other's, ending in both orders. */
static void leak_row(void)
{
	size_t before = 0, held = 0, lowest[2] = {SIZE_MAX, SIZE_MAX};
	unsigned int open = 0;
	struct spawned other;

	spawn_self(&other, WORD);
	row("%d rounds of sharing leave nothing", ROUNDS);
	for (int i = 0; i < ROUNDS; i++) {
		bool mine = i % 2, first = i % 4 < 2;
		struct answer r;
		struct ibv_mr *mr;

		if (mine) {
			mr = create(a.node->pd, SHARED_BYTES, SHARE);
			r = tell(&other, (struct order){.what = DO_ATTACH,
							.handle = mr ? mr->handle : 0,
							.access = RIGHTS});
		} else {
			r = tell_create(&other, SHARED_BYTES, SHARE);
			mr = attach(a.node->pd, r.handle, NULL, RIGHTS);
		}
		if (!EXPECT(mr && r.err == 0, "round %d: errno %d, %d", i, errno, r.err))
			break;
		EXPECT(*(uint64_t *)mr->addr == 0, "old bytes in round %d", i);
		*(uint64_t *)mr->addr = UINT64_MAX;
		if (pages_offset(mr->addr) < lowest[i > ROUNDS / 2])
			lowest[i > ROUNDS / 2] = pages_offset(mr->addr);
		if (first)
			dereg(mr);
		EXPECT(tell(&other, (struct order){.what = DO_DEREG}).err == 0,
		       "ibv_dereg_mr there");
		if (!first)
			dereg(mr);
		if (i == ROUNDS / 2) {
			before = pages_vm_size();
			open = open_descriptors();
			held = segment_bytes(getpid()) + segment_bytes(other.pid);
		}
	}
	EXPECT(TEST_SANITIZED || pages_vm_size() <= before + MB, "%zu bytes of address space more",
	       pages_vm_size() - before);
	EXPECT(lowest[1] >= lowest[0], "pages are taken ever further down: 0x%zx, 0x%zx", lowest[0],
	       lowest[1]);
	EXPECT(open_descriptors() == open, "%u descriptors, not %u", open_descriptors(), open);
	EXPECT(segment_bytes(getpid()) + segment_bytes(other.pid) <= held + 16 * 4096ul,
	       "%zu bytes of segments more",
	       segment_bytes(getpid()) + segment_bytes(other.pid) - held);
	end(&other);
}

/* Many creators, each gone before the next. */
static void many_creators_row(void)
{
	row("the creators come and go");
	for (int i = 0; i < 40; i++) {
		struct spawned creator;
		struct answer r;
		struct ibv_mr *mr;

		spawn_self(&creator, WORD);
		r = tell_create(&creator, 8192, SHARE);
		mr = attach(a.node->pd, r.handle, NULL, RIGHTS);
		(void)tell(&creator, (struct order){.what = DO_FILL, .seed = 100 + (uint64_t)i});
		spawn_kill(&creator);
		if (!EXPECT(mr != NULL, "creator %d: errno %d", i, errno))
			break;
		EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)mr->addr, mr->rkey, 8192,
			     IBV_WC_SUCCESS);
		EXPECT(side_check(&b, PROBE_AT, 8192, 100 + (uint64_t)i, 0) == -1,
		       "bytes of creator %d", i);
		dereg(mr);
	}
}

int main(int argc, char **argv)
{
	fixture_open(argc, argv);
	creator_leaves_rows(false);
	creator_leaves_rows(true);
	second_leaves_rows();
	child_row();
	leak_row();
	many_creators_row();
	return fixture_close();
}
