/* SPDX-License-Identifier: MIT */
/* Checks of memory, the files behind contexts, and resource limits. */
#include "doctor.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/userfaultfd.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "registry/directory.h"
#include "segment/segment.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

#define MIB		((uint64_t)1 << 20)
#define GIB		((uint64_t)1 << 30)
#define FOLDER_FREE_LOW (32 * MIB) /* some ten thousand queue pairs */
#define FOLDER_FREE_MIN (8 * MIB)  /* the directory, and a few contexts */
#define NOFILE_LOW	256
#define MAP_COUNT_LOW	4096
#define AS_LOW		(64 * GIB) /* one's own segment, a few of peers, and the program */

static_assert(AV_SEG_BYTES == 16 * GIB, "the sentences below name these numbers");

static void look_userfaultfd(struct av_finding *f)
{
	int fd = (int)syscall(SYS_userfaultfd, UFFD_USER_MODE_ONLY | O_CLOEXEC);

	if (fd >= 0) {
		close(fd);
		av_finding_value(f, "works");
		av_finding_set(f, AV_VERDICT_OK,
			       "The kernel can tell us when registered memory is unmapped or "
			       "moved.",
			       "");
		return;
	}
	av_finding_value(f, "%s", strerror(errno));
	av_finding_set(f, AV_VERDICT_LIMITED,
		       "Nobody tells us when registered memory is unmapped: it shows when it is "
		       "accessed.",
		       "Allow userfaultfd in the container's seccomp profile.");
}

static void look_memfd(struct av_finding *f)
{
	int fd = memfd_create("anyverbs-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd >= 0) {
		close(fd);
		av_finding_value(f, "works");
		av_finding_set(f, AV_VERDICT_OK,
			       "Memory without a name can be shared between processes.", "");
		return;
	}
	av_finding_value(f, "%s", strerror(errno));
	av_finding_set(f, AV_VERDICT_MISSING,
		       "Devices cannot be opened: the memory of a context has no name.",
		       "Allow memfd_create in the container's seccomp profile.");
}

/* Reduce "always [madvise] never" to the word in brackets. */
static void chosen_word(char *text)
{
	char *open = strchr(text, '['), *end = open ? strchr(open, ']') : NULL;

	if (!end)
		return;
	*end = '\0';
	memmove(text, open + 1, strlen(open + 1) + 1);
}

/* Of shared memory, which the shared heap is, the kernel has a setting of its own. */
static void look_huge_pages(struct av_finding *f)
{
	char text[64], shared[64];

	av_read_line("/sys/kernel/mm/transparent_hugepage/enabled", text, sizeof(text));
	av_read_line("/sys/kernel/mm/transparent_hugepage/shmem_enabled", shared, sizeof(shared));
	chosen_word(text);
	chosen_word(shared);
	av_finding_value(f, "%s, on the shared heap: %s", text[0] ? text : "not in this kernel",
			 shared[0] ? shared : "none");
	if (!strcmp(text, "always") || !strcmp(text, "madvise"))
		av_finding_set(
			f, AV_VERDICT_OK,
			"Buffers can have huge pages, which makes large transfers twice as fast.",
			"");
	else
		av_finding_set(
			f, AV_VERDICT_LIMITED,
			"Large transfers run at about half the possible speed.",
			"As root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled");
}

static void look_populate(struct av_finding *f)
{
#ifdef MADV_POPULATE_WRITE
	size_t size = (size_t)sysconf(_SC_PAGESIZE);
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool works = p != MAP_FAILED && madvise(p, size, MADV_POPULATE_WRITE) == 0;

	if (p != MAP_FAILED)
		munmap(p, size);
#else
	bool works = false;
#endif
	av_finding_value(f, works ? "works" : "not in this kernel");
	if (works)
		av_finding_set(f, AV_VERDICT_OK,
			       "One system call can populate all pages of a region.", "");
	else
		av_finding_set(f, AV_VERDICT_LIMITED, "Pages of a region are populated one by one.",
			       "Linux 5.14 or later has MADV_POPULATE_WRITE.");
}

static const char *file_system_name(int fd)
{
	static const struct {
		unsigned long magic;
		const char *name;
	} known[] = {
		{0x01021994, "tmpfs"}, {0x858458f6, "ramfs"},	 {0xef53, "ext4"},
		{0x58465342, "xfs"},   {0x9123683e, "btrfs"},	 {0x794c7630, "overlayfs"},
		{0x6969, "NFS"},       {0x2fc12fc1, "zfs"},	 {0x65735546, "FUSE"},
		{0x01021997, "9p"},    {0xca451a4e, "bcachefs"},
	};
	struct statfs st;

	if (fstatfs(fd, &st))
		return "unknown";
	for (size_t i = 0; i < AV_ARRAY_SIZE(known); i++)
		if ((unsigned long)st.f_type == known[i].magic)
			return known[i].name;
	return "other";
}

static void judge_folder(struct av_finding *f, int fd, const char *path)
{
	const char *type = file_system_name(fd);
	bool in_memory = !strcmp(type, "tmpfs") || !strcmp(type, "ramfs");
	struct statvfs st = {0};
	uint64_t free_bytes;

	(void)fstatvfs(fd, &st);
	free_bytes = (uint64_t)st.f_bavail * st.f_frsize;
	av_finding_value(f, "%s (%s, %" PRIu64 " of %" PRIu64 " MiB free)", path, type,
			 free_bytes / MIB, (uint64_t)st.f_blocks * st.f_frsize / MIB);
	if (free_bytes < FOLDER_FREE_MIN)
		av_finding_set(f, AV_VERDICT_MISSING,
			       "Too small or full: devices cannot be opened, because their queue "
			       "pairs live there.",
			       "Give the container a larger /dev/shm (docker run --shm-size=1g), "
			       "or set ANYVERBS_DIR to a larger folder for all processes.");
	else if (free_bytes < FOLDER_FREE_LOW)
		av_finding_set(f, AV_VERDICT_LIMITED,
			       "Queue pairs and completion queues of all programs together must "
			       "fit in there, 1.5 KiB each, and 100 KiB for each open device; "
			       "beyond that they are refused with ENOMEM.",
			       "Give the container a larger /dev/shm (docker run --shm-size=1g), "
			       "or set ANYVERBS_DIR to a larger folder for all processes.");
	else if (!in_memory)
		av_finding_set(f, AV_VERDICT_LIMITED,
			       "Queue pairs live there, and the kernel writes them to the disk "
			       "from time to time.",
			       "Set ANYVERBS_DIR to a folder on tmpfs for all processes.");
	else
		av_finding_set(f, AV_VERDICT_OK,
			       "All processes of this user that use this folder see each other.",
			       "");
}

static void look_folder(struct av_finding *f)
{
	char path[PATH_MAX] = "";
	int fd = av_folder_open(path, sizeof(path));

	if (fd >= 0) {
		judge_folder(f, fd, path);
		close(fd);
		rmdir(path);
		return;
	}
	av_finding_value(f, "%s: %s", path, strerror(-fd));
	av_finding_set(f, AV_VERDICT_MISSING,
		       "Devices cannot be opened: their queue pairs live there.",
		       "Set ANYVERBS_DIR to a writable folder, an absolute path, the same for "
		       "all processes.");
}

static uint64_t limit_of(__rlimit_resource_t resource)
{
	struct rlimit rl;

	if (getrlimit(resource, &rl) || rl.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	return rl.rlim_cur;
}

static void value_of_limit(struct av_finding *f, uint64_t limit, uint64_t unit, const char *name)
{
	if (limit == UINT64_MAX)
		av_finding_value(f, "unlimited");
	else
		av_finding_value(f, "%" PRIu64 "%s", limit / unit, name);
}

/* Do what opening a device does first. Return: 0 or errno. */
static int try_segment(void)
{
	struct av_own_fd fd;
	int err = -av_anonymous(&fd, "anyverbs-doctor", AV_SEG_BYTES);
	void *p;

	if (err)
		return err;
	p = mmap(NULL, AV_SEG_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd.fd, 0);
	if (p == MAP_FAILED)
		err = errno;
	else
		munmap(p, AV_SEG_BYTES);
	av_own_fd_close(&fd);
	return err;
}

static void look_file_size(struct av_finding *f)
{
	uint64_t limit = limit_of(RLIMIT_FSIZE);

	value_of_limit(f, limit, 1024, " KiB");
	if (limit >= AV_SEG_BYTES)
		av_finding_set(f, AV_VERDICT_OK,
			       "A context's sparse memory of 16 GiB fits the limit.", "");
	else
		av_finding_set(f, AV_VERDICT_MISSING,
			       "Devices cannot be opened: each context has 16 GiB of memory, most "
			       "of it a hole, which counts as a file.",
			       "ulimit -f unlimited");
}

static void look_segment(struct av_finding *f)
{
	int err = try_segment();

	av_finding_value(f, "%s", err ? strerror(err) : "created and mapped");
	if (!err)
		av_finding_set(f, AV_VERDICT_OK,
			       "The kernel gives a context the memory that peers map.", "");
	else
		av_finding_set(f, AV_VERDICT_MISSING,
			       "Devices cannot be opened: this is the memory of a context.",
			       "See the limits of file size and address space, and Memfd.");
}

static void look_address_space(struct av_finding *f)
{
	uint64_t limit = limit_of(RLIMIT_AS);

	value_of_limit(f, limit, MIB, " MiB");
	if (limit >= AS_LOW)
		av_finding_set(f, AV_VERDICT_OK,
			       "Own contexts and those of peers can be mapped, 16 GiB each.", "");
	else if (limit > AV_SEG_BYTES)
		av_finding_set(f, AV_VERDICT_LIMITED,
			       "Each context, and each peer's that is talked to, takes 16 GiB of "
			       "addresses: few fit.",
			       "ulimit -v unlimited");
	else
		av_finding_set(f, AV_VERDICT_MISSING,
			       "Devices cannot be opened: a context takes 16 GiB of addresses.",
			       "ulimit -v unlimited");
}

static void look_locked_memory(struct av_finding *f)
{
	value_of_limit(f, limit_of(RLIMIT_MEMLOCK), 1024, " KiB");
	av_finding_set(f, AV_VERDICT_OK,
		       "Does not matter: registration does not lock memory, so any amount can be "
		       "registered.",
		       "");
}

static void look_open_files(struct av_finding *f)
{
	uint64_t limit = limit_of(RLIMIT_NOFILE);

	value_of_limit(f, limit, 1, "");
	if (limit >= NOFILE_LOW)
		av_finding_set(f, AV_VERDICT_OK,
			       "Enough for contexts and completion channels, and a few for each "
			       "peer process.",
			       "");
	else
		av_finding_set(f, AV_VERDICT_LIMITED,
			       "Contexts, completion channels and peer processes take a few "
			       "descriptors each: few fit.",
			       "ulimit -n 1024");
}

static void look_map_count(struct av_finding *f)
{
	char text[32];
	uint64_t limit =
		strtoull(av_read_line("/proc/sys/vm/max_map_count", text, sizeof(text)), NULL, 10);

	av_finding_value(f, "%s", text[0] ? text : "unknown");
	if (!text[0] || limit >= MAP_COUNT_LOW)
		av_finding_set(f, AV_VERDICT_OK,
			       "Enough mappings for contexts, peers and shared buffers.", "");
	else
		av_finding_set(f, AV_VERDICT_LIMITED,
			       "Programs with many buffers run out of mappings; opening or "
			       "connecting then fails.",
			       "As root: sysctl vm.max_map_count=65530");
}

const struct doctor_check doctor_checks_memory[] = {
	{"folder", "Shared folder", 1, look_folder},
	{"segment", "Memory of a context", 1, look_segment},
	{"file_size", "Limit of file size (ulimit -f)", 1, look_file_size},
	{"address_space", "Limit of address space (ulimit -v)", 1, look_address_space},
	{"open_files", "Limit of open files (ulimit -n)", 0, look_open_files},
	{"locked_memory", "Limit of locked memory (ulimit -l)", 0, look_locked_memory},
	{"max_map_count", "Limit of mappings (vm.max_map_count)", 0, look_map_count},
	{"userfaultfd", "Userfaultfd", 0, look_userfaultfd},
	{"memfd", "Memfd", 1, look_memfd},
	{"populate", "Populating pages (MADV_POPULATE_WRITE)", 0, look_populate},
	{"huge_pages", "Transparent huge pages", 0, look_huge_pages},
	{NULL, NULL, 0, NULL},
};
