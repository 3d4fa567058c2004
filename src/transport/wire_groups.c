/* SPDX-License-Identifier: MIT */
/*
 * Own datagram queue pairs on the wire: the groups that they receive for. The directory says which
 * a queue pair is attached to, whatever its state; here is what has been joined, and must be left.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/fork.h"
#include "registry/multicast.h"
#include "transport/wire.h"
#include "transport/wire_qp.h"

/* Of all queue pairs: threads of the program may attach one at the same time. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static const struct av_fork_handlers fork_handlers = {.mutex = &mutex};

static bool is_group(const struct av_wire_joined *j, const uint8_t group[16])
{
	return memcmp(j->group, group, sizeof(j->group)) == 0;
}

static bool has_joined(const struct av_wire *w, const uint8_t address[16], const uint8_t group[16])
{
	bool found = false;

	pthread_mutex_lock(&mutex);
	for (uint32_t i = 0; !found && i < w->joined_count; i++)
		found = is_group(&w->joined[i], group) &&
			memcmp(w->joined[i].address, address, sizeof(w->joined[i].address)) == 0;
	pthread_mutex_unlock(&mutex);
	return found;
}

/* Return: false: no memory */
static bool note(struct av_wire *w, const uint8_t address[16], const uint8_t group[16])
{
	struct av_wire_joined *more;

	pthread_mutex_lock(&mutex);
	more = realloc(w->joined, (w->joined_count + 1) * sizeof(*more));
	if (more) {
		w->joined = more;
		more += w->joined_count++;
		memcpy(more->address, address, sizeof(more->address));
		memcpy(more->group, group, sizeof(more->group));
	}
	pthread_mutex_unlock(&mutex);
	return more;
}

/* One that is to be left. @group: NULL: any. Return: false: there is none */
static bool take(struct av_wire *w, const uint8_t *group, struct av_wire_joined *taken)
{
	bool found = false;

	pthread_mutex_lock(&mutex);
	for (uint32_t i = 0; !found && i < w->joined_count; i++) {
		found = !group || is_group(&w->joined[i], group);
		if (found) {
			*taken = w->joined[i];
			w->joined[i] = w->joined[--w->joined_count];
		}
	}
	pthread_mutex_unlock(&mutex);
	return found;
}

static void leave(struct av_wire *w, const uint8_t *group)
{
	struct av_wire_joined j;

	while (take(w, group, &j))
		av_net_leave(j.address, j.group);
}

/* Addresses of the other family join nothing. */
static void join(struct av_wire *w, const uint8_t group[16])
{
	if (av_fork_register(AV_FORK_GROUPS, &fork_handlers))
		return;
	for (uint32_t i = 0; i < w->addresses; i++)
		if (!has_joined(w, w->address[i], group) &&
		    av_net_join(w->address[i], group) == 0 && !note(w, w->address[i], group))
			av_net_leave(w->address[i], group);
}

void av_wire_join_all(struct av_wire *w)
{
	union ibv_gid group;
	uint32_t at = 0;

	while (av_multicast_next_of(w->qpn, &at, &group))
		join(w, group.raw);
}

void av_wire_leave_all(struct av_wire *w)
{
	if (w->joined)
		leave(w, NULL);
	free(w->joined);
	w->joined = NULL;
}

void av_wire_join(const struct av_qp_end *end, const union ibv_gid *group)
{
	struct av_wire *w;

	av_wire_open_datagrams(end);
	w = av_wire_at(end->seg, end->qp->index);
	if (w)
		join(w, group->raw);
}

void av_wire_leave(const struct av_qp_end *end, const union ibv_gid *group)
{
	struct av_wire *w = av_wire_at(end->seg, end->qp->index);

	if (w)
		leave(w, group->raw);
}
