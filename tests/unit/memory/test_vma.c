/* SPDX-License-Identifier: MIT */
/* The mappings of a process, one by one: by a request to the kernel and by its text, and both the
 * same. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

#include "memory/vma.h"

static void mappings_one_by_one(void **state)
{
	int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	uint64_t addr = 0;
	struct av_vma vma, text;
	int n = 0;

	assert_true(maps >= 0);
	while (av_vma_next(maps, addr, &vma)) {
		assert_true(vma.end > addr && vma.end > vma.begin);
		assert_true(av_vma_next_text(maps, addr, &text));
		assert_int_equal(vma.begin, text.begin);
		assert_int_equal(vma.end, text.end);
		assert_int_equal(vma.anonymous, text.anonymous);
		assert_true(av_vma_next_text(maps, vma.end - 1, &text));
		assert_int_equal(vma.begin, text.begin);
		addr = vma.end;
		n++;
	}
	assert_true(n > 5);
	assert_false(av_vma_next_text(maps, UINT64_MAX - 4096, &text));
	close(maps);
	assert_false(av_vma_next(maps, 0, &vma));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mappings_one_by_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
