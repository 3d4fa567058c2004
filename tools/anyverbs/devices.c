/* SPDX-License-Identifier: MIT */
/* "anyverbs devices": a line for each device, and on request what its switches make of it. */
#include "command.h"

#include <stdio.h>
#include <string.h>

#include "describe.h"
#include "device/device.h"
#include "device/port.h"
#include "device/switches.h"

/* How a peer names the device's port: its LID on InfiniBand, its first GID elsewhere. */
static void print_address(const struct av_device *dev)
{
	struct av_gid gids[AV_GID_MAX];
	char text[AV_GID_TEXT];
	unsigned int i = 0;

	if (dev->link_layer == IBV_LINK_LAYER_INFINIBAND) {
		printf("LID %u\n", dev->lid);
		return;
	}
	if (!av_port_gids(dev, gids)) {
		printf("no memory to ask for addresses\n");
		return;
	}
	while (av_gid_is_empty(&gids[i])) /* the last one is not */
		i++;
	printf("%s", av_describe_gid(&gids[i].gid, text));
	if (gids[i].ifname[0])
		printf(" (%s)", gids[i].ifname);
	putchar('\n');
}

static int longest_name(struct av_device *const *list, unsigned int count)
{
	size_t width = strlen("DEVICE");

	for (unsigned int i = 0; i < count; i++)
		if (strlen(list[i]->ibv.name) > width)
			width = strlen(list[i]->ibv.name);
	return (int)width;
}

/* In force for whoever opens it now. Worded as ibv_devinfo -v of MLNX_OFED has it. */
static void print_switches(const struct av_device *dev)
{
	bool tunneled =
		av_switches_read(dev->ibv.name).current & AV_SWITCH_BIT(AV_SWITCH_TUNNELED_ATOMIC);

	printf("  Tunneled atomic: %s\n", tunneled ? "SUPPORT" : "NOT SUPPORTED");
}

static int devices_main(int argc, char **argv)
{
	bool verbose = argc == 2 && !strcmp(argv[1], "-v");
	struct av_device *const *list;
	unsigned int count;
	int width;

	if (argc != 1 && !verbose)
		return av_tool_usage(&av_command_devices);
	list = av_devices(&count);
	width = longest_name(list, count);
	printf("%-*s  %-10s  %-7s  %4s  %s\n", width, "DEVICE", "LINK", "STATE", "MTU", "ADDRESS");
	for (unsigned int i = 0; i < count; i++) {
		const struct av_device *dev = list[i];
		struct ibv_port_attr port;

		av_port_attr(dev, &port);
		printf("%-*s  %-10s  %-7s  %4u  ", width, dev->ibv.name,
		       av_describe_link(dev->link_layer), av_describe_state(port.state),
		       av_describe_mtu(dev->mtu));
		print_address(dev);
		if (verbose)
			print_switches(dev);
	}
	return AV_EXIT_OK;
}

const struct av_command av_command_devices = {
	.name = "devices",
	.summary = "List the devices that programs see",
	.synopsis = "[-v]",
	.details = "With -v, also what the switches of 'anyverbs config' make of them. Which "
		   "devices there "
		   "are is set by ANYVERBS_DEVICES: see anyverbs(7). Adapters that the\n"
		   "kernel knows are listed by 'anyverbs run -- ibv_devices', after these.\n",
	.main = devices_main,
};
