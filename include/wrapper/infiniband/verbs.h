/* SPDX-License-Identifier: MIT */
/*
 * The system's <infiniband/verbs.h> with the experimental verbs behind it, for programs that
 * include nothing else. Used by putting this folder before the system's in the include path:
 * "pkg-config --cflags anyverbs-exp" does.
 */
#ifndef WRAPPER_INFINIBAND_VERBS_H
#define WRAPPER_INFINIBAND_VERBS_H

#pragma GCC system_header /* #include_next is an extension that -Wpedantic would report */
#include_next <infiniband/verbs.h>
#include <infiniband/verbs_exp.h>

#endif
