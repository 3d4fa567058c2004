/* SPDX-License-Identifier: MIT */
/* What would cost more time than there is to spend on it is not adopted (docs/ADOPTION.md). */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>

#include "lib/own_directory.h"
#include "lib/sanitized.h"
#include "memory/adopt.h"
#include "memory/odp_notify.h"

#define PAGE	   4096ul
#define AFFORDABLE 75000ul /* pages, 2 us each, of 150 ms */

static void what_costs_too_much_is_not_adopted(void **state)
{
	const struct av_seg_device dev = {.name = "any0"};
	const size_t bytes = AFFORDABLE * PAGE;
	struct av_seg *seg = av_seg_create(&dev, 0);
	uint8_t *p = mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint8_t why = 0;
	uint32_t id;

	assert_non_null(seg);
	av_odp_watch(seg);
	assert_true(p != MAP_FAILED);
	assert_int_equal(madvise(p, 2 * bytes, MADV_NOHUGEPAGE), 0);
	id = av_adopt(seg, (uintptr_t)p, bytes, &why);
	assert_int_not_equal(id, 0);
	/* Regions on what is adopted already cost nothing. */
	assert_int_equal(av_adopt(seg, (uintptr_t)p, bytes, &why), id);
	av_adopt_end(seg, id);
	av_adopt_end(seg, id);
	assert_int_equal(av_adopt(seg, (uintptr_t)p, 2 * bytes, &why), 0);
	assert_int_equal(why, 0); /* it is not memory of a kind that never is */
	munmap(p, 2 * bytes);
	av_adopt_close(seg);
	av_odp_unwatch(seg);
	av_seg_end_calls(seg);
	av_seg_close(seg);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_costs_too_much_is_not_adopted),
	};

	if (UNDER_TSAN || /* it has a thread of its own; only what is watched is adopted */
	    syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY) < 0)
		return 77;
	unsetenv("ANYVERBS_ADOPT");
	return cmocka_run_group_tests(tests, own_directory_join, own_directory_leave);
}
