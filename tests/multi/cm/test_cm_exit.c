/* SPDX-License-Identifier: MIT */
/* A program exits a moment after it closed its last channel, while threads of ours still leave. */
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#include "cm_fixture.h"
#include "lib/expect.h"
#include "lib/sandbox.h"

#define EXITS	400u
#define STEP_NS 1000u

int main(int argc, char **argv)
{
	struct party one = {0};

	parties_main(argc, argv);
	sandbox_enter();
	time_limit(120);
	row("%u programs that exit after each span of time up to %u us", EXITS,
	    EXITS * STEP_NS / 1000);
	for (unsigned int i = 0; i < EXITS; i++) {
		const struct timespec span = {.tv_nsec = i * STEP_NS};

		party_start(&one);
		EXPECT(party_tell(&one, DO_CLOSE, 0) == 0, "not closed");
		nanosleep(&span, NULL);
		shutdown(one.process.sock, SHUT_WR);
		spawn_wait(&one.process);
		if (!EXPECT(sandbox_entries() == 0, "%u entries are left after %u us",
			    sandbox_entries(), i * STEP_NS / 1000))
			break;
	}
	sandbox_leave();
	return summary();
}
