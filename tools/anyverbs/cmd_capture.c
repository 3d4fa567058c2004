/* SPDX-License-Identifier: MIT */
/* "anyverbs capture": writes the traffic of running programs to a file. */
#include "command.h"

#include <errno.h>
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
#include "device/device.h"
#include "json_out.h"
#include "observe/pcapng.h"
#include "pick.h"
#include "registry/directory.h"
#include "segment/observers.h"
#include "segment/pages.h"
#include "segment/segment.h"

#define LOOK_NS	  10000000    /* how often to check for the end */
#define SETTLE_NS 2000000000u /* a writer that takes longer than this was killed */

static struct wishes {
	const char *file;
	const char *device; /* NULL: all devices */
	uint64_t frames, bytes, snaplen;
	double seconds; /* 0: no limit */
	bool json;
} wishes = {.frames = UINT64_MAX, .bytes = 1000000000, .snaplen = UINT32_MAX};

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

static uint64_t size_of_file(const struct wishes *w)
{
	struct stat st;

	return stat(w->file, &st) ? 0 : (uint64_t)st.st_size;
}

/* On a terminal: a line that says, every second, how the file grows. */
static void show_growth(const struct wishes *w, int number)
{
	static uint64_t next_ns;
	uint64_t now_ns = av_now_ns();

	if (now_ns < next_ns || !isatty(STDERR_FILENO))
		return;
	fprintf(stderr, "\r%12" PRIu64 " frames %12.1f MB ",
		av_capture_state((unsigned int)number).frames, (double)size_of_file(w) / 1e6);
	next_ns = now_ns + 1000000000u;
}

/* Wait for a signal or the end of the capture. @end_ns: on the monotonic clock; 0: none. */
static void wait_for_end(const struct wishes *w, int number, uint64_t end_ns,
			 const sigset_t *signals)
{
	static const struct timespec look = {0, LOOK_NS};

	for (;;) {
		if (av_capture_state((unsigned int)number).over)
			return;
		if (end_ns && av_now_ns() >= end_ns)
			return;
		if (size_of_file(w) >= w->bytes)
			return;
		if (sigtimedwait(signals, NULL, &look) > 0)
			return;
		show_growth(w, number);
	}
}

/*
 * End the capture. Waits until all counted frames are in the file and nobody writes to it any more.
 */
static struct av_capture_state close_capture(unsigned int number)
{
	static const struct timespec pause = {0, 1000000};
	uint64_t until_ns = av_now_ns() + SETTLE_NS;

	av_capture_close(number);
	while (!av_capture_state(number).settled && av_now_ns() < until_ns)
		nanosleep(&pause, NULL);
	return av_capture_state(number);
}

/* What the capture was, in numbers that say how fast such a file grows. */
static int print_result(const struct wishes *w, const struct av_capture_state *state, uint64_t size,
			double seconds)
{
	double megabytes = (double)size / 1e6;

	if (w->json)
		return av_json_write("captures",
				     json_pack("[{s:o, s:I, s:I, s:I, s:f, s:b}]", "file",
					       av_json_text(w->file), "frames",
					       (json_int_t)state->frames, "lost",
					       (json_int_t)state->lost, "bytes", (json_int_t)size,
					       "seconds", seconds, "full", size >= w->bytes));
	printf("%" PRIu64 " frame%s in %s: %.1f MB in %.1f s\n", state->frames,
	       state->frames == 1 ? "" : "s", w->file, megabytes, seconds);
	return AV_EXIT_OK;
}

static int report(const struct wishes *w, const struct av_capture_state *state, double seconds)
{
	uint64_t size = size_of_file(w);
	int status = print_result(w, state, size, seconds);

	if (size >= w->bytes)
		av_tool_complain("capture ended: the file has the size of --size, %.1f MB",
				 (double)w->bytes / 1e6);
	if (state->err)
		av_tool_complain("capture stopped: cannot write '%s': %s", w->file,
				 strerror(state->err));
	else if (state->lost)
		av_tool_complain("%" PRIu64 " frame%s could not be written", state->lost,
				 state->lost == 1 ? "" : "s");
	return state->err || state->lost ? AV_EXIT_NO : status;
}

/* Context: the directory is joined. */
static int capture(const struct wishes *w, const struct av_capture_spec *spec)
{
	uint64_t begin_ns = av_now_ns(),
		 end_ns = w->seconds > 0 ? begin_ns + (uint64_t)(w->seconds * 1e9) : 0;
	struct av_capture_state state;
	sigset_t signals;
	double seconds;
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
	av_capture_observe();
	fprintf(stderr, "capturing to %s; ends at %.1f MB, or when interrupted\n", w->file,
		(double)w->bytes / 1e6);
	wait_for_end(w, number, end_ns, &signals);
	seconds = (double)(av_now_ns() - begin_ns) / 1e9;
	if (isatty(STDERR_FILENO))
		fputc('\n', stderr);
	state = close_capture((unsigned int)number);
	av_capture_end((unsigned int)number);
	av_capture_observe();
	return report(w, &state, seconds);
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
	struct av_capture_spec spec = {.everybody = true};
	const struct av_device *dev = NULL;

	(void)argc;
	(void)argv;
	if (!wishes.file)
		return av_tool_misuse(&av_command_capture, "an option is missing: -o FILE");
	if (wishes.device && !(dev = av_pick_one(wishes.device)))
		return AV_EXIT_NO;
	if (dev)
		snprintf(spec.device, sizeof(spec.device), "%s", dev->ibv.name);
	spec.limit = wishes.frames;
	spec.snaplen = wishes.snaplen < UINT32_MAX ? (uint32_t)wishes.snaplen : UINT32_MAX;
	return make_file(&wishes, &spec) ? capture_joined(&wishes, &spec) : AV_EXIT_NO;
}

static const struct av_option options[] = {
	{'o', "output", "FILE", &av_value_file, &wishes.file,
	 "write this file, in pcapng format; old content is lost", NULL},
	{'d', "device", "DEVICE", &av_value_device, &wishes.device, "capture this device only",
	 NULL},
	{'n', "count", "COUNT", &av_value_count, &wishes.frames, "stop after this many frames",
	 NULL},
	{0, "seconds", "SECONDS", &av_value_seconds, &wishes.seconds,
	 "stop after this many seconds", NULL},
	{0, "size", "BYTES", &av_value_bytes, &wishes.bytes,
	 "stop when the file is so large; 500M is 500 million.\n"
	 "Default 1G, which busy programs write in a second",
	 NULL},
	{'s', "snaplen", "BYTES", &av_value_count, &wishes.snaplen,
	 "write at most this many bytes of each frame", NULL},
	AV_JSON_OPTION(&wishes.json),
	{.name = NULL}};

const struct av_command av_command_capture = {
	.name = "capture",
	.summary = "Write the traffic of running programs to a file, for Wireshark",
	.operands = "-o FILE",
	.options = options,
	.details =
		"Captures all programs of this user, also those started later, until interrupted\n"
		"or until the file is large.\n"
		"ANYVERBS_CAPTURE=FILE in a program's environment captures it from its start,\n"
		"without a limit.\n",
	.examples = "anyverbs capture -o rdma.pcapng --seconds 1\n"
		    "anyverbs capture -o heads.pcapng --seconds 1 -s 90 --size 100M\n",
	.main = capture_main,
};
