/* SPDX-License-Identifier: MIT */
/* A process of its own that uses a key, and does nothing else. */
#ifndef AV_TESTS_PIN_USER_H
#define AV_TESTS_PIN_USER_H

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/wait.h"
#include "memory/key.h"
#include "memory/region.h"
#include "registry/directory.h"
#include "unit/memory/fake_seg.h"

/* @calling: it is in a system call of several pieces. Context: the directory is joined. */
static inline pid_t pin_user_start(struct av_seg *seg, uint32_t key, bool calling)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		struct av_pin *pin;

		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nobody running */
		CHECK(av_dir_join(NULL) == 0);
		pin = av_pin_begin(seg, key);
		CHECK(pin != NULL);
		if (calling)
			atomic_store(&pin->tid, AV_VM_TOLD_NOTHING);
		for (;;)
			pause();
	}
	CHECK(WAIT_UNTIL(av_pin_is_held(seg, key), 60000));
	return pid;
}

static inline void pin_user_end(pid_t user)
{
	CHECK(kill(user, SIGKILL) == 0 && waitpid(user, NULL, 0) == user);
}

#endif
