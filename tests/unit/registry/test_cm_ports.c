/* SPDX-License-Identifier: MIT */
/* Ports of the connection manager: which collide, who is found, and what the dead leave. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <rdma/rdma_user_cm.h>

#include "base/compiler.h"
#include "lib/check.h"
#include "lib/own_directory.h"
#include "lib/unit.h"
#include "lib/wait.h"
#include "registry/directory.h"
#include "registry/tables.h"

#define NETNS	    77
#define PORT	    7174
#define MANY	    5000u
#define OPEN	    2000u
#define CYCLES	    10000u
#define RACES	    300u
#define TURNS	    90000u
#define NEIGHBOURS  3u
#define PATIENCE_MS 30000

static struct av_cm_port port_at(const char *address, uint16_t port)
{
	struct av_cm_port p = {.netns = NETNS, .ps = RDMA_PS_TCP, .port = port};

	CHECK(inet_pton(AF_INET6, address, p.address) == 1);
	p.v6 = strncmp(address, "::ffff:", 7) != 0;
	p.afonly = !p.v6;
	return p;
}

static int bind_at(const char *address, uint16_t port, uint32_t id)
{
	struct av_cm_port p = port_at(address, port);
	int handle;

	p.id = id;
	handle = av_cm_port_bind(&p);
	CHECK(handle >= 0);
	return handle;
}

static int listen_at(const char *address, uint16_t port, uint32_t id)
{
	int handle = bind_at(address, port, id);

	CHECK(av_cm_port_listen(handle) == 0);
	return handle;
}

static bool find_at(const char *address, uint16_t port, struct av_cm_port *found)
{
	struct av_cm_port like = port_at(address, port);

	return av_cm_port_find(NETNS, RDMA_PS_TCP, port, like.address, like.v6, found);
}

static bool nobody_has_any(void)
{
	struct av_cm_port p;
	uint32_t at = 0;

	return !av_cm_port_next(&at, &p);
}

/* --- rules ------------------------------------------------------------------------ */

/*
 * Who collides with whom, in the order of the rows: '.' not, 'U' EADDRINUSE, 'N' EADDRNOTAVAIL.
 * Source: Linux, drivers/infiniband/core/cma.c, cma_check_port()
 */
static const struct kind {
	const char *address;
	bool afonly;
	const char *with, *takes; /* the latter of requests to requests[] */
} kinds[] = {
	{"::ffff:0.0.0.0", true, "NNNNN..NNN.N", "yy...yyy."},
	{"::ffff:192.0.2.1", true, "NU.N...NNN.N", "y........"},
	{"::ffff:192.0.2.2", true, "N.UN...NNN.N", ".y......."},
	{"::", false, "NNNNNNNNNNNN", "yyyyyyyyy"},
	{"fd00::1", false, "N..NUNUNNNNN", "..y......"},
	{"::", true, "...NNNN..NNN", "..yyy...y"},
	{"fd00::1", true, "...NUNU..NNN", "..y......"},
	{"::ffff:127.0.0.1", true, "NNNNN..NNN.N", "yy...yyy."},
	{"::ffff:127.0.0.5", true, "NNNNN..NNN.N", "yy...yyy."},
	{"::1", false, "NNNNNNNNNNNN", "yyyyyyyyy"},
	{"::1", true, "...NNNN..NNN", "..yyy...y"},
	{"::ffff:127.0.0.1", false, "NNNNNNNNNNNN", "yyyyyyyyy"},
};
static const char *const requests[] = {
	"::ffff:192.0.2.1", "::ffff:192.0.2.2", "fd00::1",	  "fd00::2", "::1",
	"::ffff:127.0.0.1", "::ffff:127.0.0.5", "::ffff:0.0.0.0", "::"};

static const struct {
	const char *address;
	bool any;
} anys[] = {
	{"::ffff:127.0.0.1", true},
	{"::ffff:127.255.255.254", true},
	{"::ffff:0.0.0.0", true},
	{"::ffff:0.255.0.1", true},
	{"::1", true},
	{"::", true},
	{"::ffff:126.0.0.1", false},
	{"::ffff:128.0.0.1", false},
	{"::ffff:1.127.0.0", false},
	{"::2", false},
	{"::127.0.0.1", false},
	{"100::1", false},
	{"7f00::1", false},
	{"::1:0", false},
};

/* Which addresses stand for any. Source: Linux, drivers/infiniband/core/cma.c, cma_any_addr() */
TEST(which_stand_for_any)
{
	(void)state;
	for (size_t i = 0; i < AV_ARRAY_SIZE(anys); i++) {
		struct av_cm_port p = port_at(anys[i].address, PORT);

		if (av_cm_is_any(p.address) != anys[i].any)
			fail_msg("%s", anys[i].address);
	}
}

static int outcome(char c)
{
	return c == 'U' ? -EADDRINUSE : c == 'N' ? -EADDRNOTAVAIL : 0;
}

static struct av_cm_port port_of(const struct kind *k, bool reuse)
{
	struct av_cm_port p = port_at(k->address, PORT);

	p.afonly = k->afonly;
	p.reuse = reuse;
	return p;
}

/* @with: what collides if it does; bits of @how: reuse of both, and whether the first listens */
static void one_pair(const struct kind *one, const struct kind *two, int with, unsigned int how)
{
	struct av_cm_port a = port_of(one, how & 1), b = port_of(two, how & 2);
	bool shared = (how & 3) == 3 && !(how & 4);
	int first = av_cm_port_bind(&a), second;

	assert_true(first >= 0);
	if (how & 4)
		assert_int_equal(av_cm_port_listen(first), 0);
	second = av_cm_port_bind(&b);
	if (shared || with == 0) {
		assert_true(second >= 0);
		assert_int_equal(av_cm_port_listen(second), with);
		av_cm_port_release(second);
	} else {
		assert_int_equal(second, with);
	}
	if (!(how & 4))
		assert_int_equal(av_cm_port_listen(first), 0);
	av_cm_port_release(first);
	assert_true(nobody_has_any());
}

TEST(who_collides)
{
	(void)state;
	for (size_t i = 0; i < AV_ARRAY_SIZE(kinds); i++)
		for (size_t j = 0; j < AV_ARRAY_SIZE(kinds); j++)
			for (unsigned int how = 0; how < 8; how++)
				one_pair(&kinds[i], &kinds[j], outcome(kinds[i].with[j]), how);
}

/* Listening ends what @reuse permits, also for those that come later. */
TEST(listening_ends_sharing)
{
	struct av_cm_port p = port_of(&kinds[1], true), q = p, r = p;
	int a, b;

	(void)state;
	a = av_cm_port_bind(&p);
	b = av_cm_port_bind(&q);
	assert_true(a >= 0 && b >= 0 && a != b);
	assert_int_equal(av_cm_port_listen(a), -EADDRINUSE);
	av_cm_port_release(b);
	assert_int_equal(av_cm_port_listen(a), 0);
	assert_int_equal(av_cm_port_bind(&r), -EADDRINUSE);
	av_cm_port_release(a);
}

/* What one says that is bound holds for who comes next. It listens as before. */
TEST(options_once_bound)
{
	struct av_cm_port shared = port_of(&kinds[1], true), v6 = port_of(&kinds[3], false), found;
	int first = bind_at(kinds[1].address, PORT, 1), second;

	(void)state;
	assert_int_equal(av_cm_port_bind(&shared), -EADDRINUSE);
	av_cm_port_options(first, false, true);
	second = av_cm_port_bind(&shared);
	assert_true(second >= 0);
	av_cm_port_release(second);
	assert_int_equal(av_cm_port_bind(&v6), -EADDRNOTAVAIL);
	av_cm_port_release(first);
	first = listen_at(kinds[3].address, PORT, 1);
	assert_true(find_at(requests[0], PORT, &found));
	av_cm_port_options(first, true, false);
	assert_false(find_at(requests[0], PORT, &found));
	assert_true(find_at(requests[2], PORT, &found));
	second = bind_at(kinds[0].address, PORT, 2);
	av_cm_port_release(second);
	av_cm_port_release(first);
}

TEST(spaces_of_their_own)
{
	struct av_cm_port p[] = {port_of(&kinds[3], false), port_of(&kinds[3], false),
				 port_of(&kinds[3], false), port_of(&kinds[3], false)};
	int handle[AV_ARRAY_SIZE(p)];

	(void)state;
	p[1].netns++;
	p[2].ps = RDMA_PS_UDP;
	p[3].port++;
	for (size_t i = 0; i < AV_ARRAY_SIZE(p); i++) {
		handle[i] = av_cm_port_bind(&p[i]);
		assert_true(handle[i] >= 0);
	}
	for (size_t i = 0; i < AV_ARRAY_SIZE(p); i++) {
		assert_int_equal(av_cm_port_bind(&p[i]), -EADDRNOTAVAIL);
		av_cm_port_release(handle[i]);
	}
}

TEST(who_is_found)
{
	struct av_cm_port found;

	(void)state;
	for (size_t i = 0; i < AV_ARRAY_SIZE(kinds); i++) {
		struct av_cm_port p = port_of(&kinds[i], false);
		int handle;

		p.id = (uint32_t)i;
		handle = av_cm_port_bind(&p);
		assert_true(handle >= 0);
		for (size_t r = 0; r < AV_ARRAY_SIZE(requests); r++)
			assert_false(find_at(requests[r], PORT, &found));
		assert_int_equal(av_cm_port_listen(handle), 0);
		for (size_t r = 0; r < AV_ARRAY_SIZE(requests); r++) {
			bool taken = find_at(requests[r], PORT, &found);

			assert_int_equal(taken, kinds[i].takes[r] == 'y');
			if (!taken)
				continue;
			assert_int_equal(found.proc, av_lock_self);
			assert_int_equal(found.id, i);
			assert_true(found.listens);
			assert_memory_equal(found.address, p.address, sizeof(p.address));
		}
		assert_false(find_at(requests[0], PORT + 1, &found));
		av_cm_port_release(handle);
		for (size_t r = 0; r < AV_ARRAY_SIZE(requests); r++)
			assert_false(find_at(requests[r], PORT, &found));
	}
}

/* In a process of its own, which gives up its rights. */
TEST(low_ports_need_a_right)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3];
	int status;
	pid_t pid;

	(void)state;
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct av_cm_port low = port_at("::", 1023), high = port_at("::", 1024);

		CHECK(av_dir_join(NULL) == 0 && syscall(SYS_capget, &head, caps) == 0);
		if (caps[0].effective & 1u << CAP_NET_BIND_SERVICE)
			CHECK(av_cm_port_bind(&low) >= 0);
		caps[0].effective &= ~(1u << CAP_NET_BIND_SERVICE);
		CHECK(syscall(SYS_capset, &head, caps) == 0);
		low.port--;
		CHECK(av_cm_port_bind(&low) == -EACCES && av_cm_port_bind(&high) >= 0);
		av_dir_leave();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(nobody_has_any());
}

/* --- many ------------------------------------------------------------------------- */

/* Rows to look at for the port that has most. */
static uint32_t longest(void)
{
	uint32_t most = 0;

	for (uint32_t i = 0; i < AV_DIR_CM_PORTS; i++)
		if (atomic_load(&av_dir->cm_port[i].reach) > most)
			most = atomic_load(&av_dir->cm_port[i].reach);
	return most;
}

/* With an eighth of the rows in use, however often they change. */
TEST(few_rows_are_looked_at)
{
	static int handle[OPEN];

	(void)state;
	for (uint32_t i = 0; i < CYCLES + OPEN; i++) {
		struct av_cm_port p = port_at("fd00::1", 0);

		if (i >= OPEN)
			av_cm_port_release(handle[i % OPEN]);
		handle[i % OPEN] = av_cm_port_bind(&p);
		assert_true(handle[i % OPEN] >= 0);
	}
	assert_in_range(longest(), 1, 64);
	for (uint32_t i = 0; i < OPEN; i++)
		av_cm_port_release(handle[i]);
}

/* Many that share a port are looked at one by one; no longer when they are gone. */
TEST(sharing_leaves_nothing)
{
	static int handle[OPEN];

	(void)state;
	for (uint32_t i = 0; i < OPEN; i++) {
		struct av_cm_port p = port_at("fd00::1", PORT);

		p.reuse = true;
		handle[i] = av_cm_port_bind(&p);
		assert_true(handle[i] >= 0);
	}
	assert_int_equal(longest(), OPEN);
	for (uint32_t i = 0; i < OPEN; i++)
		av_cm_port_release(handle[i]);
	av_cm_port_release(bind_at("fd00::1", PORT, 0));
	assert_in_range(longest(), 1, 64);
}

/* All that there are; none is given twice. Behind the cases that count rows, since more have to be
 * looked at when all have been in use. */
TEST(a_free_one_is_chosen)
{
	static bool given[UINT16_MAX + 1];
	static int handle[AV_DIR_CM_PORTS];
	struct av_cm_port p;

	(void)state;
	for (size_t i = 0; i < AV_DIR_CM_PORTS; i++) {
		p = port_at("fd00::1", 0);
		handle[i] = av_cm_port_bind(&p);
		assert_true(handle[i] >= 0);
		assert_true(p.port >= 32768 && p.port < 61000 && !given[p.port]);
		given[p.port] = true;
	}
	p = port_at("fd00::1", 0);
	assert_int_equal(av_cm_port_bind(&p), -ENOSPC);
	av_cm_port_release(handle[1]);
	p = port_at("fd00::1", 0);
	handle[1] = av_cm_port_bind(&p);
	assert_true(handle[1] >= 0);
	for (size_t i = 0; i < AV_DIR_CM_PORTS; i++)
		av_cm_port_release(handle[i]);
	assert_true(nobody_has_any());
}

/* Ports whose rows are in each other's way: alone, each would get the same row. */
static void find_neighbours(uint16_t port[NEIGHBOURS])
{
	int home = bind_at("fd00::1", PORT, 0);
	unsigned int n = 1;

	av_cm_port_release(home);
	port[0] = PORT;
	for (uint32_t next = PORT + 1; next <= UINT16_MAX && n < NEIGHBOURS; next++) {
		int handle = bind_at("fd00::1", (uint16_t)next, 0);

		av_cm_port_release(handle);
		if (handle == home)
			port[n++] = (uint16_t)next;
	}
	assert_int_equal(n, NEIGHBOURS);
}

TEST(in_each_others_way)
{
	uint16_t port[NEIGHBOURS];
	int handle[NEIGHBOURS];
	struct av_cm_port found;

	(void)state;
	find_neighbours(port);
	for (uint32_t i = 0; i < NEIGHBOURS; i++)
		handle[i] = listen_at("fd00::1", port[i], i);
	for (uint32_t gone = 0; gone < NEIGHBOURS; gone++) {
		av_cm_port_release(handle[gone]);
		for (uint32_t i = 0; i < NEIGHBOURS; i++) {
			assert_int_equal(find_at("fd00::1", port[i], &found), i != gone);
			assert_true(i == gone || found.id == i);
		}
		assert_int_equal(listen_at("fd00::1", port[gone], gone), handle[gone]);
	}
	for (uint32_t i = 0; i < NEIGHBOURS; i++)
		av_cm_port_release(handle[i]);
}

/* Each has the row of the port in turn; both are found by the same request. */
static const char *const in_turn[] = {"::", "fd00::1"};
static _Atomic uint32_t turn, stands;
static _Atomic bool done;

/* The reader stands still, wherever it is, until the row is the other's. */
static void stand_still(int signal)
{
	uint32_t then = atomic_load(&turn);

	atomic_store(&stands, then);
	while (atomic_load(&turn) == then && !atomic_load(&done))
		sched_yield();
}

/* Who is found is one of them as a whole. */
static void *look_up(void *arg)
{
	const struct av_cm_port like[] = {port_at(in_turn[0], PORT), port_at(in_turn[1], PORT)};
	struct av_cm_port found;

	while (!atomic_load(&done))
		if (find_at("fd00::1", PORT, &found))
			CHECK(found.id < 2 &&
			      memcmp(found.address, like[found.id].address, 16) == 0);
	return arg;
}

TEST(found_while_they_come_and_go)
{
	const struct sigaction act = {.sa_handler = stand_still};
	pthread_t thread;

	(void)state;
	assert_int_equal(sigaction(SIGUSR1, &act, NULL), 0);
	atomic_store(&done, false);
	assert_int_equal(pthread_create(&thread, NULL, look_up, NULL), 0);
	for (uint32_t i = 1; i < TURNS; i++) {
		int handle = listen_at(in_turn[i % 2], PORT, i % 2);

		atomic_store(&turn, i);
		if (i % 3 == 0) /* in between it runs */
			assert_int_equal(pthread_kill(thread, SIGUSR1), 0);
		/* ThreadSanitizer may hold the signal back. */
		for (unsigned int n = 0; i % 3 == 0 && n < 20000 && atomic_load(&stands) != i; n++)
			;
		av_cm_port_release(handle);
	}
	atomic_store(&done, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(nobody_has_any());
}

/* --- processes -------------------------------------------------------------------- */

struct child {
	pid_t pid;
	uint32_t proc;
	int row;
};

/* It binds @count ports from @port on, listens, and lives until it is killed; or leaves. */
static void be_child(int tell, uint16_t port, uint32_t count, bool leaves)
{
	struct child c = {.row = -1};

	CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && av_dir_join(NULL) == 0);
	c.proc = av_lock_self;
	for (uint32_t i = 0; i < count; i++)
		c.row = listen_at("::", (uint16_t)(port + i), 5);
	if (leaves)
		av_dir_leave();
	CHECK(write(tell, &c, sizeof(c)) == sizeof(c));
	while (!leaves)
		pause();
	_exit(0);
}

static struct child start(uint16_t port, uint32_t count, bool leaves)
{
	struct child c;
	int tell[2];
	pid_t pid;

	assert_int_equal(pipe(tell), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		be_child(tell[1], port, count, leaves);
	close(tell[1]);
	assert_int_equal(read(tell[0], &c, sizeof(c)), sizeof(c));
	close(tell[0]);
	c.pid = pid;
	return c;
}

static void end(const struct child *c)
{
	(void)kill(c->pid, SIGKILL);
	assert_int_equal(waitpid(c->pid, NULL, 0), c->pid);
}

static void sweep(void)
{
	assert_int_equal(av_dir_change_begin(), 0);
	av_dir_sweep();
	av_dir_change_end();
}

TEST(the_dead_have_no_ports)
{
	struct child c = start(PORT, 1, false);
	struct av_cm_port found, p = port_at("fd00::1", PORT);
	int handle;

	(void)state;
	assert_true(find_at("fd00::1", PORT, &found));
	assert_int_equal(found.proc, c.proc);
	assert_int_equal(found.id, 5);
	assert_int_equal(av_cm_port_bind(&p), -EADDRNOTAVAIL);
	end(&c);
	assert_false(find_at("fd00::1", PORT, &found));
	assert_true(nobody_has_any());
	handle = av_cm_port_bind(&p);
	assert_int_equal(handle, c.row);
	av_cm_port_release(handle);
}

/* Its slot is another process's now; that one did not bind what the first has left. */
TEST(who_comes_later_does_not_inherit)
{
	struct child first, second;
	struct av_cm_port found;

	(void)state;
	sweep();
	first = start(PORT, 1, true);
	end(&first);
	second = start(PORT + 1, 1, false);
	assert_int_equal(AV_REF_SLOT(first.proc), AV_REF_SLOT(second.proc));
	assert_int_not_equal(first.proc, second.proc);
	assert_false(find_at("::1", PORT, &found));
	assert_true(find_at("::1", PORT + 1, &found));
	av_cm_port_release(listen_at("::", PORT, 0));
	end(&second);
}

TEST(thousands_are_swept)
{
	struct child c = start(PORT, MANY, false);
	struct av_cm_port p;
	uint32_t at = 0, count = 0;

	(void)state;
	while (av_cm_port_next(&at, &p))
		count += p.proc == c.proc;
	assert_int_equal(count, MANY);
	end(&c);
	sweep();
	for (uint32_t i = 0; i < AV_DIR_CM_PORTS; i++)
		assert_int_equal(atomic_load(&av_dir->cm_port[i].stamp), 0);
}

/* The dead have all rows, and nobody has swept. */
TEST(a_full_table_of_the_dead)
{
	struct child c = start(PORT, AV_DIR_CM_PORTS, false);
	struct av_cm_port p = port_at("::", PORT - 1);
	int handle;

	(void)state;
	assert_int_equal(av_cm_port_bind(&p), -ENOSPC);
	end(&c);
	handle = av_cm_port_bind(&p);
	assert_true(handle >= 0);
	av_cm_port_release(handle);
	assert_true(nobody_has_any());
}

TEST(a_forked_child_releases_nothing)
{
	int handle = listen_at("::", PORT, 1), status;
	struct av_cm_port found;
	pid_t pid = fork();

	(void)state;
	assert_true(pid >= 0);
	if (pid == 0) {
		av_cm_port_release(handle);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(find_at("::1", PORT, &found));
	av_cm_port_release(handle);
}

TEST(seen_without_joining)
{
	struct child c = start(PORT, 2, false);
	struct av_cm_port p;
	uint32_t at = 0, count = 0;

	(void)state;
	av_dir_leave();
	while (av_cm_port_next(&at, &p)) {
		assert_int_equal(p.proc, c.proc);
		assert_true(p.listens && (p.port == PORT || p.port == PORT + 1));
		count++;
	}
	assert_int_equal(count, 2);
	end(&c);
	assert_true(nobody_has_any());
	assert_int_equal(av_dir_join(NULL), 0);
}

/* Shared. Each round, both try to bind the same port; who has it gives it back when both know. */
static struct race {
	_Atomic uint32_t ready, tried, won, broken;
} * race;

static void be_racer(void)
{
	CHECK(av_dir_join(NULL) == 0);
	for (uint32_t round = 1; round <= RACES; round++) {
		struct av_cm_port p = port_at("::", PORT);
		int handle;

		atomic_fetch_add(&race->ready, 1);
		CHECK(WAIT_UNTIL(atomic_load(&race->ready) >= 2 * round, PATIENCE_MS));
		do
			handle = av_cm_port_bind(&p);
		while (handle == -EBUSY);
		atomic_fetch_add(handle >= 0 ? &race->won : &race->tried, 1);
		if (handle < 0 && handle != -EADDRNOTAVAIL)
			atomic_fetch_add(&race->broken, 1);
		CHECK(WAIT_UNTIL(atomic_load(&race->won) + atomic_load(&race->tried) >= 2 * round,
				 PATIENCE_MS));
		if (handle >= 0)
			av_cm_port_release(handle);
	}
	av_dir_leave();
	_exit(0);
}

TEST(two_bind_at_once)
{
	pid_t pid[2];
	int status;

	(void)state;
	race = mmap(NULL, sizeof(*race), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(race, MAP_FAILED);
	for (unsigned int i = 0; i < 2; i++) {
		pid[i] = fork();
		assert_true(pid[i] >= 0);
		if (pid[i] == 0)
			be_racer();
	}
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
		assert_int_equal(status, 0);
	}
	assert_int_equal(atomic_load(&race->broken), 0);
	assert_int_equal(atomic_load(&race->won), RACES);
	munmap(race, sizeof(*race));
}

int main(void)
{
	return run_cases(own_directory_join, own_directory_leave);
}
