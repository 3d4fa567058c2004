/* SPDX-License-Identifier: MIT */
/* What is made of the kernel's answers to whoever wants pages brought in. They are made up here. */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/compiler.h"
#include "lib/unit.h"
#include "memory/region.h"

#define PAGE 4096u
#define MOST 3u

static struct {
	int errors[MOST]; /* of each call; 0: it succeeds */
	unsigned int calls;
	bool write;
} kernel;

int madvise(void *addr, size_t bytes, int advice)
{
	/* MADV_POPULATE_READ and MADV_POPULATE_WRITE, which libraries of old do not name */
	assert_int_equal(advice, kernel.write ? 23 : 22);
	assert_int_equal(bytes, PAGE);
	assert_in_range(kernel.calls, 0, MOST - 1);
	errno = kernel.errors[kernel.calls++];
	return errno ? -1 : 0;
}

static const struct {
	int errors[MOST];
	int mapped, hole; /* what is returned for memory that is mapped, or not */
	unsigned int calls;
	unsigned int asks; /* what the kernel can populate at all; of mapped memory only */
} rows[] = {
	{{0}, 0, 0, 1, 0},
	{{EINTR, EAGAIN, 0}, 0, 0, 3, 0},
	{{EAGAIN, EINTR, EFAULT}, EFAULT, EFAULT, 3, 0},
	{{EFAULT}, EFAULT, EFAULT, 1, 0},
	{{EHWPOISON}, EFAULT, EFAULT, 1, 0},
	{{ENOMEM}, ENOMEM, EFAULT, 1, 0},	  /* also of holes */
	{{EINVAL, EINVAL}, EINVAL, EFAULT, 1, 1}, /* of kernels of old: not the stack either */
	{{EINVAL, 0}, EFAULT, EFAULT, 1, 1},	  /* of memory that has no pages of its own */
	{{EPERM}, EINVAL, EFAULT, 1, 0},
};

TEST(each_answer_has_its_meaning)
{
	uint8_t *p =
		mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	assert_int_equal(mprotect(p + PAGE, PAGE, PROT_NONE), 0);
	for (size_t i = 0; i < 4 * AV_ARRAY_SIZE(rows); i++) {
		size_t row = i / 4;
		bool hole = i & 1;

		kernel.calls = 0;
		kernel.write = i & 2;
		memcpy(kernel.errors, rows[row].errors, sizeof(kernel.errors));
		if (av_mapped_populate((uintptr_t)p + hole * PAGE, PAGE, kernel.write) !=
			    (hole ? rows[row].hole : rows[row].mapped) ||
		    kernel.calls != rows[row].calls + (hole ? 0 : rows[row].asks))
			fail_msg("row %zu: %u calls", row, kernel.calls);
	}
	munmap(p, 2 * PAGE);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
