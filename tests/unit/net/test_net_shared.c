/* SPDX-License-Identifier: MIT */
/*
 * Several processes share an address. Each gets the packets of its own queue pairs, whoever comes,
 * leaves or dies; and after a while none goes a long way round.
 */
#include "net_fixture.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "lib/wait.h"
#include "registry/directory.h"

#define MEMBERS	    6
#define QPS	    40 /* of each: several blocks */
#define PATIENCE_MS 10000

/* A process that receives. Shared with the test. */
struct member {
	pid_t pid;
	int tell[2]; /* how to have it do something */
	_Atomic bool ready;
	uint32_t qpn[QPS];
	_Atomic uint32_t got[QPS];
	_Atomic uint32_t others, misrouted;
};

static struct member *member; /* MEMBERS */
static struct member *self;
static struct av_net_path path;
static uint32_t sender;

static void count(const struct av_net_packet *p, unsigned int packets)
{
	unsigned int i = 0;

	while (i < QPS && self->qpn[i] != p->packet.dest_qpn)
		i++;
	atomic_fetch_add(i < QPS ? &self->got[i] : &self->others, packets);
}

static uint64_t settled(uint64_t now_ns)
{
	atomic_store(&self->misrouted, (uint32_t)av_net_counted(AV_NET_MISROUTED));
	return UINT64_MAX;
}

/* What a member does: it opens the address, and leaves when it is told to. */
static void be_member(struct member *m, bool own)
{
	static const struct av_net_receiver receiver = {.packets = count, .settled = settled};
	uint32_t ref = enter();
	char byte;

	self = m;
	av_net_receive_by(&receiver);
	close(m->tell[1]);
	for (unsigned int i = 0; i < QPS; i++)
		m->qpn[i] = new_qpn(ref);
	assert_int_equal(av_net_open(path.dst, true), 0);
	for (unsigned int i = 0; own && i < QPS; i++)
		assert_int_equal(av_net_own(path.dst, m->qpn[i]), 0);
	atomic_store(&m->ready, true);
	(void)!read(m->tell[0], &byte, 1);
	av_net_close(path.dst, true, NULL);
	leave(ref);
	_exit(0);
}

/* @own: it says which queue pairs are its own */
static void add(struct member *m, bool own)
{
	pid_t pid;

	memset(m, 0, sizeof(*m));
	assert_int_equal(pipe(m->tell), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		be_member(m, own);
	m->pid = pid;
	close(m->tell[0]);
	assert_true(WAIT_UNTIL(atomic_load(&m->ready), PATIENCE_MS));
}

static void is_gone(struct member *m)
{
	assert_int_equal(waitpid(m->pid, NULL, 0), m->pid);
	close(m->tell[1]);
	m->pid = 0;
}

static void leaves(struct member *m)
{
	assert_int_equal(write(m->tell[1], "", 1), 1);
	is_gone(m);
}

static void dies(struct member *m)
{
	assert_int_equal(kill(m->pid, SIGKILL), 0);
	is_gone(m);
}

static void send_one(struct member *m, unsigned int qp)
{
	const uint32_t before = atomic_load(&m->got[qp]), bytes = 100;

	assert_int_equal(send_burst(&path, m->qpn[qp], &bytes, 1), 0);
	(void)WAIT_UNTIL(atomic_load(&m->got[qp]) != before, PATIENCE_MS);
	assert_int_equal(atomic_load(&m->got[qp]), before + 1);
}

static uint32_t all_misrouted(void)
{
	uint32_t sum = 0;

	for (unsigned int i = 0; i < MEMBERS; i++)
		if (member[i].pid) {
			assert_int_equal(atomic_load(&member[i].others), 0);
			sum += atomic_load(&member[i].misrouted);
		}
	return sum;
}

static void send_to_all(void)
{
	for (unsigned int i = 0; i < MEMBERS; i++)
		for (unsigned int qp = 0; member[i].pid && qp < QPS; qp++)
			send_one(&member[i], qp);
}

/* Each packet arrives, and at last directly. */
static void expect_all_right(void)
{
	uint32_t before = 0, now = UINT32_MAX;

	for (unsigned int rounds = 0; now != before && rounds < 100; rounds++) {
		before = all_misrouted();
		send_to_all();
		now = all_misrouted();
	}
	assert_int_equal(now, before);
}

static void begin(unsigned int members, bool own)
{
	memset(member, 0, MEMBERS * sizeof(*member));
	own_address(path.src, 0);
	own_address(path.dst, 1);
	for (unsigned int i = 0; i < members; i++)
		add(&member[i], own);
	sender = enter(); /* behind the forks, since it has a thread */
	assert_int_equal(av_net_open(path.src, true), 0);
}

static void end(void)
{
	av_net_close(path.src, true, NULL);
	for (unsigned int i = 0; i < MEMBERS; i++)
		if (member[i].pid)
			leaves(&member[i]);
	leave(sender);
}

TEST(each_gets_its_own)
{
	(void)state;
	begin(MEMBERS, true);
	send_to_all();
	assert_int_equal(all_misrouted(), 0);
	end();
}

TEST(nobody_says_what_is_its_own)
{
	(void)state;
	begin(3, false);
	expect_all_right();
	end();
}

TEST(one_leaves)
{
	(void)state;
	begin(4, true);
	leaves(&member[1]);
	send_to_all();
	assert_int_equal(all_misrouted(), 0);
	end();
}

TEST(one_dies)
{
	(void)state;
	begin(4, true);
	send_to_all();
	dies(&member[0]);
	expect_all_right();
	end();
}

/* In an order that nobody knows. */
TEST(several_die)
{
	(void)state;
	for (unsigned int first = 0; first < 3; first++) {
		begin(MEMBERS, true);
		for (unsigned int i = 0; i < 3; i++)
			assert_int_equal(kill(member[(first + 3 - i) % 3].pid, SIGKILL), 0);
		for (unsigned int i = 0; i < 3; i++)
			is_gone(&member[i]);
		expect_all_right();
		end();
	}
}

/* The directory is as wrong as can be: each learns its place from what comes misrouted. */
TEST(nobody_is_where_it_was_thought)
{
	struct av_dir_reuseport *g = NULL;
	uint32_t first;

	(void)state;
	begin(MEMBERS, true);
	for (uint32_t i = 0; i < AV_DIR_REUSEPORTS; i++)
		if (atomic_load(&av_dir->reuseport[i].count) == MEMBERS)
			g = &av_dir->reuseport[i];
	assert_non_null(g);
	assert_int_equal(av_dir_change_begin(), 0);
	first = atomic_load(&g->member[0]);
	for (unsigned int i = 0; i + 1 < MEMBERS; i++)
		atomic_store(&g->member[i], atomic_load(&g->member[i + 1]));
	atomic_store(&g->member[MEMBERS - 1], first);
	av_dir_change_end();
	leaves(&member[2]); /* which tells the kernel */
	expect_all_right();
	end();
}

static int make(void **state)
{
	member = mmap(NULL, MEMBERS * sizeof(*member), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return member == MAP_FAILED || make_folder(state);
}

int main(void)
{
	return run_cases(make, remove_folder);
}
