/* SPDX-License-Identifier: MIT */
/* Channels that cannot be made, and those that are closed while a command uses them. */
#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cm/cm.h"
#include "cm/id.h"
#include "cm_commands_fixture.h"
#include "lib/refuse_call.h"
#include "lib/sanitized.h"
#include "lib/unit.h"
#include "lib/wait.h"

#define NUMBERS	 4096 /* ours are below */
#define LOOK_MS	 500
#define QUIET_NS 100000000u

static unsigned int descriptors(void)
{
	unsigned int count = 0;

	for (int fd = 0; fd < NUMBERS; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static bool is_refused(void)
{
	return av_cm_open(O_RDWR | O_CLOEXEC) < 0 && errno == EPERM;
}

/* Return: 0; 77: no filters here; or what is wrong */
static int open_without_marks(void)
{
	unsigned int before;

	if (!refuse_call(SYS_setsockopt, EPERM))
		return 77;
	if (!is_refused()) /* whatever stays from the first time */
		return 1;
	before = descriptors();
	for (int i = 0; i < 10; i++)
		if (!is_refused())
			return 2;
	return WAIT_UNTIL(descriptors() <= before, SOON) ? 0 : 3;
}

/* In a child, which keeps its filter. */
TEST(none_without_a_mark)
{
	int status;
	pid_t child;

	if (UNDER_TSAN)
		skip(); /* it does not go on in such a child */
	child = fork();
	if (child == 0)
		_exit(open_without_marks());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* An inherited channel has no ids that a child could take. */
TEST(none_from_the_parent)
{
	int fd, status;
	uint32_t id;
	pid_t child;

	if (UNDER_TSAN)
		skip();
	fd = channel(0);
	assert_int_equal(cm_create(fd, 1, RDMA_PS_TCP, &id), 0);
	child = fork();
	if (child == 0)
		_exit(cm_migrate(channel(0), id, fd) != -EINVAL);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(close(fd), 0);
}

/* A program may have no standard input. */
TEST(at_descriptor_0)
{
	int kept = dup(STDIN_FILENO), fd;
	uint32_t id;

	close(STDIN_FILENO);
	fd = channel(0);
	assert_int_equal(fd, 0);
	assert_int_equal(cm_create(fd, 1, RDMA_PS_TCP, &id), 0);
	assert_int_equal(cm_destroy(fd, id), 0);
	assert_int_equal(dup2(kept, fd), fd);
	close(kept);
}

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static bool is_closed(const struct av_cm_channel *c)
{
	bool closed;

	av_cm_lock();
	closed = c->closed;
	av_cm_unlock();
	return closed;
}

/* The thread takes out what has been closed. */
static bool all_ended(void)
{
	bool ended;

	av_cm_lock();
	ended = !av_cm_channel_closed();
	av_cm_unlock();
	return ended;
}

/*
 * A command may last, or never come back: longjmp(3) out of a signal handler. Nobody looks at the
 * closed channel again and again meanwhile, and it ends behind the command.
 */
TEST(closed_in_use)
{
	const struct timespec look = {.tv_nsec = LOOK_MS * 1000000l};
	struct av_cm_channel *c;
	uint32_t number;
	uint64_t used;
	int fd = channel(0);

	assert_true(av_cm_is_channel(fd, &number));
	av_cm_lock();
	c = av_cm_channel_get(number);
	av_cm_unlock();
	assert_non_null(c);
	assert_int_equal(close(fd), 0);
	assert_true(WAIT_UNTIL(is_closed(c), SOON));
	used = cpu_ns();
	nanosleep(&look, NULL);
	used = cpu_ns() - used;
	av_cm_lock();
	av_cm_channel_put(c);
	av_cm_unlock();
	assert_in_range(used, 0, QUIET_NS);
	assert_true(WAIT_UNTIL(all_ended(), SOON));
}

int main(void)
{
	return run_cases(commands_setup, commands_teardown);
}
