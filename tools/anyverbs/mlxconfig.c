/* SPDX-License-Identifier: MIT */
/*
 * The tool under the name mlxconfig, which programs that "anyverbs run" runs find where the system
 * has none: "anyverbs config", as scripts for adapters call it.
 */
#include "mlxconfig.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "command.h"
#include "device/device.h"
#include "option.h"

#define MST	"/dev/mst/"
#define PCICONF "_pciconf"

static int usage(FILE *out)
{
	fputs("usage: mlxconfig [-d DEVICE] [-y] query|set|reset [SWITCH[=VALUE]]...\n"
	      "\n"
	      "Show and set the switches of anyverbs' devices: 'anyverbs config' under the name "
	      "that\n"
	      "scripts call. DEVICE is a name, or " MST "..." PCICONF
	      "N for the N-th of all, from 0.\n"
	      "New values take effect with 'anyverbs reset'.\n",
	      out);
	return out == stdout ? AV_EXIT_OK : AV_EXIT_USAGE;
}

/* The device that an adapter's node stands for: each adapter has one of its number. */
static const char *device_of(const char *text)
{
	const char *number = strstr(text, PCICONF);
	unsigned int count;
	struct av_device *const *list = av_devices(&count);
	unsigned long at;
	char *end;

	if (strncmp(text, MST, strlen(MST)) || !number)
		return text;
	number += strlen(PCICONF);
	at = strtoul(number, &end, 10);
	return end != number && !*end && at < count ? list[at]->ibv.name : text;
}

/* @words: "config", "-d", a device, and what is left of the command line. */
static int config(const char *device, int argc, char **argv)
{
	char **words = calloc((size_t)argc + 4, sizeof(*words));
	int count = 0, first, ret;

	if (!words) {
		av_tool_complain("out of memory");
		return AV_EXIT_NO;
	}
	words[count++] = (char *)(uintptr_t)av_command_config.name;
	if (device) {
		words[count++] = (char *)(uintptr_t) "-d";
		words[count++] = (char *)(uintptr_t)device;
	}
	for (int i = 0; i < argc; i++)
		words[count++] = argv[i];
	optind = 0; /* from the beginning */
	ret = av_options_read(&av_command_config, count, words, &first);
	if (ret < 0)
		ret = av_command_config.main(count - first, words + first);
	free(words);
	return ret;
}

bool av_is_mlxconfig(const char *called)
{
	const char *slash = strrchr(called, '/');

	return strcmp(slash ? slash + 1 : called, "mlxconfig") == 0;
}

int av_mlxconfig(int argc, char **argv)
{
	static const struct option options[] = {{"dev", required_argument, NULL, 'd'},
						{"yes", no_argument, NULL, 'y'},
						{"help", no_argument, NULL, 'h'},
						{NULL, 0, NULL, 0}};
	const char *device = NULL;
	int c;

	while ((c = getopt_long(argc, argv, "d:yh", options, NULL)) != -1) {
		if (c == 'd')
			device = device_of(optarg);
		else if (c != 'y') /* nothing is asked, whether or not it is said */
			return usage(c == 'h' ? stdout : stderr);
	}
	if (optind == argc)
		return usage(stderr);
	return config(device, argc - optind, argv + optind);
}
