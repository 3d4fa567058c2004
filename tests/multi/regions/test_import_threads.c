/* SPDX-License-Identifier: MIT */
/*
 * Threads that import one object into one context at the same time: one of them gets it, and the
 * others are told that it is there.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "lib/expect.h"
#include "lib/node.h"
#include "lib/sandbox.h"

#define ROUNDS	2000
#define THREADS 2

static struct ibv_context *owner, *into;
static struct ibv_pd *also, *own, *domain; /* two of the owner's; the first, imported */
static struct ibv_mr *region;
static struct ibv_dm *block;
static uint8_t bytes[4096];
static pthread_barrier_t together;
static _Atomic(void *) got;
static _Atomic unsigned int count;

static void *import_domain(void)
{
	return ibv_import_pd(into, own->handle);
}

static void forget_domain(void *object)
{
	ibv_unimport_pd(object);
}

static void *import_region(void)
{
	return ibv_import_mr(domain, region->handle);
}

static void forget_region(void *object)
{
	ibv_unimport_mr(object);
}

static void *import_block(void)
{
	return ibv_import_dm(into, block->handle);
}

static void forget_block(void *object)
{
	ibv_unimport_dm(object);
}

static const struct kind {
	const char *verb;
	void *(*import)(void);
	void (*forget)(void *object);
} kinds[] = {
	{"ibv_import_pd()", import_domain, forget_domain},
	{"ibv_import_mr()", import_region, forget_region},
	{"ibv_import_dm()", import_block, forget_block},
};

static void *import_all(void *arg)
{
	const struct kind *k = arg;

	for (unsigned int r = 0; r < ROUNDS; r++) {
		void *object;

		pthread_barrier_wait(&together);
		object = k->import();
		if (object)
			atomic_store(&got, object);
		else
			EXPECT(errno == EBUSY, "errno %d", errno);
		atomic_fetch_add(&count, object != NULL);
		if (pthread_barrier_wait(&together) == PTHREAD_BARRIER_SERIAL_THREAD) {
			EXPECT(atomic_exchange(&count, 0) == 1, "not one has it");
			k->forget(atomic_load(&got));
		}
	}
	return NULL;
}

static void race(const struct kind *k)
{
	pthread_t thread[THREADS];

	row("%s in %u threads", k->verb, THREADS);
	for (unsigned int i = 0; i < THREADS; i++)
		NEED(!pthread_create(&thread[i], NULL, import_all, (void *)(uintptr_t)k));
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
}

static void open_all(void)
{
	struct ibv_alloc_dm_attr attr = {.length = sizeof(bytes)};

	owner = node_open_device();
	NEED(owner);
	also = ibv_alloc_pd(owner);
	own = ibv_alloc_pd(owner);
	block = ibv_alloc_dm(owner, &attr);
	NEED(also && own && block);
	region = ibv_reg_mr(also, bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE);
	into = ibv_import_device(fcntl(owner->cmd_fd, F_DUPFD_CLOEXEC, 0));
	NEED(region && into);
	domain = ibv_import_pd(into, also->handle);
	NEED(domain && !pthread_barrier_init(&together, NULL, THREADS));
}

static void close_all(void)
{
	ibv_unimport_pd(domain);
	EXPECT(ibv_close_device(into) == 0, "ibv_close_device");
	EXPECT(ibv_dereg_mr(region) == 0 && ibv_free_dm(block) == 0, "objects");
	EXPECT(ibv_dealloc_pd(also) == 0 && ibv_dealloc_pd(own) == 0, "ibv_dealloc_pd");
	EXPECT(ibv_close_device(owner) == 0, "ibv_close_device");
}

int main(void)
{
	sandbox_begin(200);
	open_all();
	for (size_t i = 0; i < COUNT_OF(kinds); i++)
		race(&kinds[i]);
	close_all();
	return sandbox_end();
}
