/* SPDX-License-Identifier: MIT */
/*
 * write(2) to /dev/infiniband/rdma_cm, whose descriptors are sockets with a mark (cm/id.h).
 *
 * Every write(2) of the program comes here. So the library keeps a set of descriptors that may be
 * channels: those that it opened, and duplicates of these. For all others a call costs a look at
 * the set; for those in it, a query of the kernel for the mark. The set is a hint: a wrong member
 * costs a system call. No number leaves it, since the child of vfork() and a thread of
 * unshare(CLONE_FILES) share this memory, but not the descriptors: if a channel is closed there, it
 * may be open here.
 *
 * All of this is async-signal-safe and takes no lock.
 */
#include "host/hooks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

#include "cm/cm.h"
#include "host/vsysfs.h"

#define TRACKED	  1024u /* numbers with a bit each; those above share one */
#define WORD_BITS 64u

static _Atomic uint64_t set[TRACKED / WORD_BITS + 1];

/* The word and the bit of a descriptor. */
static _Atomic uint64_t *word_of(int fd, uint64_t *bit)
{
	unsigned int number = (unsigned int)fd < TRACKED ? (unsigned int)fd : TRACKED;

	*bit = UINT64_C(1) << number % WORD_BITS;
	return &set[number / WORD_BITS];
}

static bool may_be_channel(int fd)
{
	uint64_t bit;
	_Atomic uint64_t *word = word_of(fd, &bit);

	return av_unlikely(atomic_load_explicit(word, memory_order_relaxed) & bit);
}

static void mark_cm_fd(int fd)
{
	uint64_t bit;
	_Atomic uint64_t *word = word_of(fd, &bit);

	atomic_fetch_or_explicit(word, bit, memory_order_relaxed);
}

static bool is_channel(int fd, uint32_t *number)
{
	return may_be_channel(fd) && av_cm_is_channel(fd, number);
}

bool av_cm_hooks_is(int fd)
{
	uint32_t number;

	return is_channel(fd, &number);
}

int av_cm_hooks_open(int flags)
{
	int fd = av_cm_open(flags);

	if (fd >= 0)
		mark_cm_fd(fd);
	return fd;
}

/* --- writing --------------------------------------------------------------------------- */

AV_LIBC(ssize_t, write, (int fd, const void *bytes, size_t count))
{
	uint32_t number;

	if (is_channel(fd, &number))
		return av_cm_write(fd, number, bytes, count);
	return av_next_write()(fd, bytes, count);
}

/* --- duplicating ----------------------------------------------------------------------- */

/* @copy: what duplicating @fd returned */
static int duplicated(int fd, int copy)
{
	if (copy >= 0 && may_be_channel(fd))
		mark_cm_fd(copy);
	return copy;
}

AV_LIBC(int, dup, (int fd))
{
	return duplicated(fd, av_next_dup()(fd));
}

AV_LIBC(int, dup2, (int fd, int to))
{
	return duplicated(fd, av_next_dup2()(fd, to));
}

AV_LIBC(int, dup3, (int fd, int to, int flags))
{
	return duplicated(fd, av_next_dup3()(fd, to, flags));
}

/* The third argument is a word, if the command has one. */
AV_LIBC(int, fcntl, (int fd, int command, ...))
{
	va_list args;
	void *word;
	int ret;

	va_start(args, command);
	word = va_arg(args, void *);
	va_end(args);
	ret = av_next_fcntl()(fd, command, word);
	if (av_unlikely(command == F_DUPFD || command == F_DUPFD_CLOEXEC))
		return duplicated(fd, ret);
	return ret;
}

AV_LIBC_ALIAS(fcntl64, fcntl);
