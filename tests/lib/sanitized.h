/* SPDX-License-Identifier: MIT */
/* Which sanitizers this is built with. Tests do less, or skip what these cannot do. */
#ifndef AV_TESTS_SANITIZED_H
#define AV_TESTS_SANITIZED_H

#ifndef __has_feature
#define __has_feature(x) 0
#endif
/* ThreadSanitizer: a child forked by a multi-threaded process must not start threads. */
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
