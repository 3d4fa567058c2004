/* SPDX-License-Identifier: MIT */
#include "lock_fixture.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

_Atomic bool *dead;

void *shared_memory(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

static bool identity_lives(uint32_t owner)
{
	return owner < PROCESSES && !atomic_load(&dead[owner]);
}

int fixture_setup(void **state)
{
	if (!dead)
		dead = shared_memory(sizeof(*dead) * PROCESSES);
	for (uint32_t i = 0; i < PROCESSES; i++)
		atomic_store(&dead[i], false);
	av_lock_self = 1;
	av_lock_owner_alive = identity_lives;
	return 0;
}

pid_t fork_as(uint32_t identity, void (*run)(void *arg), void *arg)
{
	pid_t pid;

	atomic_store(&dead[identity], false);
	pid = fork();
	if (pid != 0) {
		CHECK(pid > 0);
		return pid;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nobody waiting */
	av_lock_self = identity;
	av_lock_order_forked();
	run(arg);
	_exit(0);
}

void kill_as(uint32_t identity, pid_t pid)
{
	CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
	atomic_store(&dead[identity], true);
}

uint32_t draw(struct participant *p, uint32_t below)
{
	p->random ^= p->random << 13;
	p->random ^= p->random >> 7;
	p->random ^= p->random << 17;
	return (uint32_t)(p->random >> 20) % below;
}

void pauses(uint32_t n)
{
	while (n--)
		av_pause();
}

/* --- participants ---------------------------------------------------------------- */

static void (*participants_run)(struct participant *p);

static void *thread_main(void *arg)
{
	participants_run(arg);
	return NULL;
}

static void process_main(void *arg)
{
	participants_run(arg);
}

void all_run(uint32_t n, bool processes, void (*run)(struct participant *p))
{
	struct participant p[PARTICIPANTS_MAX];
	pthread_t thread[PARTICIPANTS_MAX];
	pid_t pid[PARTICIPANTS_MAX];

	participants_run = run;
	for (uint32_t i = 0; i < n; i++)
		p[i] = (struct participant){i, n, 0x9e3779b97f4a7c15ull * (i + 1)};
	for (uint32_t i = 1; i < n; i++) {
		if (processes)
			pid[i] = fork_as(i + 1, process_main, &p[i]);
		else
			CHECK(pthread_create(&thread[i], NULL, thread_main, &p[i]) == 0);
	}
	run(&p[0]);
	for (uint32_t i = 1; i < n; i++) {
		int status = 0;

		CHECK(processes ? waitpid(pid[i], &status, 0) == pid[i] && status == 0
				: pthread_join(thread[i], NULL) == 0);
	}
}

void each_cast(void (*begin)(void), void (*run)(struct participant *p), void (*judge)(uint32_t n))
{
	static const struct {
		uint32_t n;
		bool processes;
	} casts[] = {{2, false}, {3, false}, {2, true}, {3, true}};

	for (size_t i = 0; i < sizeof(casts) / sizeof(casts[0]); i++) {
		begin();
		all_run(casts[i].n, casts[i].processes, run);
		judge(casts[i].n);
	}
}
