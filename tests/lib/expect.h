/* SPDX-License-Identifier: MIT */
/*
 * Rows and their failures. A test is a list of rows. A failed expectation is printed with its row's
 * name, and the test continues. Time limits are here, too: no test may hang.
 */
#ifndef TEST_EXPECT_H
#define TEST_EXPECT_H

#include <stdbool.h>
#include <stdint.h>

#define TEST_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define COUNT_OF(array)	       (sizeof(array) / sizeof((array)[0]))

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_SANITIZED 1
#else
#define TEST_SANITIZED 0
#endif

/* Begin a row; its name is printed with each of its failures. */
void row(const char *fmt, ...) TEST_PRINTF(1, 2);
const char *row_name(void);

/* Record a failure of the current row. */
void fail_at(const char *file, int line, const char *fmt, ...) TEST_PRINTF(3, 4);

/* True if @cond holds. Otherwise prints and counts a failure of the current row. */
#define EXPECT(cond, ...)                                         \
	({                                                        \
		bool ok_ = (cond);                                \
		if (!ok_)                                         \
			fail_at(__FILE__, __LINE__, __VA_ARGS__); \
		ok_;                                              \
	})

/* End the whole test as failed: something that a row needs is unavailable. */
void die_at(const char *file, int line, const char *fmt, ...) TEST_PRINTF(3, 4)
	__attribute__((noreturn));
#define DIE(...) die_at(__FILE__, __LINE__, __VA_ARGS__)

unsigned int failures(void);

/* Print the number of rows. Return: exit status for main(). */
int summary(void);

/*
 * End this process and print its current row if it runs longer than @seconds (twice that with a
 * sanitizer).
 */
void time_limit(unsigned int seconds);

uint64_t now_ns(void);

static inline uint64_t now_ms(void)
{
	return now_ns() / 1000000;
}

#endif
