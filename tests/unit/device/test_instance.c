/* SPDX-License-Identifier: MIT */
/* What is handed out for a device before a failure and after it: both lead to the device. */
#include <string.h>

#include "device/device.h"
#include "lib/own_directory.h"
#include "lib/unit.h"

static struct av_device *first_device(void)
{
	unsigned int count;

	return av_devices(&count)[0];
}

/* Return: what is handed out after a failure of that number */
static struct ibv_device *after(const char *name, uint32_t failure)
{
	av_instance_renew(name, failure);
	return av_instance(first_device());
}

TEST(another_one)
{
	struct av_device *dev = first_device();
	struct ibv_device *before = av_instance(dev), *now;
	uint32_t number = av_instance_number(dev);

	assert_ptr_equal(before, &dev->ibv);
	assert_int_equal(number, AV_DEVICE_NUMBER_BASE);
	now = after(dev->ibv.name, av_dir_failures_add());
	assert_ptr_not_equal(now, before);
	assert_memory_equal(now, before, sizeof(*now));
	assert_true(av_instance_number(dev) > number + AV_DEVICE_MAX - 1); /* no other device's */
	assert_int_equal(av_instance_number_of(now), av_instance_number(dev));
	assert_int_equal(av_instance_number_of(before), number);
	assert_ptr_equal(av_device_of(now), dev);
	assert_ptr_equal(av_device_of(before), dev);
}

TEST(once_for_each_failure)
{
	struct av_device *dev = first_device();
	uint32_t older = av_dir_failures_add(), failure = av_dir_failures_add();
	struct ibv_device *before = av_instance(dev), *now = after(dev->ibv.name, failure);

	assert_ptr_not_equal(now, before);
	assert_ptr_equal(after(dev->ibv.name, failure), now);
	assert_ptr_equal(after(dev->ibv.name, older), now);
	assert_ptr_equal(after("nosuch0", av_dir_failures_add()), now);
	assert_ptr_not_equal(after(dev->ibv.name, av_dir_failures_add()), now);
	assert_ptr_equal(av_device_of(before), dev);
}

int main(void)
{
	return run_cases(own_directory_join, own_directory_leave);
}
