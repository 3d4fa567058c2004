/* SPDX-License-Identifier: MIT */
/* Which lines of "smaps" are shown: those of the mappings that overlap a range, until one is
 * enough. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <cmocka.h>

#include "base/compiler.h"
#include "lib/few_descriptors.h"
#include "memory/smaps.h"

#define PAGE 4096ul

/* Pages that differ in their rights, so that each is a mapping by itself. */
enum { BEFORE, FIRST, LAST, BEHIND, PAGES };
static const int rights[PAGES] = {PROT_READ, PROT_READ | PROT_WRITE, PROT_READ, PROT_NONE};
static uint8_t *pages;

static struct {
	unsigned int lines, sizes; /* all, and those that are called "Size:" */
	unsigned int most;	   /* lines that are wanted */
	uint64_t begin, end;	   /* the mappings' first and last address */
} seen;

static int set_up(void **state)
{
	pages = mmap(NULL, PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (size_t i = 0; pages != MAP_FAILED && i < PAGES; i++)
		if (mprotect(pages + i * PAGE, PAGE, rights[i]))
			return -1;
	memset(&seen, 0, sizeof(seen));
	seen.most = UINT32_MAX;
	return pages == MAP_FAILED;
}

static int tear_down(void **state)
{
	return munmap(pages, PAGES * PAGE);
}

static bool visit(void *arg, uint64_t begin, uint64_t end, const char *line)
{
	assert_ptr_equal(arg, &seen);
	assert_true(*line >= 'A' && *line <= 'Z' && strchr(line, ':'));
	if (!strncmp(line, "Size:", 5)) {
		seen.sizes++;
		seen.begin = seen.begin ? seen.begin : begin;
		seen.end = end;
	}
	return ++seen.lines < seen.most;
}

static bool look(size_t first, size_t end)
{
	return av_smaps_read((uintptr_t)pages + first * PAGE, (uintptr_t)pages + end * PAGE, visit,
			     &seen);
}

static void mappings_of_the_range_are_shown(void **state)
{
	assert_true(look(FIRST, LAST + 1));
	assert_int_equal(seen.sizes, 2);
	assert_true(seen.lines > 2 * 10);
	assert_int_equal(seen.begin, (uintptr_t)pages + FIRST * PAGE);
	assert_int_equal(seen.end, (uintptr_t)pages + BEHIND * PAGE);
}

static void a_part_of_a_mapping_shows_it_whole(void **state)
{
	uint64_t at = (uintptr_t)pages + FIRST * PAGE;

	assert_true(av_smaps_read(at + PAGE - 1, at + PAGE, visit, &seen));
	assert_int_equal(seen.sizes, 1);
	assert_int_equal(seen.begin, at);
	assert_int_equal(seen.end, at + PAGE);
}

static void one_line_may_be_enough(void **state)
{
	seen.most = 3;
	assert_true(look(BEFORE, PAGES));
	assert_int_equal(seen.lines, 3);
}

/* Not even the last one of all, behind which the text ends. */
static void nothing_is_mapped(void **state)
{
	assert_true(av_smaps_read(UINT64_MAX - 1, UINT64_MAX, visit, &seen));
	assert_int_equal(seen.lines, 0);
}

static void without_a_descriptor_nothing_is_known(void **state)
{
	struct rlimit was = few_descriptors(0);

	assert_false(look(BEFORE, PAGES));
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(seen.lines, 0);
}

#define WITH_PAGES(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_PAGES(mappings_of_the_range_are_shown),
		WITH_PAGES(a_part_of_a_mapping_shows_it_whole),
		WITH_PAGES(one_line_may_be_enough),
		WITH_PAGES(nothing_is_mapped),
		WITH_PAGES(without_a_descriptor_nothing_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
