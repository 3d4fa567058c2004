/* SPDX-License-Identifier: MIT */
/* Who shares an address's port: the order of members, their deaths, and whose numbers are whose. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "lib/unit.h"
#include "lib/wait.h"
#include "registry/directory.h"
#include "registry/tables.h"

#define MEMBERS 5
#define NETNS	77
#define LIMIT	1000

static char folder[] = "/dev/shm/anyverbs-test-XXXXXX";
static const uint8_t address[16] = {[15] = 1};

/* A process that is a member. Shared. */
struct member {
	_Atomic uint32_t proc;
	int group;
	uint32_t qpn;
	pid_t pid;
	int tell[2];
};

static struct member *member;
static uint32_t ref; /* of this process's context */

static int make_folder(void **state)
{
	member = mmap(NULL, MEMBERS * sizeof(*member), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return member == MAP_FAILED || !mkdtemp(folder) || setenv("ANYVERBS_DIR", folder, 1);
}

static int remove_folder(void **state)
{
	rmdir(folder);
	return 0;
}

static void enter(void)
{
	int fd;

	assert_int_equal(av_dir_join(NULL), 0);
	fd = av_dir_context_add(&ref);
	assert_true(fd >= 0);
	close(fd);
}

static void leave(void)
{
	av_dir_context_remove(ref);
	av_dir_leave();
}

/* 'L': leave the group; 'G': its socket is gone, and there is no time for a change; 'E': end. */
static void be_member(struct member *m)
{
	char what = 'E';

	close(m->tell[1]);
	enter();
	m->qpn = (uint32_t)av_dir_qpn_add(ref, 1, LIMIT);
	assert_int_equal(av_dir_change_begin(), 0);
	m->group = av_reuseport_join(NETNS, address);
	assert_true(av_reuseport_own(av_lock_self, m->qpn));
	av_dir_change_end();
	atomic_store(&m->proc, av_lock_self);
	(void)!read(m->tell[0], &what, 1);
	if (what == 'G')
		av_reuseport_gone(m->group);
	if (what == 'L' && av_dir_change_begin() == 0) {
		av_reuseport_leave(m->group);
		av_dir_change_end();
	}
	leave();
	_exit(0);
}

static void add(struct member *m)
{
	pid_t pid;

	memset(m, 0, sizeof(*m));
	assert_int_equal(pipe(m->tell), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		be_member(m);
	m->pid = pid;
	close(m->tell[0]);
	assert_true(WAIT_UNTIL(atomic_load(&m->proc), 10000));
}

static void end(struct member *m, char how)
{
	if (how == 'K')
		assert_int_equal(kill(m->pid, SIGKILL), 0);
	else
		assert_int_equal(write(m->tell[1], &how, 1), 1);
	assert_int_equal(waitpid(m->pid, NULL, 0), m->pid);
	close(m->tell[1]);
	m->pid = 0;
}

static void change(void)
{
	assert_int_equal(av_dir_change_begin(), 0);
}

/* @expected: digits, the members in their order */
static void assert_order(int group, const char *expected)
{
	change();
	av_reuseport_sweep(group);
	assert_int_equal(av_reuseport_members(group), strlen(expected));
	for (unsigned int i = 0; expected[i]; i++)
		assert_int_equal(av_reuseport_place(group, member[expected[i] - '0'].proc), i);
	av_dir_change_end();
}

/* What happens one after another: who ends, and how; 'A': it joins again. */
static const struct {
	const char *events, *order;
} story[] = {
	{"", "01234"},	   {"4L", "0123"},	  {"0L", "4123"},     {"1L0L", "342"},
	{"2K", "0143"},	   {"3K0K", "412"},	  {"0K1L", "432"},    {"0G", "4123"},
	{"1L1A", "04231"}, {"0K2L0A2A", "41302"}, {"0L1L2L3L4L", ""},
};

TEST(the_order_is_the_kernels)
{
	(void)state;
	for (size_t i = 0; i < AV_ARRAY_SIZE(story); i++) {
		int group;

		enter();
		for (unsigned int m = 0; m < MEMBERS; m++)
			add(&member[m]);
		group = member[0].group;
		for (const char *e = story[i].events; *e; e += 2) {
			struct member *m = &member[e[0] - '0'];

			if (e[1] == 'A')
				add(m);
			else
				end(m, e[1]);
			change();
			av_reuseport_sweep(group);
			av_dir_change_end();
		}
		assert_order(group, story[i].order);
		for (unsigned int m = 0; m < MEMBERS; m++)
			if (member[m].pid)
				end(&member[m], 'E');
		leave();
	}
}

/* After each change it is told something else. */
TEST(what_the_kernel_was_told)
{
	uint32_t told;
	int group;

	(void)state;
	enter();
	add(&member[0]);
	group = member[0].group;
	change();
	assert_int_equal(av_reuseport_told(group), 0);
	av_reuseport_tell(group);
	told = av_reuseport_told(group);
	assert_int_not_equal(told, 0);
	assert_int_equal(av_reuseport_join(NETNS, address), group);
	assert_int_equal(av_reuseport_told(group), 0);
	av_reuseport_tell(group);
	assert_int_not_equal(av_reuseport_told(group), told);

	assert_int_equal(av_reuseport_place(group, av_lock_self), 1);
	av_reuseport_learn(group, 1); /* as was thought */
	assert_int_not_equal(av_reuseport_told(group), 0);
	av_reuseport_learn(group, 7); /* there is no such place */
	assert_int_not_equal(av_reuseport_told(group), 0);
	av_reuseport_learn(group, 0);
	assert_int_equal(av_reuseport_told(group), 0);
	assert_int_equal(av_reuseport_place(group, av_lock_self), 0);
	assert_int_equal(av_reuseport_place(group, member[0].proc), 1);
	av_reuseport_leave(group);
	assert_int_equal(av_reuseport_place(group, member[0].proc), 0);
	av_dir_change_end();
	end(&member[0], 'L');
	leave();
}

TEST(addresses_and_namespaces)
{
	const uint8_t other[16] = {[15] = 2};
	int a, b, c;

	(void)state;
	enter();
	change();
	a = av_reuseport_join(NETNS, address);
	b = av_reuseport_join(NETNS, other);
	c = av_reuseport_join(NETNS + 1, address);
	assert_true(a >= 0 && b >= 0 && c >= 0 && a != b && b != c && a != c);
	av_reuseport_leave(a);
	assert_int_equal(av_reuseport_members(a), 0);
	assert_int_equal(av_reuseport_members(b), 1);
	for (uint8_t i = 0; i < AV_DIR_REUSEPORTS - 2; i++)
		assert_true(av_reuseport_join(NETNS + 2, (const uint8_t[16]){i}) >= 0);
	assert_int_equal(av_reuseport_join(NETNS, address), -ENOSPC);
	av_dir_change_end();
	leave();
}

/* A block belongs to who has numbers in it. */
TEST(whose_numbers_are_whose)
{
	static uint32_t place[AV_QPN_BLOCKS];
	uint32_t qpn, theirs;
	int group;

	(void)state;
	enter();
	add(&member[0]);
	group = member[0].group;
	theirs = member[0].qpn;
	qpn = (uint32_t)av_dir_qpn_add(ref, 1, LIMIT);
	assert_int_not_equal(AV_QPN_BLOCK(qpn), AV_QPN_BLOCK(theirs));
	assert_int_equal(av_reuseport_owner(qpn), 0);
	assert_int_equal(av_reuseport_owner(theirs), member[0].proc);
	change();
	assert_int_equal(av_reuseport_join(NETNS, address), group);
	assert_true(av_reuseport_own(av_lock_self, qpn));
	assert_false(av_reuseport_own(av_lock_self, theirs));
	av_reuseport_places(group, place);
	for (uint32_t i = 0; i < AV_QPN_BLOCKS; i++)
		assert_int_equal(place[i], i == AV_QPN_BLOCK(theirs) ? 0
					   : i == AV_QPN_BLOCK(qpn)  ? 1
								     : AV_REUSEPORT_NOBODY);
	av_dir_change_end();
	end(&member[0], 'K');
	change();
	av_reuseport_sweep(group);
	assert_true(av_reuseport_own(av_lock_self, theirs));
	av_dir_change_end();
	leave();
}

int main(void)
{
	return run_cases(make_folder, remove_folder);
}
