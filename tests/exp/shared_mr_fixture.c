/* SPDX-License-Identifier: MIT */
#include "exp/shared_mr_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/probe.h"

struct ibv_mr *create(struct ibv_pd *pd, size_t length, uint64_t access)
{
	struct ibv_exp_reg_mr_in in = {.pd = pd, .length = length, .exp_access = access};

	errno = 0;
	return ibv_exp_reg_mr(&in);
}

struct ibv_mr *attach(struct ibv_pd *pd, uint32_t handle, void *addr, uint64_t access)
{
	struct ibv_exp_reg_shared_mr_in in = {
		.mr_handle = handle, .pd = pd, .addr = addr, .exp_access = access};

	errno = 0;
	return ibv_exp_reg_shared_mr(&in);
}

static int stores(volatile uint8_t *at)
{
	int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC), ret;

	ret = read(fd, (void *)(uintptr_t)at, 1) == 1 ? 0 : errno; /* EFAULT, not a signal */
	close(fd);
	return ret;
}

static void obey(struct ibv_context **ctx, struct ibv_pd *pd, struct ibv_mr **mr,
		 const struct order *o, struct answer *r)
{
	switch (o->what) {
	case DO_CREATE:
	case DO_ATTACH:
		*mr = o->what == DO_CREATE ? create(pd, o->length, o->access)
					   : attach(pd, o->handle, NULL, o->access);
		r->err = *mr ? 0 : errno;
		break;
	case DO_DEREG:
		r->err = ibv_dereg_mr(*mr);
		*mr = NULL;
		break;
	case DO_FILL:
		pattern_fill((*mr)->addr, (*mr)->length, o->seed, 0);
		break;
	case DO_CHECK:
		r->found = pattern_check((*mr)->addr, (*mr)->length, o->seed, 0);
		break;
	case DO_STORE:
		r->err = stores((*mr)->addr);
		break;
	case DO_FORK:
		if (fork() == 0) {
			alarm(20);	      /* longer than anybody looks */
			close_range(0, 2, 0); /* whoever runs the test need not wait for this */
			for (;;)
				pause();
		}
		break;
	case DO_CLOSE:
		r->err = ibv_close_device(*ctx);
		free(*mr); /* the program's leak otherwise */
		*mr = NULL;
		break;
	}
	if (!*mr)
		return;
	r->handle = (*mr)->handle;
	r->rkey = (*mr)->rkey;
	r->addr = (uintptr_t)(*mr)->addr;
}

static void sharer_main(int sock)
{
	struct ibv_context *ctx = node_open_device();
	static struct ibv_pd *pd; /* not a leak where its device is closed first */
	struct ibv_mr *mr = NULL;
	struct order o;

	pd = ibv_alloc_pd(ctx);
	while (spawn_receive_any(sock, &o, sizeof(o)) == sizeof(o)) {
		struct answer r = {.found = -2};

		obey(&ctx, pd, &mr, &o, &r);
		spawn_send(sock, &r, sizeof(r));
	}
	exit(0);
}

struct answer tell(struct spawned *s, struct order o)
{
	struct answer r;

	spawn_send(s->sock, &o, sizeof(o));
	spawn_receive(s->sock, &r, sizeof(r));
	return r;
}

struct answer tell_create(struct spawned *s, size_t length, uint64_t access)
{
	return tell(s, (struct order){.what = DO_CREATE, .length = length, .access = access});
}

void end(struct spawned *s)
{
	close(s->sock);
	spawn_wait(s);
}

void dereg(struct ibv_mr *mr)
{
	EXPECT(mr && ibv_dereg_mr(mr) == 0, "ibv_dereg_mr: errno %d", errno);
}

void fixture_open(int argc, char **argv)
{
	int sock = spawn_role(argc, argv, WORD);

	if (sock >= 0)
		sharer_main(sock);
	two_sides_open(argc, argv);
	probe_open(&b, &a, 0);
}

int fixture_close(void)
{
	probe_close(&b, &a, 0);
	return two_sides_close();
}
