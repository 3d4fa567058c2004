/* SPDX-License-Identifier: MIT */
/*
 * Ids of librdmacm in each state, and what they hear.
 *
 *     hear_cm ADDRESS
 *
 * Says "ready", then each event as "STATE: EVENT". A line of input: all ids are destroyed and made
 * anew. The end of the input: they are destroyed, and so it ends.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <rdma/rdma_cma.h>

#define COUNT(a)    (sizeof(a) / sizeof((a)[0]))
#define PORT	    7174
#define PATIENCE_MS 10000

enum state { IDLE, ANYWHERE, BOUND, LISTENER, RESOLVED, ROUTED, ACTIVE, PASSIVE, STATES };

static const char *const names[STATES] = {"idle",     "anywhere", "bound",  "listener",
					  "resolved", "routed",	  "active", "passive"};

static struct rdma_event_channel *channel;
static struct rdma_cm_id *ids[STATES];
static struct sockaddr_in own;

#define CHECK(call)                         \
	do {                                \
		if (call) {                 \
			perror(#call);      \
			exit(EXIT_FAILURE); \
		}                           \
	} while (0)

/* --- coming to a state ----------------------------------------------------------------- */

/* Return: the id that has heard it */
static struct rdma_cm_id *hear(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	CHECK(rdma_get_cm_event(channel, &event));
	id = event->id;
	if (event->event != type) {
		fprintf(stderr, "%s, not %s\n", rdma_event_str(event->event), rdma_event_str(type));
		exit(EXIT_FAILURE);
	}
	CHECK(rdma_ack_cm_event(event));
	return id;
}

static void create(enum state s)
{
	CHECK(rdma_create_id(channel, &ids[s], (void *)&names[s], RDMA_PS_TCP));
}

static void bind_to(enum state s, const char *address, uint16_t port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};

	inet_pton(AF_INET, address, &at.sin_addr);
	CHECK(rdma_bind_addr(ids[s], (struct sockaddr *)&at));
}

static void resolve(enum state s)
{
	CHECK(rdma_resolve_addr(ids[s], NULL, (struct sockaddr *)&own, PATIENCE_MS));
	(void)hear(RDMA_CM_EVENT_ADDR_RESOLVED);
}

static void route(enum state s)
{
	resolve(s);
	CHECK(rdma_resolve_route(ids[s], PATIENCE_MS));
	(void)hear(RDMA_CM_EVENT_ROUTE_RESOLVED);
}

static void make_qp(enum state s)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	};

	CHECK(rdma_create_qp(ids[s], NULL, &attr));
}

static void connect_both(void)
{
	struct rdma_conn_param param = {.retry_count = 7, .rnr_retry_count = 7};
	struct rdma_cm_id *first, *second;

	route(ACTIVE);
	make_qp(ACTIVE);
	CHECK(rdma_connect(ids[ACTIVE], &param));
	ids[PASSIVE] = hear(RDMA_CM_EVENT_CONNECT_REQUEST);
	ids[PASSIVE]->context = (void *)&names[PASSIVE];
	make_qp(PASSIVE);
	CHECK(rdma_accept(ids[PASSIVE], &param));
	first = hear(RDMA_CM_EVENT_ESTABLISHED);
	second = hear(RDMA_CM_EVENT_ESTABLISHED);
	CHECK(first == second);
}

static void make_all(const char *address)
{
	for (enum state s = IDLE; s <= ACTIVE; s++)
		create(s);
	bind_to(ANYWHERE, "0.0.0.0", 0);
	CHECK(rdma_listen(ids[ANYWHERE], 1));
	bind_to(BOUND, address, 0);
	bind_to(LISTENER, address, PORT);
	CHECK(rdma_listen(ids[LISTENER], 1));
	resolve(RESOLVED);
	route(ROUTED);
	connect_both();
	puts("ready");
}

/* --- hearing --------------------------------------------------------------------------- */

static void print_event(void)
{
	struct rdma_cm_event *event;
	const char *const *name;

	CHECK(rdma_get_cm_event(channel, &event));
	name = event->id->context;
	printf("%s: %s\n", *name, rdma_event_str(event->event));
	if (event->event == RDMA_CM_EVENT_DEVICE_REMOVAL && rdma_disconnect(event->id))
		printf("%s: rdma_disconnect: %m\n", *name);
	CHECK(rdma_ack_cm_event(event));
}

static void destroy_all(void)
{
	for (enum state s = IDLE; s < STATES; s++) {
		if (ids[s]->qp)
			rdma_destroy_qp(ids[s]);
		CHECK(rdma_destroy_id(ids[s]));
	}
}

/* Return: false: the input has ended */
static bool read_line(void)
{
	char line[80];

	return read(STDIN_FILENO, line, sizeof(line)) > 0;
}

int main(int argc, char **argv)
{
	const char *address = argc == 2 ? argv[1] : "";
	bool goes_on = true;
	struct pollfd p[] = {{.events = POLLIN}, {.fd = STDIN_FILENO, .events = POLLIN}};

	own = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(PORT)};
	if (inet_pton(AF_INET, address, &own.sin_addr) != 1)
		return EXIT_FAILURE;
	setlinebuf(stdout);
	channel = rdma_create_event_channel();
	CHECK(!channel);
	make_all(address);
	p[0].fd = channel->fd;
	while (goes_on) {
		CHECK(poll(p, COUNT(p), -1) < 0);
		if (p[0].revents) {
			print_event();
		} else if (p[1].revents) {
			goes_on = read_line();
			destroy_all();
			if (goes_on)
				make_all(address);
		}
	}
	rdma_destroy_event_channel(channel);
	return EXIT_SUCCESS;
}
