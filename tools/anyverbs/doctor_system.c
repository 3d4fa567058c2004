/* SPDX-License-Identifier: MIT */
/* Checks of the kernel, processors, libraries, configuration and other devices. */
#include "doctor.h"

#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "device/device.h"
#include "library.h"
#include "registry/directory.h"

#define VERBS_LIBRARY "libibverbs.so.1"

/*
 * Path of the system's verbs library, symlinks resolved; NULL: not installed. The caller frees it.
 */
static char *system_verbs(void)
{
	void *handle = dlopen(VERBS_LIBRARY, RTLD_LAZY | RTLD_LOCAL);
	void *symbol = handle ? dlsym(handle, "ibv_get_device_list") : NULL;
	char *path = NULL;
	Dl_info info;

	if (symbol && dladdr(symbol, &info))
		path = realpath(info.dli_fname, NULL);
	if (handle)
		dlclose(handle);
	return path;
}

static void look_system_verbs(struct av_finding *f)
{
	char *path = system_verbs();

	av_finding_value(f, "%s", path ? path : "not installed");
	if (path)
		av_finding_set(f, AV_VERDICT_OK,
			       "Programs find it behind anyverbs; its helpers and its devices keep "
			       "working.",
			       "");
	else
		av_finding_set(f, AV_VERDICT_MISSING,
			       "Neither anyverbs' library nor any verbs program can start.",
			       "Debian, Ubuntu: apt install libibverbs1");
	free(path);
}

static void look_our_library(struct av_finding *f)
{
	char path[PATH_MAX];
	int found = av_library_find(path);

	av_finding_value(f, "%s", path);
	if (found)
		av_finding_set(f, AV_VERDICT_OK, "'anyverbs run' preloads it.", "");
	else
		av_finding_set(
			f, AV_VERDICT_MISSING,
			"The library is missing, so 'anyverbs run' cannot run anything.",
			"Install tool and library together, or set ANYVERBS_LIBRARY to its path.");
}

static void look_version(struct av_finding *f)
{
	char path[PATH_MAX], other[NAME_MAX + 1];
	uint32_t layout = av_library_find(path) ? av_library_layout(path) : av_layout;

	av_finding_value(f, "layout %u", av_layout);
	if (layout != av_layout) {
		av_finding_value(f, "layout %u, the library's %u", av_layout, layout);
		av_finding_set(f, AV_VERDICT_LIMITED,
			       "The library is of another build: this tool sees nothing of the "
			       "programs that it is preloaded into.",
			       "Use the tool that was installed with that library.");
	} else if (av_folder_find_other(other, sizeof(other))) {
		av_finding_value(f, "layout %u; %s is in use", av_layout, other);
		av_finding_set(f, AV_VERDICT_LIMITED,
			       "Programs run with a library of another build: neither this tool "
			       "nor programs with its library see them.",
			       "Start them anew, or use the tool that was installed with their "
			       "library.");
	} else {
		av_finding_set(f, AV_VERDICT_OK,
			       "Tool, library and running programs see each other.", "");
	}
}

static void look_configuration(struct av_finding *f)
{
	static struct av_config config; /* 28 KiB */

	av_config_parse(getenv("ANYVERBS_DEVICES"), &config);
	av_finding_value(f, "%u %s, %u invalid", config.device_count,
			 config.device_count == 1 ? "device" : "devices", config.complaint_count);
	if (config.complaint_count)
		av_finding_set(f, AV_VERDICT_LIMITED, config.complaint[0],
			       "Correct ANYVERBS_DEVICES: anyverbs(7) describes its syntax.");
	else
		av_finding_set(f, AV_VERDICT_OK, "'anyverbs devices' lists what programs see.", "");
}

/* A LID of 0 makes programs refuse before they ask the device for anything. */
static void look_link(struct av_finding *f)
{
	unsigned int count, ethernet = 0;
	struct av_device *const *list = av_devices(&count);

	for (unsigned int i = 0; i < count; i++)
		ethernet += list[i]->port.link_layer == IBV_LINK_LAYER_ETHERNET;
	av_finding_value(f, "%s",
			 ethernet == count ? "Ethernet"
			 : ethernet	   ? "Ethernet and InfiniBand"
					   : "InfiniBand");
	if (ethernet)
		av_finding_set(f, AV_VERDICT_OK,
			       "On Ethernet, peers have GIDs and no LIDs. Some programs want a LID "
			       "(qperf, GASNet, Open MPI's openib).",
			       "For such a program: ANYVERBS_DEVICES=any0:link=infiniband.");
	else
		av_finding_set(f, AV_VERDICT_OK, "Programs that want a LID find one.", "");
}

static void look_kernel(struct av_finding *f)
{
	struct utsname name;

	if (uname(&name))
		name = (struct utsname){.release = "unknown", .machine = ""};
	av_finding_value(f, "%.80s %.30s", name.release, name.machine);
	av_finding_set(
		f, AV_VERDICT_OK,
		"No module is needed; features that depend on the version have lines of their own.",
		"");
}

static void look_processors(struct av_finding *f)
{
	cpu_set_t set;
	int count = sched_getaffinity(0, sizeof(set), &set) ? (int)sysconf(_SC_NPROCESSORS_ONLN)
							    : CPU_COUNT(&set);

	av_finding_value(f, "%d", count);
	if (count > 1)
		av_finding_set(f, AV_VERDICT_OK, "Two programs that poll can run side by side.",
			       "");
	else
		av_finding_set(
			f, AV_VERDICT_LIMITED,
			"Programs that poll take turns: every message costs a context switch.",
			"Measure latency on at least two processors.");
}

/*
 * List the names below /sys/class/infiniband, as many as fit in @text. Skips our own devices, which
 * appear if the tool itself runs with the library preloaded. Return: how many there are.
 */
static int list_adapters(char *text, size_t size)
{
	DIR *d = opendir("/sys/class/infiniband");
	struct dirent *e;
	size_t len = 0;
	int count = 0;

	text[0] = '\0';
	while (d && (e = readdir(d))) {
		if (e->d_name[0] == '.' || av_device_by_name(e->d_name))
			continue;
		if (len + strlen(e->d_name) + 2 < size)
			len += (size_t)snprintf(text + len, size - len, "%s%s", count ? " " : "",
						e->d_name);
		count++;
	}
	if (d)
		closedir(d);
	return count;
}

static void look_adapters(struct av_finding *f)
{
	char names[96];
	int count = list_adapters(names, sizeof(names));

	av_finding_value(f, "%s", count ? names : "none");
	av_finding_set(f, AV_VERDICT_OK,
		       count ? "Programs see them after anyverbs' devices, and use them as before."
			     : "Programs see anyverbs' devices only.",
		       "");
}

const struct doctor_check doctor_checks_system[] = {
	{"library", "Library of anyverbs", 1, look_our_library},
	{"version", "Version of what is shared", 0, look_version},
	{"libibverbs", "Library of the system", 1, look_system_verbs},
	{"configuration", "Configuration (ANYVERBS_DEVICES)", 0, look_configuration},
	{"link", "Link layer", 0, look_link},
	{"kernel", "Kernel", 0, look_kernel},
	{"processors", "Processors", 0, look_processors},
	{"adapters", "Other RDMA devices", 0, look_adapters},
	{NULL, NULL, 0, NULL},
};
