/* SPDX-License-Identifier: MIT */
#include "biased_lock_fixture.h"

#include <sys/mman.h>

_Atomic bool *dead;

void *shared_memory(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

bool identity_lives(uint32_t owner)
{
	return owner < PROCESSES && !atomic_load(&dead[owner]);
}

int fixture_setup(void **state)
{
	if (!dead)
		dead = shared_memory(sizeof(*dead) * PROCESSES);
	for (int i = 0; i < PROCESSES; i++)
		atomic_store(&dead[i], false);
	av_lock_self = 1;
	av_lock_owner_alive = identity_lives;
	av_biased_forked();
	av_barrier_join();
	return av_barrier_is_light ? 0 : -1;
}

uint32_t turns_to_own(struct av_biased_lock *b, uint32_t most)
{
	uint32_t n = 0;

	while (n <= most && !is_own_of(b, av_bias_self)) {
		turn(b);
		n++;
	}
	return n;
}
