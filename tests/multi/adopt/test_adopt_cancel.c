/* SPDX-License-Identifier: MIT */
/*
 * Threads are cancelled in calls that have adopted pages move back. None of them is a cancellation
 * point, with us as without us: a thread that ended there would keep our locks for ever.
 */
#include <sys/mman.h>

#include "adopt_fixture.h"
#include "lib/userfaultfd.h"

static void call_madvise(void *p)
{
	EXPECT(madvise(p, PAGE, MADV_DONTFORK) == 0, "madvise");
}

static const struct {
	const char *name;
	void (*call)(void *p);
} rows[] = {
	{"fork()", call_fork},
	{"madvise()", call_madvise},
	{"mprotect()", call_mprotect},
};

static void run(void)
{
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		uint8_t *p = map_private(BYTES), *q = map_private(BYTES);
		struct ibv_mr *mr = reg_adopted(p, BYTES);

		row("cancelled before %s", rows[i].name);
		fill(p, BYTES, 3);
		EXPECT(outlives_cancellation(rows[i].call, p), "the thread has ended in there");
		expect_adopted(p, false);
		expect_filled(p, BYTES, 3);
		expect_reached(p, mr);
		dereg(mr);
		dereg(reg_adopted(q, BYTES)); /* nobody holds what that needs */
		munmap(p, BYTES);
		munmap(q, BYTES);
	}
}

int main(int argc, char **argv)
{
	need_userfaultfd();
	return adopt_test(argc, argv, run);
}
