/* SPDX-License-Identifier: MIT */
/*
 * What contexts have counted is added to their device's totals once, wherever he who adds it dies;
 * and who reads meanwhile can tell.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/unit.h"
#include "registry/directory.h"
#include "segment/pages.h"

#define DEVICE 1u /* index + 1 */
#define OTHER  2u

static char path[64];
static int folder;
static struct av_dir_context context; /* the one that ends */

static void names_of(uint32_t ref, char dir[32], char file[48])
{
	snprintf(dir, 32, "c%u-%u", AV_REF_SLOT(ref), ref >> AV_REF_SLOT_BITS);
	snprintf(file, 48, "%s/tables", dir);
}

/* The tables of a context whose first queue pair has counted @value in each word, and its first CQ,
 * too. */
static void put_segment(uint32_t ref, uint64_t value)
{
	struct av_tables *t;
	char dir[32], file[48];
	uint64_t *words;
	int fd;

	names_of(ref, dir, file);
	assert_int_equal(mkdirat(folder, dir, 0700), 0);
	fd = openat(folder, file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0 && ftruncate(fd, (off_t)AV_TABLES_BYTES) == 0);
	t = mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(t, MAP_FAILED);
	t->magic = AV_TABLES_MAGIC;
	t->qp_chunks = t->cq_chunks = 1;
	words = (uint64_t *)(t->qp[0][1] + AV_QP_COUNTERS_AT);
	for (size_t i = 0; i < AV_QP_COUNTERS; i++)
		words[i] = value;
	words = (uint64_t *)(t->cq[0][1] + AV_CQ_COUNTERS_AT);
	for (size_t i = 0; i < AV_CQ_COUNTERS; i++)
		words[i] = value;
	munmap(t, sizeof(*t));
	close(fd);
}

static void remove_segment(uint32_t ref)
{
	char dir[32], file[48];

	names_of(ref, dir, file);
	unlinkat(folder, file, 0);
	unlinkat(folder, dir, AT_REMOVEDIR);
}

/* A context of that device is there, and has counted. */
static void begin(uint32_t ref, uint32_t device, uint64_t value)
{
	context = (struct av_dir_context){.ref = ref, .device = device};
	put_segment(ref, value);
}

/* It ends as it should. */
static void end(uint32_t ref)
{
	av_ended_keep(&context, folder, av_totals_of_context);
	remove_segment(ref);
	av_ended_kept();
}

static void expect_total(uint32_t device, uint64_t value)
{
	const struct av_totals *sum = &av_dir->device[device - 1].ended;

	for (size_t i = 0; i < AV_QP_COUNTERS; i++)
		assert_int_equal(sum->qp[i], value);
	for (size_t i = 0; i < AV_CQ_COUNTERS; i++)
		assert_int_equal(sum->cq[i], value);
}

static int setup(void **state)
{
	snprintf(path, sizeof(path), "/tmp/anyverbs-totals-XXXXXX");
	if (!mkdtemp(path))
		return -1;
	folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	av_dir = calloc(1, sizeof(*av_dir));
	return av_dir ? 0 : -1;
}

static int teardown(void **state)
{
	free(av_dir);
	av_dir = NULL;
	close(folder);
	return rmdir(path);
}

TEST_WITH(contexts_add_up_by_device, setup, teardown)
{
	begin(0x1001, DEVICE, 5);
	end(0x1001);
	begin(0x1002, OTHER, 7);
	end(0x1002);
	begin(0x2001, DEVICE, 11);
	end(0x2001);
	expect_total(DEVICE, 16);
	expect_total(OTHER, 7);
}

TEST_WITH(what_has_no_device_adds_nothing, setup, teardown)
{
	begin(0x1001, 0, 5);
	end(0x1001);
	expect_total(DEVICE, 0);
	expect_total(OTHER, 0);
}

/* He dies before the folder goes, or behind that; the next to come does all of it again. */
TEST_WITH(a_death_in_the_middle_adds_once, setup, teardown)
{
	begin(0x1001, DEVICE, 5);
	av_ended_keep(&context, folder, av_totals_of_context);
	end(0x1001);
	expect_total(DEVICE, 5);
	begin(0x2001, DEVICE, 6);
	av_ended_keep(&context, folder, av_totals_of_context);
	remove_segment(0x2001);
	end(0x2001);
	expect_total(DEVICE, 11);
}

/* It has been published, and not stored: he died in between. */
TEST_WITH(a_death_before_the_sum_is_stored_adds_once, setup, teardown)
{
	begin(0x1001, DEVICE, 5);
	av_ended_keep(&context, folder, av_totals_of_context);
	memset(&av_dir->device[DEVICE - 1].ended, 0, sizeof(struct av_totals));
	remove_segment(0x1001);
	end(0x1001);
	expect_total(DEVICE, 5);
}

/* All was done but the last step, and another context ends. */
TEST_WITH(a_death_before_the_last_step_loses_nothing, setup, teardown)
{
	begin(0x1001, DEVICE, 5);
	av_ended_keep(&context, folder, av_totals_of_context);
	remove_segment(0x1001);
	assert_int_equal(atomic_load(&av_dir->fold.done), 0);
	begin(0x1002, OTHER, 9);
	end(0x1002);
	assert_int_equal(atomic_load(&av_dir->fold.done), 2); /* the first one is finished, too */
	begin(0x2001, DEVICE, 6);
	end(0x2001);
	expect_total(DEVICE, 11);
	expect_total(OTHER, 9);
}

/* References come round. */
TEST_WITH(the_same_reference_is_another_context, setup, teardown)
{
	for (uint64_t i = 1; i <= 3; i++) {
		begin(0x1001, DEVICE, 5);
		end(0x1001);
		expect_total(DEVICE, 5 * i);
	}
}

/* As collect_device_totals() compares it: nothing may happen between two looks that leaves both as
 * they
 * were. */
TEST_WITH(who_reads_meanwhile_can_tell, setup, teardown)
{
	uint32_t done = atomic_load(&av_dir->fold.done), ref = atomic_load(&av_dir->fold.ref);

	begin(0x1001, DEVICE, 5);
	av_ended_keep(&context, folder, av_totals_of_context);
	assert_int_equal(atomic_load(&av_dir->fold.ref), 0x1001);
	remove_segment(0x1001);
	av_ended_kept();
	assert_int_equal(atomic_load(&av_dir->fold.ref), ref);
	assert_int_not_equal(atomic_load(&av_dir->fold.done), done);
	done = atomic_load(&av_dir->fold.done);
	av_ended_kept(); /* there is nothing to finish */
	assert_int_equal(atomic_load(&av_dir->fold.done), done);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
