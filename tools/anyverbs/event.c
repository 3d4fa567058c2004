/* SPDX-License-Identifier: MIT */
/* "anyverbs event": makes a device fail, or its port go down or up. */
#include "command.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "device/port.h"
#include "json_out.h"
#include "pick.h"
#include "registry/directory.h"
#include "segment/pages.h"
#include "segment/segment.h"
#include "transport/transport.h"

static bool json;

static unsigned int port_err(const char *device)
{
	return av_port_force(device, true);
}

static unsigned int port_active(const char *device)
{
	return av_port_force(device, false);
}

static const struct {
	const char *name;
	unsigned int (*raise)(const char *device); /* Return: number of contexts notified */
} events[] = {
	{"device-fatal", av_device_fatal},
	{"port-err", port_err},
	{"port-active", port_active},
};

static int raise_event(size_t event, const char *device)
{
	int ret = av_dir_join(av_totals_of_context);
	unsigned int told;

	if (ret) {
		av_tool_complain("cannot find programs that have '%s' open: %s", device,
				 strerror(-ret));
		return AV_EXIT_NO;
	}
	told = events[event].raise(device);
	av_seg_drop_idle();
	av_dir_leave();
	if (!told) {
		av_tool_complain("no process to notify has '%s' open", device);
		return AV_EXIT_NO;
	}
	if (json)
		return av_json_write("events",
				     json_pack("[{s:s, s:s, s:i}]", "device", device, "event",
					       events[event].name, "contexts", (int)told));
	printf("%s: %s: %u context%s notified\n", device, events[event].name, told,
	       told == 1 ? "" : "s");
	return AV_EXIT_OK;
}

static const char *event_name(size_t i)
{
	return i < AV_ARRAY_SIZE(events) ? events[i].name : NULL;
}

static int event_main(int argc, char **argv)
{
	const struct av_device *dev = av_pick_one(argv[0]);
	char hint[AV_HINT_BYTES];

	(void)argc;
	if (!dev)
		return AV_EXIT_NO;
	for (size_t i = 0; i < AV_ARRAY_SIZE(events); i++)
		if (!strcmp(argv[1], events[i].name))
			return raise_event(i, dev->ibv.name);
	return av_tool_misuse(
		&av_command_event, "there is no event '%s'%s", argv[1],
		av_tool_hint(argv[1], event_name, "'anyverbs help event' lists them", hint));
}

static const struct av_option options[] = {AV_JSON_OPTION(&json), {.name = NULL}};

const struct av_command av_command_event = {
	.name = "event",
	.summary = "Make a device fail, or its port go down or up",
	.operands = "DEVICE device-fatal|port-err|port-active",
	.least = 2,
	.most = 2,
	.options = options,
	.details = "All programs of this user that have DEVICE open get the event.\n"
		   "\n"
		   "  device-fatal  their queue pairs go to the error state, and verbs fail with\n"
		   "                EIO; the device works for programs that open it afterwards\n"
		   "  port-err      the port goes down, and stays down until\n"
		   "  port-active   the port comes up\n"
		   "\n"
		   "A port that is down only reports it: requests still complete.\n",
	.examples = "anyverbs event any0 port-err\n"
		    "anyverbs event any0 port-active\n",
	.main = event_main,
};
