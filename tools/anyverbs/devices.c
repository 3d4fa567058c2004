/* SPDX-License-Identifier: MIT */
/*
 * "anyverbs devices": one line per device; with -v also its switches, and the difference to any0 of
 * one that behaves as a named adapter.
 */
#include "command.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "device/device.h"
#include "device/port.h"
#include "device/switches.h"
#include "json_out.h"
#include "observe/check.h"
#include "observe/wr_opcode.h"
#include "wire/packet.h"

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
struct address {
	unsigned int lid; /* 0: not this */
	char gid[INET6_ADDRSTRLEN], interface[IF_NAMESIZE];
};

/* Return: false if memory is short */
static bool find_address(const struct av_device *dev, struct address *address)
{
	struct av_gid gids[AV_GID_MAX];
	unsigned int count, i;

	*address = (struct address){.lid = dev->port.lid};
	if (dev->port.link_layer == IBV_LINK_LAYER_INFINIBAND)
		return true;
	address->lid = 0;
	count = av_port_gids(dev, gids);
	if (count == 0)
		return false;
	i = best_gid(gids, count);
	(void)inet_ntop(AF_INET6, gids[i].gid.raw, address->gid, sizeof(address->gid));
	snprintf(address->interface, sizeof(address->interface), "%s", gids[i].ifname);
	return true;
}

static void print_address(const struct av_device *dev)
{
	struct address address;

	if (!find_address(dev, &address))
		printf("out of memory\n");
	else if (address.lid)
		printf("LID %u\n", address.lid);
	else if (address.interface[0])
		printf("%s (%s)\n", address.gid, address.interface);
	else
		printf("%s\n", address.gid);
}

static int longest_name(struct av_device *const *list, unsigned int count)
{
	size_t width = strlen("DEVICE");

	for (unsigned int i = 0; i < count; i++)
		if (strlen(list[i]->ibv.name) > width)
			width = strlen(list[i]->ibv.name);
	return (int)width;
}

/* For processes that open the device now. */
static bool is_tunneled(const struct av_device *dev)
{
	return av_switches_read(dev->ibv.name).current & AV_SWITCH_BIT(AV_SWITCH_TUNNELED_ATOMIC);
}

/* Worded as in MLNX_OFED's ibv_devinfo -v. */
static void print_switches(const struct av_device *dev)
{
	printf("  Tunneled atomic: %s\n", is_tunneled(dev) ? "SUPPORT" : "NOT SUPPORTED");
}

/* --- the difference to any0 ------------------------------------------------------ */

/* Print an item of a line that begins with @title. */
static void print_item(const char *title, const char *item, bool *begun)
{
	printf("%s%s", *begun ? ", " : title, item);
	*begun = true;
}

static void print_lacking_types(const struct av_model *as)
{
	bool begun = false;

	for (unsigned int type = 0; type < 32; type++)
		if (as->no_types >> type & 1)
			print_item("  No queue pairs: ", av_field_word(AV_FIELD_TYPE, type),
				   &begun);
	if (begun)
		printf(": %s\n", strerrorname_np(as->no_type_err));
}

static void print_lacking_verbs(const struct av_model *as)
{
	bool begun = false;

	for (unsigned int verb = 0; verb < AV_VERB_N; verb++)
		if (!av_model_has_verb(as, verb))
			print_item("  No verbs: ", av_verb_name(verb), &begun);
	if (begun)
		printf(": EOPNOTSUPP\n");
}

/* Those of the queue pairs that it has. */
static void print_lacking_requests(const struct av_model *as)
{
	bool begun = false;

	for (uint32_t i = 0; i < AV_WR_OPCODES; i++)
		if (av_wr_opcode(i)->types & ~as->no_types && !av_model_has_opcode(as, i))
			print_item("  No requests: ", av_wr_opcode(i)->name, &begun);
	if (begun)
		printf(": %sEINVAL\n", as->no_opcode_ret < 0 ? "-" : "");
}

static void print_lacking_access(const struct av_model *as)
{
	const struct av_flight_record record = {.has = AV_HAS_MEASURE, .wanted = as->no_access};
	char text[AV_EXPLAIN_MAX];

	av_explain_sentence("{wanted:access}", &record, text, sizeof(text));
	if (as->no_access)
		printf("  No regions: %s: EOPNOTSUPP\n", text);
}

static void print_limits(const struct av_device *dev)
{
	struct av_device any0 = av_device_default;
	bool begun = false;
	char text[80];

	av_device_complete(&any0, 0);
	for (const struct av_model_limit *l = av_model_limits; l->name; l++) {
		int own = *(const int *)((const char *)&dev->attr + l->offset),
		    plain = *(const int *)((const char *)&any0.attr + l->offset);

		snprintf(text, sizeof(text), "%s %d (%d)", l->name, own, plain);
		if (own != plain)
			print_item("  Limits (any0's): ", text, &begun);
	}
	snprintf(text, sizeof(text), "max_inline_data %u (%u)", dev->max_inline, any0.max_inline);
	if (dev->max_inline != any0.max_inline)
		print_item("  Limits (any0's): ", text, &begun);
	if (begun)
		printf("\n");
}

static void print_difference(const struct av_device *dev)
{
	const struct av_model *as = dev->as;

	if (!as)
		return;
	printf("  Behaves as: %s, whose driver would name it %s0\n", as->name, as->prefix);
	print_lacking_types(as);
	print_lacking_verbs(as);
	print_lacking_requests(as);
	print_lacking_access(as);
	print_limits(dev);
}

static json_t *json_of(const struct av_device *dev)
{
	struct address address;
	struct ibv_port_attr port;

	if (!find_address(dev, &address))
		return NULL;
	av_port_attr(dev, &port);
	return json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:s, s:s, s:b}", "device", dev->ibv.name,
			 "as", dev->as ? dev->as->name : "", "link_layer", av_link_name(dev),
			 "state", port.state == IBV_PORT_ACTIVE ? "active" : "down", "mtu",
			 (int)av_mtu_bytes(port.active_mtu), "lid", (int)address.lid, "gid",
			 address.gid, "interface", address.interface, "tunneled_atomic",
			 is_tunneled(dev));
}

static bool verbose, json;

static void print_devices(struct av_device *const *list, unsigned int count)
{
	int width = longest_name(list, count);

	printf("%-*s  %-10s  %-7s  %4s  %s\n", width, "DEVICE", "LINK", "STATE", "MTU", "ADDRESS");
	for (unsigned int i = 0; i < count; i++) {
		const struct av_device *dev = list[i];
		struct ibv_port_attr port;

		av_port_attr(dev, &port);
		printf("%-*s  %-10s  %-7s  %4u  ", width, dev->ibv.name, av_link_name(dev),
		       port.state == IBV_PORT_ACTIVE ? "active" : "down",
		       av_mtu_bytes(port.active_mtu));
		print_address(dev);
		if (verbose) {
			print_switches(dev);
			print_difference(dev);
		}
	}
}

static int devices_main(int argc, char **argv)
{
	unsigned int count;
	struct av_device *const *list = av_devices(&count);

	(void)argc;
	(void)argv;
	if (json)
		return av_json_write("devices", av_json_each(list, count, json_of));
	print_devices(list, count);
	return AV_EXIT_OK;
}

static const struct av_option options[] = {{'v', "verbose", NULL, NULL, &verbose,
					    "show what the switches of 'anyverbs config' enable,\n"
					    "and the difference to any0",
					    false},
					   AV_JSON_OPTION(&json),
					   {.name = NULL}};

const struct av_command av_command_devices = {
	.name = "devices",
	.summary = "List the devices that programs see",
	.operands = "",
	.options = options,
	.details = "ANYVERBS_DEVICES sets which devices there are: see anyverbs(7). The kernel's\n"
		   "adapters are listed after these by 'anyverbs run -- ibv_devices'.\n",
	.examples = "anyverbs devices\n"
		    "anyverbs devices --json\n",
	.main = devices_main,
};
