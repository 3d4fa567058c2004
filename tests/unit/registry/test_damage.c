/* SPDX-License-Identifier: MIT */
/*
 * A damaged or foreign directory locks nobody out: it is left alone or set aside, and another one
 * is used. What nobody uses any more goes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "lib/unit.h"
#include "registry/directory.h"

static char base[64], name[96], path[160];

static void run(const char *command)
{
	char line[512];

	snprintf(line, sizeof(line), "cd %s && { %s; }", base, command);
	assert_int_equal(system(line), 0); /* NOLINT(cert-env33-c) */
}

static bool holds(const char *command)
{
	char line[512];

	snprintf(line, sizeof(line), "cd %s && { %s; } >/dev/null 2>&1", base, command);
	return system(line) == 0; /* NOLINT(cert-env33-c) */
}

/* A new base for folders. Names for shells: $d is this user's folder. */
static int begin(void **state)
{
	snprintf(base, sizeof(base), "/dev/shm/anyverbs-test-XXXXXX");
	if (!mkdtemp(base) || setenv("ANYVERBS_DIR", base, 1))
		return -1;
	snprintf(name, sizeof(name), "anyverbs-%u-%u", (unsigned int)geteuid(), av_layout);
	snprintf(path, sizeof(path), "%s/%s", base, name);
	return setenv("d", name, 1);
}

static int end(void **state)
{
	char line[128];

	snprintf(line, sizeof(line), "rm -rf %s", base);
	return system(line); /* NOLINT(cert-env33-c) */
}

/* A context can be added, and a second process finds it. */
static void works(void)
{
	uint32_t ref;
	int fd, status;
	pid_t pid;

	assert_int_equal(av_dir_join(NULL), 0);
	fd = av_dir_context_add(&ref);
	assert_true(fd >= 0);
	pid = fork();
	if (pid == 0)
		_exit(av_dir_join(NULL) || av_dir_context_owner(ref) == 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(fd);
	av_dir_context_remove(ref);
	av_dir_leave();
}

/* Another process that has joined, with a context. It ends when @pipe is closed. */
struct other {
	pid_t pid;
	int wait, tell;
};

static struct other start(void)
{
	struct other o;
	int up[2], down[2];
	uint32_t ref;
	char c = 0;

	assert_int_equal(pipe(up) | pipe(down), 0);
	o.pid = fork();
	if (o.pid == 0) {
		close(up[0]);
		close(down[1]);
		if (av_dir_join(NULL) || av_dir_context_add(&ref) < 0 || write(up[1], &c, 1) != 1)
			_exit(1);
		while (read(down[0], &c, 1) == 1) /* each byte: does it still work? */
			if (av_dir_context_add(&ref) < 0 || !av_dir_context_owner(ref))
				_exit(2);
			else if (write(up[1], &c, 1) != 1)
				_exit(3);
		av_dir_leave();
		_exit(0);
	}
	close(up[1]);
	close(down[0]);
	o.wait = up[0];
	o.tell = down[1];
	assert_int_equal(read(o.wait, &c, 1), 1);
	return o;
}

static void still_works(struct other *o)
{
	char c = 0;

	assert_int_equal(write(o->tell, &c, 1), 1);
	assert_int_equal(read(o->wait, &c, 1), 1);
}

static void stop(struct other *o)
{
	int status;

	close(o->tell);
	assert_int_equal(waitpid(o->pid, &status, 0), o->pid);
	assert_int_equal(status, 0);
	close(o->wait);
}

/* --- what a folder may be like --------------------------------------------------- */

/* What is there before, and what must be there afterwards. */
static const struct {
	const char *before, *after;
} found[] = {
	/* The directory is damaged: set aside, since nobody uses it gone with the next new one. */
	{"mkdir -m 700 $d && head -c 8 /dev/urandom >$d/directory", "true"},
	{"mkdir -m 700 $d && head -c 9000000 /dev/urandom >$d/directory", "true"},
	{"mkdir -m 700 $d && mkdir $d/directory", "true"},
	{"mkdir -m 700 $d && ln -s /etc/passwd $d/directory", "test -s /etc/passwd"},
	{"mkdir -m 700 $d && mkfifo $d/directory", "true"},
	{"mkdir -m 700 $d && : >$d/directory", "true"}, /* just being made */
	{"mkdir -m 700 $d", "true"},
	/* The folder is not ours to use. */
	{"mkdir there && ln -s there $d", "test -L $d && test -z \"$(ls -A there)\""},
	{"echo mine >$d", "test \"$(cat $d)\" = mine"},
	{"mkdir -m 777 $d", "test -d $d && test -z \"$(ls -A $d)\""},
	{"mkdir -m 777 $d && mkdir -m 750 $d-1 && : >$d-2", "test -d $d -a -d $d-1 -a -f $d-2"},
	/* Of another layout, used by nobody: it goes, as far as we made it. */
	{"mkdir -m 700 anyverbs-$(id -u)-16 && touch anyverbs-$(id -u)-16/directory",
	 "! test -e anyverbs-$(id -u)-16"},
	{"mkdir -p -m 700 anyverbs-$(id -u)-16/c3-4 && touch anyverbs-$(id -u)-16/c3-4/segment",
	 "! test -e anyverbs-$(id -u)-16"},
	{"mkdir -m 700 anyverbs-$(id -u)-16 && touch anyverbs-$(id -u)-16/letter",
	 "test -e anyverbs-$(id -u)-16/letter"},
	{"touch anyverbs-$(id -u)-16 && ln -s / anyverbs-$(id -u)-17 && mkdir anyverbs-x-3",
	 "test -f anyverbs-$(id -u)-16 -a -L anyverbs-$(id -u)-17 -a -d anyverbs-x-3"},
};

TEST(nobody_is_locked_out)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(found); i++) {
		assert_int_equal(begin(NULL), 0);
		run(found[i].before);
		works();
		if (!holds(found[i].after))
			fail_msg("after \"%s\": not \"%s\"", found[i].before, found[i].after);
		works();
		assert_int_equal(end(NULL), 0);
	}
}

TEST_WITH(without_a_name_left_it_is_refused, begin, end)
{
	run("for i in '' -1 -2 -3 -4 -5 -6 -7; do : >$d$i; done");
	assert_int_equal(av_dir_join(NULL), -ENOTDIR);
	run("rm $d-7");
	works();
}

/* A name that becomes free does not divide processes. */
TEST_WITH(all_find_the_same_folder, begin, end)
{
	struct other o;
	uint32_t slot = 0;

	run(": >$d");
	o = start();
	run("rm $d");
	assert_int_equal(av_dir_join(NULL), 0);
	assert_int_not_equal(av_dir_context_at(&slot), 0);
	av_dir_leave();
	stop(&o);
	assert_false(holds("test -e $d-1"));
}

/* --- the program's umask --------------------------------------------------------- */

/* Whoever comes next must be able to enter what was made under it. */
TEST_WITH(umask_takes_no_right_of_ours, begin, end)
{
	mode_t before = umask(0777);
	uint32_t ref;
	int fd;

	assert_int_equal(av_dir_join(NULL), 0);
	fd = av_dir_context_add(&ref);
	assert_int_equal(umask(before), 0777);
	assert_true(fd >= 0);
	close(fd);
	assert_true(holds("test \"$(stat -c %a $d $d/c* | xargs)\" = '700 700'"));
	assert_true(holds("test \"$(stat -c %a $d/directory $d/flight | xargs)\" = '600 600'"));
	av_dir_context_remove(ref);
	av_dir_leave();
}

/* Its maker was killed before it could enter it. */
TEST_WITH(folder_without_rights_is_ours_all_the_same, begin, end)
{
	run("mkdir -m 0 $d");
	assert_int_equal(av_dir_join(NULL), 0);
	assert_true(holds("test $(stat -c %a $d) = 700"));
	av_dir_leave();
}

/* --- damage to a directory in use ------------------------------------------------ */

static struct av_dir_file *map(void)
{
	char file[256];
	struct av_dir_file *d;
	int fd;

	snprintf(file, sizeof(file), "%s/directory", path);
	fd = open(file, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	d = mmap(NULL, sizeof(*d), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(d, MAP_FAILED);
	close(fd);
	return d;
}

static void spoil(struct av_dir_file *d, unsigned int how)
{
	_Atomic uint32_t *const ends[] = {&d->proc_end,	   &d->context_end, &d->port_end,
					  &d->capture_end, &d->device_end,  &d->member_end};

	if (how == 0)
		d->magic++;
	else if (how == 1)
		d->layout++;
	else
		atomic_store(ends[how - 2], UINT32_MAX);
}

/* Those who are in it go on; a newcomer gets another one. It is kept as long as they live. */
TEST(damage_divides_old_from_new)
{
	for (unsigned int how = 0; how < 7; how++) {
		struct other o;
		struct av_dir_file *d;

		assert_int_equal(begin(NULL), 0);
		o = start();
		d = map();
		spoil(d, how);
		munmap(d, sizeof(*d));
		works();
		assert_true(holds("test -e $d.aside-*"));
		still_works(&o);
		works();
		assert_true(holds("test -e $d.aside-*"));
		still_works(&o);
		kill(o.pid, SIGKILL);
		waitpid(o.pid, NULL, 0);
		works();
		assert_false(holds("test -e $d.aside-*"));
		close(o.wait);
		close(o.tell);
		assert_int_equal(end(NULL), 0);
	}
}

/* A directory of another layout that is in use stays. */
TEST_WITH(another_layout_in_use_stays, begin, end)
{
	struct other o = start();

	run("mv $d anyverbs-$(id -u)-16");
	works();
	still_works(&o);
	assert_true(holds("test -e anyverbs-$(id -u)-16/directory"));
	stop(&o);
	works();
	assert_false(holds("test -e anyverbs-$(id -u)-16"));
}

/* With room for two descriptors, sweep: for the base and a folder, but not for what is in it. */
static void sweep_without_descriptors(void)
{
	int status, lowest;
	struct rlimit few;
	pid_t pid = fork();

	if (pid == 0) {
		lowest = dup(0);
		close_range((unsigned int)lowest, ~0u, 0);
		getrlimit(RLIMIT_NOFILE, &few);
		few.rlim_cur = (rlim_t)lowest + 2;
		if (setrlimit(RLIMIT_NOFILE, &few))
			_exit(1);
		av_folder_sweep();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* Who cannot look whether it is in use leaves it alone. */
TEST_WITH(another_layout_stays_unless_it_is_seen_to_be_unused, begin, end)
{
	struct other o = start();

	run("mv $d anyverbs-$(id -u)-16");
	sweep_without_descriptors();
	assert_true(holds("test -e anyverbs-$(id -u)-16/directory"));
	still_works(&o);
	stop(&o);
	works();
	assert_false(holds("test -e anyverbs-$(id -u)-16"));
}

/* As by logind's RemoveIPC. */
TEST_WITH(the_folder_is_removed_under_its_users, begin, end)
{
	struct other o = start();
	uint32_t ref;

	assert_int_equal(av_dir_join(NULL), 0);
	run("rm -r $d");
	assert_int_equal(av_dir_context_add(&ref), -ENOENT);
	av_dir_leave();
	works();
	works();
	stop(&o);
	works();
	assert_true(holds("test -z \"$(ls -A)\""));
}

int main(void)
{
	return run_cases(NULL, NULL);
}
