/* SPDX-License-Identifier: MIT */
/* Which of the compilers' checkers this is built with: tests do less, or leave out what these
 * cannot do. */
#ifndef AV_TESTS_SANITIZED_H
#define AV_TESTS_SANITIZED_H

#ifndef __has_feature
#define __has_feature(x) 0
#endif
/* ThreadSanitizer: a child forked from a process with threads may start none. */
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#else
#define UNDER_TSAN 0
#endif
#if UNDER_TSAN || defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#endif
