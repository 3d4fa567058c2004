/* SPDX-License-Identifier: MIT */
#include "transport/observed.h"

#include <stdio.h>
#include <sys/param.h>
#include <unistd.h>

#include "base/thread.h"
#include "device/port.h"
#include "observe/pcapng.h"

/* --- files ------------------------------------------------------------------------ */

#define BATCH_BYTES 65536u
#define BLOCK_MAX   (AV_FRAME_MAX + AV_PCAPNG_AROUND_MAX)
static_assert(BATCH_BYTES >= BLOCK_MAX, "a batch of one block");

/* The file of one capture. Valid while @stamp is that of the directory. */
struct file {
	uint32_t stamp;	      /* 0: none */
	struct av_own_fd own; /* none: it could not be opened */
	uint32_t snaplen;
};

/* Of the setting, and of the files. */
static pthread_mutex_t setting_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t file_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct file files[AV_CAPTURES]; /* by number, from 1 */

static void close_file(struct file *f)
{
	if (f->stamp)
		av_own_fd_close(&f->own);
	*f = (struct file){.own = AV_OWN_FD_NONE};
}

static void reset_captures_in_child(void)
{
	pthread_mutex_init(&setting_mutex, NULL);
	pthread_mutex_init(&file_mutex, NULL);
	for (size_t i = 0; i < AV_CAPTURES; i++)
		close_file(&files[i]); /* they share their file position with the parent's */
}

static const struct av_fork_handlers fork_handlers = {.child = reset_captures_in_child};

static void open_capture_file(struct file *f, unsigned int number, uint32_t stamp)
{
	struct av_capture_spec spec;

	(void)av_fork_register(AV_FORK_CAPTURES, &fork_handlers);
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

/* Context: @file_mutex is held. Return: the file, or NULL */
static struct file *find_file(unsigned int number, uint32_t stamp)
{
	struct file *f = &files[number - 1];

	if (f->stamp != stamp)
		open_capture_file(f, number, stamp);
	return f->stamp == stamp ? f : NULL;
}

/*
 * Frames of a capture, which are appended to its file in one piece. Threads fill batches at the
 * same time, and write them one after the other.
 */
struct batch {
	unsigned int number; /* of the capture: registry/capture_table.h */
	uint32_t stamp, snaplen;
	uint8_t *blocks; /* NULL: nothing can be written */
	size_t used;
	uint64_t frames;
};

static void capture_batch_begin(struct batch *b, unsigned int number)
{
	uint32_t stamp = av_capture_stamp(number);
	struct file *f;

	*b = (struct batch){.number = number, .stamp = stamp};
	if (!stamp)
		return;
	pthread_mutex_lock(&file_mutex);
	f = find_file(number, stamp);
	b->snaplen = f ? f->snaplen : 0;
	pthread_mutex_unlock(&file_mutex);
	if (f)
		b->blocks = malloc(BATCH_BYTES);
}

/* Length of the first @frames blocks. */
static size_t count_block_bytes(const struct batch *b, uint64_t frames)
{
	size_t at = 0;

	for (; frames > 0; frames--) {
		uint32_t bytes;

		memcpy(&bytes, b->blocks + at + 4, sizeof(bytes));
		at += bytes;
	}
	return at;
}

static int append_capture_blocks(const struct batch *b, size_t bytes)
{
	struct file *f;
	int ret = -EBADF;

	AV_LOCKED(&file_mutex);
	f = find_file(b->number, b->stamp);
	if (f && av_own_fd(&f->own) >= 0)
		ret = av_pcapng_append(f->own.fd, b->blocks, bytes);
	else if (f)
		f->stamp = 0; /* opened again next time */
	return ret;
}

static void write_out(struct batch *b)
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

/* Room for a frame of AV_FRAME_MAX bytes; NULL: nothing can be written. May write the batch. */
static uint8_t *capture_batch_room(struct batch *b)
{
	if (!b->blocks)
		return NULL;
	if (BATCH_BYTES - b->used < BLOCK_MAX)
		write_out(b);
	return b->blocks + b->used + AV_PCAPNG_DATA_AT;
}

/* The frame is in its room: add it to the batch, cut to its length and the snap length. */
static void capture_batch_add(struct batch *b, struct av_pcapng_frame *frame)
{
	frame->captured = MIN(MIN(frame->captured, frame->length), b->snaplen);
	b->used += av_pcapng_block(b->blocks + b->used, frame);
	b->frames++;
}

static void capture_batch_end(struct batch *b)
{
	if (b->blocks)
		write_out(b);
	else if (b->stamp)
		av_capture_lost(b->number, 1);
	free(b->blocks);
}

/* Close the files of captures that are over. */
static void capture_files_tidy(void)
{
	AV_LOCKED(&file_mutex);
	for (unsigned int number = 1; number <= AV_CAPTURES; number++)
		if (files[number - 1].stamp && av_capture_stamp(number) != files[number - 1].stamp)
			close_file(&files[number - 1]);
}

/* --- packets on the wire ---------------------------------------------------------- */

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
	struct av_frame f = {.path = *s->path};

	f.path.identification = d->identification;
	av_frame_mac(f.path.src, f.eth_src);
	av_frame_mac(f.path.dst, f.eth_dst);
	return f;
}

static const char *datagram_drop_comment(const struct av_net_datagram *d)
{
	if (d->damaged)
		return "dropped: its invariant CRC is wrong";
	return d->unknown_queue ? "dropped: no queue pair has that number" : NULL;
}

static void add_captured_datagram(struct batch *b, const struct av_net_seen *s,
				  const struct av_net_datagram *d)
{
	uint8_t *to = capture_batch_room(b);
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
	frame.captured = AV_FRAME_MAX;
	capture_batch_add(b, &frame);
}

/* @device: NULL: not known */
static void write_to_captures(const struct av_net_seen *s, const char *device)
{
	unsigned int at = 0, number;

	while ((number = av_capture_find(av_lock_self, device, &at))) {
		struct batch b;

		capture_batch_begin(&b, number);
		for (unsigned int i = 0; i < s->count; i++)
			add_captured_datagram(&b, s, &s->datagram[i]);
		capture_batch_end(&b);
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
	AV_ERRNO_KEPT;

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
}

/* --- the setting ------------------------------------------------------------------ */

/* ANYVERBS_CAPTURE: a capture of the own contexts, from the first that is opened. */

static unsigned int last_begun; /* of the capture that was begun last; 0: none */
static uint32_t stamp;		/* its stamp */

/* Make the file, and set its name and identity in @spec. Return: 0 or errno */
static int create_capture_file(const char *name, struct av_capture_spec *spec)
{
	int fd AV_CLOSED = av_pcapng_open(name, false);
	struct stat st;

	if (fd < 0)
		return -fd;
	if (!realpath(name, spec->path) || fstat(fd, &st))
		return errno;
	spec->dev = st.st_dev;
	spec->ino = st.st_ino;
	return 0;
}

static void begin_setting(const char *name)
{
	struct av_capture_spec *spec = calloc(1, sizeof(*spec));
	int err = spec ? create_capture_file(name, spec) : ENOMEM, ret;

	if (err == 0) {
		spec->snaplen = UINT32_MAX;
		spec->limit = UINT64_MAX;
		ret = av_capture_begin(spec);
		err = ret < 0 ? -ret : 0;
	}
	free(spec);
	if (err) {
		av_log(AV_LOG_WARN, "ANYVERBS_CAPTURE: cannot capture to %s: %s", name,
		       err == EBADMSG ? "it is a file of another kind" : strerror(err));
		return;
	}
	last_begun = (unsigned int)ret;
	stamp = av_capture_stamp(last_begun);
}

void av_capture_context_opened(struct av_seg *seg)
{
	const char *name = secure_getenv("ANYVERBS_CAPTURE");
	AV_ERRNO_KEPT;

	(void)av_fork_register(AV_FORK_CAPTURES, &fork_handlers);
	pthread_mutex_lock(&setting_mutex);
	if (name && *name && !(last_begun && av_capture_is_mine(last_begun, stamp)))
		begin_setting(name);
	pthread_mutex_unlock(&setting_mutex);
	av_capture_observe_context(seg);
}

/* --- requests: their headers ------------------------------------------------------ */

#define WORD 8u

struct request {
	const struct av_observed *before;
	const struct av_qp_ref *req, *rsp; /* @rsp: ignored for datagrams */
	const struct av_sq_wqe *wqe;
	const struct av_outcome *result;
	const struct av_atomic *extended; /* an operation with operands; NULL: none */
	struct batch batch;
};

/* Where payload is. */
struct source {
	bool held, known;
	struct av_spans spans;
};

/* What the kernel puts into a RoCEv2 packet, whatever the program has set. */
#define HOP_LIMIT 64

/* The address of a port on link layer InfiniBand, which is known by its LID only. */
static void gid_of_lid(uint32_t lid, union ibv_gid *gid)
{
	struct av_gid row;

	av_gid_from_guid(lid, &row);
	*gid = row.gid;
}

/* The headers of frames from one queue pair to another. */
static struct av_frame flow(uint32_t label, uint8_t traffic_class, const uint32_t qpn[2],
			    const union ibv_gid *src, const union ibv_gid *dst)
{
	struct av_frame f = {
		.path.traffic_class = traffic_class,
		.path.hop_limit = HOP_LIMIT,
		.path.flow_label = label,
		.path.source_port = av_frame_source_port(label, qpn[0], qpn[1]),
	};

	memcpy(f.path.src, src->raw, sizeof(f.path.src));
	memcpy(f.path.dst, dst->raw, sizeof(f.path.dst));
	av_frame_mac(f.path.src, f.eth_src);
	av_frame_mac(f.path.dst, f.eth_dst);
	return f;
}

/* On a connection, with the addresses that the requester knows. @back: the responder's frames */
static struct av_frame connected_flow(const struct request *r, bool back)
{
	const struct av_qp_ref *end = back ? r->rsp : r->req;
	const struct ibv_ah_attr *ah = &end->qp->attr.ah_attr, *known = &r->req->qp->attr.ah_attr;
	const uint32_t qpn[] = {av_qp_number(end), end->qp->attr.dest_qp_num};
	union ibv_gid at[2]; /* the requester's, and the responder's */

	av_port_gid(r->req->seg->head->port, known->is_global ? known->grh.sgid_index : 0, &at[0]);
	if (known->is_global)
		at[1] = known->grh.dgid;
	else if (r->rsp->qp)
		av_port_gid(r->rsp->seg->head->port, 0, &at[1]);
	else
		gid_of_lid(known->dlid, &at[1]);
	return flow(ah->is_global ? ah->grh.flow_label : 0,
		    ah->is_global ? ah->grh.traffic_class : 0, qpn, &at[back], &at[!back]);
}

static struct av_frame datagram_flow(const struct request *r)
{
	const struct av_sq_wqe *wqe = r->wqe;
	const uint32_t qpn[] = {av_qp_number(r->req), wqe->ud.qpn & AV_QPN_MASK};
	bool global = wqe->route.is_global;
	union ibv_gid src, dst = wqe->ud.dgid;

	av_port_gid(r->req->seg->head->port, global ? wqe->route.sgid_index : 0, &src);
	if (!global) {
		struct av_seg *seg = av_qp_get(qpn[1]).seg;

		if (seg && seg->head->lid == wqe->route.dlid)
			av_port_gid(seg->head->port, 0, &dst);
		else
			gid_of_lid(wqe->route.dlid, &dst);
		av_seg_put(seg);
	}
	return flow(global ? wqe->route.flow_label : 0, global ? wqe->route.traffic_class : 0, qpn,
		    &src, &dst);
}

/* --- payload --------------------------------------------------------------------- */

/* Requester's buffers, less what cannot be reached at once: no request waits for a capture. */
static void source_local(struct source *s, const struct request *r)
{
	s->held = s->known = false;
	if (r->wqe->flags & IBV_SEND_INLINE) {
		av_spans_local(&s->spans, r->req->seg, (void *)(uintptr_t)r->wqe->data,
			       r->wqe->bytes);
		s->known = r->wqe->bytes <= AV_MAX_INLINE;
	} else if (r->wqe->count <= AV_MAX_SGE) {
		s->held = s->known =
			av_mem_get_list(r->req->seg, r->req->qp->pd, 0, r->wqe->sge, r->wqe->count,
					r->wqe->bytes, &s->spans) == AV_CHECK_NONE;
	}
}

static void source_end(struct source *s)
{
	if (s->held)
		av_mem_put_list(&s->spans);
}

static bool source_read(const struct source *s, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	struct av_spans from, there;

	if (bytes == 0)
		return true;
	if (!s->known || offset + bytes > s->spans.bytes)
		return false;
	from = s->spans;
	av_spans_skip(&from, offset);
	av_spans_local(&there, NULL, to, bytes);
	return av_xfer_copy_part(&there, &from, bytes, av_now_coarse_ns()) == AV_FAULT_NONE;
}

/* --- frames ---------------------------------------------------------------------- */

static const char *format_extended_comment(const struct request *r,
					   char text[AV_PCAPNG_COMMENT_MAX])
{
	if (!r->extended)
		return NULL;
	snprintf(text, AV_PCAPNG_COMMENT_MAX,
		 "extended atomic operation of %u bytes: masks and further words are not shown",
		 r->extended->bytes);
	return text;
}

/* Packets @first to @last of a message, with payload from @s. */
static void put_message(struct request *r, const struct av_wire_message *m, uint32_t last,
			const struct av_frame *f, const struct source *s, uint64_t time_ns)
{
	char text[AV_PCAPNG_COMMENT_MAX];

	for (uint32_t i = 0; i <= last; i++) {
		uint8_t *bytes = capture_batch_room(&r->batch);
		struct av_pcapng_frame frame = {.time_ns = time_ns,
						.comment = format_extended_comment(r, text)};
		struct av_packet p;
		int64_t offset = av_wire_packet(m, i, &p);
		size_t at;

		if (!bytes || offset < 0)
			return;
		at = av_frame_payload_at(f, p.opcode);
		p.payload = bytes + at;
		frame.captured = (uint32_t)at;
		if (source_read(s, (uint64_t)offset, bytes + at, p.payload_bytes))
			frame.captured = AV_FRAME_MAX;
		frame.length = (uint32_t)av_frame_put(f, &p, bytes, AV_FRAME_MAX);
		if (frame.length)
			capture_batch_add(&r->batch, &frame);
	}
}

/* --- the request ----------------------------------------------------------------- */

/*
 * The packet that a refusal answers: the first if a receive request is missing or the request has
 * an error; the last for what only completing the message shows.
 */
static uint32_t refused_packet(const struct request *r, const struct av_packet_kind *k,
			       uint32_t last)
{
	bool send = k->operation == AV_OP_SEND;

	if (r->result->wait_reason == AV_WAIT_RNR)
		return send ? 0 : last;
	switch (r->result->fault) {
	case AV_FAULT_REM_ACCESS:
	case AV_FAULT_REM_OP_DENIED:
	case AV_FAULT_REM_NO_RD_ATOMIC:
	case AV_FAULT_REM_MISALIGNED:
		return 0;
	default:
		return last;
	}
}

/* --- the answer ------------------------------------------------------------------ */

static struct av_wire_message answer_message(const struct request *r, enum av_operation operation,
					     uint32_t psn, uint8_t syndrome)
{
	const struct av_qp_shared *q = r->req->qp;
	struct av_wire_message m =
		av_answer_message(r->rsp->qp, q->type, q->attr.path_mtu, av_qp_number(r->req));

	m.operation = operation;
	m.head.psn = psn & AV_PSN_MASK;
	m.head.syndrome = syndrome;
	return m;
}

/* Write an acknowledgement of packet @psn without payload, or a refusal. */
static void put_acknowledge(struct request *r, const struct av_frame *f, uint32_t psn,
			    uint8_t syndrome)
{
	struct av_wire_message m = answer_message(r, AV_OP_ACK, psn, syndrome);
	const struct source nothing = {.known = false};

	put_message(r, &m, 0, f, &nothing, av_now_real_ns());
}

static void put_result(struct request *r, const struct av_packet_kind *k, const struct av_frame *f)
{
	struct av_wire_message m = answer_message(r, k->answer, r->before->psn, AV_SYNDROME_ACK);
	struct source s;

	source_local(&s, r);
	if (k->operation == AV_OP_READ)
		m.bytes = r->wqe->bytes;
	else if (k->answer == AV_OP_ATOMIC_ACK)
		(void)source_read(&s, 0, (uint8_t *)&m.head.original,
				  r->wqe->bytes < WORD ? (uint32_t)r->wqe->bytes : WORD);
	put_message(r, &m, av_wire_packets(m.bytes, m.mtu) - 1, f, &s, av_now_real_ns());
	source_end(&s);
}

static bool is_captured_done(const struct request *r)
{
	return r->result->fault == AV_FAULT_NONE && r->result->wait_reason == AV_WAIT_NONE;
}

static void put_connected(struct request *r, const struct av_packet_kind *k)
{
	struct av_wire_message m =
		av_request_message(r->req, r->wqe, k, r->extended, r->before->psn);
	uint32_t last = av_wire_packets(m.bytes, m.mtu) - 1;
	struct source s = {.known = false};
	struct av_frame f = connected_flow(r, false);

	if (!is_captured_done(r) && av_service_is_reliable(r->req->qp->type) &&
	    av_nak_syndrome(r->result) != AV_NAK_NONE)
		last = refused_packet(r, k, last);
	if (av_wr_opcode(r->wqe->opcode)->source)
		source_local(&s, r);
	put_message(r, &m, last, &f, &s, r->before->time_ns);
	source_end(&s);
	if (!av_service_is_reliable(r->req->qp->type) || !r->rsp->qp)
		return;
	f = connected_flow(r, true);
	if (is_captured_done(r) && k->answer != AV_OP_ACK)
		put_result(r, k, &f);
	else if (is_captured_done(r))
		put_acknowledge(r, &f, r->before->psn + last, AV_SYNDROME_ACK);
	else if (av_nak_syndrome(r->result) != AV_NAK_NONE)
		put_acknowledge(r, &f, r->before->psn + last, av_nak_syndrome(r->result));
}

static void put_datagram(struct request *r, const struct av_packet_kind *k)
{
	struct av_wire_message m =
		av_request_message(r->req, r->wqe, k, r->extended, r->before->psn);
	struct av_frame f = datagram_flow(r);
	struct source s;

	av_datagram_message(r->req, r->wqe, &m);
	source_local(&s, r);
	put_message(r, &m, 0, &f, &s, r->before->time_ns);
	source_end(&s);
}

/* --- which requests -------------------------------------------------------------- */

/* Did the request leave the requester? A fault that the requester finds itself sends nothing. */
static bool reaches_the_wire(const struct request *r)
{
	switch (r->result->fault) {
	case AV_FAULT_LOC_LEN:
	case AV_FAULT_LOC_QP_OP:
	case AV_FAULT_LOC_PROT:
	case AV_FAULT_MW_BIND:
		return false;
	default:
		return !r->result->moves && r->wqe->bytes <= AV_MAX_MSG_BYTES;
	}
}

/* Is it packets on a real wire? They are captured as they are. */
static bool is_packets(const struct request *r)
{
	return r->req->qp->wire ||
	       (r->req->qp->type == IBV_QPT_UD && av_datagram_leaves(r->req, r->wqe));
}

/*
 * Does nothing happen on the wire? Yes if the request was waiting already and its time has not
 * come, or if this was only a last look for an answer to what was sent.
 */
static bool only_waits(const struct request *r)
{
	const struct av_qp_shared *q = r->req->qp;

	if (r->result->wait_reason == AV_WAIT_NONE ||
	    r->before->wait_reason != r->result->wait_reason)
		return false;
	if (av_now_ns() < atomic_load(&q->deadline_ns))
		return true;
	return r->result->wait_reason == AV_WAIT_NO_ANSWER && av_retry_is_last(q);
}

/* Stop observing a context if no capture covers it, and close the files of those that are over. */
static void look_for_captures(struct av_seg *seg)
{
	unsigned int at = 0;

	if (av_capture_next(seg, &at))
		return;
	av_capture_unobserve_context(seg);
	capture_files_tidy();
}

static bool capture_may_begin(struct av_observed *o)
{
	AV_UNCANCELLED;

	if (o->end->qp->wire)
		look_for_captures(o->end->seg);
	o->psn = o->end->qp->next_psn;
	o->wait_reason = atomic_load_explicit(&o->end->qp->wait_reason, memory_order_relaxed);
	o->time_ns = av_now_real_ns();
	return true;
}

static void capture_request(const struct av_observed *o, const struct av_outcome *result)
{
	AV_UNCANCELLED;
	const struct av_packet_kind *kind = av_packet_kind(o->wqe->opcode);
	struct request r = {
		.before = o, .req = o->end, .rsp = o->peer, .wqe = o->wqe, .result = result};
	unsigned int at = 0, number;

	look_for_captures(r.req->seg);
	/* Keep the peer at which it was executed: av_after_do() has yet to ring there. */
	if (r.req->qp->type != IBV_QPT_UD && !o->peer->qp)
		av_connect(r.req, o->peer);
	if (!kind || !reaches_the_wire(&r) || only_waits(&r) || is_packets(&r))
		return;
	if (av_wr_opcode(r.wqe->opcode)->form == AV_FORM_OPERANDS)
		r.extended = av_sq_operands(r.req, r.wqe);
	while ((number = av_capture_next(r.req->seg, &at))) {
		capture_batch_begin(&r.batch, number);
		if (r.req->qp->type == IBV_QPT_UD)
			put_datagram(&r, kind);
		else
			put_connected(&r, kind);
		capture_batch_end(&r.batch);
	}
}

/* It is written as it was received: av_capture_seen(). */
static bool capture_packet(struct av_seg *seg, const struct av_net_packet *packet)
{
	look_for_captures(seg);
	return false;
}

const struct av_observer av_capture_observer = {
	.bit = AV_OBSERVER_CAPTURE,
	.may_begin = capture_may_begin,
	.done = capture_request,
	.packet = capture_packet,
};
