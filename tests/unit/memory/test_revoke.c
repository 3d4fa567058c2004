/* SPDX-License-Identifier: MIT */
/* What becomes of a peer's system call when its owner revokes the key, wherever the peer is. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "base/lock.h"
#include "base/real_calls.h"
#include "lib/closed_input.h"
#include "lib/own_directory.h"
#include "lib/patiently.h"
#include "lib/unit.h"
#include "lib/wait.h"
#include "memory/deferred_free.c" /* with what is static in it */
#include "unit/memory/seg_fixture.h"

#define KEY	    0x507u
#define OTHER_KEY   0x508u
#define OLD	    0x1111u
#define NEW	    0x2222u
#define LATER	    0x3333u
#define NAPS	    100u /* of who waits */
#define PATIENCE_MS 30000u

static uint64_t memory; /* of the owner */

static int setup(void **state)
{
	fake_open(&fake, 1);
	memory = OLD;
	return 0;
}

/* --- the peer, in a child --------------------------------------------------------- */

enum place { IN_TRANSLATION, BEFORE_CALL, BEHIND_CALL, PLACES };

enum outcome { DONE, REFUSED, NOTHING_COPIED, COPIED_BUT_RECALLED, ODD };

static void stop_at(enum place here, enum place place)
{
	if (here == place)
		raise(SIGSTOP);
}

static struct {
	enum place stop;	 /* of this process; PLACES: nowhere */
	void (*meanwhile)(void); /* done in the call */
	unsigned int calls;
	long moved;
} kernel = {.stop = PLACES};

AV_FIND_NEXT(syscall);

/* More than were given are read, as the C library does. */
long syscall(long number, ...)
{
	va_list list;
	long a[6];

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	if (number != SYS_process_vm_writev)
		return AV_NEXT_OF(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	stop_at(BEFORE_CALL, kernel.stop);
	if (kernel.meanwhile)
		kernel.meanwhile();
	kernel.calls++;
	kernel.moved = AV_NEXT_OF(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	stop_at(BEHIND_CALL, kernel.stop);
	return kernel.moved;
}

static ssize_t call(struct av_pin *const *pins, size_t count, bool many)
{
	uint64_t value = NEW;
	const struct iovec local = {&value, sizeof(value)}, several = {&memory, sizeof(memory)};
	const struct av_vm_remote one = {.seg = &fake.seg,
					 .pin = pins[0],
					 .addr = (uintptr_t)&memory,
					 .bytes = sizeof(memory)};

	kernel.calls = 0;
	return many ? av_vm_call_many(true, &fake.seg, pins, count, &local, 1, &several, 1)
		    : av_vm_call(true, &one, &local, 1);
}

static enum outcome copy(enum place place, bool many)
{
	struct av_pin *pin = av_pin_begin(&fake.seg, KEY);
	ssize_t ret;

	kernel.stop = place;
	stop_at(IN_TRANSLATION, place);
	ret = call(&pin, 1, many);
	av_pin_end(pin);
	if (ret != -EAGAIN)
		return kernel.calls == 1 && ret == kernel.moved && ret > 0 ? DONE : ODD;
	if (kernel.calls == 0)
		return REFUSED;
	return kernel.moved == 0 ? NOTHING_COPIED : kernel.moved < 0 ? ODD : COPIED_BUT_RECALLED;
}

/* Return: the child, which is stopped there */
static pid_t start_copy(enum place place, bool many)
{
	const uint32_t self = av_lock_self;
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		av_lock_self = self; /* some process that lives */
		_exit((int)copy(place, many));
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
	return pid;
}

static enum outcome finish(pid_t pid)
{
	int status;

	kill(pid, SIGCONT);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return (enum outcome)WEXITSTATUS(status);
}

/* --- the owner -------------------------------------------------------------------- */

TEST_WITH(a_stopped_peer_copies_nothing_any_more, setup, close_fake)
{
	static const struct {
		bool many;
		enum place place;
		enum outcome outcome;
		uint64_t at_revoke;
	} rows[] = {
		{false, IN_TRANSLATION, REFUSED, OLD},
		{false, BEFORE_CALL, NOTHING_COPIED, OLD},
		{false, BEHIND_CALL, COPIED_BUT_RECALLED, NEW},
		{true, IN_TRANSLATION, REFUSED, OLD},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		pid_t pid = start_copy(rows[i].place, rows[i].many);

		assert_true(revoke_key(&fake.seg, KEY));
		assert_int_equal(memory, rows[i].at_revoke);
		memory = LATER;
		assert_int_equal(finish(pid), rows[i].outcome);
		assert_int_equal(memory, LATER);
		forget_revocation(&fake.seg, KEY);
		memory = OLD;
	}
}

/* A program may have closed its standard input. */
TEST_WITH(any_descriptor_is_good, setup, close_fake)
{
	pid_t pid = start_copy(BEFORE_CALL, false);
	int saved = close_input();

	assert_true(revoke_key(&fake.seg, KEY));
	assert_int_equal(fcntl(0, F_GETFD), -1); /* none is left open */
	input_again(saved);
	assert_int_equal(finish(pid), NOTHING_COPIED);
	forget_revocation(&fake.seg, KEY);
}

TEST_WITH(every_pin_is_looked_at, setup, close_fake)
{
	const uint32_t at[] = {0, 1, AV_PINS - 1};

	for (size_t i = 0; i < AV_ARRAY_SIZE(at); i++) {
		struct av_pin *pin = &fake.seg.head->pin[at[i]];

		atomic_store(&pin->word, (uint64_t)av_lock_self << 32 | KEY);
		atomic_store(&pin->bytes, 5);
		assert_true(revoke_key(&fake.seg, KEY));
		assert_int_equal(atomic_load(&pin->revoked), KEY);
		assert_int_equal(atomic_load(&pin->bytes), 0);
		forget_revocation(&fake.seg, OTHER_KEY);
		assert_int_equal(atomic_load(&pin->revoked), KEY);
		forget_revocation(&fake.seg, KEY);
		assert_int_equal(atomic_load(&pin->revoked), 0);
		atomic_store(&pin->word, 0);
	}
}

TEST_WITH(another_key_is_not_revoked, setup, close_fake)
{
	for (enum place place = IN_TRANSLATION; place < PLACES; place++) {
		pid_t pid = start_copy(place, false);

		assert_true(revoke_key(&fake.seg, OTHER_KEY));
		assert_int_equal(finish(pid), DONE);
		assert_int_equal(memory, NEW);
		memory = OLD;
	}
}

/* The next user of the word has nothing to do with the revocation, and a key can come again. */
TEST_WITH(a_revoke_ends, setup, close_fake)
{
	pid_t pid = start_copy(IN_TRANSLATION, false);

	assert_true(revoke_key(&fake.seg, KEY));
	assert_int_equal(finish(pid), REFUSED);
	forget_revocation(&fake.seg, KEY);
	assert_int_equal(finish(start_copy(IN_TRANSLATION, false)), DONE);
}

struct revoker {
	pthread_t thread;
	_Atomic pid_t task;
	_Atomic bool over;
};

static void *revoke_in_thread(void *arg)
{
	struct revoker *r = arg;

	atomic_store(&r->task, gettid());
	CHECK(PATIENTLY(revoke_key(&fake.seg, KEY), false));
	atomic_store(&r->over, true);
	return NULL;
}

static void expect_waiting(struct revoker *r)
{
	assert_true(WAIT_UNTIL(atomic_load(&r->over) || task_waits(atomic_load(&r->task)) > NAPS,
			       PATIENCE_MS));
	assert_false(atomic_load(&r->over));
}

/* Whatever it waits for, it ends when the peer goes on, or dies. */
static void expect_wait(bool many, enum place place, bool killed)
{
	struct revoker r = {.over = false};
	pid_t pid = start_copy(place, many);

	assert_int_equal(pthread_create(&r.thread, NULL, revoke_in_thread, &r), 0);
	expect_waiting(&r);
	if (killed) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		for (uint32_t i = 0; i < AV_PINS; i++) /* as whoever finds the word of a dead one */
			atomic_store(&fake.seg.head->pin[i].word, 0);
	} else {
		assert_int_equal(finish(pid), COPIED_BUT_RECALLED);
	}
	pthread_join(r.thread, NULL);
	forget_revocation(&fake.seg, KEY);
}

TEST_WITH(a_call_of_several_pieces_is_waited_for, setup, close_fake)
{
	expect_wait(true, BEFORE_CALL, false);
	expect_wait(true, BEHIND_CALL, false);
	expect_wait(true, BEFORE_CALL, true);
}

/* But not for ever: it may be stopped within. */
TEST_WITH(a_stopped_call_of_several_pieces_is_given_up, setup, close_fake)
{
	pid_t pid = start_copy(BEFORE_CALL, true);

	assert_false(revoke_key(&fake.seg, KEY));
	forget_revocation(&fake.seg, KEY);
	(void)finish(pid);
}

static struct revoker running;

static void revoke_meanwhile(void)
{
	assert_int_equal(pthread_create(&running.thread, NULL, revoke_in_thread, &running), 0);
	expect_waiting(&running);
}

/* A running thread may be in its call. */
TEST_WITH(a_running_peer_is_waited_for, setup, close_fake)
{
	struct av_pin *pin = av_pin_begin(&fake.seg, KEY);

	kernel.meanwhile = revoke_meanwhile;
	assert_int_equal(call(&pin, 1, false), -EAGAIN);
	kernel.meanwhile = NULL;
	assert_int_equal(memory, OLD);
	av_pin_end(pin);
	pthread_join(running.thread, NULL);
}

static struct av_pin *revoked_meanwhile; /* NULL: none */

static void revoke_one_meanwhile(void)
{
	if (revoked_meanwhile)
		atomic_store(&revoked_meanwhile->revoked, KEY);
}

/* A call behind several pins is revoked if one of their keys is, whichever that is. */
TEST_WITH(one_of_several_keys_is_enough, setup, close_fake)
{
	struct av_pin pins[3], *list[3];

	kernel.meanwhile = revoke_one_meanwhile;
	for (size_t revoked = 0; revoked <= AV_ARRAY_SIZE(pins); revoked++) {
		bool any = revoked < AV_ARRAY_SIZE(pins);

		memset(pins, 0, sizeof(pins));
		for (size_t i = 0; i < AV_ARRAY_SIZE(pins); i++) {
			list[i] = &pins[i];
			atomic_store(&pins[i].word, KEY);
		}
		revoked_meanwhile = any ? &pins[revoked] : NULL;
		assert_int_equal(call(list, AV_ARRAY_SIZE(pins), true), any ? -EAGAIN : 8);
		assert_int_equal(kernel.calls, 1);
		for (size_t i = 0; i < AV_ARRAY_SIZE(pins); i++)
			assert_int_equal(atomic_load(&pins[i].tid), 0);
		assert_int_equal(call(list, AV_ARRAY_SIZE(pins), true), any ? -EAGAIN : 8);
		assert_int_equal(kernel.calls, !any);
	}
	kernel.meanwhile = NULL;
}

int main(void)
{
	alarm(120);
	return run_cases(own_directory_join, own_directory_leave);
}
