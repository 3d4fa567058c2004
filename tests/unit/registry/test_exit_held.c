/* SPDX-License-Identifier: MIT */
/* A signal's handler exits whose thread is changing the directory: nobody waits for that. */
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "lib/own_directory.h"
#include "lib/unit.h"
#include "registry/directory.h"

#define TRIES 5u /* a busy machine may take long over one */

static bool leaves_at_once(void)
{
	for (unsigned int i = 0; i < TRIES; i++) {
		uint64_t begin = av_now_ns();

		av_dir_hold();
		av_dir_abandon();
		av_dir_release();
		if (av_now_ns() - begin < AV_PEER_TIMEOUT_NS / 4)
			return true;
	}
	return false;
}

TEST(exit_does_not_wait_for_itself)
{
	assert_true(leaves_at_once());
}

TEST(nor_in_a_forked_child)
{
	int status;
	pid_t pid;

	pid = fork();
	if (pid == 0)
		_exit(av_dir_join(NULL) || !leaves_at_once());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	return run_cases(own_directory_join, own_directory_leave);
}
