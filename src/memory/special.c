/* SPDX-License-Identifier: MIT */
#include "memory/special.h"

#include <linux/mempolicy.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory/smaps.h"
#include "memory/vma.h"

#define NODES 4096u /* more than any kernel has */

/* All that was ever noted lies within. Nothing is noted as long as @end is 0. */
static struct {
	_Atomic uint64_t begin, end;
	atomic_bool all_noted;
} noted = {.begin = UINT64_MAX};

void av_special_begin(void)
{
	atomic_store(&noted.all_noted, true);
}

void av_special_note(uint64_t addr, uint64_t bytes)
{
	uint64_t begin = atomic_load(&noted.begin), end = atomic_load(&noted.end);

	while (addr < begin && !atomic_compare_exchange_weak(&noted.begin, &begin, addr))
		;
	while (addr + bytes > end && !atomic_compare_exchange_weak(&noted.end, &end, addr + bytes))
		;
}

static bool maybe_noted(uint64_t begin, uint64_t end)
{
	return !atomic_load(&noted.all_noted) ||
	       (begin < atomic_load(&noted.end) && atomic_load(&noted.begin) < end);
}

/* --- advice, keys and locks ------------------------------------------------------ */

static bool has_word(const char *words, const char *word)
{
	const char *at = strstr(words, word);

	return at && at[-1] == ' ' && (at[2] == ' ' || at[2] == '\n');
}

static bool is_marked(const char *flags)
{
	static const char *const marks[] = {
		"dc", "wf", "dd", /* not copied or wiped by fork(), not dumped */
		"mg", "lo",	  /* merged with twins, locked */
	};

	for (size_t i = 0; i < AV_ARRAY_SIZE(marks); i++)
		if (has_word(flags, marks[i]))
			return true;
	return false;
}

static bool is_ordinary_line(void *found, uint64_t begin, uint64_t end, const char *line)
{
	static const char flags[] = "VmFlags:", key[] = "ProtectionKey:";
	bool special = false;

	if (!strncmp(line, flags, sizeof(flags) - 1))
		special = is_marked(line + sizeof(flags) - 1);
	else if (!strncmp(line, key, sizeof(key) - 1))
		special = strtoul(line + sizeof(key) - 1, NULL, 10) != 0;
	*(bool *)found = special;
	return !special;
}

/* --- what is cheap to ask -------------------------------------------------------- */

/* A kernel without NUMA, and a container that may not ask, have no policy. */
static bool has_policy(uint64_t addr)
{
	int mode = MPOL_DEFAULT;

	return syscall(SYS_get_mempolicy, &mode, NULL, 0, addr, MPOL_F_ADDR) == 0 &&
	       mode != MPOL_DEFAULT;
}

static bool is_code_or_placed(uint64_t begin, uint64_t end)
{
	int maps = av_vma_open_own();
	bool ret = maps < 0;
	struct av_vma vma;

	for (uint64_t at = begin; !ret && at < end && av_vma_next(maps, at, &vma); at = vma.end)
		ret = vma.begin < end &&
		      (vma.executable || has_policy(vma.begin > at ? vma.begin : at));
	if (maps >= 0)
		syscall(SYS_close, maps);
	return ret;
}

bool av_special(uint64_t begin, uint64_t end)
{
	bool found = false;

	if (is_code_or_placed(begin, end))
		return true;
	if (!maybe_noted(begin, end))
		return false;
	return !av_smaps_read(begin, end, is_ordinary_line, &found) || found;
}

void av_special_move_policy(uint64_t from, uint64_t bytes, void *to)
{
	unsigned long nodes[NODES / (8 * sizeof(unsigned long))] = {0};
	int mode = MPOL_DEFAULT;

	if (syscall(SYS_get_mempolicy, &mode, nodes, NODES, from, MPOL_F_ADDR) ||
	    mode == MPOL_DEFAULT)
		return;
	(void)!syscall(SYS_mbind, to, bytes, mode, nodes, NODES, 0);
	(void)!syscall(SYS_mbind, from, bytes, MPOL_DEFAULT, NULL, 0, 0);
}
