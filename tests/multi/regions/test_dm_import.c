/* SPDX-License-Identifier: MIT */
/*
 * Device memory that somebody else imports: regions on it keep it, as the owner's own do, until
 * their process has ended them, or has ended itself; and a block that is freed is nobody's.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/node.h"
#include "lib/sandbox.h"
#include "lib/spawn.h"

#define WORD   "--importer"
#define BYTES  4096u
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED)

static struct ibv_context *owner;
static struct ibv_pd *domain;

/* What a process needs to know to import. */
struct handles {
	pid_t pid;
	int fd;
	uint32_t pd, dm;
};

struct import {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_dm *dm;
	struct ibv_mr *mr;
};

static struct ibv_dm *need(void)
{
	struct ibv_alloc_dm_attr attr = {.length = BYTES};
	struct ibv_dm *dm = ibv_alloc_dm(owner, &attr);

	NEED(dm);
	return dm;
}

static struct handles handles_of(const struct ibv_dm *dm)
{
	return (struct handles){getpid(), owner->cmd_fd, domain->handle, dm->handle};
}

static struct import import(const struct handles *of)
{
	struct import i;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)of->pid, of->fd);
	i.ctx = ibv_import_device(open(path, O_RDWR | O_CLOEXEC));
	i.pd = i.ctx ? ibv_import_pd(i.ctx, of->pd) : NULL;
	i.dm = i.pd ? ibv_import_dm(i.ctx, of->dm) : NULL;
	i.mr = i.dm ? ibv_reg_dm_mr(i.pd, i.dm, 0, BYTES, ACCESS) : NULL;
	if (!i.mr)
		DIE("importing: errno %d", errno);
	return i;
}

static void end(struct import *i)
{
	if (i->mr)
		EXPECT(ibv_dereg_mr(i->mr) == 0, "ibv_dereg_mr: errno %d", errno);
	if (i->dm)
		ibv_unimport_dm(i->dm);
	ibv_unimport_pd(i->pd);
	EXPECT(ibv_close_device(i->ctx) == 0, "ibv_close_device");
}

/* --- the owner frees it ---------------------------------------------------------- */

static void busy_row(void)
{
	struct ibv_dm *dm = need();
	const struct handles of = handles_of(dm);
	struct import i = import(&of);
	uint32_t word = 0x12345678, got = 0;

	row("ibv_free_dm while who has imported it has regions on it");
	for (unsigned int twice = 0; twice < 2; twice++)
		EXPECT_RET(ibv_free_dm(dm), EBUSY);
	EXPECT(ibv_memcpy_to_dm(i.dm, 0, &word, sizeof(word)) == 0, "no longer usable there");
	EXPECT(ibv_memcpy_from_dm(&got, dm, 0, sizeof(got)) == 0 && got == word, "nor here");
	end(&i);
	i = import(&of);
	end(&i);
	EXPECT(ibv_free_dm(dm) == 0, "ibv_free_dm: errno %d", errno);
}

static void freed_row(void)
{
	struct ibv_dm *dm = need(), *next;
	const struct handles of = handles_of(dm);
	struct import i = import(&of);
	uint32_t word = 0x12345678, got = 0;

	row("a block that is freed is nobody's, though it is imported");
	EXPECT(ibv_dereg_mr(i.mr) == 0, "ibv_dereg_mr");
	i.mr = NULL;
	EXPECT(ibv_free_dm(dm) == 0, "ibv_free_dm: errno %d", errno);
	next = need();
	EXPECT(ibv_memcpy_to_dm(next, 0, &got, sizeof(got)) == 0, "ibv_memcpy_to_dm");
	EXPECT_RET(ibv_memcpy_to_dm(i.dm, 0, &word, sizeof(word)), ENOENT);
	EXPECT(!ibv_reg_dm_mr(i.pd, i.dm, 0, BYTES, ACCESS) && errno == ENOENT, "ibv_reg_dm_mr");
	EXPECT(ibv_memcpy_from_dm(&got, next, 0, sizeof(got)) == 0 && got == 0, "bytes changed");
	end(&i);
	EXPECT(ibv_free_dm(next) == 0, "ibv_free_dm: errno %d", errno);
}

/* --- the importer ends it -------------------------------------------------------- */

#define SIZES 64u /* of the program's memory, from 16 bytes on */

static void unimported_row(void)
{
	static uint8_t *fresh[SIZES];
	struct ibv_dm *dm = need();
	const struct handles of = handles_of(dm);
	struct import i = import(&of);

	row("regions stay when the import ends, and keep the memory");
	ibv_unimport_dm(i.dm);
	i.dm = NULL;
	for (size_t k = 0; k < SIZES; k++) {
		fresh[k] = malloc(16 * (k + 1));
		memset(fresh[k], 0x5a, 16 * (k + 1));
	}
	EXPECT_RET(ibv_free_dm(dm), EBUSY);
	end(&i);
	for (size_t k = 0; k < SIZES; k++) {
		for (size_t at = 0; at < 16 * (k + 1); at++)
			EXPECT(fresh[k][at] == 0x5a, "the program's %zu bytes: %zu", 16 * (k + 1),
			       at);
		free(fresh[k]);
	}
	EXPECT(ibv_free_dm(dm) == 0, "ibv_free_dm: errno %d", errno);
}

static struct import left; /* whose region's structure nobody can free */

static void closed_row(void)
{
	struct ibv_dm *dm = need();
	const struct handles of = handles_of(dm);

	row("a device that is closed takes its regions along");
	left = import(&of);
	ibv_unimport_dm(left.dm);
	EXPECT(ibv_close_device(left.ctx) == 0, "ibv_close_device");
	EXPECT(ibv_free_dm(dm) == 0, "ibv_free_dm: errno %d", errno);
}

/* In the other process, which is killed. */
static void import_and_wait(int sock)
{
	struct handles of;

	spawn_receive(sock, &of, sizeof(of));
	(void)import(&of);
	spawn_send(sock, &of, sizeof(of));
	for (;;)
		pause();
}

static void killed_row(void)
{
	struct ibv_dm *dm = need();
	struct handles of = handles_of(dm);
	struct spawned p;

	row("who has imported it is killed with its regions");
	spawn_self(&p, WORD);
	spawn_send(p.sock, &of, sizeof(of));
	spawn_receive(p.sock, &of, sizeof(of));
	EXPECT_RET(ibv_free_dm(dm), EBUSY);
	spawn_kill(&p);
	EXPECT(ibv_free_dm(dm) == 0, "ibv_free_dm: errno %d", errno);
}

int main(int argc, char **argv)
{
	int sock = spawn_role(argc, argv, WORD);

	if (sock >= 0)
		import_and_wait(sock);
	sandbox_begin(120);
	owner = node_open_device();
	domain = ibv_alloc_pd(owner);
	NEED(domain);
	busy_row();
	freed_row();
	unimported_row();
	closed_row();
	killed_row();
	EXPECT(ibv_dealloc_pd(domain) == 0 && ibv_close_device(owner) == 0, "closing");
	return sandbox_end();
}
