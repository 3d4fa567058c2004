/* SPDX-License-Identifier: MIT */
#include "hardship/remains.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "lib/expect.h"

static struct remains found;

static int add(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	const char *name = path + ftw->base;

	found.contexts += type == FTW_D && ftw->level == 2 && name[0] == 'c';
	if (type == FTW_F && strcmp(name, "flight"))
		found.bytes += (uint64_t)st->st_blocks * 512;
	return 0;
}

static uint64_t shmem_kb(void)
{
	FILE *f = fopen("/proc/meminfo", "re");
	unsigned long kb = 0;
	char line[128];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Shmem: %lu kB", &kb) == 1)
			break;
	if (f)
		fclose(f);
	return kb;
}

struct remains remains_now(void)
{
	struct statvfs fs = {0};

	found = (struct remains){.shmem_kb = shmem_kb()};
	NEED(nftw(getenv("ANYVERBS_DIR"), add, 16, FTW_PHYS) == 0);
	if (statvfs("/dev/shm", &fs) == 0)
		found.shm_kb = (fs.f_blocks - fs.f_bfree) * (fs.f_frsize / 1024);
	return found;
}
