/* SPDX-License-Identifier: MIT */
/*
 * Two threads at once: rows of the directory become the ports of other devices while others look
 * for theirs. Whoever opens a device gets its port, and whoever asks for its addresses gets those.
 * ThreadSanitizer sees here whether all that is shared is atomic.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "device/port.h"
#include "lib/own_directory.h"
#include "lib/unit.h"
#include "registry/directory.h"

#define ROUNDS 1000u

/* InfiniBand: the only address of each is made of its GUID. */
#define DEVICES_N 3u
#define SETTING	  "a:link=infiniband,b:link=infiniband,c:link=infiniband"

static struct av_device *const *devices;

/* The device that had a port last; how often it is another one; what was wrong. */
static _Atomic(const struct av_device *) last[AV_DIR_PORTS + 1];
static _Atomic uint32_t changes, refused, wrong;

static void expect(const struct av_device *dev, const union ibv_gid *gid)
{
	struct av_gid meant;

	av_gid_from_guid(dev->guid, &meant);
	if (memcmp(gid, &meant.gid, sizeof(*gid)))
		atomic_fetch_add(&wrong, 1);
}

static void use(const struct av_device *dev, uint32_t ref)
{
	int port = av_port_open(ref, dev);
	const struct av_device *before;
	union ibv_gid gid;

	if (port <= 0 || port > AV_DIR_PORTS) {
		atomic_fetch_add(&refused, 1);
		return;
	}
	(void)av_port_gid((uint32_t)port, 0, &gid);
	expect(dev, &gid);
	before = atomic_exchange(&last[port], dev);
	atomic_fetch_add(&changes, before && before != dev);
}

static void open_and_close(const struct av_device *dev)
{
	uint32_t ref;
	int fd = av_dir_context_add(&ref);

	if (fd < 0) {
		atomic_fetch_add(&refused, 1);
		return;
	}
	close(fd);
	use(dev, ref);
	av_dir_context_remove(ref);
}

static void look(const struct av_device *dev)
{
	struct av_gid gids[AV_GID_MAX];

	if (av_port_gids(dev, gids) != 1)
		atomic_fetch_add(&wrong, 1);
	expect(dev, &gids[0].gid);
	if (!av_port_follow(av_netns_of_thread()))
		atomic_fetch_add(&wrong, 1);
}

/* A thread: what it does with one device after the other. */
struct part {
	void (*act)(const struct av_device *dev);
	pthread_t thread;
};

static pthread_barrier_t begin;

static void *play(void *arg)
{
	const struct part *p = arg;

	(void)pthread_barrier_wait(&begin);
	for (uint32_t i = 0; i < ROUNDS; i++)
		p->act(devices[i % DEVICES_N]);
	return NULL;
}

static void play_both(struct part part[2])
{
	atomic_store(&changes, 0);
	assert_int_equal(pthread_barrier_init(&begin, NULL, 2), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&part[i].thread, NULL, play, &part[i]), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_join(part[i].thread, NULL), 0);
	pthread_barrier_destroy(&begin);
	assert_int_equal(atomic_load(&refused), 0);
	assert_int_equal(atomic_load(&wrong), 0);
	assert_in_range(atomic_load(&changes), ROUNDS / 10, 2 * ROUNDS);
}

TEST(both_open)
{
	play_both((struct part[]){{.act = open_and_close}, {.act = open_and_close}});
}

TEST(one_looks)
{
	play_both((struct part[]){{.act = open_and_close}, {.act = look}});
}

static int set_up(void **state)
{
	unsigned int count;

	if (own_directory_join(state) || setenv("ANYVERBS_DEVICES", SETTING, 1))
		return -1;
	devices = av_devices(&count);
	return count == DEVICES_N ? 0 : -1;
}

int main(void)
{
	return run_cases(set_up, own_directory_leave);
}
