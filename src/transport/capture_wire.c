/* SPDX-License-Identifier: MIT */
#include "transport/capture_wire.h"

#include <errno.h>
#include <string.h>

#include "base/lock.h"
#include "base/uncancelled.h"
#include "queue/qp.h"
#include "registry/capture_table.h"
#include "segment/segment.h"
#include "transport/capture_file.h"
#include "wire/bytes.h"
#include "wire/frame.h"

#define QPN_AT	  5 /* in the BTH */
#define QPN_BYTES 3
#define NO_QPN	  0

static uint32_t qpn_of(const struct av_net_datagram *d)
{
	return d->count >= QPN_AT + QPN_BYTES ? av_get24(d->bytes + QPN_AT) : NO_QPN;
}

/* What a UDP socket hides is left out: Ethernet addresses, and the checksum of what came. */
static struct av_frame frame_of(const struct av_net_seen *s, const struct av_net_datagram *d)
{
	struct av_frame f = {
		.traffic_class = s->path->traffic_class,
		.hop_limit = s->path->hop_limit,
		.flow_label = s->path->flow_label,
		.identification = d->identification,
		.source_port = s->source_port,
	};

	memcpy(f.src, s->path->src, sizeof(f.src));
	memcpy(f.dst, s->path->dst, sizeof(f.dst));
	av_frame_mac(f.src, f.eth_src);
	av_frame_mac(f.dst, f.eth_dst);
	return f;
}

static const char *comment_of(const struct av_net_datagram *d)
{
	if (d->damaged)
		return "dropped: its invariant CRC is wrong";
	return d->unknown_queue ? "dropped: no queue pair has that number" : NULL;
}

static void put(struct av_capture_batch *b, const struct av_net_seen *s,
		const struct av_net_datagram *d)
{
	uint8_t *to = av_capture_batch_room(b);
	struct av_pcapng_frame frame = {
		.time_ns = s->time_ns,
		.comment = comment_of(d),
		.direction = s->device ? AV_PCAPNG_OUTBOUND : AV_PCAPNG_INBOUND,
	};
	struct av_frame f = frame_of(s, d);

	if (!to)
		return;
	/* The kernel sends a checksum of UDP; whether there was one on what came is not known. */
	frame.length = (uint32_t)av_frame_wrap(&f, s->device, d->bytes, d->count, to, AV_FRAME_MAX);
	frame.captured = frame.length < AV_FRAME_MAX ? frame.length : AV_FRAME_MAX;
	av_capture_batch_add(b, &frame);
}

/* @device: NULL: not known */
static void write_all(const struct av_net_seen *s, const char *device)
{
	unsigned int at = 0, number;

	while ((number = av_capture_find(av_lock_self, device, &at))) {
		struct av_capture_batch b;

		av_capture_batch_begin(&b, number);
		for (unsigned int i = 0; i < s->count; i++)
			put(&b, s, &s->datagram[i]);
		av_capture_batch_end(&b);
	}
}

/* What has come for one queue pair is its device's. */
static void write_arrived(const struct av_net_seen *s)
{
	struct av_seg *seg = av_qp_get(qpn_of(s->datagram)).seg;

	write_all(s, seg && seg->own ? seg->head->device : NULL);
	av_seg_put(seg);
}

void av_capture_seen(const struct av_net_seen *seen)
{
	AV_UNCANCELLED;
	struct av_net_seen rest = *seen, run;
	int saved = errno;

	if (seen->device)
		write_all(seen, seen->device);
	for (; !seen->device && rest.count; rest.datagram += run.count, rest.count -= run.count) {
		run = rest;
		run.count = 1;
		while (run.count < rest.count &&
		       qpn_of(&rest.datagram[run.count]) == qpn_of(rest.datagram))
			run.count++;
		write_arrived(&run);
	}
	errno = saved;
}
