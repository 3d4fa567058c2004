/* SPDX-License-Identifier: MIT */
/*
 * Two ends that connect by librdmacm, and what each hears of it when it goes another way.
 *
 *     interop_connect -s ADDRESS|-c ADDRESS -p PORT WHAT
 *
 * Private data has its full length, and each byte is compared. WHAT is, for both ends:
 *
 *   client_leaves server_leaves  one disconnects
 *   refused                      the server refuses
 *   nobody                       nobody listens at the port, but at the next one
 *   client_exits server_exits    one ends, and does not disconnect
 *   client_killed server_killed  by SIGKILL; its kernel says so to the other end
 *   client_lost server_lost      by SIGKILL; nobody says so, the other end's queue pair finds out
 *   client_early server_early    by SIGKILL, before the request is answered; its kernel says so
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#define COUNT(a)      (sizeof(a) / sizeof((a)[0]))
#define BYTES	      64u
#define PATIENCE_MS   20000
#define NO_LISTENER   8	 /* reasons of a REJ: IBTA volume 1, 12.6.7.2 */
#define BY_CONSUMER   28 /* by the program, or its end */
#define SOON	      1	 /* seconds */
#define RETRIES	      6	 /* of 0.5 s; the kernel's device takes 7 to be without end */
#define REQUEST_BYTES 56
#define REPLY_BYTES   196
#define REFUSAL_BYTES 148

enum end { CLIENT, SERVER };

enum way { LEAVES, REFUSED, NOBODY, EXITS, KILLED, LOST, EARLY };

static const struct row {
	const char *name;
	enum way way;
	enum end end; /* that does it */
} rows[] = {
	{"client_leaves", LEAVES, CLIENT}, {"server_leaves", LEAVES, SERVER},
	{"refused", REFUSED, SERVER},	   {"nobody", NOBODY, SERVER},
	{"client_exits", EXITS, CLIENT},   {"server_exits", EXITS, SERVER},
	{"client_killed", KILLED, CLIENT}, {"server_killed", KILLED, SERVER},
	{"client_lost", LOST, CLIENT},	   {"server_lost", LOST, SERVER},
	{"client_early", EARLY, CLIENT},   {"server_early", EARLY, SERVER},
};

static const struct row *row;
static enum end self;
static struct rdma_event_channel *channel;
static uint8_t buffer[BYTES];
static struct ibv_mr *mr;

__attribute__((format(printf, 1, 2), noreturn)) static void fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	exit(1);
}

#define CHECK(call)                            \
	do {                                   \
		if (call)                      \
			fail("%s: %m", #call); \
	} while (0)

/* --- private data ------------------------------------------------------------------------ */

static void fill(uint8_t *data, size_t bytes, uint8_t seed)
{
	for (size_t i = 0; i < bytes; i++)
		data[i] = (uint8_t)(seed + 7 * i);
}

static void compare(const uint8_t *data, size_t bytes, uint8_t seed, const char *what)
{
	for (size_t i = 0; i < bytes; i++)
		if (data[i] != (uint8_t)(seed + 7 * i))
			fail("%s: byte %zu is 0x%02x", what, i, data[i]);
}

/* --- events ------------------------------------------------------------------------------ */

/* Wait for @type; @bytes of private data are to be those of the other end. Return: its id */
static struct rdma_cm_id *hear(enum rdma_cm_event_type type, int status, size_t bytes)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	CHECK(rdma_get_cm_event(channel, &event));
	if (event->event != type || event->status != status)
		fail("%s, status %d, not %s, status %d", rdma_event_str(event->event),
		     event->status, rdma_event_str(type), status);
	if (event->param.conn.private_data_len < bytes)
		fail("%s: %u bytes of private data", rdma_event_str(type),
		     event->param.conn.private_data_len);
	compare(event->param.conn.private_data, bytes, (uint8_t)type, "private data");
	id = event->id;
	CHECK(rdma_ack_cm_event(event));
	return id;
}

static void hear_end(void)
{
	(void)hear(RDMA_CM_EVENT_DISCONNECTED, 0, 0);
}

/* --- a connection's queue pair ------------------------------------------------------------ */

static void prepare(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	};

	CHECK(rdma_create_qp(id, NULL, &attr));
	mr = rdma_reg_msgs(id, buffer, sizeof(buffer));
	if (!mr)
		fail("rdma_reg_msgs: %m");
	if (self == SERVER)
		CHECK(rdma_post_recv(id, NULL, buffer, sizeof(buffer), mr));
}

static struct rdma_conn_param with(uint8_t *data, size_t bytes, enum rdma_cm_event_type event)
{
	fill(data, bytes, (uint8_t)event);
	return (struct rdma_conn_param){.private_data = data,
					.private_data_len = (uint8_t)bytes,
					.responder_resources = 1,
					.initiator_depth = 1,
					.retry_count = RETRIES,
					.rnr_retry_count = 7};
}

static enum ibv_wc_status completion(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int n;

	do
		n = ibv_poll_cq(cq, 1, &wc);
	while (n == 0);
	if (n < 0)
		fail("ibv_poll_cq: %d", n);
	return wc.status;
}

static void send_message(struct rdma_cm_id *id, enum ibv_wc_status expected)
{
	enum ibv_wc_status status;

	fill(buffer, sizeof(buffer), (uint8_t)row->way);
	CHECK(rdma_post_send(id, NULL, buffer, sizeof(buffer), mr, 0));
	status = completion(id->send_cq);
	if (status != expected)
		fail("completion: %s", ibv_wc_status_str(status));
}

static void receive_message(struct rdma_cm_id *id)
{
	enum ibv_wc_status status = completion(id->recv_cq);

	if (status != IBV_WC_SUCCESS)
		fail("completion: %s", ibv_wc_status_str(status));
	compare(buffer, sizeof(buffer), (uint8_t)row->way, "message");
}

/* --- ends -------------------------------------------------------------------------------- */

__attribute__((noreturn)) static void succeed(void)
{
	printf("as expected\n");
	fflush(stdout);
	exit(0);
}

__attribute__((noreturn)) static void die(void)
{
	printf("as expected\n");
	fflush(stdout);
	kill(getpid(), SIGKILL);
	abort();
}

/* The connection ends as the row says. Either end has seen that it works. */
static void part(struct rdma_cm_id *id)
{
	bool first = self == row->end;

	if (first)
		sleep(SOON); /* an acknowledgement may have to be repeated */
	switch (row->way) {
	case LEAVES:
	case NOBODY:
		if (first)
			CHECK(rdma_disconnect(id));
		hear_end();
		if (!first)
			CHECK(rdma_disconnect(id));
		break;
	case EXITS:
		if (!first)
			hear_end();
		break;
	case KILLED:
		if (first)
			die();
		hear_end();
		break;
	case LOST:
		if (first)
			die();
		send_message(id, IBV_WC_RETRY_EXC_ERR);
		break;
	default:
		fail("no such connection");
	}
	succeed();
}

static struct rdma_cm_id *new_id(void)
{
	struct rdma_cm_id *id;

	channel = rdma_create_event_channel();
	if (!channel)
		fail("rdma_create_event_channel: %m");
	CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	return id;
}

/* Of IPv4 and IPv6 it is at the same place. */
static void next_port(struct sockaddr *address)
{
	struct sockaddr_in *in = (struct sockaddr_in *)address;

	in->sin_port = htons((uint16_t)(ntohs(in->sin_port) + 1));
}

/* Return: an id that has sent its request */
static struct rdma_cm_id *ask(struct sockaddr *address)
{
	uint8_t data[REQUEST_BYTES];
	struct rdma_conn_param param = with(data, sizeof(data), RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_cm_id *id = new_id();

	CHECK(rdma_resolve_addr(id, NULL, address, PATIENCE_MS));
	(void)hear(RDMA_CM_EVENT_ADDR_RESOLVED, 0, 0);
	CHECK(rdma_resolve_route(id, PATIENCE_MS));
	(void)hear(RDMA_CM_EVENT_ROUTE_RESOLVED, 0, 0);
	prepare(id);
	CHECK(rdma_connect(id, &param));
	return id;
}

static void client(struct sockaddr *address)
{
	struct rdma_cm_id *id = ask(address);

	if (row->way == REFUSED) {
		(void)hear(RDMA_CM_EVENT_REJECTED, BY_CONSUMER, REFUSAL_BYTES);
		succeed();
	}
	if (row->way == EARLY && row->end == SERVER) {
		(void)hear(RDMA_CM_EVENT_REJECTED, BY_CONSUMER, 0);
		succeed();
	}
	if (row->way == EARLY) {
		sleep(SOON); /* the server has heard of it */
		die();
	}
	if (row->way == NOBODY) {
		(void)hear(RDMA_CM_EVENT_REJECTED, NO_LISTENER, 0);
		next_port(address);
		id = ask(address);
	}
	(void)hear(RDMA_CM_EVENT_ESTABLISHED, 0, REPLY_BYTES);
	send_message(id, IBV_WC_SUCCESS);
	part(id);
}

static void server(struct sockaddr *address)
{
	uint8_t data[REPLY_BYTES];
	struct rdma_conn_param param = with(data, sizeof(data), RDMA_CM_EVENT_ESTABLISHED);
	struct rdma_cm_id *id = new_id();

	if (row->way == NOBODY)
		next_port(address);
	CHECK(rdma_bind_addr(id, address));
	CHECK(rdma_listen(id, 1));
	id = hear(RDMA_CM_EVENT_CONNECT_REQUEST, 0, REQUEST_BYTES);
	if (row->way == REFUSED) {
		fill(data, REFUSAL_BYTES, RDMA_CM_EVENT_REJECTED);
		CHECK(rdma_reject(id, data, REFUSAL_BYTES));
		succeed();
	}
	if (row->way == EARLY && row->end == SERVER)
		die();
	prepare(id);
	if (row->way == EARLY) {
		sleep(6 * SOON); /* nothing is said of a connection before it is accepted */
		if (rdma_accept(id, &param) == 0)
			fail("accepted");
		succeed();
	}
	CHECK(rdma_accept(id, &param));
	(void)hear(RDMA_CM_EVENT_ESTABLISHED, 0, 0);
	receive_message(id);
	part(id);
}

static struct addrinfo *parse(int argc, char **argv)
{
	const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
	const char *address = NULL, *port = NULL;
	struct addrinfo *found;
	int c;

	while ((c = getopt(argc, argv, "s:c:p:")) != -1) {
		if (c == 'p') {
			port = optarg;
			continue;
		}
		address = optarg;
		self = c == 's' ? SERVER : CLIENT;
	}
	for (size_t i = 0; i < COUNT(rows) && optind < argc; i++)
		if (strcmp(argv[optind], rows[i].name) == 0)
			row = &rows[i];
	if (!row || !address || getaddrinfo(address, port, &hints, &found))
		fail("not understood");
	return found;
}

int main(int argc, char **argv)
{
	struct addrinfo *address = parse(argc, argv);

	if (self == SERVER)
		server(address->ai_addr);
	else
		client(address->ai_addr);
	return 1;
}
