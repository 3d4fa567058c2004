/* SPDX-License-Identifier: MIT */
/* Numbers of connections: the process, a tag and an index, each in its bits. */
#include "base/compiler.h"
#include "base/lock.h"
#include "cm/id.h"
#include "lib/own_directory.h"
#include "lib/unit.h"

#define TRIES	   1000 /* a tag is missing from them once in 10^26 runs */
#define TAGS	   16u
#define INDEX_BITS 16

static void their_bits(void **state)
{
	static const uint32_t indices[] = {1, 2, 255, 256, AV_CM_COMM_MAX / 2, AV_CM_COMM_MAX - 1};

	for (size_t i = 0; i < AV_ARRAY_SIZE(indices); i++) {
		uint32_t seen = 0;

		for (int k = 0; k < TRIES; k++) {
			uint32_t comm = av_cm_comm(indices[i]), above = comm >> INDEX_BITS;

			assert_int_equal(av_cm_comm_index(comm), indices[i]);
			assert_int_equal(above / TAGS, AV_REF_SLOT(av_lock_self));
			seen |= 1u << above % TAGS;
		}
		assert_int_equal(seen, (1u << TAGS) - 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(their_bits)};

	return cmocka_run_group_tests(tests, own_directory_join, own_directory_leave);
}
