/* SPDX-License-Identifier: MIT */
/* "anyverbs reset": the power cycle of a software adapter. */
#include "command.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "registry/directory.h"
#include "segment/totals.h"
#include "segment/segment.h"
#include "pick.h"
#include "transport/reset.h"

#define PIDS 16 /* PIDs named in a message */

static void print_pids(FILE *out, const int32_t *pids, size_t count)
{
	for (size_t i = 0; i < count && i < PIDS; i++)
		fprintf(out, "%s%d", i ? ", " : "", (int)pids[i]);
	if (count > PIDS)
		fprintf(out, " and %zu more", count - PIDS);
	fputc('\n', out);
}

static int refused(const char *device, const int32_t *pids, size_t count)
{
	av_tool_complain("'%s' is in use and was not reset; --force resets it and fails its users",
			 device);
	if (count) {
		fprintf(stderr, "anyverbs: processes that have it open: ");
		print_pids(stderr, pids, count);
	}
	return AV_EXIT_NO;
}

static int reset(const char *device, bool force)
{
	int32_t pids[PIDS];
	size_t count;
	int ret = av_device_reset(device, force, pids, PIDS, &count);

	if (ret == -EBUSY)
		return refused(device, pids, count);
	if (ret) {
		av_tool_complain("'%s' was not reset: %s", device, strerror(-ret));
		return AV_EXIT_NO;
	}
	printf("%s: reset%s", device, count ? "; failed in processes: " : "\n");
	if (count)
		print_pids(stdout, pids, count);
	return AV_EXIT_OK;
}

static int reset_all(const struct av_pick *pick, bool force)
{
	int ret = av_dir_join(av_totals_of_context), status = AV_EXIT_OK;

	if (ret) {
		av_tool_complain("cannot find programs that use devices: %s", strerror(-ret));
		return AV_EXIT_NO;
	}
	for (unsigned int i = 0; i < pick->count; i++)
		if (reset(pick->list[i]->ibv.name, force) != AV_EXIT_OK)
			status = AV_EXIT_NO;
	av_seg_drop_idle();
	av_dir_leave();
	return status;
}

static int reset_main(int argc, char **argv)
{
	static const struct option options[] = {{"device", required_argument, NULL, 'd'},
						{"force", no_argument, NULL, 'f'},
						{NULL, 0, NULL, 0}};
	const char *device = NULL;
	struct av_pick pick;
	bool force = false;
	int c;

	while ((c = getopt_long(argc, argv, "d:f", options, NULL)) != -1) {
		if (c == 'd')
			device = optarg;
		else if (c == 'f')
			force = true;
		else
			return av_tool_usage(&av_command_reset);
	}
	if (optind != argc)
		return av_tool_usage(&av_command_reset);
	return av_pick(&pick, device) ? reset_all(&pick, force) : AV_EXIT_NO;
}

const struct av_command av_command_reset = {
	.name = "reset",
	.summary = "Reset a device, so that settings of 'anyverbs config' take effect",
	.synopsis = "[-d DEVICE] [--force]",
	.details = "  -d, --device DEVICE  reset this device only, instead of all devices\n"
		   "  -f, --force          reset it even if processes have it open; their objects\n"
		   "                       fail (IBV_EVENT_DEVICE_FATAL), and they can reopen it\n"
		   "\n"
		   "This corresponds to the power cycle of an adapter.\n",
	.main = reset_main,
};
