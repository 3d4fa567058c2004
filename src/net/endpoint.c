/* SPDX-License-Identifier: MIT */
#include "net/endpoint.h"

#include <pthread.h>
#include <string.h>

/* The mutex guards changes. Rows up to @end are in use or NULL: a forked child reads them alone. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct av_endpoint *table[AV_ENDPOINTS];
static unsigned int end;
static _Atomic unsigned int version;

bool av_endpoint_add(struct av_endpoint *e)
{
	unsigned int i = 0;

	pthread_mutex_lock(&mutex);
	while (i < end && table[i])
		i++;
	if (i < AV_ENDPOINTS) {
		table[i] = e;
		end = i < end ? end : i + 1;
		atomic_fetch_add(&version, 1);
	}
	pthread_mutex_unlock(&mutex);
	return i < AV_ENDPOINTS;
}

void av_endpoint_remove(struct av_endpoint *e)
{
	pthread_mutex_lock(&mutex);
	for (unsigned int i = 0; i < end; i++)
		if (table[i] == e)
			table[i] = NULL;
	while (end > 0 && !table[end - 1])
		end--;
	atomic_fetch_add(&version, 1);
	pthread_mutex_unlock(&mutex);
}

static bool is_it(const struct av_endpoint *e, enum av_endpoint_kind kind,
		  const uint8_t address[16], uint32_t ifindex)
{
	return e && e->kind == kind && (ifindex == 0 || e->ifindex == ifindex) &&
	       memcmp(e->address, address, sizeof(e->address)) == 0;
}

struct av_endpoint *av_endpoint_find(enum av_endpoint_kind kind, const uint8_t address[16],
				     uint32_t ifindex)
{
	struct av_endpoint *found = NULL;

	pthread_mutex_lock(&mutex);
	for (unsigned int i = 0; !found && i < end; i++)
		if (is_it(table[i], kind, address, ifindex))
			found = table[i];
	pthread_mutex_unlock(&mutex);
	return found;
}

unsigned int av_endpoint_version(void)
{
	return atomic_load(&version);
}

unsigned int av_endpoint_all(struct av_endpoint *all[AV_ENDPOINTS])
{
	unsigned int n = 0;

	pthread_mutex_lock(&mutex);
	for (unsigned int i = 0; i < end; i++)
		if (table[i])
			all[n++] = table[i];
	pthread_mutex_unlock(&mutex);
	return n;
}

unsigned int av_endpoint_poll(struct pollfd all[AV_ENDPOINTS])
{
	unsigned int n = 0;

	pthread_mutex_lock(&mutex);
	for (unsigned int i = 0; i < end; i++) {
		int fd = table[i] ? av_own_fd(&table[i]->socket) : -1;

		if (fd >= 0)
			all[n++] = (struct pollfd){.fd = fd, .events = POLLIN};
	}
	pthread_mutex_unlock(&mutex);
	return n;
}

void av_endpoint_forked(void)
{
	pthread_mutex_init(&mutex, NULL);
	for (unsigned int i = 0; i < AV_ENDPOINTS; i++) {
		if (table[i])
			av_own_fd_close(&table[i]->socket);
		table[i] = NULL;
	}
	end = 0;
	atomic_fetch_add(&version, 1);
}
