/* SPDX-License-Identifier: MIT */
/* What of the process speaks against moving its pages. */
#include <fcntl.h>
#include <linux/if_xdp.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/compiler.h"
#include "lib/closed_input.h"
#include "lib/few_descriptors.h"
#include "lib/unit.h"
#include "memory/region.h"

#define PAGE  4096ul
#define BYTES (16 * PAGE)
#define RW    (PROT_READ | PROT_WRITE)

static uint8_t *map_private(void)
{
	uint8_t *p = mmap(NULL, BYTES, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	return p;
}

/* Files that stand for what writes to memory without a processor: a mapping has their name. */
static const struct {
	const char *name;
	bool writes;
} files[] = {
	{"[io_uring]", true},	  {"/[aio]", true},	  {"/dev/infiniband/uverbs0", true},
	{"/dev/vfio/1", true},	  {"/dev/nvidia0", true}, {"/dev/dri/renderD128", true},
	{"/dev/kfd", true},	  {"socket:[1]", true},	  {"/dev/null", false},
	{"/dev/shm/vfio", false}, {"socket", false},
};

TEST(a_mapping_tells_who_writes)
{
	assert_true(av_mm_quiesce_allowed());
	for (size_t i = 0; i < AV_ARRAY_SIZE(files); i++) {
		int fd = memfd_create(files[i].name, MFD_CLOEXEC);
		void *p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);

		assert_true(p != MAP_FAILED);
		if (av_mm_quiesce_allowed() == files[i].writes)
			fail_msg("a mapping of %s", files[i].name);
		munmap(p, PAGE);
		close(fd);
	}
}

/* An AF_XDP socket with a umem of one page, and room for a ring of its. Return: -1: not allowed */
static int xdp_open(void *umem)
{
	const struct xdp_umem_reg area = {.addr = (uintptr_t)umem, .len = PAGE, .chunk_size = PAGE};
	const int entries = 64;
	int fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);

	if (fd >= 0 && setsockopt(fd, SOL_XDP, XDP_UMEM_REG, &area, sizeof(area)) == 0 &&
	    setsockopt(fd, SOL_XDP, XDP_UMEM_FILL_RING, &entries, sizeof(entries)) == 0)
		return fd;
	close(fd);
	return -1;
}

/* It pins its umem without a word of that in VmPin, but it has no use for it without rings. */
TEST(an_xdp_socket_writes)
{
	uint8_t *umem = map_private();
	int fd = xdp_open(umem);
	void *ring;

	if (fd < 0) {
		munmap(umem, BYTES);
		skip();
	}
	ring = mmap(NULL, PAGE, RW, MAP_SHARED, fd, XDP_UMEM_PGOFF_FILL_RING);
	assert_true(ring != MAP_FAILED);
	assert_false(av_mm_quiesce_allowed());
	munmap(ring, PAGE);
	close(fd);
	assert_true(av_mm_quiesce_allowed());
	munmap(umem, BYTES);
}

/* Nobody writes to it, but the lock would be lost. */
TEST(locked_memory_stays)
{
	uint8_t *p = map_private();

	assert_true(av_mm_quiesce_allowed());
	assert_int_equal(syscall(SYS_mlock, p, PAGE), 0); /* sanitizers have none */
	assert_false(av_mm_quiesce_allowed());
	munmap(p, BYTES);
	assert_true(av_mm_quiesce_allowed());
}

/* It needs descriptors to see, and number 0 is one like others. It keeps none. */
TEST(without_standard_input)
{
	int input = close_input();
	bool moves = av_mm_quiesce_allowed();

	assert_int_equal(fcntl(0, F_GETFD), -1);
	input_again(input);
	assert_true(moves);
}

TEST(what_cannot_be_read_stays)
{
	struct rlimit all = few_descriptors(0);
	bool moves = av_mm_quiesce_allowed();

	setrlimit(RLIMIT_NOFILE, &all);
	assert_false(moves);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
