/* SPDX-License-Identifier: MIT */
#include "verbs/channel_records.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/uncancelled.h"

void av_channel_records_init(struct av_channel *channel)
{
	pthread_mutex_init(&channel->mutex, NULL);
}

void av_channel_records_fini(struct av_channel *channel)
{
	pthread_mutex_destroy(&channel->mutex);
	free(channel->kept);
}

/* --- reading ------------------------------------------------------------------------ */

/* Return: 0, or -1 and errno. */
static int read_record(int fd, struct av_doorbell_record *record)
{
	ssize_t n = read(fd, record, sizeof(*record));

	if (n == (ssize_t)sizeof(*record))
		return 0;
	if (n >= 0)
		errno = EIO;
	return -1;
}

static bool take_kept(struct av_channel *channel, struct av_doorbell_record *record)
{
	bool any;

	if (av_likely(atomic_load(&channel->kept_count) == 0))
		return false;
	pthread_mutex_lock(&channel->mutex);
	any = atomic_load(&channel->kept_count) != 0;
	if (any) {
		uint32_t left = atomic_fetch_sub(&channel->kept_count, 1) - 1;

		*record = channel->kept[0];
		memmove(channel->kept, channel->kept + 1, left * sizeof(*channel->kept));
	}
	pthread_mutex_unlock(&channel->mutex);
	return any;
}

/* Have the records been sorted since, or are they now? If so, waits for the end of that. */
static bool sorted_since(struct av_channel *channel, uint32_t sorts)
{
	if (sorts % 2 == 0 && atomic_load(&channel->sorts) == sorts)
		return false;
	pthread_mutex_lock(&channel->mutex);
	pthread_mutex_unlock(&channel->mutex);
	return true;
}

int av_channel_read(struct av_channel *channel, struct av_doorbell_record *record)
{
	uint32_t sorts;

	do {
		sorts = atomic_load(&channel->sorts);
		if (take_kept(channel, record) || read_record(channel->ibv.fd, record) == 0)
			return 0;
	} while (errno == EAGAIN && sorted_since(channel, sorts));
	return -1;
}

/* --- sorting; the mutex is held ---------------------------------------------------- */

/* Records in the FIFO. */
static uint32_t pending(int fd)
{
	int bytes = 0;

	return ioctl(fd, FIONREAD, &bytes) ? 0
					   : (uint32_t)bytes / sizeof(struct av_doorbell_record);
}

/* Append what is in the FIFO to @list. Concurrent readers leave less. Return: entries of @list */
static uint32_t collect(int fd, struct av_doorbell_record *list, uint32_t count, uint32_t capacity)
{
	while (count < capacity && read_record(fd, &list[count]) == 0)
		count++;
	return count;
}

/* Return: entries that are left */
static uint32_t without(struct av_doorbell_record *list, uint32_t count, uint32_t cq_index,
			uint32_t cq_id)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < count; i++)
		if (list[i].index != cq_index || list[i].id != cq_id)
			list[left++] = list[i];
	return left;
}

/* Return: how many found room in the FIFO */
static uint32_t write_back(int fd, const struct av_doorbell_record *list, uint32_t count)
{
	uint32_t n = 0;

	while (n < count && write(fd, &list[n], sizeof(*list)) == (ssize_t)sizeof(*list))
		n++;
	return n;
}

static uint32_t sort_out(struct av_channel *channel, int fd, uint32_t cq_index, uint32_t cq_id,
			 uint32_t *others)
{
	uint32_t kept = atomic_load(&channel->kept_count), total = kept + pending(fd), count, back;
	struct av_doorbell_record *list = total ? malloc(total * sizeof(*list)) : NULL;

	*others = total;
	if (!list)
		return 0;
	if (kept)
		memcpy(list, channel->kept, kept * sizeof(*list));
	count = collect(fd, list, kept, total);
	*others = without(list, count, cq_index, cq_id);
	back = write_back(fd, list, *others);
	memmove(list, list + back, (*others - back) * sizeof(*list));
	free(channel->kept);
	channel->kept = list;
	atomic_store(&channel->kept_count, *others - back);
	return count - *others;
}

int av_channel_sort_out(struct av_channel *channel, int fd, uint32_t cq_index, uint32_t cq_id,
			int *others)
{
	AV_UNCANCELLED;
	uint32_t found, left;

	pthread_mutex_lock(&channel->mutex);
	atomic_fetch_add(&channel->sorts, 1);
	found = sort_out(channel, fd, cq_index, cq_id, &left);
	atomic_fetch_add(&channel->sorts, 1);
	pthread_mutex_unlock(&channel->mutex);
	*others = (int)left;
	return (int)found;
}
