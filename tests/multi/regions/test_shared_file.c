/* SPDX-License-Identifier: MIT */
/*
 * Regions on memory that the program has shared itself: files of memory. The peer, whom the kernel
 * refuses this process's memory, and who may send no packets, reaches them by mapping the files.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/probe.h"
#include "lib/refuse_call.h"
#include "lib/wait.h"

#define PAGE	 4096ul
#define BYTES	 (16 * PAGE)
#define HUGE	 (2ul << 20)
#define PATIENCE 30000u /* ms */

static struct side a, b; /* the regions are a's, in this process */

/* --- memory ---------------------------------------------------------------------- */

static int memory_file(size_t bytes, unsigned int flags)
{
	int fd = memfd_create("test-shared-file", MFD_CLOEXEC | flags);

	if (fd >= 0 && ftruncate(fd, (off_t)bytes))
		DIE("ftruncate: errno %d", errno);
	return fd;
}

/* @at: NULL: anywhere */
static uint8_t *map_at(void *at, int fd, size_t bytes, size_t offset, int flags)
{
	uint8_t *p = mmap(at, bytes, PROT_READ | PROT_WRITE, flags | (at ? MAP_FIXED : 0), fd,
			  (off_t)offset);

	if (p == MAP_FAILED)
		DIE("mmap: errno %d", errno);
	return p;
}

static uint8_t *map(int fd, size_t bytes)
{
	return map_at(NULL, fd, bytes, 0, MAP_SHARED);
}

static struct ibv_mr *reg(void *at, size_t bytes)
{
	struct ibv_mr *mr = ibv_reg_mr(a.node->pd, at, bytes, PROBE_ALL);

	NEED(mr);
	return mr;
}

static void dereg(struct ibv_mr *mr)
{
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr: errno %d", errno);
}

static void end(struct ibv_mr *mr, uint8_t *p, size_t bytes, int fd)
{
	dereg(mr);
	munmap(p, bytes);
	if (fd >= 0)
		close(fd);
}

/* Mappings of such files in the peer. */
static unsigned int views(void)
{
	char path[64], line[512];
	unsigned int count = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)b.pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		count += strstr(line, "test-shared-file") != NULL;
	if (f)
		fclose(f);
	return count;
}

/* The peer has unmapped what it had in the rows before. */
static void begin(const char *name)
{
	row("%s", name);
	EXPECT(WAIT_UNTIL(views() == 0, PATIENCE), "views stay when their regions have ended");
}

/* --- what is reached ------------------------------------------------------------- */

/* Every kind of access, across the first two pages. */
static void expect_reached(uint8_t *p, const struct ibv_mr *mr)
{
	uint64_t addr = (uintptr_t)p, word = 0;

	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_WRITE, addr + 104, mr->rkey, 2 * PAGE, IBV_WC_SUCCESS);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, addr + 104, mr->rkey, 2 * PAGE, IBV_WC_SUCCESS);
	EXPECT(side_check(&b, PROBE_AT, 2 * PAGE, PROBE_SEED, 0) < 0, "READ brings other bytes");
	memcpy(p, &word, sizeof(word));
	EXPECT_PROBE(&b, &a, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, addr, mr->rkey, 8, IBV_WC_SUCCESS);
	memcpy(&word, p, sizeof(word));
	EXPECT(word == 1, "%lu after FETCH_AND_ADD", (unsigned long)word);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_WRITE, addr + mr->length - 8, mr->rkey, 9,
		     IBV_WC_REM_ACCESS_ERR);
}

/* There is no way to it but by system calls, which are refused. */
static void expect_private(const uint8_t *p, const struct ibv_mr *mr)
{
	enum ibv_wc_status got = probe(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)p, mr->rkey, PAGE);

	EXPECT(got != IBV_WC_SUCCESS, "private memory is reached");
}

static void descriptor_row(void)
{
	int fd = memory_file(BYTES, 0);
	uint8_t *p = map(fd, BYTES);
	struct ibv_mr *mr = reg(p, BYTES);

	begin("a memfd whose descriptor is kept");
	expect_reached(p, mr);
	EXPECT(views() == 1, "%u views", views());
	end(mr, p, BYTES, fd);
	EXPECT(WAIT_UNTIL(views() == 0, PATIENCE), "the view stays when the region has ended");
}

static void name_row(void)
{
	char name[64];
	uint8_t *p;
	struct ibv_mr *mr;
	int fd;

	begin("a name in /dev/shm, and no descriptor");
	snprintf(name, sizeof(name), "/test-shared-file-%d", (int)getpid());
	fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)BYTES))
		DIE("%s: errno %d", name, errno);
	p = map(fd, BYTES);
	close(fd);
	mr = reg(p, BYTES);
	expect_reached(p, mr);
	shm_unlink(name);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)p, mr->rkey, PAGE, IBV_WC_SUCCESS);
	end(mr, p, BYTES, -1);
}

/* The kernel lets root alone open what a mapping is of. */
static void nameless_row(void)
{
	int fd = memory_file(BYTES, 0);
	uint8_t *p = map(fd, BYTES), *q = map_at(NULL, -1, BYTES, 0, MAP_SHARED | MAP_ANONYMOUS);
	struct ibv_mr *mr, *other;

	begin("neither a name nor a descriptor");
	close(fd);
	mr = reg(p, BYTES);
	other = reg(q, BYTES);
	if (access("/proc/1/map_files", R_OK) == 0 && geteuid() == 0) {
		expect_reached(p, mr);
		expect_reached(q, other);
	} else {
		expect_private(p, mr);
		expect_private(q, other);
	}
	end(mr, p, BYTES, -1);
	end(other, q, BYTES, -1);
}

/* Side by side in memory, in another order in one of the files. */
static void pieces_row(void)
{
	int first = memory_file(BYTES, 0), second = memory_file(BYTES, 0);
	uint8_t *p = map_at(NULL, -1, 3 * PAGE, 0, MAP_PRIVATE | MAP_ANONYMOUS);
	struct ibv_mr *mr;
	uint8_t byte = 0;

	begin("several files side by side");
	map_at(p, first, PAGE, 3 * PAGE, MAP_SHARED);
	map_at(p + PAGE, second, PAGE, 0, MAP_SHARED);
	map_at(p + 2 * PAGE, first, PAGE, PAGE, MAP_SHARED);
	mr = reg(p, 3 * PAGE);
	expect_reached(p, mr);
	p[2 * PAGE] = 77;
	EXPECT(pread(first, &byte, 1, PAGE) == 1 && byte == 77, "the file has another byte");
	EXPECT(views() == 3, "%u mappings in the peer", views());
	end(mr, p, 3 * PAGE, first);
	close(second);
}

static void part_row(void)
{
	int fd = memory_file(2 * BYTES, 0);
	uint8_t *p = map_at(NULL, fd, BYTES, 5 * PAGE, MAP_SHARED);
	struct ibv_mr *mr = reg(p + 24, 3 * PAGE), *other = reg(p + PAGE, 2 * PAGE + 200);

	begin("two regions on a part of a file");
	expect_reached(p + 24, mr);
	expect_reached(p + PAGE, other);
	EXPECT(views() == 1, "%u views", views());
	dereg(mr);
	expect_reached(p + PAGE, other);
	end(other, p, BYTES, fd);
	EXPECT(WAIT_UNTIL(views() == 0, PATIENCE), "the view stays when the regions have ended");
}

static void huge_row(void)
{
	int fd = memory_file(2 * HUGE, MFD_HUGETLB);
	uint8_t *p = fd < 0 ? MAP_FAILED
			    : mmap(NULL, 2 * HUGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct ibv_mr *mr;

	begin("huge pages of the system's pool");
	if (p == MAP_FAILED) {
		puts("left out: huge pages of the system's pool: it has none");
	} else {
		mr = reg(p + PAGE, HUGE);
		expect_reached(p + PAGE, mr);
		end(mr, p, 2 * HUGE, -1);
	}
	if (fd >= 0)
		close(fd);
}

static void rereg_row(void)
{
	int fd = memory_file(BYTES, 0), next = memory_file(BYTES, 0);
	uint8_t *p = map(fd, BYTES), *q = map(next, BYTES);
	struct ibv_mr *mr = reg(p, BYTES);

	begin("re-registration onto another file");
	expect_reached(p, mr);
	EXPECT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, q, BYTES, 0) == 0,
	       "ibv_rereg_mr: errno %d", errno);
	expect_reached(q, mr);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)p, mr->rkey, 8, IBV_WC_REM_ACCESS_ERR);
	EXPECT(WAIT_UNTIL(views() == 1, PATIENCE), "%u views", views());
	munmap(p, BYTES);
	close(fd);
	end(mr, q, BYTES, next);
}

/* --- what is not ----------------------------------------------------------------- */

static void truncated_row(void)
{
	int fd = memory_file(BYTES, 0);
	uint8_t *p = map(fd, BYTES);
	struct ibv_mr *mr = reg(p, BYTES);

	begin("a file that has become shorter");
	expect_reached(p, mr);
	EXPECT(ftruncate(fd, 2 * PAGE) == 0, "ftruncate: errno %d", errno);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)p, mr->rkey, PAGE, IBV_WC_SUCCESS);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_WRITE, (uintptr_t)p + 4 * PAGE, mr->rkey, PAGE,
		     IBV_WC_REM_ACCESS_ERR);
	end(mr, p, BYTES, fd);
}

static void protected_row(void)
{
	int fd = memory_file(BYTES, 0);
	uint8_t *p = map(fd, BYTES);
	struct ibv_mr *mr = reg(p, BYTES);

	begin("memory that the program may no longer access");
	EXPECT(mprotect(p, BYTES, PROT_NONE) == 0, "mprotect: errno %d", errno);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_WRITE, (uintptr_t)p, mr->rkey, PAGE, IBV_WC_SUCCESS);
	end(mr, p, BYTES, fd);
}

static void replaced_row(void)
{
	int fd = memory_file(BYTES, 0), other = memory_file(BYTES, 0);
	uint8_t *p = map(fd, BYTES), byte = 0;
	struct ibv_mr *mr = reg(p, BYTES);
	enum ibv_wc_status got = IBV_WC_SUCCESS;

	begin("another file in its place");
	expect_reached(p, mr);
	map_at(p, other, BYTES, 0, MAP_SHARED);
	(void)WAIT_UNTIL((got = probe(&b, &a, 0, IBV_WR_RDMA_WRITE, (uintptr_t)p, mr->rkey,
				      PAGE)) != IBV_WC_SUCCESS,
			 PATIENCE);
	EXPECT(got == IBV_WC_REM_ACCESS_ERR, "WRITE ends as '%s'", ibv_wc_status_str(got));
	EXPECT(pread(other, &byte, 1, 0) == 1 && byte == 0, "the other file has been written");
	end(mr, p, BYTES, fd);
	close(other);
}

static void private_row(void)
{
	int fd = memory_file(BYTES, 0);
	uint8_t *p = map_at(NULL, fd, BYTES, 0, MAP_PRIVATE), *q = map(fd, BYTES);
	uint8_t *r = map_at(NULL, -1, BYTES, 0, MAP_PRIVATE | MAP_ANONYMOUS);
	struct ibv_mr *copy = reg(p, BYTES), *hole, *none = reg(r, BYTES);

	begin("private memory, in whole or in part");
	expect_private(p, copy);
	map_at(q + 4 * PAGE, -1, PAGE, 0, MAP_PRIVATE | MAP_ANONYMOUS);
	hole = reg(q, BYTES);
	expect_private(q, hole);
	expect_private(r, none);
	dereg(none);
	munmap(r, BYTES);
	dereg(copy);
	munmap(p, BYTES);
	end(hole, q, BYTES, fd);
}

/* fcntl(2): closing any descriptor of a file ends the process's locks of it. */
static void locks_row(void)
{
	int fd = memory_file(BYTES, 0);
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
	uint8_t *p = map(fd, BYTES);
	struct ibv_mr *mr;
	pid_t child;
	int status = 0;

	begin("locks of the file stay");
	EXPECT(fcntl(fd, F_SETLK, &lock) == 0, "fcntl: errno %d", errno);
	mr = reg(p, BYTES);
	expect_reached(p, mr);
	dereg(mr);
	child = fork();
	if (child == 0)
		_exit(fcntl(fd, F_GETLK, &lock) || lock.l_type == F_UNLCK);
	EXPECT(waitpid(child, &status, 0) == child && status == 0, "the lock is gone");
	munmap(p, BYTES);
	close(fd);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		refuse_memory_of_others();
	else
		setenv("ANYVERBS_TRANSPORT", "direct", 1);
	side_agent_main(argc, argv);
	time_limit(200);
	sides_open(&a, &b);
	probe_open(&b, &a, 0);
	descriptor_row();
	name_row();
	nameless_row();
	pieces_row();
	part_row();
	huge_row();
	rereg_row();
	truncated_row();
	protected_row();
	replaced_row();
	private_row();
	locks_row();
	return summary();
}
