/* SPDX-License-Identifier: MIT */
/*
 * Rows and their failures. A test is a list of rows. A failed expectation is printed with its row's
 * name, and the test continues. Time limits are here, too: no test may hang.
 */
#ifndef TEST_EXPECT_H
#define TEST_EXPECT_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#define TEST_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define COUNT_OF(array)	       (sizeof(array) / sizeof((array)[0]))

/*
 * For fewer turns of what would take minutes, for what sanitizers' allocators and stacks do
 * otherwise, and for limits of time.
 */
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

/*
 * What a verb says: an errno value (0: success), with errno set to the same; -1, with errno; or an
 * object, else NULL with errno. Each is evaluated once, with errno cleared before.
 */
#define EXPECT_RET(call, want)                                                          \
	({                                                                              \
		errno = 0;                                                              \
		int ret_ = (call), errno_ = errno, want_ = (want);                      \
		EXPECT(ret_ == want_ && (want_ == 0 || errno_ == want_),                \
		       "%s returned %d, errno %d, not %d", #call, ret_, errno_, want_); \
	})
#define EXPECT_MINUS_ONE(call, want)                                                              \
	({                                                                                        \
		errno = 0;                                                                        \
		int ret_ = (call), errno_ = errno;                                                \
		EXPECT(ret_ == -1 && errno_ == (want), "%s returned %d, errno %d, not %d", #call, \
		       ret_, errno_, (want));                                                     \
	})
#define EXPECT_NULL(call, want)          \
	({                               \
		errno = 0;               \
		EXPECT_MADE(call, want); \
	})
/* What a call has given, and errno as it left it: an object if @want is 0, else none. */
#define EXPECT_MADE(object, want)                                                           \
	({                                                                                  \
		bool made_ = (object);                                                      \
		int errno_ = errno, want_ = (want);                                         \
		EXPECT(made_ == (want_ == 0) && (made_ || errno_ == want_),                 \
		       "%s %s, errno %d, not %d", #object, made_ ? "succeeded" : "refused", \
		       errno_, want_);                                                      \
	})

/* Something a row needs cannot be had: the whole test ends, failed. */
void die_at(const char *file, int line, const char *fmt, ...) TEST_PRINTF(3, 4)
	__attribute__((noreturn));
#define DIE(...) die_at(__FILE__, __LINE__, __VA_ARGS__)
#define NEED(cond)                                                   \
	do {                                                         \
		if (!(cond))                                         \
			DIE("not true: %s, errno %d", #cond, errno); \
	} while (0)

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
