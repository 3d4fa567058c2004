/* SPDX-License-Identifier: MIT */
/* Where a request goes, and what it carries. */
#include "torture/random_request.h"

#include <string.h>

#include "torture/peer.h"
#include "torture/random_run.h"
#include "torture/store.h"

bool is_atomic(enum ibv_wr_opcode op)
{
	return op == IBV_WR_ATOMIC_FETCH_AND_ADD || op == IBV_WR_ATOMIC_CMP_AND_SWP;
}

static uint32_t random_size(uint64_t most)
{
	uint64_t size = rnd(chance(50) ? 64 : chance(60) ? PAGE : MAX_BYTES) + 1;

	return (uint32_t)(size < most ? size : most);
}

void random_data(void)
{
	for (uint32_t i = 0; i < order.bytes; i += 8) {
		uint64_t x = rnd(0) ^ run_state();

		memcpy(order.data + i, &x, order.bytes - i < 8 ? order.bytes - i : 8);
	}
}

void random_place(uint64_t base, uint64_t length)
{
	uint64_t offset = rnd(length);

	order.bytes =
		is_atomic(order.opcode) ? 8 : random_size(length - offset + (chance(4) ? 5000 : 0));
	if (is_atomic(order.opcode) && chance(95))
		offset = length > 16 ? rnd(length - 15) : 0;
	order.addr = base + offset;
	if (is_atomic(order.opcode) && chance(95))
		order.addr = (order.addr + 7) & ~7ul;
	if (chance(2))
		order.addr = base - 1 - rnd(64);
	if (!is_atomic(order.opcode) && chance(2))
		order.bytes = 0;
}
