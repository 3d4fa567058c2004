/* SPDX-License-Identifier: MIT */
/* What the kernel says of this process. */
#ifndef AV_TESTS_LIB_PROC_STATUS_H
#define AV_TESTS_LIB_PROC_STATUS_H

#include <stddef.h>

/* A number of kilobytes, such as "VmRSS:". The test ends if there is none. Source: proc(5) */
size_t status_kb(const char *name);

/* Of this process. One that has been joined may be counted for a moment. */
size_t thread_count(void);

#endif
