/* SPDX-License-Identifier: MIT */
#include "hardship/life.h"

#include <stdlib.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/spawn.h"
#include "lib/wait.h"
#include "spoiled/gear.h"

#define PARTNER_MS 5u /* how long it waits for one */
#define STEPS_MAX  600u

/* Return: false if nobody is there to tell any more. */
static bool partner(int sock, const struct gear *g, struct gear_info *peer)
{
	*peer = g->info;
	spawn_send(sock, &g->info, sizeof(g->info));
	if (!WAIT_UNTIL(spawn_pending(sock), PARTNER_MS))
		return true;
	return spawn_receive_any(sock, peer, sizeof(*peer)) == sizeof(*peer);
}

/* Requests may fail, since the partner may be dead; verbs that open and close must not. */
static bool live(int sock, uint64_t seed)
{
	struct gear_info peer;
	struct gear g;
	bool more;

	gear_open(&g, seed);
	more = partner(sock, &g, &peer);
	if (more && gear_connect(&g, &peer) == 0)
		for (uint64_t n = rnd(&g.chance, STEPS_MAX); n > 0; n--)
			gear_step(&g);
	gear_close(&g);
	return more;
}

void life_main(int argc, char **argv)
{
	int sock = spawn_role(argc, argv, LIFE_WORD);
	uint64_t seed;

	if (sock < 0)
		return;
	spawn_receive(sock, &seed, sizeof(seed));
	while (live(sock, seed++))
		;
	exit(failures() ? 1 : 0);
}
