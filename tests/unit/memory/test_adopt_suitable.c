/* SPDX-License-Identifier: MIT */
/* Which memory may be adopted, and what of the process speaks against it. */
#include <linux/if_xdp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/compiler.h"
#include "base/thread.h"
#include "lib/closed_input.h"
#include "lib/few_descriptors.h"
#include "lib/sanitized.h"
#include "lib/wait.h"
#include "memory/adopt_pages.h"

#define PATIENCE_MS 30000u
#define PAGE	    4096ul
#define PAGES	    16ul
#define BYTES	    (PAGES * PAGE)
#define RW	    (PROT_READ | PROT_WRITE)

static uint8_t *map(int prot, int flags)
{
	uint8_t *p = mmap(NULL, BYTES, prot, flags | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	return p;
}

static bool suitable(const void *begin, uint64_t bytes)
{
	const struct av_adopt_pages p = {.begin = (uintptr_t)begin, .bytes = bytes};

	return av_adopt_suitable(&p);
}

/* --- mappings ----------------------------------------------------------------------- */

/* What the last page is, of a range whose others are private and writable. */
static const struct {
	const char *what;
	int prot, flags;
	bool suitable;
} last_pages[] = {
	{"private", RW, MAP_PRIVATE | MAP_ANONYMOUS, true},
	{"read only", PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, false},
	{"for writing only", PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, false},
	{"nobody's", PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, false},
	{"shared", RW, MAP_SHARED | MAP_ANONYMOUS, false},
	{"of a file", RW, MAP_PRIVATE, false},
};

static void every_mapping_is_looked_at(void **state)
{
	int file = memfd_create("file", MFD_CLOEXEC);

	assert_int_equal(ftruncate(file, PAGE), 0);
	for (size_t i = 0; i < AV_ARRAY_SIZE(last_pages); i++) {
		int fd = last_pages[i].flags & MAP_ANONYMOUS ? -1 : file;
		uint8_t *p = map(RW, MAP_PRIVATE), *last = p + BYTES - PAGE;

		assert_true(mmap(last, PAGE, last_pages[i].prot, last_pages[i].flags | MAP_FIXED,
				 fd, 0) == last);
		if (suitable(p, BYTES) != last_pages[i].suitable)
			fail_msg("a last page that is %s", last_pages[i].what);
		assert_true(suitable(p, BYTES - PAGE));
		munmap(p, BYTES);
	}
	close(file);
}

static void there_is_no_hole(void **state)
{
	uint8_t *p = map(RW, MAP_PRIVATE);

	munmap(p + PAGE, PAGE);
	assert_true(suitable(p, PAGE));
	assert_false(suitable(p, BYTES));
	assert_false(suitable(p + PAGE, BYTES - PAGE));
	munmap(p + BYTES - PAGE, PAGE);
	assert_true(suitable(p + 2 * PAGE, BYTES - 3 * PAGE));
	assert_false(suitable(p + 2 * PAGE, BYTES - 2 * PAGE));
	munmap(p, BYTES);
}

/* The thread's own pages cannot be exchanged below it. */
static void the_stack_is_not(void **state)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0) & ~(PAGE - 1);

	assert_false(suitable((void *)here, PAGE));
}

/* It needs a descriptor to see them, and number 0 is one like others. It keeps none. */
static void mappings_are_asked_for(void **state)
{
	uint8_t *p = map(RW, MAP_PRIVATE);
	struct rlimit all;
	int input = close_input();

	assert_true(suitable(p, BYTES));
	assert_int_equal(fcntl(0, F_GETFD), -1);
	input_again(input);
	all = few_descriptors(0);
	assert_false(suitable(p, BYTES));
	setrlimit(RLIMIT_NOFILE, &all);
	munmap(p, BYTES);
}

/* A file of a segment's size may not be written to: whoever did so would be killed by SIGXFSZ. */
static void files_have_room(void **state)
{
	uint8_t *p = map(RW, MAP_PRIVATE);
	struct rlimit all, few;

	getrlimit(RLIMIT_FSIZE, &all);
	few = (struct rlimit){1 << 20, all.rlim_max};
	setrlimit(RLIMIT_FSIZE, &few);
	assert_false(suitable(p, BYTES));
	setrlimit(RLIMIT_FSIZE, &all);
	assert_true(suitable(p, BYTES));
	munmap(p, BYTES);
}

/* --- the process -------------------------------------------------------------------- */

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

static void a_mapping_tells_who_writes(void **state)
{
	assert_false(av_adopt_written_by_others());
	for (size_t i = 0; i < AV_ARRAY_SIZE(files); i++) {
		int fd = memfd_create(files[i].name, MFD_CLOEXEC);
		void *p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);

		assert_true(p != MAP_FAILED);
		if (av_adopt_written_by_others() != files[i].writes ||
		    av_adopt_must_stay() != files[i].writes)
			fail_msg("a mapping of %s", files[i].name);
		munmap(p, PAGE);
		close(fd);
	}
	assert_false(av_adopt_locked());
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
static void an_xdp_socket_writes(void **state)
{
	uint8_t *umem = map(RW, MAP_PRIVATE);
	int fd = xdp_open(umem);
	void *ring;

	if (fd < 0) {
		munmap(umem, BYTES);
		skip();
	}
	ring = mmap(NULL, PAGE, RW, MAP_SHARED, fd, XDP_UMEM_PGOFF_FILL_RING);
	assert_true(ring != MAP_FAILED);
	assert_true(av_adopt_written_by_others());
	munmap(ring, PAGE);
	close(fd);
	assert_false(av_adopt_written_by_others());
	munmap(umem, BYTES);
}

/* Nobody writes to it, but the lock would be lost. */
static void locked_memory_stays(void **state)
{
	uint8_t *p = map(RW, MAP_PRIVATE);

	assert_false(av_adopt_locked() || av_adopt_must_stay());
	assert_int_equal(syscall(SYS_mlock, p, PAGE), 0); /* sanitizers have none */
	assert_true(av_adopt_locked());
	assert_true(av_adopt_must_stay());
	assert_false(av_adopt_written_by_others());
	munmap(p, BYTES);
	assert_false(av_adopt_locked());
}

static void what_cannot_be_read_stays(void **state)
{
	struct rlimit all = few_descriptors(0);
	bool written = av_adopt_written_by_others(), locked = av_adopt_locked();
	bool stays = av_adopt_must_stay();

	setrlimit(RLIMIT_NOFILE, &all);
	assert_true(written && locked && stays);
}

/* --- threads ------------------------------------------------------------------------ */

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void *until_the_gate_opens(void *arg)
{
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
	return NULL;
}

/* A thread that was joined may be in /proc for another moment. */
static bool soon_alone(void)
{
	return WAIT_UNTIL(av_adopt_single_threaded(), PATIENCE_MS);
}

static void own_threads_do_not_count(void **state)
{
	struct av_thread *ours;
	pthread_t theirs;

	if (UNDER_TSAN) /* it has a thread of its own */
		skip();
	assert_true(soon_alone());
	pthread_mutex_lock(&gate);
	assert_int_equal(av_thread_start(&ours, "ours", until_the_gate_opens, NULL), 0);
	assert_true(av_adopt_single_threaded());
	assert_int_equal(pthread_create(&theirs, NULL, until_the_gate_opens, NULL), 0);
	assert_false(av_adopt_single_threaded());
	pthread_mutex_unlock(&gate);
	pthread_join(theirs, NULL);
	av_thread_join(ours);
	assert_true(soon_alone());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_mapping_is_looked_at),
		cmocka_unit_test(there_is_no_hole),
		cmocka_unit_test(the_stack_is_not),
		cmocka_unit_test(mappings_are_asked_for),
		cmocka_unit_test(files_have_room),
		cmocka_unit_test(a_mapping_tells_who_writes),
		cmocka_unit_test(an_xdp_socket_writes),
		cmocka_unit_test(locked_memory_stays),
		cmocka_unit_test(what_cannot_be_read_stays),
		cmocka_unit_test(own_threads_do_not_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
