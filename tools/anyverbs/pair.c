/* SPDX-License-Identifier: MIT */
/* "anyverbs pair": a server and its client, on one host and in one terminal. */
#include "command.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "explain_last.h"
#include "launch.h"
#include "pair_family.h"
#include "pair_output.h"
#include "pair_ready.h"
#include "pair_side.h"
#include "pair_words.h"

#define LOOK_MS 20

/* Seconds for which one side goes on after the other. */
#define AFTER_FAILURE 3.0
#define AFTER_CLIENT  10.0 /* to free what it has, and to report */

static double wait_seconds = 10, limit_seconds;
static uint64_t runs; /* 0: not given */

static volatile sig_atomic_t interrupted;

static void interrupt(int signal)
{
	interrupted = signal;
}

struct pair {
	struct av_pair_words words;
	struct av_pair_side server, client;
	double begin;
	uint64_t begin_ns; /* CLOCK_REALTIME */
	bool timed_out;
	bool not_started; /* the client, since the server has ended or it cannot be started */
};

static struct av_pair_side *first_over(struct pair *p)
{
	if (p->server.over && p->client.over)
		return p->server.over_at < p->client.over_at ? &p->server : &p->client;
	return p->server.over ? &p->server : p->client.over ? &p->client : NULL;
}

/* --- the course of a pair -------------------------------------------------------- */

static void start_client(struct pair *p, double at)
{
	if (p->server.over) {
		p->not_started = true;
		return;
	}
	if (!av_pair_is_ready(p->words.port)) {
		if (at < p->begin + wait_seconds)
			return;
		av_pair_hurry(true);
		av_tool_complain("the server has not listened for %g s; the client is started",
				 wait_seconds);
		av_pair_hurry(false);
	}
	p->not_started = !av_pair_start(&p->client, p->words.client);
}

/* One side has ended: the other has some time left, or as much as it wants. */
static void follow(struct pair *p, struct av_pair_side *over, double at)
{
	struct av_pair_side *other = over == &p->server ? &p->client : &p->server;

	if (over->stopped || av_pair_exit_status(over))
		at -= AFTER_FAILURE;
	else if (over == &p->client)
		at -= p->words.server_stays ? 0 : AFTER_CLIENT;
	else
		return; /* a client may have more to do than its server */
	if (at >= over->over_at)
		av_pair_stop(other, av_now_seconds());
}

static bool is_late(const struct pair *p, double at)
{
	return limit_seconds > 0 && at > p->begin + limit_seconds;
}

static pid_t lives(const struct av_pair_side *side)
{
	return side->over ? 0 : side->pid;
}

/* Do what is due. Return: false when there is nothing left to do */
static bool steer(struct pair *p)
{
	double at = av_now_seconds();
	struct av_pair_side *over;

	av_pair_look(&p->server, at);
	av_pair_look(&p->client, at);
	av_family_reap((const pid_t[]){lives(&p->server), lives(&p->client)});
	p->timed_out |= is_late(p, at);
	if (interrupted || p->timed_out || p->not_started) {
		av_pair_stop(&p->server, at);
		av_pair_stop(&p->client, at);
	} else if (!p->client.pid) {
		start_client(p, at);
	} else if ((over = first_over(p))) {
		follow(p, over, at);
	}
	return !p->server.over || (p->client.pid && !p->client.over);
}

static void rest(struct pair *p)
{
	struct pollfd fds[] = {{.fd = p->server.output, .events = POLLIN},
			       {.fd = p->client.output, .events = POLLIN}};

	poll(fds, av_pair_flush() ? 2 : 0, LOOK_MS);
}

/* --- the end --------------------------------------------------------------------- */

static void say_failed(const struct pair *p, const struct av_pair_side *side)
{
	char text[AV_EXPLAIN_MAX];

	if (side->signal)
		av_tool_complain("the %s was killed by signal %d (%s)", side->name, side->signal,
				 strsignal(side->signal));
	else
		av_tool_complain("the %s failed: exit status %d", side->name, side->status);
	if (av_explain_last(side->pid, p->begin_ns, text))
		fprintf(stderr, "anyverbs: what 'anyverbs explain' says of it: %s", text);
}

static void say_what_happened(const struct pair *p)
{
	const struct av_pair_side *sides[] = {&p->server, &p->client};

	for (int i = 0; i < 2; i++)
		if (av_pair_exit_status(sides[i]))
			say_failed(p, sides[i]);
	if (interrupted)
		return;
	if (p->timed_out)
		av_tool_complain("not done after %g s: both were ended", limit_seconds);
	else if (p->server.over && !p->client.pid)
		av_tool_complain("the server ended before the client was started");
	else if (p->client.stopped)
		av_tool_complain("the client went on after the server had failed, and was ended");
	else if (p->server.stopped && !p->words.server_stays)
		av_tool_complain("the server went on after the client, and was ended");
}

/* Whoever reads it may take the time that there is. */
static void write_rest(struct pair *p)
{
	while (!av_pair_flush() && !interrupted && !p->timed_out)
		p->timed_out = is_late(p, av_now_seconds());
	if (interrupted || p->timed_out)
		av_pair_hurry(true);
}

/* The worse of both. */
static int exit_status(const struct pair *p)
{
	int server = av_pair_exit_status(&p->server), client = av_pair_exit_status(&p->client);

	if (interrupted)
		return 128 + interrupted;
	if (p->timed_out)
		return AV_EXIT_TIMED_OUT;
	if (!server && !client && !p->client.pid)
		return AV_EXIT_RUN_FAILED;
	if (!server && !client && av_pair_unwritten()) {
		errno = av_pair_unwritten();
		return av_tool_unwritten();
	}
	return server > client ? server : client;
}

/* SIGPIPE comes when nobody reads what they write; it and SIGHUP (nohup) may be ignored. */
static void heed_signals(void)
{
	static const int always[] = {SIGINT, SIGTERM}, unless_ignored[] = {SIGHUP, SIGPIPE};
	struct sigaction on_signal = {.sa_handler = interrupt}, before;

	for (size_t i = 0; i < AV_ARRAY_SIZE(always); i++)
		sigaction(always[i], &on_signal, NULL);
	for (size_t i = 0; i < AV_ARRAY_SIZE(unless_ignored); i++)
		if (sigaction(unless_ignored[i], NULL, &before) == 0 &&
		    before.sa_handler != SIG_IGN)
			sigaction(unless_ignored[i], &on_signal, NULL);
}

static int run(struct pair *p)
{
	int status;

	heed_signals();
	av_family_begin();
	p->begin = av_now_seconds();
	p->begin_ns = av_now_real_ns();
	if (!av_pair_start(&p->server, p->words.server))
		return AV_EXIT_RUN_FAILED;
	while (steer(p))
		rest(p);
	av_pair_end(&p->server);
	av_pair_end(&p->client);
	write_rest(p);
	say_what_happened(p);
	status = exit_status(p);
	if (status && av_launch_seed(0))
		av_explain_freedoms((const pid_t[]){p->server.pid, p->client.pid}, p->begin_ns);
	return status;
}

static int run_once(int argc, char **argv)
{
	static struct pair p = {
		.server = {.name = "server", .colour = AV_COLOUR_SERVER, .output = -1},
		.client = {.name = "client", .colour = AV_COLOUR_CLIENT, .output = -1}};
	int status = AV_EXIT_RUN_FAILED;

	if (av_pair_words_make(argc, argv, &p.words) && av_launch_prepare())
		status = run(&p);
	av_pair_words_free(&p.words);
	return status;
}

/* --- several runs ---------------------------------------------------------------- */

/* In a process of its own, whose environment and descendants are of this run alone. */
static int run_apart(int argc, char **argv, uint64_t seed)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		av_launch_reseed(seed);
		status = run_once(argc, argv);
		exit(fflush(stdout) && !status ? av_tool_unwritten() : status);
	}
	if (pid < 0) {
		av_tool_complain("cannot start a run: %s", strerror(errno));
		return AV_EXIT_RUN_FAILED;
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		kill(pid, interrupted);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int run_seeds(int argc, char **argv)
{
	uint64_t seed = av_launch_seed(runs ? 1 : 0), last = seed + (runs ? runs - 1 : 0);
	int status;

	heed_signals();
	for (;; seed++) {
		if (runs) {
			printf("%srun%s| seed %" PRIu64 "\n", av_colour(stdout, AV_COLOUR_CLIENT),
			       av_colour(stdout, AV_COLOUR_OFF), seed);
			fflush(stdout);
		}
		status = run_apart(argc, argv, seed);
		if (status && !interrupted)
			av_tool_complain("failed with --strict=%" PRIu64, seed);
		if (status || seed == last)
			return status;
	}
}

static int pair_main(int argc, char **argv)
{
	if (av_launch_seed(runs ? 1 : 0))
		return run_seeds(argc, argv);
	if (runs)
		return av_tool_misuse(&av_command_pair, "--runs is for --strict");
	return run_once(argc, argv);
}

static const struct av_option options[] = {
	AV_LAUNCH_OPTIONS,
	{'w', "wait", "SECONDS", &av_value_seconds, &wait_seconds,
	 "start the client after so long, even if the server\n"
	 "is not seen to listen; default 10",
	 NULL},
	{'t', "timeout", "SECONDS", &av_value_seconds, &limit_seconds,
	 "end both after so long, with exit status 124", NULL},
	{'r', "runs", "COUNT", &av_value_count, &runs,
	 "with --strict: run them so many times, with seeds\n"
	 "from SEED on, or from 1, until a run fails",
	 NULL},
	{.name = NULL}};

const struct av_command av_command_pair = {
	.name = "pair",
	.summary = "Run a server and its client, and show what both write",
	.operands = "[--] PROGRAM... [--- CLIENT...]",
	.least = 1,
	.most = AV_ANY_NUMBER,
	.options = options,
	.details =
		"Starts PROGRAM as the server and, once it listens, again as its client, with\n"
		"the server's address, and with a free port unless one is given. Knows perftest,\n"
		"ibv_*_pingpong, rping, ucmatose, udaddy, cmtime, rstream, riostream, qperf,\n"
		"rdma_server, rdma_xserver, fi_pingpong and ucx_perftest. Of other programs,\n"
		"write both command lines; {host} and {port} in them stand for localhost and a\n"
		"free port.\n"
		"\n"
		"The worse exit status of both; 125 if anyverbs fails. When one side fails, the\n"
		"other is ended.\n",
	.examples =
		"anyverbs pair -- ib_write_bw -d any0 -F\n"
		"anyverbs pair --strict --runs 2 -- ibv_rc_pingpong -g 0\n"
		"anyverbs pair -- rping -s -p {port} -C 3 --- rping -c -a {host} -p {port} -C 3\n",
	.misuse = AV_EXIT_RUN_FAILED,
	.runs = true,
	.main = pair_main,
};
