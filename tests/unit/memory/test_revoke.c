/* SPDX-License-Identifier: MIT */
/* What becomes of a peer's system call when its owner revokes the key, wherever the peer is. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "base/lock.h"
#include "lib/closed_input.h"
#include "lib/own_directory.h"
#include "lib/patiently.h"
#include "lib/unit.h"
#include "lib/wait.h"
#include "memory/key.h"
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

static enum outcome copy(enum place place, bool many)
{
	struct av_pin *pin = av_pin_begin(&fake.seg, KEY);
	uint64_t value = NEW;
	struct iovec local = {&value, sizeof(value)}, several = {&memory, sizeof(memory)};
	const struct iovec *remote;
	bool revoked;
	ssize_t n = 0;

	stop_at(IN_TRANSLATION, place);
	if (many)
		remote = av_revoke_begin_many(&pin, 1) ? &several : NULL;
	else
		remote = av_revoke_begin(pin, (uintptr_t)&memory, sizeof(memory));
	stop_at(BEFORE_CALL, place);
	if (remote)
		n = process_vm_writev(getppid(), &local, 1, remote, 1, 0);
	stop_at(BEHIND_CALL, place);
	revoked = av_revoke_end(pin);
	av_pin_end(pin);
	if (!remote)
		return revoked ? REFUSED : ODD;
	if (n == 0)
		return revoked ? NOTHING_COPIED : ODD;
	return n < 0 ? ODD : revoked ? COPIED_BUT_RECALLED : DONE;
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

		assert_true(av_revoke(&fake.seg, KEY));
		assert_int_equal(memory, rows[i].at_revoke);
		memory = LATER;
		assert_int_equal(finish(pid), rows[i].outcome);
		assert_int_equal(memory, LATER);
		av_revoke_forget(&fake.seg, KEY);
		memory = OLD;
	}
}

/* A program may have closed its standard input. */
TEST_WITH(any_descriptor_is_good, setup, close_fake)
{
	pid_t pid = start_copy(BEFORE_CALL, false);
	int saved = close_input();

	assert_true(av_revoke(&fake.seg, KEY));
	assert_int_equal(fcntl(0, F_GETFD), -1); /* none is left open */
	input_again(saved);
	assert_int_equal(finish(pid), NOTHING_COPIED);
	av_revoke_forget(&fake.seg, KEY);
}

TEST_WITH(every_pin_is_looked_at, setup, close_fake)
{
	const uint32_t at[] = {0, 1, AV_PINS - 1};

	for (size_t i = 0; i < AV_ARRAY_SIZE(at); i++) {
		struct av_pin *pin = &fake.seg.head->pin[at[i]];

		atomic_store(&pin->word, (uint64_t)av_lock_self << 32 | KEY);
		atomic_store(&pin->bytes, 5);
		assert_true(av_revoke(&fake.seg, KEY));
		assert_int_equal(atomic_load(&pin->revoked), KEY);
		assert_int_equal(atomic_load(&pin->bytes), 0);
		av_revoke_forget(&fake.seg, OTHER_KEY);
		assert_int_equal(atomic_load(&pin->revoked), KEY);
		av_revoke_forget(&fake.seg, KEY);
		assert_int_equal(atomic_load(&pin->revoked), 0);
		atomic_store(&pin->word, 0);
	}
}

TEST_WITH(another_key_is_not_revoked, setup, close_fake)
{
	for (enum place place = IN_TRANSLATION; place < PLACES; place++) {
		pid_t pid = start_copy(place, false);

		assert_true(av_revoke(&fake.seg, OTHER_KEY));
		assert_int_equal(finish(pid), DONE);
		assert_int_equal(memory, NEW);
		memory = OLD;
	}
}

/* The next user of the word has nothing to do with the revocation, and a key can come again. */
TEST_WITH(a_revoke_ends, setup, close_fake)
{
	pid_t pid = start_copy(IN_TRANSLATION, false);

	assert_true(av_revoke(&fake.seg, KEY));
	assert_int_equal(finish(pid), REFUSED);
	av_revoke_forget(&fake.seg, KEY);
	assert_int_equal(finish(start_copy(IN_TRANSLATION, false)), DONE);
}

struct revoker {
	pthread_t thread;
	_Atomic pid_t task;
	_Atomic bool over;
};

static void *revoke_pin(void *arg)
{
	struct revoker *r = arg;

	atomic_store(&r->task, gettid());
	CHECK(PATIENTLY(av_revoke(&fake.seg, KEY), false));
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

	assert_int_equal(pthread_create(&r.thread, NULL, revoke_pin, &r), 0);
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
	av_revoke_forget(&fake.seg, KEY);
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

	assert_false(av_revoke(&fake.seg, KEY));
	av_revoke_forget(&fake.seg, KEY);
	(void)finish(pid);
}

/* A running thread may be in its call. */
TEST_WITH(a_running_peer_is_waited_for, setup, close_fake)
{
	struct revoker r = {.over = false};
	struct av_pin *pin = av_pin_begin(&fake.seg, KEY);

	assert_non_null(av_revoke_begin(pin, (uintptr_t)&memory, sizeof(memory)));
	assert_int_equal(pthread_create(&r.thread, NULL, revoke_pin, &r), 0);
	expect_waiting(&r);
	assert_true(av_revoke_end(pin));
	av_pin_end(pin);
	pthread_join(r.thread, NULL);
}

/* A call behind several pins is revoked if one of their keys is, whichever that is. */
TEST(one_of_several_keys_is_enough)
{
	struct av_pin pins[3], *list[3];

	for (size_t revoked = 0; revoked <= AV_ARRAY_SIZE(pins); revoked++) {
		bool any = revoked < AV_ARRAY_SIZE(pins);

		memset(pins, 0, sizeof(pins));
		for (size_t i = 0; i < AV_ARRAY_SIZE(pins); i++) {
			list[i] = &pins[i];
			atomic_store(&pins[i].word, KEY);
		}
		assert_true(av_revoke_begin_many(list, AV_ARRAY_SIZE(pins)));
		if (any)
			atomic_store(&pins[revoked].revoked, KEY);
		assert_int_equal(av_revoke_end_many(list, AV_ARRAY_SIZE(pins)), any);
		for (size_t i = 0; i < AV_ARRAY_SIZE(pins); i++)
			assert_int_equal(atomic_load(&pins[i].tid), 0);
		assert_int_equal(av_revoke_begin_many(list, AV_ARRAY_SIZE(pins)), !any);
	}
}

int main(void)
{
	alarm(120);
	return run_cases(own_directory_join, own_directory_leave);
}
