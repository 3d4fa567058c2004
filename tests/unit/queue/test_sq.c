/* SPDX-License-Identifier: MIT */
/* Posting to a send queue: what is refused with which error, and what stands in the ring. */
#include <errno.h>
#include <string.h>

#include "base/compiler.h"
#include "base/newer_verbs.h"
#include "lib/unit.h"
#include "observe/check.h"
#include "queue/qp.h"
#include "unit/memory/seg_fixture.h"

#define RING_AT	   (1ul << 28)
#define CAPACITY   4u
#define MAX_SGE	   3u
#define MAX_INLINE 64u
#define INLINE	   IBV_SEND_INLINE
#define OPCODES_N  (AV_WR_UMR_INVALIDATE + 1)

static struct av_qp_ref end;

static int set_up(void **state)
{
	struct av_qp_shared *qp;

	fake_open(&fake, 1);
	fake_tables(&fake);
	qp = av_qp_at(&fake.seg, 1);
	qp->type = IBV_QPT_RC;
	qp->sq_ring = RING_AT;
	qp->sq_mask = CAPACITY - 1;
	qp->sq_stride = 192;
	qp->sq_capacity = CAPACITY;
	qp->sq_max_sge = MAX_SGE;
	qp->max_inline = MAX_INLINE;
	end = (struct av_qp_ref){.seg = &fake.seg, .qp = qp};
	return 0;
}

static struct ibv_ah_attr address = {
	.grh = {.dgid.raw = {[15] = 7},
		.flow_label = 0x12345,
		.sgid_index = 0x55,
		.hop_limit = 0xfe,
		.traffic_class = 0xab},
	.dlid = 0x4321,
	.sl = 9,
	.is_global = 1,
};

static const struct ibv_ah_attr *find_ah(const struct ibv_ah *ah)
{
	return ah ? &address : NULL;
}

static int post(struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;
	int err = av_sq_post(&end, wr, &bad, find_ah, NULL);

	assert_ptr_equal(bad, err ? wr : NULL);
	return err;
}

static const struct av_sq_wqe *slot(uint32_t number)
{
	return av_sq_slot(&end, number);
}

/* --- what is refused --------------------------------------------------------------- */

static const struct {
	uint32_t opcode, flags;
	int count;     /* elements of */
	uint32_t each; /* bytes each */
	int err;
} rows[] = {
	{IBV_WR_SEND, 0, 0, 0, 0},
	{IBV_WR_SEND, 0, 1, 1000, 0},
	{IBV_WR_SEND, 0, MAX_SGE, 1000, 0},
	{IBV_WR_SEND, 0, MAX_SGE + 1, 1, EINVAL},
	{IBV_WR_SEND, 0, -1, 1, EINVAL},
	{IBV_WR_SEND, INLINE, -1, 1, EINVAL},
	{IBV_WR_SEND, INLINE, 0, 0, 0},
	{IBV_WR_SEND, INLINE, 1, MAX_INLINE, 0},
	{IBV_WR_SEND, INLINE, 1, MAX_INLINE + 1, EINVAL},
	{IBV_WR_SEND, INLINE, 4, MAX_INLINE / 4, 0}, /* more elements than a list may have */
	{IBV_WR_SEND, INLINE, 4, MAX_INLINE / 4 + 1, EINVAL},
	{IBV_WR_SEND_WITH_IMM, INLINE, 1, 8, 0},
	{IBV_WR_SEND_WITH_INV, INLINE, 1, 8, 0},
	{IBV_WR_RDMA_WRITE, INLINE, 1, 8, 0},
	{IBV_WR_RDMA_WRITE_WITH_IMM, INLINE, 1, 8, 0},
	{AV_WR_ATOMIC_WRITE, INLINE, 1, 8, 0},
	{IBV_WR_RDMA_READ, 0, 1, 8, 0},
	{IBV_WR_RDMA_READ, INLINE, 1, 8, EINVAL},
	{IBV_WR_ATOMIC_FETCH_AND_ADD, INLINE, 1, 8, EINVAL},
	{IBV_WR_ATOMIC_CMP_AND_SWP, INLINE, 1, 8, EINVAL},
	{IBV_WR_LOCAL_INV, 0, 1, 8, 0},
	{IBV_WR_LOCAL_INV, 0, -1, 8, 0}, /* its list is not looked at */
	{IBV_WR_LOCAL_INV, INLINE, 0, 0, EINVAL},
	{AV_WR_SIZED_FETCH_AND_ADD, 0, 1, 8, EINVAL}, /* the library's alone */
	{IBV_WR_TSO, 0, 1, 8, EINVAL},
	{AV_WR_MASKED_FETCH_AND_ADD + 1, 0, 1, 8, EINVAL},
	{OPCODES_N, 0, 1, 8, EINVAL},
	{UINT32_MAX, 0, 1, 8, EINVAL},
};

TEST_WITH(each_request_is_checked, set_up, close_fake)
{
	uint8_t bytes[2 * MAX_INLINE] = {0};

	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		struct ibv_sge list[MAX_SGE + 1];
		struct ibv_send_wr wr = {.opcode = (enum ibv_wr_opcode)rows[i].opcode,
					 .send_flags = rows[i].flags,
					 .sg_list = list,
					 .num_sge = rows[i].count};
		int err;

		for (size_t n = 0; n < AV_ARRAY_SIZE(list); n++)
			list[n] = (struct ibv_sge){(uintptr_t)bytes, rows[i].each, 1};
		atomic_store(&end.qp->sq_freed, atomic_load(&end.qp->sq_tail));
		err = post(&wr);
		if (err != rows[i].err ||
		    atomic_load(&end.qp->sq_tail) - atomic_load(&end.qp->sq_freed) != (err == 0))
			fail_msg("row %zu: %d", i, err);
	}
}

static const struct {
	uint32_t bytes, most; /* of an operand, and of those the queue has room for */
	int count;	      /* elements for the result */
	int err;
	uint32_t flags;
} operand_rows[] = {
	{8, 32, 1, 0, 0},      {32, 32, 1, 0, 0},      {8, 32, 3, 0, 0},
	{16, 8, 1, EINVAL, 0}, {12, 32, 1, EINVAL, 0}, {64, 32, 1, EINVAL, 0},
	{8, 32, 0, EINVAL, 0}, {0, 32, 1, EINVAL, 0},  {8, 32, 1, EINVAL, INLINE},
};

static const uint32_t operand_opcodes[] = {
	AV_WR_SIZED_CMP_AND_SWP,
	AV_WR_SIZED_FETCH_AND_ADD,
	AV_WR_MASKED_CMP_AND_SWP,
	AV_WR_MASKED_FETCH_AND_ADD,
};

static void check_operands(uint32_t opcode)
{
	uint8_t bytes[8] = {0};
	struct ibv_sge list[MAX_SGE] = {{(uintptr_t)bytes, 8, 1}};

	for (size_t i = 0; i < AV_ARRAY_SIZE(operand_rows); i++) {
		struct av_atomic operand = {.bytes = operand_rows[i].bytes};
		struct ibv_send_wr wr = {.opcode = (enum ibv_wr_opcode)opcode,
					 .send_flags = operand_rows[i].flags,
					 .sg_list = list,
					 .num_sge = operand_rows[i].count},
				   *bad;
		uint32_t tail = atomic_load(&end.qp->sq_tail);

		end.qp->max_operand = operand_rows[i].most;
		end.qp->sq_stride = 192 + AV_SQ_OPERANDS;
		if (av_sq_post(&end, &wr, &bad, find_ah, &operand) != operand_rows[i].err)
			fail_msg("opcode %u, row %zu", opcode, i);
		if (operand_rows[i].err == 0)
			assert_memory_equal(av_sq_operands(&end, slot(tail)), &operand,
					    sizeof(operand));
		atomic_store(&end.qp->sq_freed, atomic_load(&end.qp->sq_tail));
	}
}

TEST_WITH(operands_are_checked_and_copied, set_up, close_fake)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(operand_opcodes); i++)
		check_operands(operand_opcodes[i]);
}

/* The ring, or the length of its slots, is a peer's nonsense. */
TEST_WITH(there_is_no_slot_in_an_unsound_ring, set_up, close_fake)
{
	struct ibv_sge element = {1000, 8, 1};
	struct av_atomic operand = {.bytes = 8};
	struct ibv_send_wr wr = {.opcode = (enum ibv_wr_opcode)AV_WR_SIZED_FETCH_AND_ADD,
				 .sg_list = &element,
				 .num_sge = 1},
			   *bad;

	end.qp->max_operand = 32;
	end.qp->sq_stride = 64;
	assert_int_equal(av_sq_post(&end, &wr, &bad, find_ah, &operand), EINVAL);
	end.qp->sq_ring = AV_SEG_BYTES;
	wr.opcode = IBV_WR_SEND;
	assert_int_equal(post(&wr), EINVAL);
	assert_int_equal(av_sq_post_special(&end, &(struct av_sq_special){.wr_id = 1}), EINVAL);
	assert_int_equal(atomic_load(&end.qp->sq_tail), 0);
}

/* --- why it is refused --------------------------------------------------------------- */

static const struct {
	uint32_t opcode, flags;
	int count;
	bool list; /* there is one */
	enum av_check check;
	uint64_t wanted;
} reasons[] = {
	{IBV_WR_TSO, 0, 1, true, AV_CHECK_POST_OPCODE, IBV_WR_TSO},
	{AV_WR_SIZED_FETCH_AND_ADD, 0, 0, true, AV_CHECK_POST_OPERANDS, 16},
	{IBV_WR_LOCAL_INV, INLINE, 0, true, AV_CHECK_POST_INLINE_OP, IBV_WR_LOCAL_INV},
	{IBV_WR_BIND_MW, 0, 0, true, AV_CHECK_BIND_WINDOW, 0},
	{IBV_WR_SEND, 0, MAX_SGE + 1, true, AV_CHECK_POST_SEND_SGE, MAX_SGE + 1},
	{IBV_WR_SEND, 0, 2, false, AV_CHECK_POST_SEND_LIST, 2},
	{IBV_WR_SEND, INLINE, 2, false, AV_CHECK_POST_SEND_LIST, 2},
	{IBV_WR_RDMA_READ, INLINE, 1, true, AV_CHECK_POST_INLINE_OP, IBV_WR_RDMA_READ},
	{IBV_WR_SEND, INLINE, 2, true, AV_CHECK_POST_INLINE, 2000},
};

TEST_WITH(each_refusal_has_its_reason, set_up, close_fake)
{
	struct ibv_sge list[MAX_SGE + 1];
	const struct av_atomic operand = {.bytes = 16};

	end.qp->max_operand = 8;
	for (size_t i = 0; i < AV_ARRAY_SIZE(list); i++)
		list[i] = (struct ibv_sge){1000, 1000, 1};
	for (size_t i = 0; i < AV_ARRAY_SIZE(reasons); i++) {
		struct ibv_send_wr wr = {.opcode = (enum ibv_wr_opcode)reasons[i].opcode,
					 .send_flags = reasons[i].flags,
					 .sg_list = reasons[i].list ? list : NULL,
					 .num_sge = reasons[i].count},
				   *bad;
		const struct av_flight_record *why = av_diag_pending();

		assert_int_equal(av_sq_post(&end, &wr, &bad, find_ah, &operand), EINVAL);
		if (why->error != EINVAL || why->check != reasons[i].check ||
		    why->wanted != reasons[i].wanted)
			fail_msg("row %zu: %d, %u, %llu", i, why->error, why->check,
				 (unsigned long long)why->wanted);
	}
}

/* Of a queue pair that has them, in a slot that is large enough, and no larger than there are. */
static const struct {
	uint32_t most, stride;
	bool there;
} stride_rows[] = {
	{0, 192 + AV_SQ_OPERANDS, false},
	{8, 192 + AV_SQ_OPERANDS, true},
	{8, sizeof(struct av_sq_wqe) + AV_SQ_OPERANDS - 1, false},
	{8, sizeof(struct av_sq_wqe) + AV_SQ_OPERANDS - AV_CACHE_LINE, false},
	{8, sizeof(struct av_sq_wqe) + AV_SQ_OPERANDS, true},
	{8, AV_SQ_STRIDE_MAX, true},
	{8, AV_SQ_STRIDE_MAX + 1, false},
	{8, AV_SQ_STRIDE_MAX + AV_CACHE_LINE, false},
	{8, UINT32_MAX, false},
};

TEST_WITH(operands_are_at_the_end_of_their_slot, set_up, close_fake)
{
	const struct av_sq_wqe *wqe = slot(0);

	for (size_t i = 0; i < AV_ARRAY_SIZE(stride_rows); i++) {
		const void *at = (const uint8_t *)wqe + stride_rows[i].stride - AV_SQ_OPERANDS;

		end.qp->max_operand = stride_rows[i].most;
		end.qp->sq_stride = stride_rows[i].stride;
		if (av_sq_operands(&end, wqe) != (stride_rows[i].there ? at : NULL))
			fail_msg("row %zu", i);
	}
}

TEST_WITH(a_queue_has_its_capacity_and_no_more, set_up, close_fake)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};

	for (uint32_t round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < CAPACITY; i++)
			assert_int_equal(post(&wr), 0);
		assert_int_equal(post(&wr), ENOMEM);
		atomic_fetch_add(&end.qp->sq_freed, 1);
		assert_int_equal(post(&wr), 0);
		assert_int_equal(post(&wr), ENOMEM);
		atomic_store(&end.qp->sq_freed, atomic_load(&end.qp->sq_tail));
	}
}

TEST_WITH(a_list_is_posted_up_to_its_first_error, set_up, close_fake)
{
	struct ibv_send_wr wr[3] = {
		{.opcode = IBV_WR_SEND, .wr_id = 1, .next = &wr[1]},
		{.opcode = IBV_WR_SEND, .wr_id = 2, .num_sge = -1, .next = &wr[2]},
		{.opcode = IBV_WR_SEND, .wr_id = 3},
	};
	struct ibv_send_wr *bad = NULL;

	assert_int_equal(av_sq_post(&end, wr, &bad, find_ah, NULL), EINVAL);
	assert_ptr_equal(bad, &wr[1]);
	assert_int_equal(atomic_load(&end.qp->sq_tail), 1);
	assert_int_equal(slot(0)->wr_id, 1);
}

TEST_WITH(no_list_is_nothing_to_post, set_up, close_fake)
{
	struct ibv_send_wr *bad = NULL;

	assert_int_equal(av_sq_post(&end, NULL, &bad, find_ah, NULL), 0);
	assert_null(bad);
	assert_int_equal(atomic_load(&end.qp->sq_tail), 0);
}

/* --- what stands in the ring --------------------------------------------------------- */

TEST_WITH(elements_are_copied, set_up, close_fake)
{
	struct ibv_sge list[MAX_SGE] = {{1000, 10, 1}, {2000, 20, 2}, {3000, 0, 3}};

	for (int count = 0; count <= (int)MAX_SGE; count++) {
		struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = list, .num_sge = count};
		const struct av_sq_wqe *wqe = slot((uint32_t)count);
		uint64_t sum = 0;

		assert_int_equal(post(&wr), 0);
		assert_int_equal(wqe->count, count);
		assert_memory_equal(wqe->sge, list, (size_t)count * sizeof(list[0]));
		for (int i = 0; i < count; i++)
			sum += list[i].length;
		assert_int_equal(wqe->bytes, sum);
	}
}

TEST_WITH(inline_data_is_copied_without_gaps, set_up, close_fake)
{
	char text[] = "abcdefgh";
	struct ibv_sge list[] = {{(uintptr_t)text, 3, 0},
				 {0, 0, 0},
				 {(uintptr_t)text + 5, 2, 0},
				 {(uintptr_t)text + 7, 1, 0}};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND,
				 .send_flags = INLINE,
				 .sg_list = list,
				 .num_sge = AV_ARRAY_SIZE(list)};

	assert_int_equal(post(&wr), 0);
	assert_int_equal(slot(0)->count, 0);
	assert_int_equal(slot(0)->bytes, 6);
	assert_memory_equal(slot(0)->data, "abcfgh", 6);
}

TEST_WITH(what_has_no_data_has_no_bytes, set_up, close_fake)
{
	struct ibv_sge list = {1000, 10, 1};
	struct ibv_send_wr wr = {.opcode = IBV_WR_LOCAL_INV,
				 .sg_list = &list,
				 .num_sge = 1,
				 .invalidate_rkey = 0x1234};

	assert_int_equal(post(&wr), 0);
	assert_int_equal(slot(0)->bytes, 0);
	assert_int_equal(slot(0)->count, 0);
	assert_int_equal(slot(0)->imm, 0x1234);
}

TEST_WITH(a_datagram_has_its_address, set_up, close_fake)
{
	struct ibv_ah ah = {0};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND,
				 .wr.ud = {.ah = &ah, .remote_qpn = 0x11, .remote_qkey = 0x22}};
	const struct av_sq_wqe *wqe = slot(0);

	end.qp->type = IBV_QPT_UD;
	assert_int_equal(post(&wr), 0);
	assert_int_equal(wqe->ud.qpn, 0x11);
	assert_int_equal(wqe->ud.qkey, 0x22);
	assert_memory_equal(&wqe->ud.dgid, &address.grh.dgid, sizeof(address.grh.dgid));
	assert_int_equal(wqe->route.flow_label, address.grh.flow_label);
	assert_int_equal(wqe->route.traffic_class, address.grh.traffic_class);
	assert_int_equal(wqe->route.sl, address.sl);
	assert_int_equal(wqe->route.dlid, address.dlid);
	assert_int_equal(wqe->route.sgid_index, address.grh.sgid_index);
	assert_int_equal(wqe->route.is_global, 1);
	assert_int_equal(wqe->route.hop_limit, address.grh.hop_limit);
	wr.wr.ud.ah = NULL;
	assert_int_equal(post(&wr), EINVAL);
}

/* What sends none to a queue pair needs no address. */
static const struct {
	enum ibv_wr_opcode opcode;
	int err;
} without_address[] = {
	{IBV_WR_SEND, EINVAL},
	{IBV_WR_SEND_WITH_IMM, EINVAL},
	{IBV_WR_LOCAL_INV, 0},
};

TEST_WITH(only_datagrams_need_an_address, set_up, close_fake)
{
	end.qp->type = IBV_QPT_UD;
	for (size_t i = 0; i < AV_ARRAY_SIZE(without_address); i++) {
		struct ibv_send_wr wr = {.opcode = without_address[i].opcode};

		assert_int_equal(post(&wr), without_address[i].err);
	}
}

/* The program sees the new key at once; what the device does with it is in the request. */
TEST_WITH(a_bind_has_its_window_and_its_new_key, set_up, close_fake)
{
	struct ibv_mr mr = {.lkey = 0x77};
	struct ibv_mr *const regions[] = {&mr, NULL};

	for (uint32_t i = 0; i < AV_ARRAY_SIZE(regions); i++) {
		struct ibv_mw mw = {.rkey = 0x12301};
		struct ibv_send_wr wr = {
			.opcode = IBV_WR_BIND_MW,
			.bind_mw = {.mw = &mw,
				    .rkey = 0x4567f2,
				    .bind_info = {.mr = regions[i],
						  .addr = 0x5000,
						  .length = 1ull << 33,
						  .mw_access_flags = IBV_ACCESS_REMOTE_READ}}};
		const struct av_sq_wqe *wqe = slot(i);

		assert_int_equal(post(&wr), 0);
		assert_int_equal(mw.rkey, 0x123f2);
		assert_int_equal(wqe->rkey, 0x123f2);
		assert_int_equal(wqe->window, 0x12301);
		assert_int_equal(wqe->remote_addr, 0x5000);
		assert_int_equal(wqe->compare_add, 1ull << 33);
		assert_int_equal(wqe->region, regions[i] ? mr.lkey : 0);
		assert_int_equal(wqe->access, IBV_ACCESS_REMOTE_READ);
		assert_int_equal(wqe->bytes | wqe->count, 0);
		wr.bind_mw.mw = NULL;
		assert_int_equal(post(&wr), EINVAL);
	}
}

/* --- lists of UMR keys --------------------------------------------------------------- */

#define HELD ((192u - 64u) / sizeof(struct av_klm_entry))

static const struct {
	uint32_t count;
	int err;
} lists[] = {{0, 0}, {1, 0}, {HELD, 0}, {HELD + 1, EINVAL}, {1000, EINVAL}};

TEST_WITH(a_list_fits_its_slot, set_up, close_fake)
{
	static const struct av_klm_entry entries[1000];

	for (size_t i = 0; i < AV_ARRAY_SIZE(lists); i++) {
		const struct av_sq_special req = {.wr_id = i + 1,
						  .opcode = AV_WR_UMR_FILL,
						  .count = lists[i].count,
						  .inlined = entries};
		uint32_t tail = atomic_load(&end.qp->sq_tail);

		if (av_sq_post_special(&end, &req) != lists[i].err)
			fail_msg("row %zu", i);
		assert_int_equal(atomic_load(&end.qp->sq_tail) - tail, lists[i].err == 0);
		if (lists[i].err == 0) {
			assert_int_equal(slot(tail)->wr_id, i + 1);
			assert_int_equal(slot(tail)->bytes | slot(tail)->imm, 0);
			assert_ptr_equal(av_sq_list(&end, slot(tail)), slot(tail)->list);
		}
		atomic_store(&end.qp->sq_freed, atomic_load(&end.qp->sq_tail));
	}
}

/* Whatever the length of the slots, and the number of elements. */
static const struct {
	uint32_t stride, count;
	bool there;
} list_rows[] = {
	{64, 0, true},
	{64, 1, false},
	{0, 0, false},
	{AV_SQ_STRIDE_MAX, 1, true},
	{AV_SQ_STRIDE_MAX, AV_SQ_STRIDE_MAX, false},
	{AV_SQ_STRIDE_MAX + AV_CACHE_LINE, 1, false},
	{UINT32_MAX, 1, false},
	{192, UINT32_MAX, false},
};

TEST_WITH(a_list_is_wholly_in_its_slot, set_up, close_fake)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(list_rows); i++) {
		const struct av_sq_wqe head = {.count = list_rows[i].count};

		end.qp->sq_stride = list_rows[i].stride;
		if (av_sq_list(&end, &head) != (list_rows[i].there ? head.list : NULL))
			fail_msg("row %zu", i);
	}
}

TEST_WITH(a_list_has_no_more_elements_than_a_key_may_have, set_up, close_fake)
{
	const struct av_sq_wqe most = {.count = AV_MAX_KLMS, .umr.list = RING_AT},
			       more = {.count = AV_MAX_KLMS + 1, .umr.list = RING_AT};

	assert_non_null(av_sq_list(&end, &most));
	assert_null(av_sq_list(&end, &more));
}

TEST_WITH(special_requests_take_slots_like_others, set_up, close_fake)
{
	const struct av_sq_special req = {.opcode = AV_WR_NOP};

	for (uint32_t i = 0; i < CAPACITY; i++)
		assert_int_equal(av_sq_post_special(&end, &req), 0);
	assert_int_equal(av_sq_post_special(&end, &req), ENOMEM);
	atomic_fetch_add(&end.qp->sq_freed, 1);
	assert_int_equal(av_sq_post_special(&end, &req), 0);
	assert_int_equal(av_sq_post_special(&end, &req), ENOMEM);
}

TEST_WITH(a_list_outside_is_wholly_in_the_segment, set_up, close_fake)
{
	const uint64_t bytes = 16 * sizeof(struct av_klm_entry);
	const struct av_sq_wqe in = {.count = 16, .umr.list = AV_SEG_BYTES - bytes},
			       out = {.count = 16,
				      .umr.list = AV_SEG_BYTES - bytes + AV_CACHE_LINE};

	assert_non_null(av_sq_list(&end, &in));
	assert_null(av_sq_list(&end, &out));
}

int main(void)
{
	return run_cases(NULL, NULL);
}
