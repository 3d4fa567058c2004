/* SPDX-License-Identifier: MIT */

#include <arpa/inet.h>

#include "device/port.h"
#include "observe/freedom.h"
#include "registry/tables.h"
#include "transport/observed.h"
#include "transport/transport.h"
#include "wire/address.h"

/* Reading and writing the header area of a datagram. */

#define IPV4_AT	      20 /* where the IPv4 header lies in the 40 bytes */
#define IPV4_BYTES    20
#define UDP_BYTES     8
#define BTH_DETH      20
#define IMM_BYTES     4
#define ICRC_BYTES    4
#define PROTOCOL_UDP  17
#define NEXT_IBA      0x1b
#define DONT_FRAGMENT 0x40
#define NO_GRH	      0xa5 /* what a strict device leaves there */

/* Ones' complement sum over the header, RFC 791. 0: its checksum is correct */
static uint16_t checksum(const uint8_t *header)
{
	uint32_t sum = 0;

	for (int i = 0; i < IPV4_BYTES; i += 2)
		sum += (uint32_t)header[i] << 8 | header[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

/* Bytes from BTH to ICRC, with padding to a multiple of four. */
static uint32_t transport_bytes(const struct av_grh_fields *f)
{
	return BTH_DETH + (f->immediate ? IMM_BYTES : 0) + ((f->payload + 3) & ~3u) + ICRC_BYTES;
}

static void write_ipv4(uint8_t *to, const struct av_grh_fields *f)
{
	to[0] = 0x45;
	to[1] = f->traffic_class;
	av_put16(to + 2, IPV4_BYTES + UDP_BYTES + transport_bytes(f));
	to[6] = DONT_FRAGMENT;
	to[8] = f->hop_limit;
	to[9] = PROTOCOL_UDP;
	memcpy(to + 12, f->sgid.raw + 12, 4);
	memcpy(to + 16, f->dgid.raw + 12, 4);
	av_put16(to + 10, checksum(to));
}

enum av_packet_type av_grh_packet_type(const struct av_grh_fields *f)
{
	if (f->iba)
		return AV_PACKET_V1;
	return av_frame_gid_is_ipv4(f->sgid.raw) && av_frame_gid_is_ipv4(f->dgid.raw)
		       ? AV_PACKET_V2_IPV4
		       : AV_PACKET_V2_IPV6;
}

void av_grh_write(uint8_t to[AV_GRH_BYTES], const struct av_grh_fields *f)
{
	memset(to, 0, AV_GRH_BYTES);
	if (av_grh_packet_type(f) == AV_PACKET_V2_IPV4) {
		write_ipv4(to + IPV4_AT, f);
		return;
	}
	to[0] = (uint8_t)(0x60 | f->traffic_class >> 4);
	to[1] = (uint8_t)(f->traffic_class << 4 | (f->flow_label >> 16 & 15));
	av_put16(to + 2, f->flow_label & 0xffff);
	av_put16(to + 4, transport_bytes(f) + (f->iba ? 0 : UDP_BYTES));
	to[6] = f->iba ? NEXT_IBA : PROTOCOL_UDP;
	to[7] = f->hop_limit;
	memcpy(to + 8, f->sgid.raw, 16);
	memcpy(to + 24, f->dgid.raw, 16);
}

static void map_ipv4(union ibv_gid *gid, const uint8_t *address)
{
	memset(gid, 0, sizeof(*gid));
	gid->raw[10] = gid->raw[11] = 0xff;
	memcpy(gid->raw + 12, address, 4);
}

bool av_grh_read(const uint8_t from[AV_GRH_BYTES], struct av_grh_fields *f)
{
	const uint8_t *ip = from + IPV4_AT;

	memset(f, 0, sizeof(*f));
	if (ip[0] == 0x45 && checksum(ip) == 0) {
		f->traffic_class = ip[1];
		f->hop_limit = ip[8];
		map_ipv4(&f->sgid, ip + 12);
		map_ipv4(&f->dgid, ip + 16);
		return true;
	}
	if (from[0] >> 4 != 6)
		return false;
	f->traffic_class = (uint8_t)(from[0] << 4 | from[1] >> 4);
	f->flow_label = (uint32_t)(from[1] & 15) << 16 | (uint32_t)from[2] << 8 | from[3];
	f->iba = from[6] == NEXT_IBA;
	f->hop_limit = from[7];
	memcpy(f->sgid.raw, from + 8, 16);
	memcpy(f->dgid.raw, from + 24, 16);
	return true;
}

/* Datagrams. */

#define MULTICAST_QPN 0xffffffu

struct datagram {
	struct av_sq_wqe head;
	uint32_t qkey, src_qpn;
	int32_t src_pid; /* 0: it came from another host */
	uint16_t slid;
	uint8_t grh[AV_GRH_BYTES];
	bool has_grh;
	uint8_t sl;		/* as the receiver's completion has it */
	struct av_spans from;	/* header area and payload */
	bool source_read;	/* by a delivery */
	bool source_bad;	/* the sender's own memory cannot be used */
	enum av_fault failed;	/* of the receiver's own, for which it fails */
	bool group;		/* it goes to a multicast group */
	struct av_after *after; /* NULL: receivers are woken at once */
	uint64_t now_ns;	/* coarse clock */
};

static void write_header(struct datagram *d, const struct av_qp_ref *req)
{
	const struct av_seg_head *h = req->seg->head;
	bool infiniband = h->link_layer == IBV_LINK_LAYER_INFINIBAND;
	struct av_grh_fields f = {
		.dgid = d->head.ud.dgid,
		.flow_label = d->head.route.flow_label,
		.traffic_class = d->head.route.traffic_class,
		.hop_limit = d->head.route.hop_limit,
		.payload = (uint32_t)d->head.bytes,
		.immediate = d->head.opcode == IBV_WR_SEND_WITH_IMM,
	};

	d->has_grh = d->head.route.is_global;
	f.iba = av_port_gid(h->port, d->head.route.sgid_index, &f.sgid) == IBV_GID_TYPE_ROCE_V1 ||
		infiniband;
	av_grh_write(d->grh, &f);
	if (!d->has_grh && h->strict & AV_FREEDOM_BIT(AV_FREEDOM_UNDEFINED))
		memset(d->grh, NO_GRH, sizeof(d->grh));
	d->sl = infiniband ? d->head.route.sl : (uint8_t)av_grh_packet_type(&f);
}

/* Put the header area and the sender's buffers into one list. */
static enum av_fault gather_datagram_spans(struct datagram *d, const struct av_qp_ref *req,
					   const struct av_sq_wqe *ring)
{
	struct av_spans local;
	enum av_fault fault = av_request_buffers(req, ring, 0, &local);

	if (fault != AV_FAULT_NONE)
		return fault;
	av_spans_local(&d->from, NULL, d->grh, AV_GRH_BYTES);
	for (uint32_t i = 0; i < local.count; i++)
		d->from.at[1 + i] = local.at[i];
	d->from.count = 1 + (d->head.bytes ? local.count : 0);
	d->from.bytes = AV_GRH_BYTES + d->head.bytes;
	return AV_FAULT_NONE;
}

static bool is_addressee(const struct av_qp_shared *p, uint32_t qpn)
{
	return atomic_load_explicit(&p->qpn, memory_order_relaxed) == qpn && p->type == IBV_QPT_UD;
}

/* @rsp drops the message: for the reason that has been noted, or for a @fault of its own. */
static void drop_datagram(const struct datagram *d, const struct av_qp_ref *rsp,
			  enum av_fault fault)
{
	av_count_rsp(rsp->qp, AV_RSP_DROPPED);
	av_report_dropped(&(struct av_dropped){.at = rsp,
					       .fault = fault,
					       .src_qpn = d->src_qpn,
					       .src_pid = d->src_pid,
					       .opcode = d->head.opcode});
}

/* Return: false, having noted why the queue pair does not take the message */
static bool accepts(const struct datagram *d, const struct av_qp_shared *p)
{
	uint32_t state = atomic_load_explicit(&p->state, memory_order_relaxed);

	if (!AV_RESPONDER_ANSWERS(state)) {
		av_diag_note(AV_CHECK_DATAGRAM_STATE, IBV_QPS_RTR, state);
		av_diag_state(state);
		return false;
	}
	if (p->attr.qkey != d->qkey)
		av_diag_note(AV_CHECK_DATAGRAM_QKEY, d->qkey, p->attr.qkey);
	return p->attr.qkey == d->qkey;
}

static void count_arrival(struct av_qp_shared *p, const struct datagram *d)
{
	av_traffic_count(&p->counters.rsp.traffic, AV_TRAFFIC_SEND, d->head.bytes, 1);
	if (d->group)
		av_count_rsp(p, AV_RSP_MULTICAST);
}

/* The receiver fails, and the message is lost with it. Its @resp_lock is held. */
static void fail_datagram_receiver(struct datagram *d, const struct av_receiver *to,
				   enum av_fault fault)
{
	const struct av_fault_effects *effects = av_fault_effects(fault);

	av_count_rsp(to->rsp->qp, effects->refused);
	drop_datagram(d, to->rsp, fault);
	if (effects->receive != IBV_WC_SUCCESS)
		av_receive_error(to, effects->receive);
	av_responder_error(to->rsp);
	d->failed = fault;
}

/* What is left to do where the receiver has failed. Its right is not held any more. */
static void end_failed(struct datagram *d, const struct av_qp_ref *rsp, uint32_t qpn)
{
	int event = av_fault_effects(d->failed)->event;

	if (event != AV_EVENT_NONE)
		av_event_raise(rsp, qpn, (enum ibv_event_type)event);
	av_sq_progress(rsp, NULL); /* flush its own send queue */
	d->failed = AV_FAULT_NONE;
}

/* The message found a receive request, and does not get there. */
static void undelivered(struct datagram *d, const struct av_receiver *to, enum av_fault fault,
			uint32_t room)
{
	if (av_fault_is_receivers(fault)) {
		fail_datagram_receiver(d, to, fault);
		return;
	}
	if (fault == AV_FAULT_LOC_PROT)
		d->source_bad = true;
	if (fault == AV_FAULT_RECV_SHORT)
		av_diag_note(AV_CHECK_DATAGRAM_ROOM, d->head.bytes, room);
	drop_datagram(d, to->rsp, AV_FAULT_NONE);
	if (to->rsp->qp->receiving)
		av_receive_cancel(to);
}

/* Deliver to one queue pair. What does not fit or finds no request is lost. @resp_lock is held. */
static void deliver_datagram(struct datagram *d, const struct av_qp_ref *rsp)
{
	struct av_receiver to = av_receiver_of(rsp);
	bool imm = d->head.opcode == IBV_WR_SEND_WITH_IMM;
	struct av_message msg = {
		.to = &to,
		.cqe =
			{
				.opcode = IBV_WC_RECV,
				.flags = d->head.flags & IBV_SEND_SOLICITED ? AV_CQE_SOLICITED : 0,
				.imm = imm ? d->head.imm : 0,
				.wc_flags =
					(d->has_grh ? IBV_WC_GRH : 0) | (imm ? IBV_WC_WITH_IMM : 0),
				.src_qp = d->src_qpn,
				.slid = d->slid,
				.sl = d->sl,
			},
		.bytes = d->from.bytes,
		.now_ns = d->now_ns,
		.later = d->after ? &d->after->bell : NULL,
	};
	const struct av_rq_wqe *request = av_receive_take(&to);
	enum av_fault fault;

	if (!request) {
		av_count_rsp(rsp->qp, AV_RSP_RNR);
		av_diag_note(AV_CHECK_NO_RECV, 0, 0);
		drop_datagram(d, rsp, AV_FAULT_NONE);
		return;
	}
	fault = av_receive_message(&msg, &d->from, request);
	d->source_read |= fault == AV_FAULT_NONE;
	if (d->after)
		d->after->seg = to.seg;
	if (fault == AV_FAULT_NONE)
		count_arrival(rsp->qp, d);
	else
		undelivered(d, &to, fault, request->bytes);
}

static void send_datagram_to(struct datagram *d, const struct av_qp_ref *rsp, uint32_t qpn)
{
	if (!rsp->qp || !(av_seg_known_alive(rsp->seg, d->now_ns) || av_seg_alive(rsp->seg)))
		return;
	if (!av_responder_acquire_soon(rsp)) /* another sender is stopped in there: it is lost */
		return;
	if (is_addressee(rsp->qp, qpn) && accepts(d, rsp->qp))
		deliver_datagram(d, rsp);
	else if (is_addressee(rsp->qp, qpn))
		drop_datagram(d, rsp, AV_FAULT_NONE);
	av_lock_release(&rsp->qp->resp_lock);
	if (av_unlikely(d->failed != AV_FAULT_NONE))
		end_failed(d, rsp, qpn);
}

static bool at_address(const struct datagram *d, const struct av_seg *seg)
{
	if (d->has_grh)
		return av_port_has_gid(seg->head->port, &d->head.ud.dgid);
	return seg->head->lid && seg->head->lid == d->head.route.dlid;
}

/* There is nobody; @check and @wanted say why. */
static void send_nowhere(const struct datagram *d, const struct av_qp_ref *req, enum av_check check,
			 uint64_t wanted)
{
	av_diag_note(check, wanted, 0);
	av_report_dropped(
		&(struct av_dropped){.at = req, .at_sender = true, .opcode = d->head.opcode});
}

/* Most datagrams go where the one before them went, which is kept in @peer. */
static void send_one(struct datagram *d, const struct av_qp_ref *req, struct av_qp_ref *peer)
{
	uint32_t qpn = d->head.ud.qpn & AV_QPN_MASK;

	if (!peer->qp || !is_addressee(peer->qp, qpn)) {
		av_disconnect(peer);
		*peer = av_qp_get(qpn);
	}
	if (!peer->qp || !is_addressee(peer->qp, qpn))
		send_nowhere(d, req, AV_CHECK_DATAGRAM_NOBODY, qpn);
	else if (at_address(d, peer->seg))
		send_datagram_to(d, peer, qpn);
}

/* Each member of the group on this host gets a copy, except the sending queue pair. */
static void send_group(struct datagram *d)
{
	struct av_multicast_member member;
	uint32_t at = 0;

	while (av_multicast_next(&d->head.ud.dgid, 0, &at, &member)) {
		struct av_qp_ref to;

		if (member.qpn == d->src_qpn)
			continue;
		to = av_qp_get_at(&member.location);
		send_datagram_to(d, &to, member.qpn);
		av_disconnect(&to);
	}
}

/* --- on the wire ----------------------------------------------------------------- */

static bool read_payload(const struct datagram *d, uint8_t *place, uint32_t bytes)
{
	struct av_spans from, to;

	av_spans_copy(&from, &d->from);
	av_spans_skip(&from, AV_GRH_BYTES);
	av_spans_local(&to, NULL, place, bytes);
	return av_xfer_copy_part(&to, &from, bytes, d->now_ns) == AV_FAULT_NONE;
}

static bool is_to_group(const struct av_sq_wqe *head)
{
	return head->route.is_global && av_net_is_group(head->ud.dgid.raw);
}

bool av_datagram_leaves(const struct av_qp_ref *req, const struct av_sq_wqe *head)
{
	const struct ibv_ah_attr ah = {.is_global = head->route.is_global,
				       .grh.dgid = head->ud.dgid};

	return is_to_group(head) ? av_wire_sends(req)
				 : av_wire_is_wanted(req->seg, &ah, head->ud.qpn & AV_QPN_MASK);
}

static struct av_net_path build_datagram_path(const struct datagram *d, const struct av_qp_ref *req)
{
	struct av_net_path path = {.traffic_class = d->head.route.traffic_class,
				   .hop_limit = d->head.route.hop_limit,
				   .flow_label = d->head.route.flow_label};
	union ibv_gid src;

	(void)av_port_gid(req->seg->head->port, d->head.route.sgid_index, &src);
	memcpy(path.src, src.raw, sizeof(path.src));
	memcpy(path.dst, d->head.ud.dgid.raw, sizeof(path.dst));
	return path;
}

/* Return: NULL: it is lost */
static struct av_net_burst *packet_of(struct datagram *d, const struct av_qp_ref *req,
				      const struct av_net_path *path)
{
	struct av_wire_message m = av_request_message(req, &d->head, av_packet_kind(d->head.opcode),
						      NULL, req->qp->next_psn);
	struct av_net_burst *burst;
	struct av_packet p;
	uint8_t *place;

	av_datagram_message(req, &d->head, &m);
	burst = av_wire_burst(req, path);
	if (!burst || av_wire_packet(&m, 0, &p) < 0)
		return burst;
	place = av_net_put(burst, &p);
	if (place && p.payload_bytes && !read_payload(d, place, p.payload_bytes)) {
		d->source_bad = true;
		av_net_take_back(burst, 1);
	}
	return burst;
}

static void init_datagram(struct datagram *d, const struct av_qp_ref *req,
			  const struct av_sq_wqe *wqe)
{
	d->head = *wqe;
	d->qkey = av_datagram_qkey(req, &d->head);
	d->src_qpn = atomic_load_explicit(&req->qp->qpn, memory_order_relaxed);
	d->src_pid = req->seg->head->pid;
	d->slid = req->seg->head->lid;
	d->source_read = d->source_bad = false;
	d->failed = AV_FAULT_NONE;
	d->now_ns = av_now_coarse_ns();
}

struct av_outcome av_datagram_execute(const struct av_qp_ref *req, struct av_qp_ref *peer,
				      const struct av_sq_wqe *wqe, struct av_after *after)
{
	struct av_outcome result = {.fault = AV_FAULT_NONE};
	struct datagram d; /* not cleared as a whole: the spans are large */
	struct av_net_path path;
	bool on_wire;

	AV_ASSERT_HELD(&req->qp->req_lock);
	init_datagram(&d, req, wqe);
	on_wire = av_datagram_leaves(req, &d.head);
	result.fault = av_execute_check(req, &d.head);
	if (result.fault == AV_FAULT_NONE && on_wire) {
		path = build_datagram_path(&d, req);
		result.wait_reason = av_wire_has_room(req, &path) ? AV_WAIT_NONE : AV_WAIT_FULL;
	}
	if (result.fault == AV_FAULT_NONE && result.wait_reason == AV_WAIT_NONE)
		result.fault = gather_datagram_spans(&d, req, wqe);
	if (result.fault != AV_FAULT_NONE || result.wait_reason != AV_WAIT_NONE)
		return result;
	write_header(&d, req);
	d.group = is_to_group(&d.head);
	d.after = d.group ? NULL : after;
	if (on_wire)
		after->burst = packet_of(&d, req, &path);
	if (on_wire && av_gid_is_none(&d.head.ud.dgid))
		send_nowhere(&d, req, AV_CHECK_PEER_NO_GID, 0);
	if (d.group && !(on_wire && av_wire_is_forced()) && !req->qp->blocks_loopback)
		send_group(&d);
	else if (!d.group && !on_wire)
		send_one(&d, req, peer);
	if (!on_wire && !d.source_read && !d.source_bad) /* it is sent, whether or not it arrives */
		d.source_bad = av_xfer_read(&d.from, d.from.bytes, d.now_ns) == AV_FAULT_SRC;
	av_mem_put_list(&d.from);
	req->qp->next_psn = AV_PSN_AFTER(req->qp->next_psn, 1);
	if (d.source_bad) {
		result.fault = AV_FAULT_LOC_PROT;
		return result;
	}
	av_traffic_count(&req->qp->counters.req.traffic, AV_TRAFFIC_SEND, d.head.bytes, 1);
	if (d.group)
		av_count_req(req->qp, AV_REQ_MULTICAST);
	return result;
}

/* What has come, as a datagram; its header area is made of the packet's addresses. */
static void from_packet(struct datagram *d, const struct av_net_packet *packet)
{
	const struct av_packet *p = &packet->packet;
	struct av_grh_fields f = {
		.traffic_class = packet->path.traffic_class,
		.hop_limit = packet->path.hop_limit,
		.flow_label = packet->path.flow_label,
		.payload = p->payload_bytes,
	};

	memcpy(f.sgid.raw, packet->path.src, sizeof(f.sgid.raw));
	memcpy(f.dgid.raw, packet->path.dst, sizeof(f.dgid.raw));
	f.immediate = av_opcode_info(p->opcode)->tail == AV_TAIL_IMM;
	d->head = (struct av_sq_wqe){
		.opcode = f.immediate ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
		.flags = p->solicited ? IBV_SEND_SOLICITED : 0,
		.imm = htonl(p->imm),
		.bytes = p->payload_bytes,
		.ud.dgid = f.dgid,
	};
	d->qkey = p->qkey;
	d->src_qpn = p->src_qpn;
	d->src_pid = 0;
	d->slid = 0;
	d->sl = (uint8_t)av_grh_packet_type(&f);
	d->has_grh = true;
	d->group = av_net_is_group(f.dgid.raw);
	d->source_read = d->source_bad = false;
	d->failed = AV_FAULT_NONE;
	d->now_ns = av_now_coarse_ns();
	av_grh_write(d->grh, &f);
	d->from.count = p->payload_bytes ? 2 : 1;
	d->from.bytes = AV_GRH_BYTES + p->payload_bytes;
	d->from.at[0] = (struct av_span){.local = d->grh, .length = AV_GRH_BYTES};
	d->from.at[1] = (struct av_span){.local = (void *)(uintptr_t)p->payload,
					 .length = p->payload_bytes};
}

/* @packet: if a fault on demand may see to it; else NULL */
static void deliver_here(struct datagram *d, struct av_qp_ref to, uint32_t qpn,
			 const struct av_net_packet *packet)
{
	if (to.seg && to.seg->own && !(packet && av_observed_packet(to.seg, packet)))
		send_datagram_to(d, &to, qpn);
	av_disconnect(&to);
}

/*
 * Did a queue pair of this directory send it? Those of other hosts may have the same numbers.
 * @blocked: out: it did, and wants nobody here to get it
 */
static bool is_from_here(const struct datagram *d, const struct av_net_packet *packet,
			 bool *blocked)
{
	struct av_qp_ref from = av_qp_get(d->src_qpn);
	union ibv_gid src;
	bool here;

	memcpy(src.raw, packet->path.src, sizeof(src.raw));
	here = from.seg && av_port_has_gid(from.seg->head->port, &src);
	*blocked = here && from.qp && from.qp->blocks_loopback;
	av_seg_put(from.seg);
	return here;
}

/* Every process with members gets a copy of its own. The sender's folder had it directly. */
static void deliver_group(struct datagram *d, const struct av_net_packet *packet)
{
	bool blocked, here = is_from_here(d, packet, &blocked);
	struct av_multicast_member member;
	uint32_t at = 0;

	if (blocked || (here && !av_wire_is_forced()))
		return;
	while (av_multicast_next(&d->head.ud.dgid, 0, &at, &member))
		if (!here || member.qpn != d->src_qpn)
			deliver_here(d, av_qp_get_at(&member.location), member.qpn, NULL);
}

void av_datagram_arrived(const struct av_net_packet *packet, bool struck)
{
	struct datagram d; /* not cleared as a whole: the spans are large */
	uint32_t qpn = packet->packet.dest_qpn;

	from_packet(&d, packet);
	d.after = NULL;
	if (d.group)
		deliver_group(&d, packet);
	else
		deliver_here(&d, av_qp_get_at(&packet->qp), qpn, struck ? NULL : packet);
}
