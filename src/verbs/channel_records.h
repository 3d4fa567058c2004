/* SPDX-License-Identifier: MIT */
/*
 * The unread records of a completion channel: in its FIFO, and in @kept, which goes before.
 *
 * A CQ's records leave the FIFO with it. A FIFO can only be read from the front, so they all are
 * read, and those of others are written back. A reader that finds nothing meanwhile waits for the
 * end of that, since poll(2) may have told it of one. What finds no room any more, because others
 * have filled the FIFO, is kept here; the descriptor is readable then anyway.
 */
#ifndef AV_VERBS_CHANNEL_RECORDS_H
#define AV_VERBS_CHANNEL_RECORDS_H

#include "segment/doorbell.h"
#include "verbs/objects.h"

void av_channel_records_init(struct av_channel *channel);
void av_channel_records_fini(struct av_channel *channel);

/*
 * The next record, as blocking as the channel's descriptor is.
 * Context: any thread, no lock held; a cancellation point
 * Return: 0, or -1 and errno
 */
AV_MUST_USE int av_channel_read(struct av_channel *channel, struct av_doorbell_record *record);

/*
 * Remove the records of a CQ. @fd: its FIFO, not blocking
 * @others: out, how many of others there are
 * Return: how many were removed; 0, too, if there is no memory for it: then they stay
 */
int av_channel_sort_out(struct av_channel *channel, int fd, uint32_t cq_index, uint32_t cq_id,
			int *others);

#endif
