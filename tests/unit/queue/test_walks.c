/* SPDX-License-Identifier: MIT */
/* A walk over the objects of a segment finds each of them once, from any index on. */
#include "base/compiler.h"
#include "lib/unit.h"
#include "queue/objects.h"
#include "unit/memory/seg_fixture.h"

#define CHUNK_AT (1ul << 28)
#define NONE	 UINT32_MAX

/* --- the tables ------------------------------------------------------------------ */

static void make_qp(uint32_t index)
{
	atomic_store(&av_qp_at(&fake.seg, index)->qpn, index + 1);
}

static void make_cq(uint32_t index)
{
	atomic_store(&av_cq_at(&fake.seg, index)->id, index + 1);
}

static void make_srq(uint32_t index)
{
	atomic_store(&av_rq_at(&fake.seg, index)->id, index + 1);
}

/* The index of the next, which the walk is then one past. */
static uint32_t checked(bool there, bool same, uint32_t at)
{
	assert_true(!there || same);
	return there ? at - 1 : NONE;
}

static uint32_t next_qp(uint32_t *at)
{
	const struct av_qp_shared *qp = av_qp_next(&fake.seg, at);

	return checked(qp, qp == av_qp_at(&fake.seg, *at - 1), *at);
}

static uint32_t next_cq(uint32_t *at)
{
	const struct av_cq_shared *cq = av_cq_next(&fake.seg, at);

	return checked(cq, cq == av_cq_at(&fake.seg, *at - 1), *at);
}

static uint32_t next_srq(uint32_t *at)
{
	const struct av_rq_shared *rq = av_srq_next(&fake.seg, at);

	return checked(rq, rq == av_rq_at(&fake.seg, *at - 1), *at);
}

static const struct {
	enum av_slab slab;
	uint32_t chunk; /* objects in each */
	void (*make)(uint32_t index);
	uint32_t (*next)(uint32_t *at);
} kinds[] = {
	{AV_SLAB_QP, AV_OBJ_CHUNK, make_qp, next_qp},
	{AV_SLAB_CQ, AV_OBJ_CHUNK, make_cq, next_cq},
	{AV_SLAB_RQ, AV_RQ_CHUNK, make_srq, next_srq},
};

/* --- walks ----------------------------------------------------------------------- */

/* Only these chunks are there, and in them these objects, by the chunk and the place in it. */
static const uint32_t chunks[] = {0, 2, 3, AV_SLAB_CHUNKS - 1};
#define LAST_PLACE 63u
static const struct {
	uint32_t chunk, place;
} objects[] = {{0, 1}, {0, LAST_PLACE}, {2, 0}, {2, 1}, {3, 7}, {AV_SLAB_CHUNKS - 1, LAST_PLACE}};

/* From each index on up to the first chunk that is not there, and from within that. */
TEST_WITH(each_is_found_once_from_any_index_on, open_fake, close_fake)
{
	for (size_t k = 0; k < AV_ARRAY_SIZE(kinds); k++) {
		uint32_t found[AV_ARRAY_SIZE(objects)];

		for (size_t i = 0; i < AV_ARRAY_SIZE(chunks); i++)
			atomic_store(&fake.seg.head->chunk[kinds[k].slab][chunks[i]],
				     CHUNK_AT + ((k * AV_ARRAY_SIZE(chunks) + i) << 20));
		for (size_t i = 0; i < AV_ARRAY_SIZE(objects); i++) {
			found[i] = objects[i].chunk * kinds[k].chunk + objects[i].place;
			kinds[k].make(found[i]);
		}
		for (uint32_t from = 0; from < 3 * kinds[k].chunk; from++) {
			uint32_t at = from;

			for (size_t i = 0; i < AV_ARRAY_SIZE(objects); i++)
				if (found[i] >= from)
					assert_int_equal(kinds[k].next(&at), found[i]);
			assert_int_equal(kinds[k].next(&at), NONE);
		}
	}
}

int main(void)
{
	return run_cases(NULL, NULL);
}
