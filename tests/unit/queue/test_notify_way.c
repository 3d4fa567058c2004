/* SPDX-License-Identifier: MIT */
/* Which ways of waiting may be asked for, and that one which is not there is told of. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "lib/unit.h"
#include "queue/cq.h"
#include "unit/memory/seg_fixture.h"

#define NAME  "ANYVERBS_AS_NOTIFY"
#define INDEX 1u

/* NULL: nothing is asked for */
static const struct {
	const char *way;
	bool told;
} rows[] = {{NULL, false}, {"futex", false}, {"loop", false}, {"hammock", true}, {"", true}};

/* In a process of its own, since the way is chosen once. @fd: its standard error */
static void wait_in_child(const char *way, int fd)
{
	if (way)
		setenv(NAME, way, 1);
	else
		unsetenv(NAME);
	_exit(dup2(fd, STDERR_FILENO) < 0 || av_cq_wait(&fake.seg, INDEX, 0) != ETIMEDOUT);
}

TEST_WITH(a_way_that_is_not_there_is_told_of, open_fake_tables, close_fake)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		char text[256] = "";
		int fds[2], status;
		pid_t child;

		assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
		child = fork();
		if (child == 0)
			wait_in_child(rows[i].way, fds[1]);
		close(fds[1]);
		assert_true(read(fds[0], text, sizeof(text) - 1) >= 0);
		close(fds[0]);
		assert_true(waitpid(child, &status, 0) == child && status == 0);
		if ((strstr(text, NAME) != NULL) != rows[i].told)
			fail_msg("row %zu: %s", i, text);
	}
}

int main(void)
{
	unsetenv("ANYVERBS_LOG");
	unsetenv("ANYVERBS_LOG_FILE");
	return run_cases(NULL, NULL);
}
