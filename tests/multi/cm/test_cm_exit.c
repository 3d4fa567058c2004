/* SPDX-License-Identifier: MIT */
/* A program exits a moment after it has closed its last channel: our threads are leaving still. */
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#include "cm_fixture.h"
#include "lib/expect.h"
#include "lib/sandbox.h"
#include "lib/wait.h"

#define SPAN_NS 400000u
#define EXITS	(TEST_SANITIZED ? 20u : 400u) /* the leak checker looks at each */
#define STEP_NS (SPAN_NS / EXITS)

int main(int argc, char **argv)
{
	struct party one = {0};

	parties_main(argc, argv);
	sandbox_enter();
	time_limit(120);
	row("%u programs that exit after each span of time up to %u us", EXITS, SPAN_NS / 1000);
	for (unsigned int i = 0; i < EXITS; i++) {
		party_start(&one);
		EXPECT(party_tell(&one, DO_CLOSE, 0) == 0, "not closed");
		let_go_on(i * STEP_NS / 1000);
		shutdown(one.process.sock, SHUT_WR);
		spawn_wait(&one.process);
		if (!EXPECT(sandbox_entries() == 0, "%u entries are left after %u us",
			    sandbox_entries(), i * STEP_NS / 1000))
			break;
	}
	return sandbox_end();
}
