/* SPDX-License-Identifier: MIT */
/* Programs that take from completions and events what these do not promise. */
#include <poll.h>

#include "wrong_fixture.h"

#define UNDEFINED_SAID "fields that this completion leaves undefined are garbage"
#define EVENTS_SAID    "an event came, and no completion was there for it any more"
#define LEFT_SAID      "completions that nobody had polled; they are still there"
#define LATE_SAID      "its event comes 5000000 ns late"
#define TWICE_SAID     "of datagrams nobody promises that they arrive once"
#define ORDER_SAID     "of datagrams nobody promises an order"
#define LOST_SAID      "of unreliable services nobody promises that it arrives"

/* --- fields ---------------------------------------------------------------------- */

static struct ibv_wc sent(enum ibv_wr_opcode opcode)
{
	struct ibv_wc wc;

	begin(IBV_QPT_RC);
	NEED(post_recv(0) == 0);
	send_slot(opcode, 0);
	NEED(next_wc(scene.send_cq, &wc) && wc.status == IBV_WC_SUCCESS);
	return wc;
}

static struct ibv_wc received(enum ibv_wr_opcode opcode)
{
	struct ibv_wc wc = sent(opcode);

	NEED(next_wc(scene.recv_cq, &wc) && wc.status == IBV_WC_SUCCESS);
	return wc;
}

/* A request that fails, since the peer's memory is not there. */
static struct ibv_wc failed(void)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct ibv_wc wc;

	begin(IBV_QPT_RC);
	wr = request(IBV_WR_RDMA_WRITE, 0, &sge);
	wr.wr.rdma.remote_addr -= BYTES;
	NEED(post(&wr) == 0);
	NEED(next_wc(scene.send_cq, &wc) && wc.status != IBV_WC_SUCCESS);
	return wc;
}

/* A receive request that is flushed. */
static struct ibv_wc flushed(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_wc wc;

	begin(IBV_QPT_RC);
	NEED(post_recv(0) == 0);
	NEED(ibv_modify_qp(scene.b, &attr, IBV_QP_STATE) == 0);
	NEED(next_wc(scene.recv_cq, &wc) && wc.status == IBV_WC_WR_FLUSH_ERR);
	return wc;
}

static bool failed_opcode_wrong(void)
{
	return failed().opcode == IBV_WC_RDMA_WRITE;
}

static bool flushed_opcode_wrong(void)
{
	return flushed().opcode & IBV_WC_RECV;
}

static bool flushed_bytes_wrong(void)
{
	return flushed().byte_len == 0;
}

static bool flushed_flags_wrong(void)
{
	return !(flushed().wc_flags & IBV_WC_WITH_IMM);
}

static bool flushed_imm_wrong(void)
{
	return flushed().imm_data == 0;
}

static bool failed_right(void)
{
	struct ibv_wc wc = failed();

	return wc.wr_id == 0 && wc.qp_num == scene.a->qp_num && wc.status == IBV_WC_REM_ACCESS_ERR;
}

static bool flushed_right(void)
{
	struct ibv_wc wc = flushed();

	return wc.wr_id == 0 && wc.qp_num == scene.b->qp_num;
}

static bool sent_bytes_wrong(void)
{
	return sent(IBV_WR_SEND).byte_len <= BYTES;
}

static bool written_bytes_wrong(void)
{
	return sent(IBV_WR_RDMA_WRITE).byte_len <= BYTES;
}

static bool sent_flags_wrong(void)
{
	return !(sent(IBV_WR_SEND).wc_flags & IBV_WC_WITH_IMM);
}

static bool sent_imm_wrong(void)
{
	return sent(IBV_WR_SEND).imm_data == 0;
}

static bool sent_right(void)
{
	struct ibv_wc wc = sent(IBV_WR_SEND);

	return wc.opcode == IBV_WC_SEND && wc.wr_id == 0 && wc.qp_num == scene.a->qp_num;
}

static bool received_imm_wrong(void)
{
	return received(IBV_WR_SEND).imm_data == 0;
}

static bool received_qp_wrong(void)
{
	uint32_t src_qp = received(IBV_WR_SEND).src_qp;

	return src_qp == 0 || src_qp == scene.a->qp_num;
}

static bool received_slid_wrong(void)
{
	return received(IBV_WR_SEND).slid == 0;
}

static bool received_right(void)
{
	struct ibv_wc wc = received(IBV_WR_SEND_WITH_IMM);

	return wc.opcode == IBV_WC_RECV && wc.byte_len == BYTES && wc.wc_flags & IBV_WC_WITH_IMM &&
	       wc.imm_data == 0 && wc.wr_id == 0;
}

/* --- the same of extended CQs ----------------------------------------------------- */

/* What the readers say of a WRITE that fails, or succeeds. */
static struct ibv_wc polled(bool fails)
{
	struct ibv_cq_init_attr_ex init = {.cqe = 8, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct ibv_cq_ex *ex = ibv_create_cq_ex(scene.ctx, &init);
	struct ibv_poll_cq_attr poll = {.comp_mask = 0};
	uint64_t until = now_ms() + 500;
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct ibv_wc wc;

	NEED(ex);
	scene.send_cq = ibv_cq_ex_to_cq(ex);
	begin(IBV_QPT_RC);
	wr = request(IBV_WR_RDMA_WRITE, 0, &sge);
	wr.wr.rdma.remote_addr -= fails ? BYTES : 0;
	NEED(post(&wr) == 0);
	while (ibv_start_poll(ex, &poll))
		NEED(now_ms() < until);
	NEED((ex->status != IBV_WC_SUCCESS) == fails);
	wc = (struct ibv_wc){
		.wr_id = ex->wr_id,
		.opcode = ibv_wc_read_opcode(ex),
		.byte_len = ibv_wc_read_byte_len(ex),
		.qp_num = ibv_wc_read_qp_num(ex),
	};
	ibv_end_poll(ex);
	return wc;
}

static bool read_opcode_wrong(void)
{
	return polled(true).opcode == IBV_WC_RDMA_WRITE;
}

static bool read_opcode_right(void)
{
	struct ibv_wc wc = polled(true);

	return wc.wr_id == 0 && wc.qp_num == scene.a->qp_num;
}

static bool read_bytes_wrong(void)
{
	return polled(false).byte_len <= BYTES;
}

static bool read_bytes_right(void)
{
	return polled(false).opcode == IBV_WC_RDMA_WRITE;
}

/* --- queue pairs that are destroyed ----------------------------------------------- */

/* The next completion is one of the queue pair that came after. */
static bool destroy(bool drain_first)
{
	struct ibv_wc wc;

	begin(IBV_QPT_RC);
	NEED(post_recv(0) == 0);
	send_slot(IBV_WR_SEND, 0);
	if (!is_received() || (drain_first && !is_sent()))
		return false;
	NEED(ibv_destroy_qp(scene.a) == 0 && ibv_destroy_qp(scene.b) == 0);
	begin(IBV_QPT_RC);
	send_slot(IBV_WR_RDMA_READ, 1);
	return next_wc(scene.send_cq, &wc) && wc.qp_num == scene.a->qp_num && wc.wr_id == 1;
}

static bool destroy_wrong(void)
{
	return destroy(false);
}

static bool destroy_right(void)
{
	return destroy(true);
}

/* --- events ---------------------------------------------------------------------- */

static bool get_event(void)
{
	struct pollfd fd = {.fd = scene.channel->fd, .events = POLLIN};
	struct ibv_cq *cq;
	void *context;

	if (poll(&fd, 1, 500) != 1 || ibv_get_cq_event(scene.channel, &cq, &context))
		return false;
	ibv_ack_cq_events(cq, 1);
	return true;
}

/* One event is for one message, which a single poll finds; or for any number, and none. */
static bool by_events(unsigned int messages, bool once)
{
	unsigned int left = messages;
	struct ibv_wc wc;

	begin(IBV_QPT_RC);
	NEED(ibv_req_notify_cq(scene.recv_cq, 0) == 0);
	for (unsigned int i = 0; i < messages; i++) {
		NEED(post_recv(i) == 0);
		send_slot(IBV_WR_SEND, i);
		if (!once)
			continue;
		if (!get_event() || ibv_req_notify_cq(scene.recv_cq, 0) ||
		    ibv_poll_cq(scene.recv_cq, 1, &wc) != 1 || !is_sent())
			return false;
	}
	while (!once && left) {
		if (!get_event() || ibv_req_notify_cq(scene.recv_cq, 0))
			return false;
		while (left && ibv_poll_cq(scene.recv_cq, 1, &wc) == 1)
			left--;
	}
	return true;
}

static bool event_wrong(void)
{
	return by_events(3, true);
}

static bool event_each_wrong(void)
{
	return by_events(4, true);
}

static bool event_right(void)
{
	return by_events(3, false);
}

static bool event_each_right(void)
{
	return by_events(4, false);
}

/* A peer sends one message, then nothing, so there is no event: it is taken for a message. */
static bool idle(bool poll_first)
{
	struct pollfd fd = {.events = POLLIN};
	struct ibv_wc wc;

	begin(IBV_QPT_RC);
	NEED(post_recv(0) == 0);
	send_slot(IBV_WR_SEND, 0);
	NEED(is_sent() && is_received());
	fd.fd = scene.channel->fd;
	for (int i = 0; i < 4; i++) {
		NEED(ibv_req_notify_cq(scene.recv_cq, 0) == 0);
		if (poll(&fd, 1, 0) != 1)
			continue;
		if (!poll_first)
			return false;
		NEED(get_event() && ibv_poll_cq(scene.recv_cq, 1, &wc) == 0);
	}
	return true;
}

static bool idle_wrong(void)
{
	return idle(false);
}

static bool idle_right(void)
{
	return idle(true);
}

/* The next asynchronous event, within that time. */
static bool has_event(enum ibv_event_type type, int ms)
{
	struct pollfd fd = {.fd = scene.ctx->async_fd, .events = POLLIN};
	struct ibv_async_event event;

	if (poll(&fd, 1, ms) != 1 || ibv_get_async_event(scene.ctx, &event))
		return false;
	ibv_ack_async_event(&event);
	return event.event_type == type;
}

static bool drain(int ms)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};

	begin(IBV_QPT_RC);
	NEED(ibv_modify_qp(scene.a, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY) == 0);
	return has_event(IBV_EVENT_SQ_DRAINED, ms);
}

static bool drain_wrong(void)
{
	return drain(0);
}

static bool drain_right(void)
{
	return drain(500);
}

static bool access_wrong(void)
{
	failed();
	return has_event(IBV_EVENT_QP_ACCESS_ERR, 0);
}

static bool access_right(void)
{
	failed();
	return has_event(IBV_EVENT_QP_ACCESS_ERR, 500);
}

/* --- datagrams ------------------------------------------------------------------- */

#define MESSAGES 64u

/* Each message is sent until it has arrived, @tries times at most. */
static bool deliver(enum ibv_qp_type type, enum ibv_wr_opcode opcode, unsigned int tries)
{
	struct ibv_wc wc;
	unsigned int try;

	begin(type);
	NEED(post_recv(0) == 0);
	for (unsigned int i = 0; i < MESSAGES; i++) {
		for (try = 0; try < tries; try++) {
			send_slot(opcode, 0);
			if (!is_sent())
				return false;
			if (ibv_poll_cq(scene.recv_cq, 1, &wc) == 1)
				break;
		}
		if (try == tries)
			return false;
		NEED(post_recv(0) == 0);
	}
	return true;
}

#define DELIVER(name, type, opcode)               \
	static bool name##_wrong(void)            \
	{                                         \
		return deliver(type, opcode, 1);  \
	}                                         \
	static bool name##_right(void)            \
	{                                         \
		return deliver(type, opcode, 20); \
	}
DELIVER(ud, IBV_QPT_UD, IBV_WR_SEND)
DELIVER(uc, IBV_QPT_UC, IBV_WR_SEND)
DELIVER(uc_write, IBV_QPT_UC, IBV_WR_RDMA_WRITE_WITH_IMM)

/* Are the numbers of datagrams those of messages, or may there be gaps? */
static bool numbers(bool gaps)
{
	uint32_t expected = 0, got;
	struct ibv_wc wc;

	begin(IBV_QPT_UD);
	NEED(post_recv(0) == 0);
	for (uint32_t i = 0; i < MESSAGES; i++) {
		memcpy(scene.src, &i, sizeof(i));
		send_slot(IBV_WR_SEND, 0);
		if (!is_sent())
			return false;
		if (ibv_poll_cq(scene.recv_cq, 1, &wc) != 1)
			continue;
		memcpy(&got, scene.dst + GRH, sizeof(got));
		if (gaps ? got < expected : got != expected)
			return false;
		expected = got + 1;
		NEED(post_recv(0) == 0);
	}
	return true;
}

static bool numbers_wrong(void)
{
	return numbers(false);
}

static bool numbers_right(void)
{
	return numbers(true);
}

#define AT_ONCE 4u

/* Post some datagrams, numbered from @n on. */
static void post_numbers(uint32_t n)
{
	struct ibv_send_wr wr[AT_ONCE];
	struct ibv_sge sge[AT_ONCE];

	for (uint32_t i = 0; i < AT_ONCE; i++, n++) {
		memcpy(scene.src + (size_t)i * BYTES, &n, sizeof(n));
		wr[i] = request(IBV_WR_SEND, i, &sge[i]);
		wr[i].next = i + 1 < AT_ONCE ? &wr[i + 1] : NULL;
	}
	NEED(post(wr) == 0);
}

/* Each number comes once, and they ascend: @doubled, @overtaken: or not. */
static bool ascend(bool doubled, bool overtaken)
{
	uint32_t last = UINT32_MAX, got;
	struct ibv_wc wc;

	begin(IBV_QPT_UD);
	for (unsigned int i = 0; i < AT_ONCE + 1; i++)
		NEED(post_recv(i) == 0);
	for (uint32_t n = 1; n < MESSAGES; n += AT_ONCE) {
		post_numbers(n);
		for (unsigned int i = 0; i < AT_ONCE; i++)
			NEED(is_sent());
		while (ibv_poll_cq(scene.recv_cq, 1, &wc) == 1) {
			memcpy(&got, scene.dst + wc.wr_id * BYTES + GRH, sizeof(got));
			if ((got == last && !doubled) || (got + 1 == last && !overtaken))
				return false;
			last = got;
			NEED(post_recv((unsigned int)wc.wr_id) == 0);
		}
	}
	return true;
}

static bool twice_wrong(void)
{
	return ascend(false, true);
}

static bool order_wrong(void)
{
	return ascend(true, false);
}

static bool ascend_right(void)
{
	return ascend(true, true);
}

/* What lies before a datagram that has no GRH: an address, or nothing that counts. */
static bool header(bool use)
{
	struct ibv_ah_attr attr = {.port_num = 1};
	struct ibv_port_attr port;
	struct ibv_wc wc;

	NEED(ibv_query_port(scene.ctx, 1, &port) == 0);
	begin(IBV_QPT_UD);
	attr.dlid = port.lid;
	scene.ah = ibv_create_ah(scene.pd, &attr);
	NEED(scene.ah);
	for (unsigned int i = 0; i < 5; i++) { /* some may be lost */
		NEED(post_recv(0) == 0);
		send_slot(IBV_WR_SEND, 0);
	}
	NEED(next_wc(scene.recv_cq, &wc) && wc.status == IBV_WC_SUCCESS);
	return !use || scene.dst[0] >> 4 == 6;
}

static bool header_wrong(void)
{
	return header(true);
}

static bool header_right(void)
{
	return header(false);
}

/* A WRITE of each of two queue pairs, whose completions come to one queue. */
static bool two_queue_pairs(bool in_order)
{
	unsigned int seen = 0;
	struct ibv_wc wc;

	for (unsigned int i = 0; i < 2; i++) {
		begin(IBV_QPT_RC);
		send_slot(IBV_WR_RDMA_WRITE, i);
	}
	for (unsigned int i = 0; i < 2; i++) {
		NEED(next_wc(scene.send_cq, &wc) && wc.status == IBV_WC_SUCCESS);
		if (in_order && wc.wr_id != i)
			return false;
		seen |= 1u << wc.wr_id;
	}
	return seen == 3;
}

static bool pairs_wrong(void)
{
	return two_queue_pairs(true);
}

static bool pairs_right(void)
{
	return two_queue_pairs(false);
}

#define OF(twin, name, says)                                           \
	{                                                              \
		says, UNDEFINED_SAID, name##_wrong, twin##_right, NULL \
	}
static const struct wrong rows[] = {
	OF(failed, failed_opcode, "knows a failed request by its opcode"),
	OF(flushed, flushed_opcode, "knows a flushed receive request by its opcode"),
	OF(flushed, flushed_bytes, "adds up byte_len of flushed requests"),
	OF(flushed, flushed_flags, "looks at wc_flags of flushed requests"),
	OF(flushed, flushed_imm, "looks at imm_data of flushed requests"),
	OF(sent, sent_bytes, "adds up byte_len of sends"),
	OF(sent, written_bytes, "adds up byte_len of WRITEs"),
	OF(sent, sent_flags, "looks at wc_flags of sends"),
	OF(sent, sent_imm, "looks at imm_data of sends"),
	OF(received, received_imm, "looks at imm_data of messages without"),
	OF(received, received_qp, "looks at src_qp of RC"),
	OF(received, received_slid, "looks at slid of RC"),
	ROW(read_opcode, "reads the opcode of a failed request", UNDEFINED_SAID),
	ROW(read_bytes, "reads byte_len of WRITEs", UNDEFINED_SAID),
	ROW(event, "polls once after an event", EVENTS_SAID),
	ROW(event_each, "takes each event for a completion", EVENTS_SAID),
	ROW(idle, "takes an event for a message", EVENTS_SAID),
	ROW(destroy, "takes a dead queue pair's completion for another's", LEFT_SAID),
	ROW(drain, "does not wait for the event of a drained queue", LATE_SAID),
	ROW(access, "has an event with a failed completion", LATE_SAID),
	ROW(ud, "sends each datagram once", LOST_SAID),
	ROW(uc, "sends each message of UC once", LOST_SAID),
	ROW(uc_write, "sends each WRITE of UC once", LOST_SAID),
	ROW(numbers, "expects datagrams without gaps", LOST_SAID),
	{"takes each datagram for a new one", TWICE_SAID, twice_wrong, ascend_right, NULL},
	{"expects datagrams in order", ORDER_SAID, order_wrong, ascend_right, NULL},
	{"takes completions of two queue pairs in the order of their requests", NULL, pairs_wrong,
	 pairs_right, NULL},
	{"reads a GRH that is not", UNDEFINED_SAID, header_wrong, header_right, ":link=infiniband"},
};

int main(int argc, char **argv)
{
	return wrong_run(argc, argv, rows, COUNT_OF(rows));
}
