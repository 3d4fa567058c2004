/* SPDX-License-Identifier: MIT */
/* Record locks on bytes far beyond the end of the directory, one for each shared block. */
#include "registry/tables.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/queue.h>

/* The kernel knows one lock per process. Guarded by the directory's mutex. */
struct hold {
	off_t byte;
	unsigned int count;
	SLIST_ENTRY(hold) link;
};

static SLIST_HEAD(, hold) holds;

static off_t byte_of(uint32_t ref, uint64_t at)
{
	return (off_t)1 << 60 | (off_t)(at & 1) << 59 | (off_t)ref << 22 | (off_t)(at >> 12);
}

void av_page_users_forked(void)
{
	struct hold *one;

	while ((one = SLIST_FIRST(&holds))) {
		SLIST_REMOVE_HEAD(&holds, link);
		free(one);
	}
}

/* NULL: this process does not hold it. */
static struct hold *find_page_hold(off_t byte)
{
	struct hold *one;

	SLIST_FOREACH(one, &holds, link)
		if (one->byte == byte)
			break;
	return one;
}

static int acquire_page_hold(off_t byte)
{
	struct hold *one = find_page_hold(byte);

	if (!one) {
		one = calloc(1, sizeof(*one));
		if (!one)
			return ENOMEM;
		one->byte = byte;
		if (av_dir_record_lock(F_OFD_SETLK, F_RDLCK, byte)) {
			free(one);
			return ENOMEM;
		}
		SLIST_INSERT_HEAD(&holds, one, link);
	}
	one->count++;
	return 0;
}

int av_page_users_join(uint32_t ref, uint64_t at)
{
	int ret = -av_dir_change_begin();

	if (ret)
		return ret;
	ret = acquire_page_hold(byte_of(ref, at));
	av_dir_change_end();
	return ret;
}

/* By other processes: F_OFD_GETLK does not report one's own locks. */
static bool held_elsewhere(off_t byte)
{
	return av_dir_record_lock(F_OFD_GETLK, F_WRLCK, byte) != 0;
}

/* Return: true if nobody of this process uses it any more */
static bool end_hold(off_t byte)
{
	struct hold *one = find_page_hold(byte);

	if (!one || --one->count)
		return false;
	SLIST_REMOVE(&holds, one, hold, link);
	free(one);
	return true;
}

bool av_page_users_leave(uint32_t ref, uint64_t at, void (*last)(void *arg), void *arg)
{
	bool changing = av_dir_change_begin() == 0, is_last = false;
	off_t byte = byte_of(ref, at);

	if (!changing)
		av_dir_hold();
	if (end_hold(byte)) {
		is_last = changing && !held_elsewhere(byte);
		if (is_last && last)
			last(arg); /* before the lock goes: then others may reuse the range */
		(void)av_dir_record_lock(F_OFD_SETLK, F_UNLCK, byte);
	}
	if (changing)
		av_dir_change_end();
	else
		av_dir_release();
	return is_last;
}

bool av_page_users_any(uint32_t ref, uint64_t at)
{
	off_t byte = byte_of(ref, at);
	bool held;

	if (av_dir_change_begin())
		return true;
	held = find_page_hold(byte) || held_elsewhere(byte);
	av_dir_change_end();
	return held;
}
