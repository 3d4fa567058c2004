/* SPDX-License-Identifier: MIT */
/*
 * A process that is stopped in the middle of something with the directory: others go on, and when
 * it goes on or dies, nothing is lost, counted twice or left.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "lib/unit.h"
#include "lib/wait.h"
#include "registry/directory.h"
#include "registry/tables.h"

/* The lock is waited for in vain for 20 ms, thrice at most. */
#define QUICK_MS 500u
#define TRIES	 20u /* a busy machine may hold up some of them */
#define LIMIT	 1000u
#define DEVICE	 "any0"

static char base[64], path[160];
static bool slow; /* something took longer than it may, or this process was held up */

static int begin(void **state)
{
	snprintf(base, sizeof(base), "/dev/shm/anyverbs-test-XXXXXX");
	if (!mkdtemp(base) || setenv("ANYVERBS_DIR", base, 1))
		return -1;
	snprintf(path, sizeof(path), "%s/anyverbs-%u-%u", base, (unsigned int)geteuid(), av_layout);
	return 0;
}

static int end(void **state)
{
	char line[128];

	snprintf(line, sizeof(line), "rm -rf %s", base);
	return system(line); /* NOLINT(cert-env33-c) */
}

/* --- who is stopped -------------------------------------------------------------- */

/* A process that locks bytes of the directory's file, then stops. */
static pid_t stopped_with(off_t first, off_t bytes)
{
	struct flock fl = {.l_type = F_WRLCK, .l_start = first, .l_len = bytes};
	char file[192];
	int status;
	pid_t pid;

	snprintf(file, sizeof(file), "%s/directory", path);
	pid = fork();
	if (pid == 0) {
		int fd = open(file, O_RDWR | O_CLOEXEC);

		if (fd < 0 || fcntl(fd, F_OFD_SETLKW, &fl))
			_exit(1);
		raise(SIGSTOP);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
	return pid;
}

static pid_t stopped_in_change(void)
{
	return stopped_with(0, 1);
}

static void go_on(pid_t pid)
{
	int status;

	kill(pid, SIGCONT);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

#define quickly(call)                                              \
	do {                                                       \
		const uint64_t from_ = wait_clock_ms();            \
		call;                                              \
		slow = slow || wait_clock_ms() - from_ > QUICK_MS; \
	} while (0)

/* It takes its patience, and then fails. */
#define in_vain(call)                                                     \
	do {                                                              \
		const uint64_t from_ = wait_clock_ms();                   \
		uint64_t took_;                                           \
		assert_int_equal(call, -EBUSY);                           \
		took_ = wait_clock_ms() - from_;                          \
		assert_true(took_ >= AV_PEER_TIMEOUT_NS / 1000000 - 100); \
		slow = slow || took_ > 2 * AV_PEER_TIMEOUT_NS / 1000000;  \
	} while (0)

/* Who waits for a process that is stopped does so each time. */
static void until_quick(void **row)
{
	for (unsigned int i = 0; i < TRIES; i++) {
		slow = false;
		((void (*)(void **))(uintptr_t)*row)(NULL);
		if (!slow)
			return;
		assert_true(end(NULL) == 0 && begin(NULL) == 0);
	}
	fail_msg("slow, %u times in a row", TRIES);
}

/* --- what remains ---------------------------------------------------------------- */

static bool count_folder(int fd, const char *name, void *arg)
{
	*(unsigned int *)arg += name[0] == 'c';
	return true;
}

static unsigned int context_folders(void)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	unsigned int folders = 0;

	assert_true(fd >= 0);
	av_folder_each(fd, count_folder, &folders);
	close(fd);
	return folders;
}

/* Each context has counted one. */
static void count_one(int folder, uint32_t ref, struct av_totals *sum)
{
	char name[32];

	snprintf(name, sizeof(name), AV_CONTEXT_NAME, AV_CONTEXT_NAME_OF(ref));
	if (faccessat(folder, name, F_OK, 0) == 0)
		sum->qp[0]++;
}

static void join(void)
{
	assert_int_equal(av_dir_join(count_one), 0);
}

static uint32_t add(void)
{
	uint32_t ref;
	int fd;

	quickly(fd = av_dir_context_add(&ref));
	assert_true(fd >= 0);
	close(fd);
	quickly(assert_non_null(av_dir_gauges(ref, DEVICE)));
	return ref;
}

/* A process with a context that ends as @route says. */
static pid_t other(void (*way)(uint32_t ref))
{
	pid_t pid = fork();

	if (pid == 0) {
		join();
		way(add());
		_exit(0);
	}
	return pid;
}

static void leaves(uint32_t ref)
{
	av_dir_context_remove(ref);
	av_dir_leave();
}

static void exits(uint32_t ref)
{
	av_dir_abandon();
}

static void dies(uint32_t ref)
{
	kill(getpid(), SIGKILL);
}

static void ends(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(status == 0 || WTERMSIG(status) == SIGKILL);
}

/* --- within a change ------------------------------------------------------------- */

static void others_open_and_close(void **state)
{
	uint32_t ref, mine, qpn;
	pid_t stopped;

	join();
	mine = add();
	stopped = stopped_in_change();
	quickly(ref = add());
	quickly(qpn = (uint32_t)av_dir_qpn_add(ref, 7, LIMIT));
	assert_int_equal(av_dir_qpn_find(qpn).index, 7);
	quickly(assert_int_equal(av_dir_use(ref, AV_DIR_DM_BYTES, 64, 64), 0));
	assert_int_equal(av_dir_use(mine, AV_DIR_DM_BYTES, 1, 64), -ENOMEM);
	quickly(av_dir_qpn_remove(qpn));
	assert_true(av_dir_qpn_ended(qpn));
	quickly(av_dir_context_remove(ref));
	assert_int_equal(av_dir_context_owner(ref), 0);
	assert_int_equal(av_dir_use(mine, AV_DIR_DM_BYTES, 1, 64), 0);
	quickly(ends(other(leaves)));
	quickly(ends(other(exits)));
	quickly(ends(other(dies)));
	assert_int_equal(context_folders(), 5);
	go_on(stopped);
	ends(other(leaves)); /* clears up behind all of them */
	assert_int_equal(context_folders(), 1);
	assert_int_equal(av_dir->device[0].ended.qp[0], 5);
	av_dir_context_remove(mine);
	assert_int_equal(av_dir->device[0].ended.qp[0], 6);
	av_dir_leave();
	join(); /* a directory anew, where the device goes on counting */
	assert_int_equal(av_dir->device[0].ended.qp[0], 6);
	assert_int_equal(av_dir_change_begin(), 0);
	av_dir_counters_reset(av_dir->device[0].name);
	av_dir_change_end();
	av_dir_leave();
	assert_int_equal(access(path, F_OK), -1);
}

/* The last one needs no lock: nobody else is there who could be in a change. */
static void the_last_one_leaves(void **state)
{
	pid_t stopped;

	join();
	stopped = stopped_in_change();
	quickly(av_dir_leave());
	assert_int_equal(access(path, F_OK), -1);
	quickly(join());
	av_dir_leave();
	go_on(stopped);
}

static void what_needs_a_change_fails(void **state)
{
	const union ibv_gid group = {.raw = {0xff, 1}};
	struct av_multicast_member member = {group, {0, 1}, 9};
	uint32_t ref, at = 0;
	int number;
	pid_t stopped;

	join();
	ref = add();
	number = av_dir_xrcd_open(ref, 1, 2, O_CREAT);
	assert_true(number > 0);
	member.location.ref = ref;
	assert_int_equal(av_multicast_attach(&member), 0);
	assert_int_equal(av_page_users_join(ref, 4096), 0);
	stopped = stopped_in_change();
	in_vain(av_dir_xrcd_open(ref, 1, 3, O_CREAT));
	member.qpn = 10;
	in_vain(av_multicast_attach(&member));
	in_vain(-av_page_users_join(ref, 8192));
	assert_true(av_page_users_any(ref, 4096));
	quickly(av_dir_xrcd_close(ref, (uint32_t)number));
	quickly(assert_int_equal(av_multicast_detach(&group, 9), 0));
	assert_false(av_page_users_leave(ref, 4096, NULL, NULL)); /* perhaps not the last */
	go_on(stopped);
	assert_false(av_page_users_any(ref, 4096));
	assert_false(av_multicast_next(&group, 9, &at, &member));
	assert_int_equal(av_dir_xrcd_open(ref, 1, 2, 0), -EAGAIN);
	leaves(ref);
}

/* --- while the directory comes and goes ------------------------------------------ */

/* The folder that it is removing is set aside. It may go on: what is new stays. */
static void stopped_remover(void **state)
{
	struct stat was, is;
	pid_t stopped;

	join();
	stopped = stopped_with(AV_DIR_LOCK_SLOT(1), AV_REF_SLOTS - 1);
	assert_int_equal(stat(path, &was), 0);
	av_dir_leave(); /* not the last: somebody has locks */
	kill(stopped, SIGKILL);
	ends(stopped);
	stopped = stopped_with(AV_DIR_LOCK_SLOT(0), AV_REF_SLOTS);
	quickly(join());
	assert_int_equal(stat(path, &is), 0);
	assert_int_not_equal(was.st_ino, is.st_ino);
	go_on(stopped);
	assert_int_equal(stat(path, &is), 0);
	av_dir_leave();
	join(); /* makes a new one, and sweeps what was set aside */
	av_dir_leave();
	assert_int_equal(rmdir(base), 0);
	assert_int_equal(mkdir(base, 0700), 0);
}

/* Who is killed while it makes a directory leaves a file that goes with the folder. */
static void killed_maker(void **state)
{
	char file[192];
	int fd;

	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(file, sizeof(file), "%s/" AV_FOLDER_NEW "1", path);
	fd = open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	join();
	assert_int_equal(access(file, F_OK), 0); /* its maker may be at work */
	av_dir_leave();
	assert_int_equal(access(path, F_OK), -1);
}

/* Who is killed behind making a context's folder, before anybody knows the context. */
static void killed_claimer(void **state)
{
	uint32_t ref;

	join();
	ref = add();
	atomic_store(&av_dir->context[AV_REF_SLOT(ref)].ref, 0);
	atomic_store(&av_dir->context[AV_REF_SLOT(ref)].proc, 1u << AV_REF_SLOT_BITS | 77u);
	assert_int_equal(context_folders(), 1);
	ends(other(leaves));
	assert_int_equal(context_folders(), 0);
	ref = add();
	leaves(ref);
}

/* Several that leave at once: one of them removes the directory. */
static void all_leave_at_once(void **state)
{
	for (int round = 0; round < 200; round++) {
		pid_t pid[4];
		int gate[2];

		assert_int_equal(pipe(gate), 0);
		for (size_t i = 0; i < AV_ARRAY_SIZE(pid); i++) {
			pid[i] = fork();
			if (pid[i] == 0) {
				char c;

				join();
				close(gate[1]);
				if (read(gate[0], &c, 1) < 0)
					_exit(1);
				av_dir_leave();
				_exit(0);
			}
		}
		close(gate[1]);
		close(gate[0]);
		for (size_t i = 0; i < AV_ARRAY_SIZE(pid); i++)
			ends(pid[i]);
		assert_int_equal(access(path, F_OK), -1);
	}
}

#define QUICK(row)                                                      \
	{                                                               \
#row, until_quick, begin, end, (void *)(uintptr_t)(row) \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		QUICK(others_open_and_close),
		QUICK(the_last_one_leaves),
		QUICK(what_needs_a_change_fails),
		QUICK(stopped_remover),
		cmocka_unit_test_setup_teardown(killed_maker, begin, end),
		cmocka_unit_test_setup_teardown(killed_claimer, begin, end),
		cmocka_unit_test_setup_teardown(all_leave_at_once, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
