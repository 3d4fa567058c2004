/* SPDX-License-Identifier: MIT */
#include "base/file.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/real_calls.h"

static _Thread_local unsigned int real_files_depth;

void av_real_files_begin(void)
{
	real_files_depth++;
}

void av_real_files_end(void)
{
	real_files_depth--;
}

bool av_real_files_only(void)
{
	return real_files_depth > 0;
}

#define HIGHEST 2048u /* the kernel's table of descriptors grows with the number */

/* The first number for ours: in the last quarter of what the process may have. */
static int high(void)
{
	struct rlimit rl;
	rlim_t limit;

	if (getrlimit(RLIMIT_NOFILE, &rl))
		return 0;
	limit = rl.rlim_cur < HIGHEST ? rl.rlim_cur : HIGHEST;
	return (int)(limit - limit / 4);
}

/* Numbers that were ever ours lie between these. */
static _Atomic unsigned int lowest = UINT_MAX, highest;

static void widen(unsigned int number)
{
	unsigned int low = atomic_load(&lowest), high = atomic_load(&highest);

	while (number < low && !atomic_compare_exchange_weak(&lowest, &low, number))
		;
	while (number > high && !atomic_compare_exchange_weak(&highest, &high, number))
		;
}

void av_fd_close(const int *fd)
{
	AV_ERRNO_KEPT;
	if (*fd >= 0)
		close(*fd);
}

bool av_own_fd_keep(struct av_own_fd *own, int fd)
{
	struct stat st;
	int moved;

	*own = AV_OWN_FD_NONE;
	if (fd < 0)
		return false;
	if (fstat(fd, &st)) {
		AV_ERRNO_KEPT;
		close(fd);
		return false;
	}
	moved = fcntl(fd, F_DUPFD_CLOEXEC, high());
	if (moved >= 0)
		close(fd);
	*own = (struct av_own_fd){moved >= 0 ? moved : fd, st.st_dev, st.st_ino};
	widen((unsigned int)own->fd);
	return true;
}

int av_own_fd(const struct av_own_fd *own)
{
	struct stat st;

	if (own->fd >= 0 && fstat(own->fd, &st) == 0 && st.st_dev == own->dev &&
	    st.st_ino == own->ino)
		return own->fd;
	errno = EBADF;
	return -1;
}

void av_own_fd_close(struct av_own_fd *own)
{
	AV_ERRNO_KEPT;
	int fd = av_own_fd(own);

	if (fd >= 0)
		close(fd);
	*own = AV_OWN_FD_NONE;
}

/* --- on the path of packets ---------------------------------------------------------- */

#define YIELDS_MOST 1000u /* before a wait of a millisecond at a time */
#define TURNS_MOST  1100u

/* Of the process @guarded, not of a child of vfork(), which has descriptors of its own. */
static _Atomic pid_t guarded;
static _Atomic unsigned int users, replacers;
static _Atomic uint64_t replaced; /* times */

void av_own_fd_guard(void)
{
	if (atomic_load(&guarded) == getpid())
		return;
	atomic_store(&users, 0);
	atomic_store(&replacers, 0);
	atomic_store(&guarded, getpid());
}

/*
 * The other side makes one system call, which does not wait; but it may lack a core for long. Not
 * for ever: a signal handler may have interrupted it in this very thread.
 */
static void await_other(unsigned int turn)
{
	AV_ERRNO_KEPT;

	if (turn < YIELDS_MOST)
		sched_yield();
	else
		(void)av_raw_poll(NULL, 0, 1);
}

/* Each side announces itself, then looks for the other. */
static void enter(void)
{
	for (unsigned int turn = 0;; turn++) {
		atomic_fetch_add(&users, 1);
		if (av_likely(atomic_load(&replacers) == 0) || turn == TURNS_MOST)
			return;
		atomic_fetch_sub(&users, 1);
		await_other(turn);
	}
}

int av_own_fd_use(const struct av_own_fd *own, _Atomic uint64_t *looked)
{
	uint64_t now;
	int fd;

	enter();
	now = av_now_coarse_ns() + atomic_load(&replaced); /* neither goes back */
	if (av_likely(atomic_load_explicit(looked, memory_order_relaxed) == now))
		return own->fd;
	fd = av_own_fd(own);
	if (fd >= 0)
		atomic_store_explicit(looked, now, memory_order_relaxed);
	else
		av_own_fd_done();
	return fd;
}

void av_own_fd_done(void)
{
	atomic_fetch_sub_explicit(&users, 1, memory_order_release);
}

bool av_own_fd_replace_begin(unsigned int first, unsigned int last)
{
	if (av_likely(first > atomic_load_explicit(&highest, memory_order_relaxed) ||
		      last < atomic_load_explicit(&lowest, memory_order_relaxed)) ||
	    atomic_load(&guarded) != getpid())
		return false;
	atomic_fetch_add(&replacers, 1);
	for (unsigned int turn = 0; atomic_load(&users) > 0 && turn < TURNS_MOST; turn++)
		await_other(turn);
	return true;
}

void av_own_fd_replace_end(void)
{
	atomic_fetch_add(&replaced, 1);
	atomic_fetch_sub(&replacers, 1);
}

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u /* Linux 6.3; some systems demand it */
#endif

int av_memfd(const char *name, unsigned int flags)
{
	int fd = memfd_create(name, flags | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

	return fd < 0 && errno == EINVAL ? memfd_create(name, flags | MFD_ALLOW_SEALING) : fd;
}

int av_anonymous(struct av_own_fd *own, const char *name, uint64_t bytes)
{
	int ret;

	if (!av_own_fd_keep(own, av_memfd(name, MFD_CLOEXEC)))
		return -errno;
	ret = av_file_may_have(own->fd, bytes);
	if (ret == 0 && ftruncate(own->fd, (off_t)bytes))
		ret = -errno;
	if (ret == 0 && fcntl(own->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		ret = -errno;
	if (ret)
		av_own_fd_close(own);
	return ret;
}

/* Before 6.16, a signal undoes the call: a piece must be done between timers of a millisecond. */
#define PIECE (1u << 20)

int av_file_back(int fd, uint64_t offset, uint64_t bytes)
{
	uint64_t end = offset + bytes, n;
	int ret = 0;

	for (; ret == 0 && offset < end; offset += n) {
		n = end - offset < PIECE ? end - offset : PIECE;
		do
			ret = posix_fallocate(fd, (off_t)offset, (off_t)n);
		while (ret == EINTR);
	}
	return -ret;
}

/* Pages between holes take one call each; pages in a row take two more for all of them. */
bool av_sparse_next(int fd, uint64_t *at, uint64_t end, uint64_t *part_end)
{
	off_t data = *at < end ? lseek(fd, (off_t)*at, SEEK_DATA) : (off_t)end, hole;

	*part_end = end;
	if (data < 0)
		return errno != ENXIO;
	if ((uint64_t)data >= end)
		return false;
	hole = (uint64_t)data > *at ? data + AV_SPARSE_PAGE : lseek(fd, data, SEEK_HOLE);
	*at = (uint64_t)data;
	if (hole > data && (uint64_t)hole < end)
		*part_end = (uint64_t)hole;
	return true;
}

bool av_sparse_read(int fd, uint64_t at, uint64_t bytes, void *to)
{
	uint64_t pos = at, part_end;

	for (; av_sparse_next(fd, &pos, at + bytes, &part_end); pos = part_end)
		while (pos < part_end) {
			ssize_t n =
				pread(fd, (uint8_t *)to + (pos - at), part_end - pos, (off_t)pos);

			if (n <= 0)
				return false;
			pos += (uint64_t)n;
		}
	return true;
}
