/* SPDX-License-Identifier: MIT */
/* "anyverbs capture": writes the traffic of running programs to a file. */
#include "command.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "segment/capture_watch.h"
#include "device/device.h"
#include "registry/directory.h"
#include "segment/totals.h"
#include "segment/segment.h"
#include "observe/pcapng.h"

#define LOOK_NS	  50000000    /* how often to check for the end */
#define SETTLE_NS 2000000000u /* a writer that takes longer than this was killed */

struct wishes {
	const char *file;
	const char *device; /* NULL: all devices */
	uint64_t frames, seconds, snaplen;
};

/* Parse a number from 1 to @max. */
static bool parse_number(const char *text, uint64_t max, uint64_t *number)
{
	char *end;

	errno = 0;
	*number = strtoull(text, &end, 10);
	return *text >= '0' && *text <= '9' && !*end && !errno && *number >= 1 && *number <= max;
}

static bool parse(int argc, char **argv, struct wishes *w)
{
	static const struct option options[] = {
		{"output", required_argument, NULL, 'o'},
		{"device", required_argument, NULL, 'd'},
		{"count", required_argument, NULL, 'n'},
		{"snaplen", required_argument, NULL, 's'},
		{"seconds", required_argument, NULL, 't'},
		{NULL, 0, NULL, 0},
	};
	bool ok = true;
	int c;

	while (ok && (c = getopt_long(argc, argv, "o:d:n:s:", options, NULL)) != -1) {
		switch (c) {
		case 'o':
			w->file = optarg;
			break;
		case 'd':
			w->device = optarg;
			break;
		case 'n':
			ok = parse_number(optarg, UINT64_MAX, &w->frames);
			break;
		case 's':
			ok = parse_number(optarg, UINT32_MAX, &w->snaplen);
			break;
		case 't':
			ok = parse_number(optarg, INT32_MAX, &w->seconds);
			break;
		default:
			ok = false;
		}
	}
	return ok && optind == argc && w->file;
}

/* Create the file. Return: false on failure, already reported. */
static bool make_file(const struct wishes *w, struct av_capture_spec *spec)
{
	int fd = av_pcapng_open(w->file, true);
	struct stat st;

	if (fd < 0) {
		av_tool_complain("cannot write '%s': %s", w->file,
				 fd == -EINVAL ? "not a regular file" : strerror(-fd));
		return false;
	}
	if (fstat(fd, &st) || !realpath(w->file, spec->path)) {
		av_tool_complain("cannot write '%s': %s", w->file, strerror(errno));
		close(fd);
		return false;
	}
	close(fd);
	spec->dev = st.st_dev;
	spec->ino = st.st_ino;
	return true;
}

/* Wait for a signal or the end of the capture. @end_ns: on the monotonic clock; 0: none. */
static void wait_for_end(int number, uint64_t end_ns, const sigset_t *signals)
{
	static const struct timespec look = {0, LOOK_NS};

	for (;;) {
		if (av_capture_state((unsigned int)number).over)
			return;
		if (end_ns && av_now_ns() >= end_ns)
			return;
		if (sigtimedwait(signals, NULL, &look) > 0)
			return;
	}
}

/*
 * End the capture. Waits until all counted frames are in the file and nobody writes to it any more.
 */
static struct av_capture_state close_capture(unsigned int number)
{
	static const struct timespec pause = {0, 1000000};
	uint64_t patience_ns = av_now_ns() + SETTLE_NS;

	av_capture_close(number);
	while (!av_capture_state(number).settled && av_now_ns() < patience_ns)
		nanosleep(&pause, NULL);
	return av_capture_state(number);
}

static int report(const struct wishes *w, const struct av_capture_state *state)
{
	printf("%" PRIu64 " frame%s in %s\n", state->frames, state->frames == 1 ? "" : "s",
	       w->file);
	if (state->err)
		av_tool_complain("capture stopped: cannot write '%s': %s", w->file,
				 strerror(state->err));
	else if (state->lost)
		av_tool_complain("%" PRIu64 " frame%s could not be written", state->lost,
				 state->lost == 1 ? "" : "s");
	return state->err || state->lost ? AV_EXIT_NO : AV_EXIT_OK;
}

/* Context: the directory is joined. */
static int capture(const struct wishes *w, const struct av_capture_spec *spec)
{
	uint64_t end_ns = w->seconds ? av_now_ns() + w->seconds * 1000000000u : 0;
	struct av_capture_state state;
	sigset_t signals;
	int number;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	number = av_capture_begin(spec);
	if (number < 0) {
		av_tool_complain("cannot start: %d captures are already running", AV_CAPTURES);
		return AV_EXIT_NO;
	}
	av_capture_watch();
	fprintf(stderr, "capturing to %s\n", w->file);
	wait_for_end(number, end_ns, &signals);
	state = close_capture((unsigned int)number);
	av_capture_end((unsigned int)number);
	av_capture_watch();
	return report(w, &state);
}

static int capture_joined(const struct wishes *w, const struct av_capture_spec *spec)
{
	int ret = av_dir_join(av_totals_of_context);

	if (ret) {
		av_tool_complain("cannot find running programs: %s", strerror(-ret));
		return AV_EXIT_NO;
	}
	ret = capture(w, spec);
	av_seg_drop_idle();
	av_dir_leave();
	return ret;
}

static int capture_main(int argc, char **argv)
{
	struct wishes w = {.frames = UINT64_MAX, .snaplen = UINT32_MAX};
	struct av_capture_spec spec = {.everybody = true};
	const struct av_device *dev = NULL;

	if (!parse(argc, argv, &w))
		return av_tool_usage(&av_command_capture);
	if (w.device && !(dev = av_device_by_name(w.device))) {
		av_tool_complain("there is no device '%s'; 'anyverbs devices' lists them",
				 w.device);
		return AV_EXIT_NO;
	}
	if (dev)
		snprintf(spec.device, sizeof(spec.device), "%s", dev->ibv.name);
	spec.limit = w.frames;
	spec.snaplen = (uint32_t)w.snaplen;
	return make_file(&w, &spec) ? capture_joined(&w, &spec) : AV_EXIT_NO;
}

const struct av_command av_command_capture = {
	.name = "capture",
	.summary = "Write the traffic of running programs to a file, for Wireshark",
	.synopsis = "-o FILE [-d DEVICE] [-n COUNT] [--seconds N] [-s SNAPLEN]",
	.details =
		"Captures all programs of this user, also those started later, until interrupted.\n"
		"\n"
		"  -o, --output FILE    write this file, in pcapng format; old content is lost\n"
		"  -d, --device DEVICE  capture this device only\n"
		"  -n, --count COUNT    stop after this many frames\n"
		"      --seconds N      stop after this many seconds\n"
		"  -s, --snaplen BYTES  write at most this many bytes of each frame\n"
		"\n"
		"ANYVERBS_CAPTURE=FILE in a program's environment captures it from its start.\n",
	.main = capture_main,
};
