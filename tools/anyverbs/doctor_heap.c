/* SPDX-License-Identifier: MIT */
/* Checks whether the programs that have a device open share their memory. */
#include "doctor.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

#include "device/device.h"
#include "memory/region.h"
#include "segment/pages.h"

struct seen {
	unsigned int contexts, without; /* the shared heap */
	int32_t pid;			/* of one of these */
	char process[sizeof(((struct av_seg_head *)NULL)->process) + 1];
	uint64_t early; /* bytes registered that were allocated before the device was opened */
	int32_t early_pid;
};

static void look_at_region(const struct av_region_info *info, void *arg)
{
	struct seen *seen = arg;

	if (info->memory != AV_REGION_EARLY)
		return;
	seen->early += info->length;
	seen->early_pid = info->pid;
}

static void look_at_context(const struct av_seg *seg, void *arg)
{
	struct seen *seen = arg;

	seen->contexts++;
	av_region_report_of(seg, look_at_region, seen);
	if (seg->head->shared_heap_fd >= 0)
		return;
	seen->without++;
	seen->pid = seg->head->pid;
	snprintf(seen->process, sizeof(seen->process), "%.*s", (int)sizeof(seg->head->process),
		 seg->head->process);
}

static void say_without(struct av_finding *f, const struct seen *seen)
{
	av_finding_value(f, "%u of %u contexts without it, one of %s (PID %" PRId32 ")",
			 seen->without, seen->contexts, seen->process, seen->pid);
	av_finding_set(f, AV_VERDICT_LIMITED,
		       "Memory of these programs, unless it could be moved, is reached by system "
		       "calls: a microsecond more, and half the bandwidth.",
		       "Start them by 'anyverbs run', or link them with anyverbs-heap.so, too.");
}

static void say_early(struct av_finding *f, const struct seen *seen)
{
	av_finding_value(f,
			 "%" PRIu64 " KiB of registered memory were allocated before the device "
			 "was opened, by PID %" PRId32,
			 seen->early >> 10, seen->early_pid);
	av_finding_set(f, AV_VERDICT_LIMITED,
		       "That memory is reached by system calls: a microsecond more, and half the "
		       "bandwidth.",
		       "Start the program by 'anyverbs run --shared-heap', which shares memory "
		       "from its beginning.");
}

static void look_shared_heap(struct av_finding *f)
{
	struct seen seen = {.contexts = 0};
	unsigned int count;
	struct av_device *const *list = av_devices(&count);

	for (unsigned int i = 0; i < count; i++)
		av_seg_view_each(list[i]->ibv.name, look_at_context, &seen);
	if (seen.early) {
		say_early(f, &seen);
	} else if (seen.without) {
		say_without(f, &seen);
	} else {
		av_finding_value(f, seen.contexts ? "in all programs with a device open"
						  : "no program has a device open");
		av_finding_set(f, AV_VERDICT_OK,
			       "Large memory that programs allocate once they have opened a device "
			       "is reached by plain copies.",
			       "");
	}
}

const struct doctor_check doctor_checks_heap[] = {
	{"shared_heap", "Shared heap", 0, look_shared_heap},
	{NULL, NULL, 0, NULL},
};
