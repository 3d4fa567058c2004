/* SPDX-License-Identifier: MIT */
#include "registry/tables.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define NAME	     "p%u-%u"
#define NAME_OF(ref) AV_REF_SLOT(ref), (ref) >> AV_REF_SLOT_BITS

/* A socket's address is short. */
bool av_process_socket(struct sockaddr_un *a, uint32_t proc)
{
	const int room = sizeof(a->sun_path);

	*a = (struct sockaddr_un){.sun_family = AF_UNIX};
	return snprintf(a->sun_path, room, "%s/" NAME, av_dir_path(), NAME_OF(proc)) < room ||
	       snprintf(a->sun_path, room, "/proc/self/fd/%d/" NAME, av_dir_folder(),
			NAME_OF(proc)) < room;
}

void av_process_socket_remove(uint32_t proc)
{
	char name[32];

	snprintf(name, sizeof(name), NAME, NAME_OF(proc));
	unlinkat(av_dir_folder(), name, 0);
}

#define BLOCK (1u << AV_QPN_BLOCK_BITS)

static struct av_dir_reuseport *group_at(int group)
{
	return &av_dir->reuseport[group];
}

static uint32_t count_reuseport_members(const struct av_dir_reuseport *g)
{
	return av_dir_rows(&g->count, AV_DIR_REUSEPORT_MEMBERS);
}

/* --- members ---------------------------------------------------------------------- */

static void bump_reuseport_stamp(struct av_dir_reuseport *g)
{
	atomic_fetch_add(&g->stamp, 1);
}

/* What the kernel does when the socket at that place closes. */
static void remove_at(struct av_dir_reuseport *g, uint32_t index)
{
	uint32_t last = count_reuseport_members(g) - 1;

	atomic_store(&g->member[index], atomic_load(&g->member[last]));
	atomic_store(&g->count, last);
	bump_reuseport_stamp(g);
}

static uint32_t find_reuseport_member(const struct av_dir_reuseport *g, uint32_t proc)
{
	for (uint32_t i = 0; i < count_reuseport_members(g); i++)
		if (atomic_load(&g->member[i]) == proc)
			return i;
	return AV_REUSEPORT_NOBODY;
}

/* From the last to the first: who takes a place lives. */
static void reap_reuseport_members(struct av_dir_reuseport *g)
{
	for (uint32_t i = count_reuseport_members(g); i-- > 0;)
		if (!av_dir_proc_alive(atomic_load(&g->member[i])))
			remove_at(g, i);
}

/* NULL: there are too many. */
static struct av_dir_reuseport *find_or_make(uint64_t netns, const uint8_t address[16])
{
	struct av_dir_reuseport *free = NULL;

	for (uint32_t i = 0; i < AV_DIR_REUSEPORTS; i++) {
		struct av_dir_reuseport *g = &av_dir->reuseport[i];

		reap_reuseport_members(g);
		if (count_reuseport_members(g) > 0 && g->netns == netns &&
		    memcmp(g->address, address, 16) == 0)
			return g;
		if (!free && count_reuseport_members(g) == 0)
			free = g;
	}
	if (free) {
		free->netns = netns;
		memcpy(free->address, address, 16);
	}
	return free;
}

int av_reuseport_join(uint64_t netns, const uint8_t address[16])
{
	struct av_dir_reuseport *g = find_or_make(netns, address);
	uint32_t count = g ? count_reuseport_members(g) : AV_DIR_REUSEPORT_MEMBERS;

	if (count == AV_DIR_REUSEPORT_MEMBERS)
		return -ENOSPC;
	atomic_store(&g->member[count], av_lock_self);
	atomic_store(&g->count, count + 1);
	bump_reuseport_stamp(g);
	return (int)(g - av_dir->reuseport);
}

void av_reuseport_leave(int group)
{
	struct av_dir_reuseport *g = group_at(group);
	uint32_t index;

	reap_reuseport_members(g);
	index = find_reuseport_member(g, av_lock_self);
	if (index != AV_REUSEPORT_NOBODY)
		remove_at(g, index);
}

/* Whoever is in a change may move it meanwhile: then it is a member until this process ends. */
void av_reuseport_gone(int group)
{
	struct av_dir_reuseport *g = group_at(group);

	for (uint32_t i = 0; i < count_reuseport_members(g); i++) {
		uint32_t self = av_lock_self;

		if (atomic_compare_exchange_strong(&g->member[i], &self, 0))
			bump_reuseport_stamp(g);
	}
}

void av_reuseport_sweep(int group)
{
	reap_reuseport_members(group_at(group));
}

void av_reuseport_learn(int group, uint32_t index)
{
	struct av_dir_reuseport *g = group_at(group);
	uint32_t thought = find_reuseport_member(g, av_lock_self);

	if (thought == AV_REUSEPORT_NOBODY || thought == index ||
	    index >= count_reuseport_members(g))
		return;
	atomic_store(&g->member[thought], atomic_load(&g->member[index]));
	atomic_store(&g->member[index], av_lock_self);
	bump_reuseport_stamp(g);
}

unsigned int av_reuseport_members(int group)
{
	return count_reuseport_members(group_at(group));
}

uint32_t av_reuseport_place(int group, uint32_t proc)
{
	return find_reuseport_member(group_at(group), proc);
}

uint32_t av_reuseport_told(int group)
{
	struct av_dir_reuseport *g = group_at(group);
	uint32_t told = atomic_load(&g->told);

	return told == atomic_load(&g->stamp) ? told : 0;
}

void av_reuseport_tell(int group)
{
	struct av_dir_reuseport *g = group_at(group);

	atomic_store(&g->told, atomic_load(&g->stamp));
}

/* --- blocks ----------------------------------------------------------------------- */

void av_reuseport_places(int group, uint32_t *place)
{
	uint32_t last = 0, last_place = AV_REUSEPORT_NOBODY;

	for (uint32_t i = 0; i < AV_QPN_BLOCKS; i++) {
		uint32_t owner = atomic_load(&av_dir->block_owner[i]);

		if (owner != last) {
			last = owner;
			last_place = owner ? find_reuseport_member(group_at(group), owner)
					   : AV_REUSEPORT_NOBODY;
		}
		place[i] = last_place;
	}
}

uint32_t av_reuseport_owner(uint32_t qpn)
{
	return atomic_load(&av_dir->block_owner[AV_QPN_BLOCK(qpn)]);
}

static bool has_number_in(uint32_t proc, uint32_t block)
{
	for (uint32_t i = block * BLOCK; i < (block + 1) * BLOCK; i++)
		if (av_dir_context_owner((uint32_t)(atomic_load(&av_dir->qpn[i]) >> 32)) == proc)
			return true;
	return false;
}

bool av_reuseport_own(uint32_t proc, uint32_t qpn)
{
	uint32_t block = AV_QPN_BLOCK(qpn);
	uint32_t owner = atomic_load(&av_dir->block_owner[block]);

	if (owner == proc)
		return true;
	if (av_dir_proc_alive(owner) && has_number_in(owner, block))
		return false;
	atomic_store(&av_dir->block_owner[block], proc);
	for (uint32_t i = 0; i < AV_DIR_REUSEPORTS; i++) {
		struct av_dir_reuseport *g = &av_dir->reuseport[i];

		if (find_reuseport_member(g, proc) != AV_REUSEPORT_NOBODY ||
		    find_reuseport_member(g, owner) != AV_REUSEPORT_NOBODY)
			bump_reuseport_stamp(g);
	}
	return true;
}
