/* SPDX-License-Identifier: MIT */
/*
 * Messages of management come to the wrong process while the right one is stopped: none is lost,
 * but for what would take too much memory.
 */
#include "net_fixture.h"

#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/lock.h"
#include "lib/wait.h"
#include "net/socket.h"
#include "registry/directory.h"

#define SOME	    1000u
#define MORE	    16000u /* than the backlog has room for */
#define AT_ONCE	    16u
#define PATIENCE_MS 60000

/* Who owns all messages. Shared with it. */
static struct owner {
	_Atomic uint32_t ref; /* 0: it is not there yet */
	_Atomic uint32_t got, disordered, last_psn;
} * owner;

static pid_t pid;
static int tell[2];
static struct av_net_path path;
static uint32_t self;
static uint64_t misrouted_before;

static uint32_t owner_of(const struct av_net_packet *p)
{
	return atomic_load(&owner->ref);
}

static void count(const struct av_net_packet *p)
{
	if (p->packet.psn < atomic_exchange(&owner->last_psn, p->packet.psn))
		atomic_fetch_add(&owner->disordered, 1);
	atomic_fetch_add(&owner->got, 1);
}

static const struct av_net_manager manager = {owner_of, count};

static void wait_for(const _Atomic uint32_t *value, uint32_t wanted)
{
	assert_true(WAIT_UNTIL(atomic_load(value) >= wanted, PATIENCE_MS));
}

/* It has no address: packets come to it by way of the other process alone. */
static void be_owner(void)
{
	uint32_t ref = enter();
	char byte;

	close(tell[1]);
	assert_int_equal(av_net_hold(), 0);
	atomic_store(&owner->ref, av_lock_self);
	(void)!read(tell[0], &byte, 1);
	av_net_release();
	leave(ref);
	_exit(0);
}

/* Do all its threads sleep? One that is stopped with a lock of the directory is another matter. */
static bool owner_sleeps(void)
{
	char folder[64];
	const struct dirent *d;
	bool sleeps = true;
	DIR *tasks;

	snprintf(folder, sizeof(folder), "/proc/%d/task", (int)pid);
	tasks = opendir(folder);
	assert_non_null(tasks);
	while ((d = readdir(tasks)))
		if (d->d_name[0] != '.')
			sleeps &= task_sleeps((pid_t)strtol(d->d_name, NULL, 10));
	closedir(tasks);
	return sleeps;
}

/* The signal comes to one thread, which has the others stop: until then they go on. */
static void stop_owner(void)
{
	int status;

	assert_true(WAIT_UNTIL(owner_sleeps(), PATIENCE_MS));
	assert_int_equal(kill(pid, SIGSTOP), 0);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
}

static void begin(void)
{
	memset(owner, 0, sizeof(*owner));
	own_address(path.src, 0);
	own_address(path.dst, 1);
	av_net_manage_by(&manager);
	assert_int_equal(pipe(tell), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		be_owner();
	close(tell[0]);
	wait_for(&owner->ref, 1);
	self = enter();
	assert_int_equal(av_net_open(path.src, true), 0);
	assert_int_equal(av_net_open(path.dst, true), 0);
	misrouted_before = av_net_counted(AV_NET_MISROUTED);
	stop_owner();
}

static void end(int signal)
{
	int status;

	close(tell[1]);
	assert_int_equal(kill(pid, signal), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	av_net_close(path.dst, true, NULL);
	av_net_close(path.src, true, NULL);
	leave(self);
}

static bool has_come(uint32_t messages)
{
	(void)av_net_poll();
	return av_net_counted(AV_NET_MISROUTED) - misrouted_before >= messages;
}

/* A few at a time: these have been taken in by the wrong process before the next are sent. */
static void send_messages(uint32_t first, uint32_t messages)
{
	for (uint32_t i = first, end = first + messages; i < end;) {
		struct av_net_burst *b = av_net_burst(&path, "any0");

		assert_non_null(b);
		for (uint32_t n = 0; n < AT_ONCE && i < end; n++)
			put_one(b, AV_NET_MANAGEMENT_QPN, i++, 256);
		assert_int_equal(av_net_send(b), 0);
		assert_true(WAIT_UNTIL(has_come(i), PATIENCE_MS));
	}
}

TEST(none_is_lost)
{
	(void)state;
	begin();
	send_messages(0, SOME);
	assert_true(av_backlog_waits());
	assert_int_equal(kill(pid, SIGCONT), 0);
	wait_for(&owner->got, SOME);
	assert_int_equal(atomic_load(&owner->got), SOME);
	assert_int_equal(atomic_load(&owner->disordered), 0);
	assert_true(WAIT_UNTIL(!av_backlog_waits(), PATIENCE_MS)); /* the last one goes when sent */
	end(SIGCONT);
}

TEST(memory_is_limited)
{
	(void)state;
	begin();
	send_messages(0, MORE);
	assert_int_equal(kill(pid, SIGCONT), 0);
	assert_true(WAIT_UNTIL(!av_backlog_waits(), 2 * PATIENCE_MS));
	wait_for(&owner->got, SOME);
	send_messages(MORE, 1);
	wait_for(&owner->last_psn, MORE);
	assert_in_range(atomic_load(&owner->got), SOME, MORE - SOME);
	end(SIGCONT);
}

TEST(nothing_waits_for_the_dead)
{
	(void)state;
	begin();
	send_messages(0, SOME);
	assert_true(av_backlog_waits());
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_true(WAIT_UNTIL(!av_backlog_waits(), 2 * PATIENCE_MS));
	end(SIGKILL);
}

TEST(nothing_waits_when_all_is_closed)
{
	(void)state;
	begin();
	send_messages(0, SOME);
	assert_true(av_backlog_waits());
	end(SIGKILL);
	assert_false(av_backlog_waits());
}

static int make(void **state)
{
	owner = mmap(NULL, sizeof(*owner), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	return owner == MAP_FAILED || make_folder(state);
}

int main(void)
{
	return run_cases(make, remove_folder);
}
