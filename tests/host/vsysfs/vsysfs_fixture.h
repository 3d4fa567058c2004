/* SPDX-License-Identifier: MIT */
/*
 * What the tests of the C library's functions on the virtual sysfs share (test_vsysfs_*.c). What
 * real programs make of it: preload.sh.
 */
#ifndef TEST_VSYSFS_FIXTURE_H
#define TEST_VSYSFS_FIXTURE_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/compiler.h"
#include "lib/unit.h"

#define ANY0	 "/sys/class/infiniband/any0"
#define BUS	 "/sys/devices/platform/anyverbs.0"
#define ANY0_DEV BUS "/infiniband/any0" /* where ANY0 leads */
#define GUID	 "0200:c0ff:ee00:1234\n"

/* open(), of which the header has not promised that the path is not NULL. */
int open_anything(const char *path, int flags, ...) __asm__("open");
/* What a checked build calls. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dirfd, const char *path, int flags);
int __openat64_2(int dirfd, const char *path, int flags);
ssize_t __readlink_chk(const char *path, char *target, size_t size, size_t room);
ssize_t __readlinkat_chk(int dirfd, const char *path, char *target, size_t size, size_t room);
char *__realpath_chk(const char *path, char *resolved, size_t room);
char *__getcwd_chk(char *buffer, size_t size, size_t room);
/* What a program calls that was built with a C library before release 2.33. */
int __xstat(int ver, const char *path, struct stat *st);
int __lxstat(int ver, const char *path, struct stat *st);
int __fxstat(int ver, int fd, struct stat *st);
int __fxstatat(int ver, int dirfd, const char *path, struct stat *st, int flags);

#ifdef __x86_64__
#define STAT_VER 1
#else
#define STAT_VER 0
#endif

/* Give this process the device any0. Return: false: the kernel has one in the place of ours */
bool vsysfs_begin(void);

/* Check what can be read from a descriptor, and close it. */
void assert_reads(int fd, const char *expected);

/* The descriptor of a directory that is there. */
int open_dir(const char *path);

#endif
