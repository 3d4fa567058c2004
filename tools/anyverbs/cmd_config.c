/* SPDX-License-Identifier: MIT */
/* "anyverbs config": shows and sets the switches of devices, as mlxconfig does for adapters. */
#include "command.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "device/device.h"
#include "device/switches.h"
#include "json_out.h"
#include "pick.h"
#include "registry/directory.h"
#include "segment/pages.h"

static bool json;

/* Switches named on the command line, and their new values. */
struct change {
	uint32_t mask, on;
};

static const char *word(bool on)
{
	return on ? "true" : "false";
}

/* --- parsing --------------------------------------------------------------------- */

static bool parse_value(const char *text, bool *on)
{
	static const struct {
		const char *text;
		bool on;
	} values[] = {{"true", true},	{"True", true},	  {"1", true},
		      {"false", false}, {"False", false}, {"0", false}};

	for (size_t i = 0; i < AV_ARRAY_SIZE(values); i++) {
		*on = values[i].on;
		if (!strcmp(text, values[i].text))
			return true;
	}
	return false;
}

static const char *switch_name(size_t i)
{
	return i < AV_SWITCH_N ? av_switch_info[i].name : NULL;
}

static void no_such_switch(const char *name, size_t length)
{
	char word[64], hint[AV_HINT_BYTES];

	snprintf(word, sizeof(word), "%.*s", (int)length, name);
	av_tool_complain(
		"there is no switch '%s'%s", word,
		av_tool_hint(word, switch_name, "'anyverbs config query' lists them", hint));
}

/* Add the switch called @name to @change. */
static bool parse_name(const char *name, size_t length, bool on, struct change *change)
{
	enum av_switch which = av_switch_by_name(name, length);

	if (which == AV_SWITCH_N) {
		no_such_switch(name, length);
		return false;
	}
	change->mask |= AV_SWITCH_BIT(which);
	change->on = (change->on & ~AV_SWITCH_BIT(which)) | (on ? AV_SWITCH_BIT(which) : 0);
	return true;
}

/* Parse SWITCH=VALUE. */
static bool parse_assignment(const char *text, struct change *change)
{
	const char *equals = strchr(text, '=');
	bool on;

	if (!equals) {
		av_tool_complain("'%s' has no value: use SWITCH=true or SWITCH=false", text);
		return false;
	}
	if (!parse_name(text, (size_t)(equals - text), false, change))
		return false;
	if (!parse_value(equals + 1, &on)) {
		av_tool_complain("'%s' is not a value for %.*s: use true, false, 1 or 0",
				 equals + 1, (int)(equals - text), text);
		return false;
	}
	return parse_name(text, (size_t)(equals - text), on, change);
}

/* --- query ----------------------------------------------------------------------- */

static void print_device(const char *device, uint32_t mask)
{
	struct av_switches is = av_switches_read(device);

	printf("%-28s%-10s%-10s%s\n", device, "DEFAULT", "CURRENT", "NEXT BOOT");
	for (int i = 0; i < AV_SWITCH_N; i++) {
		uint32_t bit = AV_SWITCH_BIT(i);

		if (mask & bit)
			printf("%c %-26s%-10s%-10s%-11s%s\n",
			       (is.current ^ is.next) & bit ? '*' : ' ', av_switch_info[i].name,
			       word(false), word(is.current & bit), word(is.next & bit),
			       av_switch_info[i].help);
	}
	if ((is.current ^ is.next) & mask)
		printf("* takes effect with 'anyverbs reset -d %s'\n", device);
}

static json_t *json_of(const char *device, uint32_t mask)
{
	struct av_switches is = av_switches_read(device);
	json_t *list = json_array();

	for (int i = 0; i < AV_SWITCH_N; i++) {
		uint32_t bit = AV_SWITCH_BIT(i);

		if (mask & bit)
			json_array_append_new(list, json_pack("{s:s, s:b, s:b, s:b, s:s}", "switch",
							      av_switch_info[i].name, "default", 0,
							      "current", (is.current & bit) != 0,
							      "next_boot", (is.next & bit) != 0,
							      "help", av_switch_info[i].help));
	}
	return json_pack("{s:s, s:o}", "device", device, "switches", list);
}

/* Show these switches of the devices. Return: exit status */
static int show(const struct av_pick *pick, uint32_t mask)
{
	json_t *all = json ? json_array() : NULL;

	for (unsigned int i = 0; i < pick->count; i++) {
		const char *device = pick->list[i]->ibv.name;

		if (json) {
			json_array_append_new(all, json_of(device, mask));
			continue;
		}
		if (i)
			putchar('\n');
		print_device(device, mask);
	}
	return json ? av_json_write("devices", all) : AV_EXIT_OK;
}

static int query(const struct av_pick *pick, int argc, char **argv)
{
	struct change asked = {0};

	for (int i = 0; i < argc; i++)
		if (!parse_name(argv[i], strlen(argv[i]), true, &asked))
			return AV_EXIT_USAGE;
	return show(pick, argc ? asked.mask : UINT32_MAX);
}

/* --- set and reset --------------------------------------------------------------- */

/* Say why the device refused to set a switch. */
static void explain(const char *device, const struct change *change)
{
	enum av_switch by, lacking;

	lacking = av_switch_lacking((av_switches_read(device).next & ~change->mask) | change->on,
				    &by);
	if (lacking == AV_SWITCH_N)
		return;
	if (change->on & (1u << by))
		av_tool_complain("%s: %s needs %s=true: set that first, or both together", device,
				 av_switch_info[by].name, av_switch_info[lacking].name);
	else
		av_tool_complain("%s: %s needs %s=true: set %s=false first, or both together",
				 device, av_switch_info[by].name, av_switch_info[lacking].name,
				 av_switch_info[by].name);
}

static int write_down(const char *device, const struct change *change)
{
	int ret = av_switches_set(device, change->mask, change->on);

	if (ret == -EPERM)
		explain(device, change);
	else if (ret)
		av_tool_complain("%s: cannot save the values: %s", device, strerror(-ret));
	return ret ? AV_EXIT_NO : AV_EXIT_OK;
}

static int apply(const struct av_pick *pick, const struct change *change)
{
	int ret = av_dir_join(av_totals_of_context), status = AV_EXIT_OK;

	if (ret) {
		av_tool_complain("cannot change settings: %s", strerror(-ret));
		return AV_EXIT_NO;
	}
	for (unsigned int i = 0; i < pick->count && status == AV_EXIT_OK; i++)
		status = write_down(pick->list[i]->ibv.name, change);
	av_dir_leave();
	return status == AV_EXIT_OK ? show(pick, change->mask) : status;
}

static int set(const struct av_pick *pick, int argc, char **argv)
{
	struct change change = {0};

	if (!argc)
		return av_tool_misuse(&av_command_config, "'set' needs SWITCH=VALUE");
	for (int i = 0; i < argc; i++)
		if (!parse_assignment(argv[i], &change))
			return AV_EXIT_USAGE;
	return apply(pick, &change);
}

static int back_to_default(const struct av_pick *pick, int argc, char **argv)
{
	struct change change = {.mask = argc ? 0 : AV_SWITCH_BIT(AV_SWITCH_N) - 1};

	for (int i = 0; i < argc; i++)
		if (!parse_name(argv[i], strlen(argv[i]), false, &change))
			return AV_EXIT_USAGE;
	return apply(pick, &change);
}

/* --- the command line ------------------------------------------------------------ */

static const struct av_action actions[] = {
	{"query", query}, {"q", query}, {"set", set}, {"reset", back_to_default}, {NULL, NULL},
};

static const char *device_name; /* NULL: all devices */

static int config_main(int argc, char **argv)
{
	return av_act(&av_command_config, actions, device_name, argc, argv);
}

static const struct av_option options[] = {{'d', "device", "DEVICE", &av_value_device, &device_name,
					    "use this device only, instead of all devices", NULL},
					   AV_JSON_OPTION(&json),
					   {.name = NULL}};

const struct av_command av_command_config = {
	.name = "config",
	.summary = "Show and set the switches of a device",
	.operands = "query|set|reset [SWITCH[=VALUE]]...",
	.least = 1,
	.most = AV_ANY_NUMBER,
	.options = options,
	.details = "  query  show the default, the current value, and the value after reset\n"
		   "  set    set the value after the next reset: true, false, 1 or 0\n"
		   "  reset  set the value after the next reset to the default\n"
		   "\n"
		   "New values take effect with 'anyverbs reset'.\n",
	.examples = "anyverbs config query\n"
		    "anyverbs config set ADVANCED_PCI_SETTINGS=true\n",
	.main = config_main,
};
