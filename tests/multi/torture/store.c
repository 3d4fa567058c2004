/* SPDX-License-Identifier: MIT */
/* What each byte must be. */
#include "torture/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/userfaultfd.h"
#include "torture/peer.h"
#include "torture/random_run.h"

uint8_t *space;
bool unmapping_is_noticed;
static uint8_t shadow[SPACE];
enum page_state state[PAGES];
uint64_t unmapped[PAGES];
static uint64_t now;
struct store pages = {.size = SPACE, .shadow = shadow};
struct store block[BLOCKS];
uint64_t dm_used, dm_max;

uint64_t tick(void)
{
	return ++now;
}

uint64_t moment(void)
{
	return now;
}

bool present(const struct store *s, uint64_t at, uint64_t bytes, bool write, uint64_t *good)
{
	*good = bytes;
	if (s != &pages)
		return true;
	for (uint64_t done = 0; done < bytes; done += PAGE - (at + done) % PAGE) {
		uint64_t here = at + done;

		if (here < SPACE &&
		    (state[here / PAGE] == RW || (state[here / PAGE] == RO && !write)))
			continue;
		*good = done;
		return false;
	}
	return true;
}

void compare(const uint8_t *real, const uint8_t *model, uint64_t at, uint64_t bytes,
	     const char *what)
{
	if (memcmp(real, model + at, bytes) == 0)
		return;
	for (uint64_t i = 0; i < bytes; i++)
		MUST(real[i] == model[at + i], "%s: byte 0x%lx is 0x%02x, not 0x%02x", what, at + i,
		     real[i], model[at + i]);
}

static void check_pages(uint64_t from, uint64_t to)
{
	for (uint64_t p = from / PAGE; p * PAGE < to; p++)
		if (state[p] == RW || state[p] == RO)
			compare(space + p * PAGE, shadow, p * PAGE, PAGE, "address space");
}

static void check_block(const struct store *s)
{
	static uint8_t copy[1 << 20];

	for (uint64_t at = 0; at < s->size; at += sizeof(copy)) {
		uint64_t bytes = s->size - at < sizeof(copy) ? s->size - at : sizeof(copy);

		MUST(ibv_memcpy_from_dm(copy, s->dm, at, bytes) == 0,
		     "ibv_memcpy_from_dm: errno %d", errno);
		compare(copy, s->shadow, at, bytes, "device memory");
	}
}

void check_store(const struct store *s, uint64_t at, uint64_t bytes)
{
	uint64_t from = at > PAGE ? at - PAGE : 0,
		 to = at + bytes + PAGE < s->size ? at + bytes + PAGE : s->size;

	if (s == &pages)
		check_pages(from, to);
	else if (s->size <= 65536 || chance(2))
		check_block(s);
}

void check_everything(void)
{
	check_pages(0, SPACE);
	for (size_t i = 0; i < BLOCKS; i++)
		if (block[i].dm)
			check_block(&block[i]);
}

void adopt_prefix(struct store *s, uint64_t at, const uint8_t *data, uint64_t good)
{
	uint64_t i = 0;

	while (i < good && space[at + i] == data[i])
		i++;
	/* Bytes that are equal by chance are no sign of either. */
	compare(space + at + i, s->shadow, at + i, good - i, "behind the part that was written");
	memcpy(s->shadow + at, data, i);
}

void store_open(void)
{
	struct ibv_device_attr_ex attr;

	if (ibv_query_device_ex(n->ctx, NULL, &attr))
		DIE("ibv_query_device_ex");
	dm_max = attr.max_dm_size;
	unmapping_is_noticed = has_userfaultfd();
	space = mmap((void *)SPACE_AT, SPACE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (space != (void *)SPACE_AT)
		DIE("nothing can be mapped at 0x%lx", SPACE_AT);
}

void store_close(void)
{
	for (size_t i = 0; i < BLOCKS; i++) {
		if (block[i].dm)
			EXPECT(ibv_free_dm(block[i].dm) == 0, "ibv_free_dm");
		free(block[i].shadow);
	}
}
