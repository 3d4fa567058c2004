/* SPDX-License-Identifier: MIT */
/* Copies to and from another process, and why there are none. */
#include <errno.h>
#include <string.h>

#include "base/compiler.h"
#include "fake_seg.h"
#include "lib/own_directory.h"
#include "lib/unit.h"
#include "memory/region.h"
#include "pin_user.h"

#define KEY   0x507u
#define BYTES 24u

static struct fake_seg f;
static struct av_pin pins[2];
static struct av_pin *const both[2] = {&pins[0], &pins[1]};
static pid_t owner; /* a copy of this process, which does not run */
static uint8_t there[2 * BYTES], here[BYTES];

static int set_up(void **state)
{
	fake_open(&f, 1);
	memset(there, 0x11, sizeof(there));
	owner = pin_user_start(&f.seg, KEY, false);
	f.seg.pid = owner;
	memset(there, 0, sizeof(there)); /* from here on, what the owner has is another */
	memset(here, 0x22, sizeof(here));
	memset(pins, 0, sizeof(pins));
	for (size_t i = 0; i < 2; i++)
		atomic_store(&pins[i].word, KEY);
	return 0;
}

static int tear_down(void **state)
{
	pin_user_end(owner);
	fake_close(&f);
	return 0;
}

/* One call. @many: of two pieces there, @most bytes each */
static ssize_t call(bool write, bool many, size_t most)
{
	const struct iovec local = {here, many ? 2 * most : most};
	const struct iovec remote[2] = {{there, most}, {there + BYTES, most}};
	const struct av_vm_remote one = {
		.seg = &f.seg, .pin = &pins[0], .addr = (uintptr_t)there, .bytes = most};

	if (many)
		return av_vm_call_many(write, &f.seg, both, 2, &local, 1, remote, 2);
	return av_vm_call(write, &one, &local, 1);
}

static void expect_no_call(void)
{
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(atomic_load(&pins[i].tid), 0);
}

TEST_WITH(bytes_go_there_and_back, set_up, tear_down)
{
	for (unsigned int many = 0; many < 2; many++) {
		memset(here, 0x22 + (int)many, sizeof(here));
		assert_int_equal(call(true, many, BYTES / 2), many ? BYTES : BYTES / 2);
		memset(here, 0, sizeof(here));
		assert_int_equal(call(false, many, BYTES / 2), many ? BYTES : BYTES / 2);
		for (size_t i = 0; i < BYTES; i++)
			assert_int_equal(here[i], many || i < BYTES / 2 ? 0x22 + many : 0);
		expect_no_call();
	}
	for (size_t i = 0; i < sizeof(there); i++)
		assert_int_equal(there[i], 0);
}

/* Why there is no call, or what has become of it. */
static const struct {
	bool closed, other_pidns, vm_refused, revoked;
	size_t bytes;
	ssize_t ret;
} rows[] = {
	{false, false, false, false, 8, 8},	  {true, false, false, false, 8, -ESRCH},
	{false, true, false, false, 8, -EPERM},	  {false, false, true, false, 8, -EPERM},
	{false, false, false, true, 8, -EAGAIN},  {false, false, false, false, 1, 1},
	{false, false, false, false, 0, -EAGAIN}, /* emptied by its owner */
};

TEST_WITH(each_reason_has_its_error, set_up, tear_down)
{
	for (size_t i = 0; i < 2 * AV_ARRAY_SIZE(rows); i++) {
		size_t row = i / 2;
		bool many = i % 2;
		ssize_t ret = many && rows[row].ret > 0 ? 2 * rows[row].ret : rows[row].ret;

		atomic_store(&f.seg.head->closed, rows[row].closed);
		f.seg.gone = false;
		f.seg.same_pidns = !rows[row].other_pidns;
		f.seg.vm_refused = rows[row].vm_refused;
		atomic_store(&pins[many].revoked, rows[row].revoked ? KEY : 0);
		if (call(true, many, rows[row].bytes) != ret)
			fail_msg("row %zu", row);
		expect_no_call();
		atomic_store(&pins[many].revoked, 0);
	}
}

/* The kernel's own error. */
TEST_WITH(a_place_without_memory_is_a_fault, set_up, tear_down)
{
	const struct iovec local = {here, 8}, remote = {NULL, 8};
	const struct av_vm_remote one = {.seg = &f.seg, .pin = &pins[0], .addr = 0, .bytes = 8};

	assert_int_equal(av_vm_call(true, &one, &local, 1), -EFAULT);
	assert_int_equal(av_vm_call_many(false, &f.seg, both, 2, &local, 1, &remote, 1), -EFAULT);
	expect_no_call();
}

int main(void)
{
	return run_cases(own_directory_join, own_directory_leave);
}
