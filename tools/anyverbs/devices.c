/* SPDX-License-Identifier: MIT */
/* "anyverbs devices": one line per device; with -v also its switches. */
#include "command.h"

#include <stdio.h>
#include <string.h>

#include "describe.h"
#include "device/device.h"
#include "device/port.h"
#include "device/switches.h"

/* Index of the first GID that is no link-local address, or else of the first of all. */
static unsigned int best_gid(const struct av_gid *gids, unsigned int count)
{
	unsigned int first = count;

	for (unsigned int i = 0; i < count; i++) {
		if (av_gid_is_empty(&gids[i]))
			continue;
		if (gids[i].gid.raw[0] != 0xfe || (gids[i].gid.raw[1] & 0xc0) != 0x80)
			return i;
		if (first == count)
			first = i;
	}
	return first; /* the last row is never empty */
}

/* The port's address as peers name it: the LID on InfiniBand, otherwise a GID. */
static void print_address(const struct av_device *dev)
{
	struct av_gid gids[AV_GID_MAX];
	char text[AV_GID_TEXT];
	unsigned int count, i;

	if (dev->link_layer == IBV_LINK_LAYER_INFINIBAND) {
		printf("LID %u\n", dev->lid);
		return;
	}
	count = av_port_gids(dev, gids);
	if (count == 0) {
		printf("out of memory\n");
		return;
	}
	i = best_gid(gids, count);
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

/*
 * Shows the values for processes that open the device now, worded as in MLNX_OFED's ibv_devinfo -v.
 */
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
		       av_describe_mtu(port.active_mtu));
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
	.details = "With -v, also shows what the switches of 'anyverbs config' enable.\n"
		   "\n"
		   "ANYVERBS_DEVICES sets which devices there are: see anyverbs(7). The kernel's\n"
		   "adapters are listed after these by 'anyverbs run -- ibv_devices'.\n",
	.main = devices_main,
};
