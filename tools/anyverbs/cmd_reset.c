/* SPDX-License-Identifier: MIT */
/* "anyverbs reset": the power cycle of a software adapter. */
#include "command.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "json_out.h"
#include "pick.h"
#include "registry/directory.h"
#include "segment/pages.h"
#include "segment/segment.h"
#include "transport/transport.h"

#define PIDS 16 /* PIDs named in a message */

static const char *device_name; /* NULL: all devices */
static bool force, json;

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

/* Add what became of the device to @all. */
static void note(json_t *all, const char *device, bool done, const int32_t *pids, size_t count)
{
	json_t *users = json_array();

	for (size_t i = 0; i < count && i < PIDS; i++)
		json_array_append_new(users, json_integer(pids[i]));
	json_array_append_new(all, json_pack("{s:s, s:b, s:o}", "device", device, "reset", done,
					     "processes", users));
}

/* @all: NULL for text output */
static int reset(json_t *all, const char *device)
{
	int32_t pids[PIDS];
	size_t count = 0;
	int ret = av_device_reset(device, force, pids, PIDS, &count);

	if (all)
		note(all, device, ret == 0, pids, count);
	if (ret == -EBUSY)
		return refused(device, pids, count);
	if (ret) {
		av_tool_complain("'%s' was not reset: %s", device, strerror(-ret));
		return AV_EXIT_NO;
	}
	if (all)
		return AV_EXIT_OK;
	printf("%s: reset%s", device, count ? "; failed in processes: " : "\n");
	if (count)
		print_pids(stdout, pids, count);
	return AV_EXIT_OK;
}

static int reset_all(const struct av_pick *pick)
{
	int ret = av_dir_join(av_totals_of_context), status = AV_EXIT_OK;
	json_t *all;

	if (ret) {
		av_tool_complain("cannot find programs that use devices: %s", strerror(-ret));
		return AV_EXIT_NO;
	}
	all = json ? json_array() : NULL;
	for (unsigned int i = 0; i < pick->count; i++)
		if (reset(all, pick->list[i]->ibv.name) != AV_EXIT_OK)
			status = AV_EXIT_NO;
	av_seg_drop_idle();
	av_dir_leave();
	if (json && av_json_write("devices", all) != AV_EXIT_OK)
		status = AV_EXIT_NO;
	return status;
}

static int reset_main(int argc, char **argv)
{
	struct av_pick pick;

	(void)argc;
	(void)argv;
	return av_pick(&pick, device_name) ? reset_all(&pick) : AV_EXIT_NO;
}

static const struct av_option options[] = {
	{'d', "device", "DEVICE", &av_value_device, &device_name,
	 "reset this device only, instead of all devices", NULL},
	{'f', "force", NULL, NULL, &force,
	 "reset it even if processes have it open; their objects\n"
	 "fail (IBV_EVENT_DEVICE_FATAL), and they can reopen it",
	 NULL},
	AV_JSON_OPTION(&json),
	{.name = NULL}};

const struct av_command av_command_reset = {
	.name = "reset",
	.summary = "Reset a device, so that settings of 'anyverbs config' take effect",
	.operands = "",
	.options = options,
	.details = "This corresponds to the power cycle of an adapter.\n",
	.examples = "anyverbs reset -d any0\n",
	.main = reset_main,
};
