/* SPDX-License-Identifier: MIT */
/* System calls past our own hook of syscall(2). */
#ifndef AV_SHARED_HEAP_NEXT_H
#define AV_SHARED_HEAP_NEXT_H

#include <unistd.h>

#include "base/real_calls.h"

AV_FIND_NEXT(syscall);

#define AV_RAW(...) AV_NEXT_OF(syscall)(__VA_ARGS__)

#endif
