/* SPDX-License-Identifier: MIT */
#include "memory/odp.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory/region.h"

/* What this thread has handled lately; valid while the context's @unmaps is unchanged. */
#define SEEN	 4
#define LOOKS	 16 /* attempts, if mappings change meanwhile */
#define REFUSALS 3
struct seen {
	uint32_t ref; /* of the context; never 0 */
	uint64_t unmaps;
	uint64_t begin, end;
	bool plain; /* private anonymous, and tracked; so it still is */
};
static _Thread_local struct seen seen[SEEN] AV_TLS_FAST;
static _Thread_local unsigned int seen_next AV_TLS_FAST;

static const struct seen *find_seen(uint32_t ref, uint64_t unmaps, uint64_t addr, uint64_t len)
{
	for (unsigned int i = 0; i < SEEN; i++) {
		const struct seen *s = &seen[i];

		if (s->ref == ref && s->unmaps == unmaps &&
		    av_range_within(addr, len, s->begin, s->end - s->begin))
			return s;
	}
	return NULL;
}

/* By number: callers hold queue pair locks, and the library's versions are cancellation points. */
static void close_fd(int fd)
{
	if (fd >= 0)
		syscall(SYS_close, fd);
}

static int open_maps(const struct av_seg *seg)
{
	char path[32];

	if (seg->own)
		return av_vma_open_own();
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)seg->pid);
	return (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
}

/* The owner's descriptor; -1: none to use. Any other file of that number refuses our ioctl. */
static int get_uffd(struct av_seg *seg, const struct av_odp_root *root)
{
	int number = (int)atomic_load(&root->uffd) - 1, process;

	if (seg->own || number < 0)
		return number;
	if (atomic_load_explicit(&seg->vm_refused, memory_order_relaxed))
		return -1;
	process = av_own_fd(&seg->process);
	return process < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, process, number, 0);
}

/* Watch a range. By number: the program's calls go to host/memory_hooks.c. Return: 0 or errno. */
static int register_uffd_range(int uffd, uint64_t addr, uint64_t len)
{
	struct uffdio_register reg = {
		.range = {.start = addr, .len = len},
		.mode = UFFDIO_REGISTER_MODE_WP,
	};

	return syscall(SYS_ioctl, uffd, UFFDIO_REGISTER, &reg) ? errno : 0;
}

/* If the mapping has changed, the refusal may have concerned something else. */
static bool unchanged(int maps, const struct av_vma *vma)
{
	struct av_vma now;

	return av_vma_next(maps, vma->begin, &now) && now.begin == vma->begin &&
	       now.end == vma->end;
}

/*
 * Watch one mapping, or find that the kernel refuses. Return: false: it changed, look again.
 *
 * EINVAL means both a mapping that the kernel does not register and a range that has become a hole,
 * which may be filled again before we look. Anonymous memory can always be registered, so there it
 * was a hole. For a file mapping we believe EINVAL after several attempts.
 */
static bool register_one(int uffd, int maps, const struct av_vma *vma, bool *tracked)
{
	for (int i = 0; i < REFUSALS; i++) {
		int err = register_uffd_range(uffd, vma->begin, vma->end - vma->begin);

		*tracked = err == 0;
		if (err == ENOMEM || (err == EINVAL && vma->anonymous) || !unchanged(maps, vma))
			return false;
		if (err != EINVAL)
			return true;
	}
	return true;
}

/* Return: false: part is unmapped or keeps changing, perhaps unwatched by the access. */
static bool register_all(int uffd, int maps, uint32_t ref, uint64_t unmaps, uint64_t addr,
			 uint64_t len)
{
	uint64_t last = av_range_wraps(addr, len) ? UINT64_MAX : addr + (len - 1);
	struct av_vma vma;
	bool tracked;

	for (unsigned int again = 0; again < LOOKS;) {
		if (!av_vma_next(maps, addr, &vma) || vma.begin > addr)
			return false;
		if (!register_one(uffd, maps, &vma, &tracked)) {
			again++;
			continue;
		}
		seen[seen_next++ % SEEN] =
			(struct seen){ref, unmaps, vma.begin, vma.end, tracked && vma.anonymous};
		if (vma.end > last)
			return true;
		addr = vma.end;
	}
	return false;
}

static bool track(struct av_seg *seg, const struct av_odp_root *root, uint64_t unmaps,
		  uint64_t addr, uint64_t len)
{
	int uffd = get_uffd(seg, root);
	int maps = uffd < 0 ? -1 : open_maps(seg);
	bool ret = true;

	if (maps >= 0)
		ret = register_all(uffd, maps, seg->ref, unmaps, addr, len);
	close_fd(maps);
	if (!seg->own)
		close_fd(uffd);
	return ret;
}

bool av_odp_track(struct av_seg *seg, uint64_t addr, uint64_t len)
{
	const struct av_odp_root *root = av_odp_root(seg);
	uint64_t unmaps;
	AV_ERRNO_KEPT;

	if (!root || len == 0 || atomic_load_explicit(&root->uffd, memory_order_relaxed) == 0)
		return true;
	unmaps = atomic_load(&root->unmaps);
	if (find_seen(seg->ref, unmaps, addr, len))
		return true;
	return track(seg, root, unmaps, addr, len);
}

bool av_odp_is_plain(const struct av_seg *seg, uint64_t addr, uint64_t len)
{
	const struct av_odp_root *root = av_odp_root(seg);
	const struct seen *s =
		root ? find_seen(seg->ref, atomic_load(&root->unmaps), addr, len) : NULL;

	return s && s->plain;
}
