/* SPDX-License-Identifier: MIT */
/* How processes get at anonymous memory: the right file or none, in time, and no descriptor more.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "lib/few_descriptors.h"
#include "lib/unit.h"
#include "lib/wait.h"
#include "segment/segment.h"

#define BYTES	    (1u << 20)
#define LONG	    150 /* bytes of a name: more than a socket's address has */
#define THREADS	    8
#define PATIENCE_MS 30000
#define ROUNDS	    100
#define SIGNALS	    20
#define MOMENT_MS   10
#define HELD_UP	    3
#define TRIES	    20 /* a busy machine may hold up some of them */

static char folder[PATH_MAX / 4], path[PATH_MAX / 2];
static struct av_own_fd file;
static struct av_fd_pass out;

static struct av_fd_passed meant(void)
{
	return (struct av_fd_passed){.number = -1, .ino = file.ino, .bytes = BYTES};
}

static int set_up(void **state)
{
	snprintf(folder, sizeof(folder), "/tmp/anyverbs-test-XXXXXX");
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/socket", folder);
	assert_int_equal(av_anonymous(&file, "test", BYTES), 0);
	out = AV_FD_PASS_NONE;
	return 0;
}

static int tear_down(void **state)
{
	av_fd_pass_end(&out);
	av_own_fd_close(&file);
	unlink(path);
	rmdir(folder);
	return 0;
}

static unsigned int descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int n = 0;

	while (dir && readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* The watcher closes what it has accepted a little later. */
static void expect_descriptors(unsigned int n)
{
	(void)WAIT_UNTIL(descriptors() == n, PATIENCE_MS);
	assert_int_equal(descriptors(), n);
}

static bool is_handed(const struct av_fd_passed *what)
{
	int fd = av_fd_passed_open(what, path);
	struct stat st;
	bool ret = fd >= 0 && fstat(fd, &st) == 0 && st.st_ino == file.ino;

	if (fd >= 0)
		close(fd);
	return ret;
}

/* --- the way there ---------------------------------------------------------------- */

TEST_WITH(by_the_socket, set_up, tear_down)
{
	struct av_fd_passed what = meant();
	unsigned int before;

	av_fd_pass_begin(&out, path, &file, NULL);
	before = descriptors();
	assert_true(is_handed(&what));
	expect_descriptors(before);
}

TEST_WITH(by_a_long_name, set_up, tear_down)
{
	char name[LONG + 1];
	struct av_fd_passed what = meant();
	unsigned int before;

	memset(name, 'x', LONG);
	name[LONG] = '\0';
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/%s/socket", folder, name);
	av_fd_pass_begin(&out, path, &file, NULL);
	before = descriptors();
	assert_true(is_handed(&what));
	expect_descriptors(before);
	unlink(path);
	*strrchr(path, '/') = '\0';
	rmdir(path);
}

/* The number is another file by now, or the PID another process. */
TEST_WITH(by_another_number, set_up, tear_down)
{
	struct av_fd_passed what = meant();

	what.pid = getpid();
	what.number = file.fd;
	assert_true(is_handed(&what));
	what.number = open("/dev/null", O_RDWR | O_CLOEXEC);
	assert_false(is_handed(&what));
	av_fd_pass_begin(&out, path, &file, NULL);
	assert_true(is_handed(&what));
	what.pid = 1;
	assert_true(is_handed(&what));
	close(what.number);
}

static struct av_own_fd second;

static bool is_second(uint64_t dev, uint64_t ino)
{
	return dev == second.dev && ino == second.ino;
}

/* One that the owner lets out, and no other: not even the one that is handed out unasked. */
TEST_WITH(by_its_inode, set_up, tear_down)
{
	struct av_fd_passed what = {.number = -1};
	unsigned int before;
	int fd;

	assert_int_equal(av_anonymous(&second, "second", 2 * BYTES), 0);
	av_fd_pass_begin(&out, path, &file, NULL);
	what.dev = second.dev;
	what.ino = second.ino;
	before = descriptors();
	assert_true(av_fd_passed_open(&what, path) < 0);
	av_fd_pass_files_by(is_second);
	fd = av_fd_passed_open(&what, path);
	assert_true(fd >= 0 && fd != second.fd);
	expect_descriptors(before + 1);
	what.ino = file.ino;
	assert_true(av_fd_passed_open(&what, path) < 0);
	what.ino = second.ino;
	what.dev++;
	assert_true(av_fd_passed_open(&what, path) < 0);
	close(fd);
	what.dev--;
	av_own_fd_close(&second);
	assert_true(av_fd_passed_open(&what, path) < 0);
	av_fd_pass_files_by(NULL);
	expect_descriptors(before - 1);
}

static _Atomic unsigned int failed;

static void *ask(void *arg)
{
	struct av_fd_passed what = meant();

	for (int i = 0; i < ROUNDS; i++)
		if (!is_handed(&what))
			atomic_fetch_add(&failed, 1);
	return arg;
}

TEST_WITH(by_many, set_up, tear_down)
{
	pthread_t thread[THREADS];

	av_fd_pass_begin(&out, path, &file, NULL);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, ask, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(atomic_load(&failed), 0);
}

/* The socket is the parent's: a child that lives on is nobody who answers. */
TEST_WITH(by_the_parent_of_a_child, set_up, tear_down)
{
	struct av_fd_passed what = meant();
	int status;
	pid_t pid;

	av_fd_pass_begin(&out, path, &file, NULL);
	pid = fork();
	if (pid == 0) {
		av_fd_pass_forked(&out);
		_exit(is_handed(&what) ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	assert_true(is_handed(&what));
	av_fd_pass_end(&out);
	assert_false(is_handed(&what));
}

/* --- limits ------------------------------------------------------------------------ */

TEST_WITH(no_descriptor_for_it, set_up, tear_down)
{
	struct av_fd_passed what = meant();
	unsigned int before;

	av_fd_pass_begin(&out, path, &file, NULL);
	before = descriptors();
	for (unsigned int more = 0; more < 2; more++) { /* a socket, and an accepted one */
		struct rlimit all = few_descriptors(more);
		int fd = av_fd_passed_open(&what, path);

		setrlimit(RLIMIT_NOFILE, &all);
		assert_true(fd < 0);
		expect_descriptors(before);
	}
	assert_true(is_handed(&what));
}

static void nothing_came(struct av_watch_fd *w)
{
	fail_msg("nothing was sent to %d", w->socket.fd);
}

/* Does it take others half as long to come and go as pauses would, each time? */
static bool is_held_up(struct av_watch_fd *other)
{
	for (int try = 0; try < TRIES; try++) {
		uint64_t begin = av_now_ns();

		for (int i = 0; i < ROUNDS; i++) {
			av_watch_begin(other);
			av_watch_end(other);
		}
		if (av_now_ns() - begin < ROUNDS * 10000000ul / 2)
			return false;
	}
	return true;
}

/* Whoever connects stays in the queue, and holds up nobody. */
TEST_WITH(no_descriptor_to_accept, set_up, tear_down)
{
	int client = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), pair[2];
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	struct av_watch_fd other = {.ready = nothing_came};
	struct av_fd_passed what = meant();
	struct rlimit all;
	bool held_up;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_true(av_own_fd_keep(&other.socket, pair[0]));
	av_fd_pass_begin(&out, path, &file, NULL);
	assert_true(is_handed(&what));
	snprintf(a.sun_path, sizeof(a.sun_path), "%.*s", (int)sizeof(a.sun_path) - 1, path);
	all = few_descriptors(0);
	assert_int_equal(connect(client, (struct sockaddr *)&a, sizeof(a)), 0);
	held_up = is_held_up(&other);
	setrlimit(RLIMIT_NOFILE, &all);
	assert_false(held_up);
	assert_true(is_handed(&what));
	av_own_fd_close(&other.socket);
	close(pair[1]);
	close(client);
}

/* --- somebody else's socket -------------------------------------------------------- */

static int listen_there(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(a.sun_path, sizeof(a.sun_path), "%.*s", (int)sizeof(a.sun_path) - 1, path);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 8), 0);
	return fd;
}

struct impostor {
	int listener;
	int fds[2];
	size_t count;
};

static void *impose(void *arg)
{
	const struct impostor *me = arg;
	char control[CMSG_SPACE(sizeof(me->fds))] = "", byte = 0;
	struct iovec io = {&byte, 1};
	struct msghdr m = {.msg_iov = &io,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = CMSG_SPACE(me->count * sizeof(int))};
	struct cmsghdr head = {.cmsg_len = CMSG_LEN(me->count * sizeof(int)),
			       .cmsg_level = SOL_SOCKET,
			       .cmsg_type = SCM_RIGHTS};
	int fd = accept4(me->listener, NULL, NULL, SOCK_CLOEXEC);

	memcpy(control, &head, sizeof(head));
	memcpy(control + CMSG_LEN(0), me->fds, me->count * sizeof(int));
	if (!me->count)
		m.msg_controllen = 0;
	if (sendmsg(fd, &m, MSG_NOSIGNAL) != 1)
		atomic_fetch_add(&failed, 1);
	close(fd);
	return arg;
}

static void expect_refused(struct impostor *i)
{
	struct av_fd_passed what = meant();
	unsigned int before = descriptors();
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, impose, i), 0);
	assert_false(is_handed(&what));
	pthread_join(thread, NULL);
	expect_descriptors(before);
	assert_int_equal(atomic_load(&failed), 0);
}

TEST_WITH(from_an_impostor, set_up, tear_down)
{
	struct impostor i = {.listener = listen_there()};

	i.fds[0] = i.fds[1] = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (i.count = 0; i.count <= 2; i.count++)
		expect_refused(&i);
	close(i.fds[0]);
	close(i.listener);
}

TEST_WITH(from_nobody, set_up, tear_down)
{
	struct av_fd_passed what = meant();
	int fd = listen_there();
	uint64_t begin = av_now_ns();

	assert_false(is_handed(&what));
	assert_true(av_now_ns() - begin < 10ull * AV_PEER_TIMEOUT_NS);
	close(fd);
}

/* --- signals ------------------------------------------------------------------------ */

static void on_signal(int sig)
{
}

struct interrupter {
	int listener;
	pthread_t who;
	bool answers;
	atomic_bool over;
};

/* Signals for whoever waits for an answer, which comes late or never. */
static void *interrupt(void *arg)
{
	struct impostor i = {.fds = {file.fd}, .count = 1};
	struct interrupter *me = arg;

	for (int n = 0; !atomic_load(&me->over) && (n < SIGNALS || !me->answers); n++) {
		(void)WAIT_UNTIL(task_sleeps(getpid()), MOMENT_MS);
		pthread_kill(me->who, SIGUSR1);
	}
	i.listener = me->listener;
	if (me->answers)
		impose(&i);
	return NULL;
}

static bool is_handed_beside_signals(bool answers)
{
	struct interrupter me = {.listener = listen_there(), .who = pthread_self()};
	struct sigaction act = {.sa_handler = on_signal}, before;
	struct av_fd_passed what = meant();
	pthread_t thread;
	bool ret;

	me.answers = answers;
	sigaction(SIGUSR1, &act, &before);
	assert_int_equal(pthread_create(&thread, NULL, interrupt, &me), 0);
	ret = is_handed(&what);
	atomic_store(&me.over, true);
	pthread_join(thread, NULL);
	sigaction(SIGUSR1, &before, NULL);
	close(me.listener);
	unlink(path);
	return ret;
}

TEST_WITH(beside_signals, set_up, tear_down)
{
	bool handed = false;
	uint64_t begin;

	/* Who has no core for AV_PEER_TIMEOUT_NS answers too late. */
	for (int i = 0; i < HELD_UP && !handed; i++)
		handed = is_handed_beside_signals(true);
	assert_true(handed);
	begin = av_now_ns();
	assert_false(is_handed_beside_signals(false));
	assert_true(av_now_ns() - begin < 10ull * AV_PEER_TIMEOUT_NS);
}

int main(void)
{
	alarm(120);
	return run_cases(NULL, NULL);
}
