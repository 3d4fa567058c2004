/* SPDX-License-Identifier: MIT */
#include "transport/capture_file.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/fork.h"
#include "base/lock.h"
#include "base/own_fd.h"
#include "base/thread.h"
#include "observe/log.h"
#include "queue/qp.h"
#include "registry/capture_table.h"
#include "segment/segment.h"
#include "wire/bytes.h"
#include "wire/frame.h"

#define BATCH_BYTES 65536u
#define BLOCK_MAX   (AV_FRAME_MAX + AV_PCAPNG_AROUND_MAX)
static_assert(BATCH_BYTES >= BLOCK_MAX, "a batch of one block");

/* The file of one capture. Valid while @stamp is that of the directory. */
struct file {
	uint32_t stamp;	      /* 0: none */
	struct av_own_fd own; /* none: it could not be opened */
	uint32_t snaplen;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct file files[AV_CAPTURES]; /* by number, from 1 */

static void close_file(struct file *f)
{
	if (f->stamp)
		av_own_fd_close(&f->own);
	*f = (struct file){.own = AV_OWN_FD_NONE};
}

static void reset_captures_in_child(void)
{
	pthread_mutex_init(&mutex, NULL);
	for (size_t i = 0; i < AV_CAPTURES; i++)
		close_file(&files[i]); /* they share their file position with the parent's */
}

static const struct av_fork_handlers fork_handlers = {.child = reset_captures_in_child};

static void open_capture_file(struct file *f, unsigned int number, uint32_t stamp)
{
	struct av_capture_spec spec;

	(void)av_fork_register(AV_FORK_CAPTURE_FILE, &fork_handlers);
	close_file(f);
	if (!av_capture_spec(number, stamp, &spec))
		return;
	*f = (struct file){.stamp = stamp, .snaplen = spec.snaplen};
	if (av_own_fd_keep(&f->own, av_pcapng_open(spec.path, false)) && f->own.dev == spec.dev &&
	    f->own.ino == spec.ino)
		return;
	av_own_fd_close(&f->own); /* in another mount namespace the name is some other file */
	av_warn_once(
		"cannot write to %s: what this process executes will be missing from the capture",
		spec.path);
}

/*
 * Context: the mutex is held.
 * Return:  the file, or NULL
 */
static struct file *find_file(unsigned int number, uint32_t stamp)
{
	struct file *f = &files[number - 1];

	if (f->stamp != stamp)
		open_capture_file(f, number, stamp);
	return f->stamp == stamp ? f : NULL;
}

void av_capture_batch_begin(struct av_capture_batch *b, unsigned int number)
{
	uint32_t stamp = av_capture_stamp(number);
	struct file *f;

	*b = (struct av_capture_batch){.number = number, .stamp = stamp};
	if (!stamp)
		return;
	pthread_mutex_lock(&mutex);
	f = find_file(number, stamp);
	b->snaplen = f ? f->snaplen : 0;
	pthread_mutex_unlock(&mutex);
	if (f)
		b->blocks = malloc(BATCH_BYTES);
}

/* Length of the first @frames blocks. */
static size_t count_block_bytes(const struct av_capture_batch *b, uint64_t frames)
{
	size_t at = 0;

	for (; frames > 0; frames--) {
		uint32_t bytes;

		memcpy(&bytes, b->blocks + at + 4, sizeof(bytes));
		at += bytes;
	}
	return at;
}

static int append_capture_blocks(const struct av_capture_batch *b, size_t bytes)
{
	struct file *f;
	int ret = -EBADF;

	pthread_mutex_lock(&mutex);
	f = find_file(b->number, b->stamp);
	if (f && av_own_fd(&f->own) >= 0)
		ret = av_pcapng_append(f->own.fd, b->blocks, bytes);
	else if (f)
		f->stamp = 0; /* opened again next time */
	pthread_mutex_unlock(&mutex);
	return ret;
}

static void write_out(struct av_capture_batch *b)
{
	uint64_t frames = b->frames ? av_capture_take(b->number, b->stamp, b->frames) : 0;
	int ret = frames ? append_capture_blocks(b, count_block_bytes(b, frames)) : 0;

	if (ret)
		av_capture_untake(b->number, frames);
	else if (frames)
		av_capture_written(b->number, frames);
	if (ret && ret != -EBADF)
		av_capture_stop(b->number, -ret);
	b->used = 0;
	b->frames = 0;
}

uint8_t *av_capture_batch_room(struct av_capture_batch *b)
{
	if (!b->blocks)
		return NULL;
	if (BATCH_BYTES - b->used < BLOCK_MAX)
		write_out(b);
	return b->blocks + b->used + AV_PCAPNG_DATA_AT;
}

void av_capture_batch_add(struct av_capture_batch *b, struct av_pcapng_frame *frame)
{
	if (frame->captured > b->snaplen)
		frame->captured = b->snaplen;
	b->used += av_pcapng_block(b->blocks + b->used, frame);
	b->frames++;
}

void av_capture_batch_end(struct av_capture_batch *b)
{
	if (b->blocks)
		write_out(b);
	else if (b->stamp)
		av_capture_lost(b->number, 1);
	free(b->blocks);
}

void av_capture_files_tidy(void)
{
	pthread_mutex_lock(&mutex);
	for (unsigned int number = 1; number <= AV_CAPTURES; number++)
		if (files[number - 1].stamp && av_capture_stamp(number) != files[number - 1].stamp)
			close_file(&files[number - 1]);
	pthread_mutex_unlock(&mutex);
}

#define QPN_AT	  5 /* in the BTH */
#define QPN_BYTES 3
#define NO_QPN	  0

static uint32_t parse_datagram_qpn(const struct av_net_datagram *d)
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

static const char *datagram_drop_comment(const struct av_net_datagram *d)
{
	if (d->damaged)
		return "dropped: its invariant CRC is wrong";
	return d->unknown_queue ? "dropped: no queue pair has that number" : NULL;
}

static void add_captured_datagram(struct av_capture_batch *b, const struct av_net_seen *s,
				  const struct av_net_datagram *d)
{
	uint8_t *to = av_capture_batch_room(b);
	struct av_pcapng_frame frame = {
		.time_ns = s->time_ns,
		.comment = datagram_drop_comment(d),
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
static void write_to_captures(const struct av_net_seen *s, const char *device)
{
	unsigned int at = 0, number;

	while ((number = av_capture_find(av_lock_self, device, &at))) {
		struct av_capture_batch b;

		av_capture_batch_begin(&b, number);
		for (unsigned int i = 0; i < s->count; i++)
			add_captured_datagram(&b, s, &s->datagram[i]);
		av_capture_batch_end(&b);
	}
}

/* What has come for one queue pair is its device's. */
static void write_arrived(const struct av_net_seen *s)
{
	struct av_seg *seg = av_qp_get(parse_datagram_qpn(s->datagram)).seg;

	write_to_captures(s, seg && seg->own ? seg->head->device : NULL);
	av_seg_put(seg);
}

void av_capture_seen(const struct av_net_seen *seen)
{
	AV_UNCANCELLED;
	struct av_net_seen rest = *seen, run;
	int saved = errno;

	if (seen->device)
		write_to_captures(seen, seen->device);
	for (; !seen->device && rest.count; rest.datagram += run.count, rest.count -= run.count) {
		run = rest;
		run.count = 1;
		while (run.count < rest.count && parse_datagram_qpn(&rest.datagram[run.count]) ==
							 parse_datagram_qpn(rest.datagram))
			run.count++;
		write_arrived(&run);
	}
	errno = saved;
}
