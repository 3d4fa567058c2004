/* SPDX-License-Identifier: MIT */
#include "pair_side.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"
#include "launch.h"
#include "pair_family.h"
#include "pair_output.h"

#define KILL_SECONDS 2.0 /* what a program may take to end when it is asked to */
#define READ_BYTES   4096
#define LOOK_READS   16 /* of its output at a time, so that the rest of the pair has its turn */

/* --- what it writes -------------------------------------------------------------- */

static void show(struct av_pair_side *side, const char *text, size_t length)
{
	av_pair_print("%s%s|%s ", av_colour(stdout, side->colour), side->name,
		      av_colour(stdout, AV_COLOUR_OFF));
	av_pair_put(text, length);
	av_pair_put("\n", 1);
}

static void show_rest(struct av_pair_side *side)
{
	if (side->length)
		show(side, side->line, side->length);
	side->length = 0;
}

static void take(struct av_pair_side *side, const char *text, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (text[i] == '\n' && !side->length)
			show(side, "", 0);
		if (text[i] == '\n' || side->length == sizeof(side->line))
			show_rest(side);
		if (text[i] != '\n')
			side->line[side->length++] = text[i];
	}
}

/* Return: false: it has written nothing more */
static bool read_output(struct av_pair_side *side)
{
	char text[READ_BYTES];
	ssize_t n = side->output >= 0 ? read(side->output, text, sizeof(text)) : -1;

	if (n > 0)
		take(side, text, (size_t)n);
	if (n == 0) {
		close(side->output);
		side->output = -1;
	}
	return n > 0;
}

/* --- its life -------------------------------------------------------------------- */

/* In the child. It reads nothing: a terminal is the pair's, and not one side's. */
static void become(char **argv, int output, pid_t parent)
{
	int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(AV_EXIT_RUN_FAILED);
	if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 ||
	    dup2(output, STDERR_FILENO) < 0)
		_exit(AV_EXIT_RUN_FAILED);
	_exit(av_launch(argv));
}

static void show_command(struct av_pair_side *side, char **argv)
{
	av_pair_print("%s%s|%s $", av_colour(stdout, side->colour), side->name,
		      av_colour(stdout, AV_COLOUR_OFF));
	for (; *argv; argv++)
		av_pair_print(" %s", *argv);
	av_pair_print("\n");
}

bool av_pair_start(struct av_pair_side *side, char **argv)
{
	pid_t parent = getpid();
	int ends[2];

	show_command(side, argv);
	if (pipe2(ends, O_CLOEXEC)) {
		av_tool_complain("cannot start the %s: %s", side->name, strerror(errno));
		return false;
	}
	side->pid = fork();
	if (side->pid == 0)
		become(argv, ends[1], parent);
	close(ends[1]);
	if (side->pid < 0) {
		av_tool_complain("cannot start the %s: %s", side->name, strerror(errno));
		close(ends[0]);
		side->pid = 0;
		return false;
	}
	setpgid(side->pid, side->pid); /* whoever is first */
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	side->output = ends[0];
	return true;
}

static void see_whether_over(struct av_pair_side *side)
{
	int status;

	if (waitpid(side->pid, &status, WNOHANG) != side->pid)
		return;
	side->over = true;
	if (WIFEXITED(status))
		side->status = WEXITSTATUS(status);
	else
		side->signal = WTERMSIG(status);
}

void av_pair_look(struct av_pair_side *side, double now)
{
	if (!side->pid)
		return;
	/* While nobody reads, the side waits, as if it wrote there itself. */
	for (int i = 0; i < LOOK_READS && av_pair_flush() && read_output(side); i++)
		;
	if (side->over)
		return;
	side->over_at = now;
	see_whether_over(side);
}

struct blow {
	pid_t group;
	int signal;
};

static bool strike_outside_group(pid_t pid, void *arg)
{
	const struct blow *blow = arg;

	if (getpgid(pid) != blow->group)
		kill(pid, blow->signal);
	return false;
}

/* Its group at once, then those of its processes that have left it. */
static void strike(const struct av_pair_side *side, int signal)
{
	struct blow blow = {side->pid, signal};

	kill(-side->pid, signal);
	av_family_any(side->pid, strike_outside_group, &blow);
}

void av_pair_stop(struct av_pair_side *side, double now)
{
	if (!side->pid || side->over)
		return;
	if (!side->stopped) {
		side->stopped = true;
		side->stopped_at = now;
		strike(side, SIGTERM);
	} else if (now > side->stopped_at + KILL_SECONDS) {
		strike(side, SIGKILL);
	}
}

/* What the pipe holds, and its end: somebody else may go on to write. */
static int reads_of_all(const struct av_pair_side *side)
{
	return fcntl(side->output, F_GETPIPE_SZ) / READ_BYTES + 2;
}

void av_pair_end(struct av_pair_side *side)
{
	if (!side->pid)
		return;
	av_family_end();
	for (int reads = reads_of_all(side); reads > 0 && read_output(side); reads--)
		;
	show_rest(side);
	if (side->output >= 0)
		close(side->output);
	side->output = -1;
}

int av_pair_exit_status(const struct av_pair_side *side)
{
	if (!side->over || side->stopped)
		return 0;
	return side->signal ? 128 + side->signal : side->status;
}
