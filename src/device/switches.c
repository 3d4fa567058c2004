/* SPDX-License-Identifier: MIT */
/* Switches in force, and those for the next reset. */
#include "device/switches.h"

#include <errno.h>
#include <string.h>

#include "registry/directory_file.h"
#include "device/switches_file.h"

const struct av_switch_info av_switch_info[AV_SWITCH_N] = {
	[AV_SWITCH_ADVANCED_PCI] = {"ADVANCED_PCI_SETTINGS", "Advanced settings may be changed", 0},
	[AV_SWITCH_CAPI] = {"IBM_CAPI_EN", "On-demand regions use the host's page tables",
			    AV_SWITCH_BIT(AV_SWITCH_ADVANCED_PCI)},
	[AV_SWITCH_TUNNELED_ATOMIC] = {"IBM_TUNNELED_ATOMIC_EN",
				       "Regions can take RDMA WRITEs as atomic operations", 0},
	[AV_SWITCH_AS_NOTIFY] = {"IBM_AS_NOTIFY_EN", "Completion queues can wake a thread directly",
				 0},
};

enum av_switch av_switch_by_name(const char *name, size_t length)
{
	int i = 0;

	while (i < AV_SWITCH_N && (strlen(av_switch_info[i].name) != length ||
				   memcmp(av_switch_info[i].name, name, length)))
		i++;
	return (enum av_switch)i;
}

enum av_switch av_switch_lacking(uint32_t set, enum av_switch *by)
{
	for (int i = 0; i < AV_SWITCH_N; i++) {
		uint32_t lacking = set & AV_SWITCH_BIT(i) ? av_switch_info[i].needs & ~set : 0;

		if (!lacking)
			continue;
		*by = (enum av_switch)i;
		return (enum av_switch)__builtin_ctz(lacking);
	}
	return AV_SWITCH_N;
}

static void read_both(struct av_switch_table *current, struct av_switch_table *next)
{
	bool there = av_switch_file_read(AV_SWITCH_FILE_CURRENT, current);

	(void)av_switch_file_read(AV_SWITCH_FILE_NEXT, next);
	if (!there)
		*current = *next;
}

struct av_switches av_switches_read(const char *device)
{
	struct av_switch_table current, next;

	read_both(&current, &next);
	return (struct av_switches){
		.current = av_switch_table_get(&current, device),
		.next = av_switch_table_get(&next, device),
	};
}

/* If everything has its default, there are no files. Context: within a change. */
static int write_both(const struct av_switch_table *current, const struct av_switch_table *next)
{
	int ret = av_switch_file_write(AV_SWITCH_FILE_CURRENT, current);

	if (ret == 0)
		ret = av_switch_file_write(AV_SWITCH_FILE_NEXT, next);
	if (ret == 0 && !current->count && !next->count) {
		av_switch_file_remove(AV_SWITCH_FILE_NEXT);
		av_switch_file_remove(AV_SWITCH_FILE_CURRENT);
	}
	return ret;
}

/* Context: within a change. */
static int set(const char *device, uint32_t mask, uint32_t on)
{
	struct av_switch_table current, next;
	enum av_switch by;
	int ret;

	read_both(&current, &next);
	on = (av_switch_table_get(&next, device) & ~mask) | (on & mask);
	if (av_switch_lacking(on, &by) != AV_SWITCH_N)
		return -EPERM;
	ret = av_switch_table_put(&next, device, on);
	return ret ? ret : write_both(&current, &next);
}

int av_switches_set(const char *device, uint32_t mask, uint32_t on)
{
	int ret;

	av_dir_change_begin();
	ret = set(device, mask, on);
	av_dir_change_end();
	return ret;
}

static bool is_among(uint32_t ref, const uint32_t *refs, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (refs[i] == ref)
			return true;
	return false;
}

/* Is a context of the device open that is not one of @failed? Context: within a change. */
static bool in_use(const char *device, const uint32_t *failed, size_t count)
{
	uint32_t place = av_dir_find_device(av_dir, device);

	for (uint32_t slot = 0; place && slot < atomic_load(&av_dir->context_end); slot++) {
		const struct av_dir_context *c = &av_dir->context[slot];
		uint32_t ref = atomic_load(&c->ref);

		if (ref && c->device == place && !is_among(ref, failed, count) &&
		    av_dir_proc_alive(atomic_load(&c->proc)))
			return true;
	}
	return false;
}

/* Context: within a change. */
static int reset(const char *device)
{
	struct av_switch_table current, next;
	int ret;

	read_both(&current, &next);
	ret = av_switch_table_put(&current, device, av_switch_table_get(&next, device));
	return ret ? ret : write_both(&current, &next);
}

int av_switches_reset(const char *device, const uint32_t *failed, size_t count)
{
	int ret = -EBUSY;

	av_dir_change_begin();
	if (!in_use(device, failed, count))
		ret = reset(device);
	av_dir_change_end();
	return ret;
}

uint32_t av_switches_take(const char *device)
{
	uint32_t on;

	/*
	 * A reset before this is taken into account. A reset after it finds the context, whose
	 * device is already known.
	 */
	av_dir_change_begin();
	on = av_switches_read(device).current;
	av_dir_change_end();
	return on;
}
