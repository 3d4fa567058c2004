/* SPDX-License-Identifier: MIT */
/*
 * Processes with two threads each claim contexts and numbers at once, and are killed meanwhile:
 * nobody gets what a living process has, and in the end everything is free again.
 */
#include <stdlib.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "lib/own_directory.h"
#include "lib/unit.h"
#include "lib/wait.h"
#include "registry/directory.h"

#define PROCESSES   3u
#define THREADS	    2u
#define KILLS	    150u
#define PATIENCE_MS 30000
#define NUMBERS	    3u /* of each context */
#define LIMIT	    100000u

/* Who has what: 1 + the life of a process, which is a place in @ended. 0: nobody */
static struct shared {
	_Atomic uint32_t slot[AV_REF_SLOTS], number[AV_DIR_QPNS];
	_Atomic uint32_t ended[KILLS + PROCESSES + 1];
	_Atomic uint32_t twice, rounds;
} * shared;

static uint32_t life;

/* A holder that is dead as seen by the kernel is soon known to be. */
static void have(_Atomic uint32_t *at)
{
	uint32_t before = atomic_exchange(at, life);

	if (before && !WAIT_UNTIL(atomic_load(&shared->ended[before]), PATIENCE_MS))
		atomic_fetch_add(&shared->twice, 1);
}

static void let_go(_Atomic uint32_t *at)
{
	uint32_t mine = life;

	if (!atomic_compare_exchange_strong(at, &mine, 0))
		atomic_fetch_add(&shared->twice, 1);
}

/* Numbers stay the context's when it ends without giving them back. */
static void one_context(unsigned int seed)
{
	uint32_t ref;
	int fd = av_dir_context_add(&ref), qpn[NUMBERS];

	if (fd < 0)
		return;
	close(fd);
	have(&shared->slot[AV_REF_SLOT(ref)]);
	for (unsigned int i = 0; i < NUMBERS; i++) {
		qpn[i] = av_dir_qpn_add(ref, i, LIMIT);
		if (qpn[i] < 0 || av_dir_qpn_find((uint32_t)qpn[i]).ref != ref)
			atomic_fetch_add(&shared->twice, 1);
		else
			have(&shared->number[qpn[i] & (AV_DIR_QPNS - 1)]);
	}
	for (unsigned int i = 0; i < NUMBERS; i++) {
		let_go(&shared->number[qpn[i] & (AV_DIR_QPNS - 1)]);
		if (seed % 2)
			av_dir_qpn_remove((uint32_t)qpn[i]);
	}
	let_go(&shared->slot[AV_REF_SLOT(ref)]);
	av_dir_context_remove(ref);
	atomic_fetch_add(&shared->rounds, 1);
}

static void *claims(void *arg)
{
	for (unsigned int seed = 0;; seed++)
		one_context(seed);
	return arg;
}

static pid_t start(uint32_t number)
{
	pid_t pid = fork();
	pthread_t thread;

	if (pid)
		return pid;
	life = number;
	if (av_dir_join(NULL))
		_exit(1);
	for (unsigned int i = 1; i < THREADS; i++)
		if (pthread_create(&thread, NULL, claims, NULL))
			_exit(1);
	claims(NULL);
	_exit(0);
}

static void end_of(pid_t pid, uint32_t number)
{
	int status;

	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	atomic_store(&shared->ended[number], 1);
}

static void nothing_is_given_twice(void **state)
{
	uint32_t lives[PROCESSES], next = 1, used = 0;
	pid_t pid[PROCESSES];

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	assert_ptr_not_equal(shared, MAP_FAILED);
	for (uint32_t i = 0; i < PROCESSES; i++)
		pid[i] = start(lives[i] = next++);
	for (uint32_t k = 0; k < KILLS; k++) {
		uint32_t i = (uint32_t)rand() % PROCESSES; /* NOLINT(cert-msc30-c,cert-msc50-cpp) */

		let_go_on((unsigned int)rand() % 20000); /* NOLINT(cert-msc30-c,cert-msc50-cpp) */
		end_of(pid[i], lives[i]);
		pid[i] = start(lives[i] = next++);
	}
	for (uint32_t i = 0; i < PROCESSES; i++)
		end_of(pid[i], lives[i]);
	assert_int_equal(atomic_load(&shared->twice), 0);
	assert_true(atomic_load(&shared->rounds) > KILLS);

	assert_int_equal(av_dir_change_begin(), 0);
	av_dir_sweep();
	av_dir_change_end();
	for (uint32_t i = 0; i < AV_REF_SLOTS; i++) {
		assert_int_equal(atomic_load(&av_dir->context[i].proc), 0);
		assert_int_equal(atomic_load(&av_dir->context[i].ref), 0);
		used += atomic_load(&av_dir->proc[i].ref) != 0;
	}
	assert_int_equal(used, 1);
	for (uint32_t i = 0; i < AV_DIR_QPNS; i++) {
		uint32_t ref = (uint32_t)(atomic_load(&av_dir->qpn[i]) >> 32);

		assert_int_equal(av_dir_context_owner(ref), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_is_given_twice)};

	return cmocka_run_group_tests(tests, own_directory_join, own_directory_leave);
}
