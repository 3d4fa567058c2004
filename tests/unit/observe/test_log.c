/* SPDX-License-Identifier: MIT */
/* The log: what each setting of ANYVERBS_LOG lets through, and that a line never harms its process.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "lib/unit.h"
#include "observe/flight.h"

static char folder[] = "/tmp/anyverbs-log-XXXXXX";

/* The setting is read once per process, so each case has a child; its standard error comes back in
 * @text. */
static int run(const char *setting, void (*body)(void), char *text, size_t size)
{
	int fds[2], status;
	size_t len = 0;
	ssize_t n;
	pid_t pid;

	assert_return_code(pipe(fds), errno);
	pid = fork();
	assert_return_code(pid, errno);
	if (!pid) {
		dup2(fds[1], STDERR_FILENO);
		close(fds[0]);
		close(fds[1]);
		if (setting)
			setenv("ANYVERBS_LOG", setting, 1);
		else
			unsetenv("ANYVERBS_LOG");
		body();
		_exit(0);
	}
	close(fds[1]);
	while (len < size - 1 && (n = read(fds[0], text + len, size - 1 - len)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void log_each_level(void)
{
	av_log(AV_LOG_OFF, "never");
	av_log(AV_LOG_WARN, "w");
	av_log(AV_LOG_INFO, "i");
	av_log(AV_LOG_DEBUG, "d");
}

struct level_row {
	const char *rule;
	const char *setting;
	const char *levels; /* the texts of log_each_level() that are written */
	bool complains;	    /* one more line before them */
};

static const struct level_row level_rows[] = {
	{"unset_means_warn", NULL, "w", false},
	{"empty_means_warn", "", "w", false},
	{"off_is_silent", "off", "", false},
	{"warn_shows_warnings", "warn", "w", false},
	{"info_includes_warnings", "info", "wi", false},
	{"debug_shows_all", "debug", "wid", false},
	{"unknown_level_is_reported", "loud", "w", true},
	{"prefix_of_a_level_is_no_level", "inf", "w", true},
	{"level_and_more_is_no_level", "infos", "w", true},
	{"empty_file_name_is_reported", "info:", "wi", true},
	{"file_that_cannot_be_opened_gives_standard_error", "info:/nonexistent/log", "wi", false},
};

static void writes_levels(void **state)
{
	const struct level_row *row = *state;
	char text[4096], seen[16] = "", *line, *save;
	bool complained = false;
	size_t n = 0;

	assert_int_equal(run(row->setting, log_each_level, text, sizeof(text)), 0);
	for (line = strtok_r(text, "\n", &save); line && n < 8;
	     line = strtok_r(NULL, "\n", &save)) {
		if (strstr(line, "ANYVERBS_LOG"))
			complained = true;
		else
			seen[n++] = line[strlen(line) - 1];
	}
	assert_string_equal(seen, row->levels);
	assert_int_equal(complained, row->complains);
}

static void log_formatted(void)
{
	av_log(AV_LOG_WARN, "QP %d: %s", 17, "no");
}

static void line_has_pid_and_level(void **state)
{
	char text[256], end[64];
	int pid;

	run("warn", log_formatted, text, sizeof(text));
	assert_int_equal(sscanf(text, "anyverbs[%d]: %63[^\n]", &pid, end), 2);
	assert_string_equal(end, "warn: QP 17: no");
	assert_true(pid > 1);
	assert_int_equal(text[strlen(text) - 1], '\n');
}

static void log_controls(void)
{
	av_log(AV_LOG_WARN, "%s", "a\nb\033c\303\251");
}

static void control_characters_do_not_break_the_line(void **state)
{
	char text[256];

	run("warn", log_controls, text, sizeof(text));
	assert_non_null(strstr(text, "warn: a?b?c\303\251\n"));
}

static void log_long(void)
{
	char big[5000];

	memset(big, 'x', sizeof(big));
	big[sizeof(big) - 1] = '\0';
	av_log(AV_LOG_WARN, "%s", big);
}

static void long_line_is_cut_and_marked(void **state)
{
	char text[8192];
	size_t len;

	run("warn", log_long, text, sizeof(text));
	len = strlen(text);
	assert_in_range(len, 500, 1024);
	assert_string_equal(text + len - 5, "x...\n");
}

static void log_exact(void)
{
	/* 1022 bytes with the head: the longest line that is not cut. */
	char head[64], big[1100];
	int used = snprintf(head, sizeof(head), "anyverbs[%d]: warn: ", (int)getpid());

	memset(big, 'x', sizeof(big));
	big[1022 - used] = '\0';
	av_log(AV_LOG_WARN, "%s", big);
}

static void line_that_just_fits_is_not_cut(void **state)
{
	char text[2048];

	run("warn", log_exact, text, sizeof(text));
	assert_int_equal(strlen(text), 1023);
	assert_string_equal(text + 1020, "xx\n");
}

static void log_after_errno(void)
{
	errno = EXDEV;
	av_log(AV_LOG_WARN, "x");
	if (errno != EXDEV)
		_exit(1);
	close(STDERR_FILENO);
	av_log(AV_LOG_WARN, "x");
	if (errno != EXDEV)
		_exit(2);
	if (av_log_enabled(AV_LOG_DEBUG) || errno != EXDEV)
		_exit(3);
}

static void errno_survives(void **state)
{
	char text[256];

	assert_int_equal(run("warn:", log_after_errno, text, sizeof(text)), 0);
}

static void log_into_closed_pipe(void)
{
	sigset_t pending;
	int fds[2];

	signal(SIGPIPE, SIG_DFL);
	if (pipe(fds))
		_exit(1);
	dup2(fds[1], STDERR_FILENO);
	close(fds[0]);
	close(fds[1]);
	av_log(AV_LOG_WARN, "nobody reads this");
	sigpending(&pending);
	if (sigismember(&pending, SIGPIPE))
		_exit(2);
}

static void broken_pipe_does_not_kill(void **state)
{
	char text[256];

	assert_int_equal(run("warn", log_into_closed_pipe, text, sizeof(text)), 0);
}

static void log_with_pending_sigpipe(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	sigprocmask(SIG_BLOCK, &set, NULL);
	raise(SIGPIPE);
	log_into_closed_pipe();
}

static void pending_signal_of_the_program_is_left_pending(void **state)
{
	char text[256];
	int status = run("warn", log_with_pending_sigpipe, text, sizeof(text));

	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 2); /* still pending */
}

static void log_enabled_bits(void)
{
	_exit(av_log_enabled(AV_LOG_OFF) | av_log_enabled(AV_LOG_WARN) << 1 |
	      av_log_enabled(AV_LOG_INFO) << 2 | av_log_enabled(AV_LOG_DEBUG) << 3);
}

static void enabled_agrees_with_the_setting(void **state)
{
	char text[256];

	assert_int_equal(WEXITSTATUS(run("off", log_enabled_bits, text, sizeof(text))), 0);
	assert_int_equal(WEXITSTATUS(run("warn", log_enabled_bits, text, sizeof(text))), 2);
	assert_int_equal(WEXITSTATUS(run("info", log_enabled_bits, text, sizeof(text))), 6);
	assert_int_equal(WEXITSTATUS(run("debug", log_enabled_bits, text, sizeof(text))), 14);
}

static void warn_thrice(void)
{
	for (int i = 0; i < 3; i++)
		av_warn_once("first %d", i);
	av_warn_once("second");
}

static void warn_once_is_once_per_site(void **state)
{
	char text[512];
	char *first;

	run(NULL, warn_thrice, text, sizeof(text));
	first = strstr(text, "first 0\n");
	assert_non_null(first);
	assert_null(strstr(first + 1, "first"));
	assert_non_null(strstr(text, "second\n"));
}

static void read_file(const char *name, char *text, size_t size)
{
	char path[256];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_RDONLY);
	assert_return_code(fd, errno);
	n = read(fd, text, size - 1);
	assert_return_code(n, errno);
	text[n] = '\0';
	close(fd);
	unlink(path);
}

static void file_takes_the_lines(void **state)
{
	char setting[256], text[4096], *at;

	snprintf(setting, sizeof(setting), "info:%s/lines", folder);
	run(setting, log_each_level, text, sizeof(text));
	assert_string_equal(text, "");
	run(setting, log_each_level, text, sizeof(text));
	read_file("lines", text, sizeof(text));
	/* Two processes, two lines each: appended, not overwritten. */
	at = text;
	for (int i = 0; i < 4; i++) {
		char *end = strchr(at, '\n');

		assert_non_null(end);
		assert_int_equal(end[-1], i % 2 ? 'i' : 'w');
		at = end + 1;
	}
	assert_string_equal(at, "");
}

static void log_and_change_directory(void)
{
	if (chdir(folder))
		_exit(1);
	av_log(AV_LOG_WARN, "a");
	if (chdir("/"))
		_exit(2);
	av_log(AV_LOG_WARN, "b");
}

static void relative_file_name_is_meant_at_the_first_line(void **state)
{
	char text[1024];

	assert_int_equal(run("warn:here", log_and_change_directory, text, sizeof(text)), 0);
	read_file("here", text, sizeof(text));
	assert_non_null(strstr(text, "warn: a\n"));
	assert_non_null(strstr(text, "warn: b\n"));
}

static void log_and_close_all(void)
{
	av_log(AV_LOG_WARN, "a");
	closefrom(3);
	/* The number that a log kept open would have had is the program's now. */
	if (open("/dev/null", O_RDWR) != 3)
		_exit(1);
	av_log(AV_LOG_WARN, "b");
}

static void file_survives_a_program_that_closes_everything(void **state)
{
	char setting[256], text[1024];

	snprintf(setting, sizeof(setting), "warn:%s/daemon", folder);
	assert_int_equal(run(setting, log_and_close_all, text, sizeof(text)), 0);
	read_file("daemon", text, sizeof(text));
	assert_non_null(strstr(text, "warn: b\n"));
}

static void fifo_that_nobody_reads_does_not_stop_the_program(void **state)
{
	char path[128], setting[256], text[1024];

	snprintf(path, sizeof(path), "%s/fifo", folder);
	snprintf(setting, sizeof(setting), "warn:%s", path);
	assert_return_code(mkfifo(path, 0600), errno);
	assert_int_equal(run(setting, log_formatted, text, sizeof(text)), 0);
	assert_non_null(strstr(text, "warn: QP 17: no\n"));
	unlink(path);
}

static int make_folder(void **state)
{
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	return rmdir(folder);
}

static int run_levels(void)
{
	struct CMUnitTest tests[AV_ARRAY_SIZE(level_rows)];

	for (size_t i = 0; i < AV_ARRAY_SIZE(level_rows); i++)
		tests[i] = (struct CMUnitTest){
			.name = level_rows[i].rule,
			.test_func = writes_levels,
			.initial_state = (void *)(uintptr_t)&level_rows[i],
		};
	return cmocka_run_group_tests_name("ANYVERBS_LOG", tests, NULL, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(line_has_pid_and_level),
		cmocka_unit_test(control_characters_do_not_break_the_line),
		cmocka_unit_test(long_line_is_cut_and_marked),
		cmocka_unit_test(line_that_just_fits_is_not_cut),
		cmocka_unit_test(errno_survives),
		cmocka_unit_test(broken_pipe_does_not_kill),
		cmocka_unit_test(pending_signal_of_the_program_is_left_pending),
		cmocka_unit_test(enabled_agrees_with_the_setting),
		cmocka_unit_test(warn_once_is_once_per_site),
		cmocka_unit_test(file_takes_the_lines),
		cmocka_unit_test(relative_file_name_is_meant_at_the_first_line),
		cmocka_unit_test(fifo_that_nobody_reads_does_not_stop_the_program),
		cmocka_unit_test(file_survives_a_program_that_closes_everything),
	};
	int failed = run_levels();

	return failed + cmocka_run_group_tests_name("log lines", tests, make_folder, remove_folder);
}
