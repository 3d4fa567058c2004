/* SPDX-License-Identifier: MIT */
/*
 * NETLINK_RDMA as a socket: it is asked by every call, in every state, and its answers wait as the
 * kernel's do, however many there are. Requests that are wrong get the kernel's errors. All other
 * sockets are the kernel's alone. What the answers say is judged by rdma(8): client.rdma_tool.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_netlink.h>

#include "lib/expect.h"
#include "lib/proc_status.h"
#include "lib/sandbox.h"
#include "lib/wait.h"

#define PAGE	 4096
#define MANY	 10000u /* domains: their dump is longer than a socket's queue */
#define SEQ	 4242u
#define NLDEV(c) RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_##c)
#define ATTR(a)	 RDMA_NLDEV_ATTR_##a
#define DUMP	 (NLM_F_REQUEST | NLM_F_DUMP)

static uint32_t our_index; /* of the first of our devices */

/* --- requests ---------------------------------------------------------------------- */

struct number {
	uint16_t len, type; /* struct nlattr */
	uint32_t value;
};

struct request {
	struct nlmsghdr header;
	struct number number[3];
};

/* A request with up to three numbers; attribute 0: none. */
static struct request make(uint16_t type, uint16_t flags, uint16_t attr, uint32_t value)
{
	struct request r = {
		.header = {.nlmsg_len = NLMSG_HDRLEN,
			   .nlmsg_type = type,
			   .nlmsg_flags = flags,
			   .nlmsg_seq = SEQ},
	};

	if (attr) {
		r.number[0] = (struct number){sizeof(struct number), attr, value};
		r.header.nlmsg_len += sizeof(struct number);
	}
	return r;
}

static void add(struct request *r, uint16_t attr, uint32_t value)
{
	size_t at = (r->header.nlmsg_len - NLMSG_HDRLEN) / sizeof(struct number);

	r->number[at] = (struct number){sizeof(struct number), attr, value};
	r->header.nlmsg_len += sizeof(struct number);
}

static const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};

static ssize_t by_send(int fd, const void *bytes, size_t len)
{
	return send(fd, bytes, len, 0);
}

static ssize_t by_sendto(int fd, const void *bytes, size_t len)
{
	return sendto(fd, bytes, len, 0, (const struct sockaddr *)&kernel, sizeof(kernel));
}

static ssize_t by_sendto_nobody(int fd, const void *bytes, size_t len)
{
	return sendto(fd, bytes, len, 0, NULL, 0);
}

/* In two pieces. */
static ssize_t by_sendmsg(int fd, const void *bytes, size_t len)
{
	struct sockaddr_nl to = kernel;
	struct iovec part[] = {{(void *)(uintptr_t)bytes, 7},
			       {(void *)((uintptr_t)bytes + 7), len - 7}};
	struct msghdr m = {
		.msg_name = &to, .msg_namelen = sizeof(to), .msg_iov = part, .msg_iovlen = 2};

	return sendmsg(fd, &m, 0);
}

static ssize_t by_sendmsg_nobody(int fd, const void *bytes, size_t len)
{
	struct iovec part = {(void *)(uintptr_t)bytes, len};
	struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};

	return sendmsg(fd, &m, 0);
}

static const struct {
	const char *name;
	ssize_t (*send)(int fd, const void *bytes, size_t len);
} ways[] = {
	{"send()", by_send},
	{"sendto()", by_sendto},
	{"sendto() without an address", by_sendto_nobody},
	{"sendmsg()", by_sendmsg},
	{"sendmsg() without an address", by_sendmsg_nobody},
};

static int open_rdma(void)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);

	NEED(fd >= 0);
	return fd;
}

/* --- answers ----------------------------------------------------------------------- */

/* What came back for one request. */
struct answer {
	unsigned int messages; /* of the family */
	unsigned int results;  /* errors and acknowledgments */
	bool done;
	int error; /* of the last result, or of the end */
	uint32_t index, port;
	unsigned int entries; /* in lists */
};

static const struct nlattr *find(const void *from, size_t len, uint16_t type)
{
	for (size_t at = 0; at + NLA_HDRLEN <= len;) {
		const struct nlattr *attr = (const void *)((const char *)from + at);

		if (attr->nla_len < NLA_HDRLEN || attr->nla_len > len - at)
			return NULL;
		if (attr->nla_type == type)
			return attr;
		at += NLA_ALIGN((size_t)attr->nla_len);
	}
	return NULL;
}

static unsigned int count_entries(const struct nlattr *list)
{
	unsigned int count = 0;

	for (size_t at = NLA_HDRLEN; at < list->nla_len; count++)
		at += NLA_ALIGN(
			(size_t)((const struct nlattr *)(const void *)((const char *)list + at))
				->nla_len);
	return count;
}

static void look(const struct nlmsghdr *m, uint16_t list, struct answer *a)
{
	const struct nlattr *index, *entries;

	if (m->nlmsg_type == NLMSG_DONE || m->nlmsg_type == NLMSG_ERROR) {
		memcpy(&a->error, NLMSG_DATA(m), sizeof(a->error));
		a->done = a->done || m->nlmsg_type == NLMSG_DONE;
		a->results += m->nlmsg_type == NLMSG_ERROR;
		return;
	}
	a->messages++;
	index = find(NLMSG_DATA(m), NLMSG_PAYLOAD(m, 0), ATTR(DEV_INDEX));
	if (index && !a->index)
		memcpy(&a->index, (const char *)index + NLA_HDRLEN, sizeof(a->index));
	entries = list ? find(NLMSG_DATA(m), NLMSG_PAYLOAD(m, 0), list) : NULL;
	if (entries)
		a->entries += count_entries(entries);
}

static uint32_t port_of(int fd)
{
	struct sockaddr_nl self;
	socklen_t len = sizeof(self);

	NEED(!getsockname(fd, (struct sockaddr *)&self, &len));
	return self.nl_pid;
}

/* Read what is there, and go on while a dump has no end. */
static struct answer hear(int fd, bool dump, uint16_t list)
{
	static char page[PAGE] __attribute__((aligned(4)));
	struct answer a = {.port = port_of(fd)};
	ssize_t n;

	while ((n = recv(fd, page, sizeof(page), dump && !a.done ? 0 : MSG_DONTWAIT)) > 0) {
		unsigned int left = (unsigned int)n;

		EXPECT(n <= PAGE, "a datagram of %zd bytes", n);
		for (struct nlmsghdr *m = (void *)page; NLMSG_OK(m, left);
		     m = NLMSG_NEXT(m, left)) {
			EXPECT(m->nlmsg_seq == SEQ && m->nlmsg_pid == a.port, "whose answer?");
			look(m, list, &a);
		}
		EXPECT(left == 0, "%u bytes behind the messages", left);
	}
	return a;
}

static struct answer ask(int fd, const struct request *r, uint16_t list)
{
	EXPECT(by_send(fd, r, r->header.nlmsg_len) == r->header.nlmsg_len, "send(): errno %d",
	       errno);
	return hear(fd, (r->header.nlmsg_flags & NLM_F_DUMP) != 0, list);
}

/* Ask for all devices and find ours. */
static bool knows_us(int fd, ssize_t (*way)(int fd, const void *bytes, size_t len))
{
	struct request r = make(NLDEV(GET), DUMP, 0, 0);
	struct answer a;

	errno = 7;
	if (!EXPECT(way(fd, &r, r.header.nlmsg_len) == r.header.nlmsg_len, "errno %d", errno))
		return false;
	EXPECT(errno == 7, "errno is %d afterwards", errno);
	a = hear(fd, true, 0);
	our_index = a.index;
	return EXPECT(a.done && a.messages >= 1 && !a.error, "%u devices, error %d", a.messages,
		      a.error);
}

/* --- rows -------------------------------------------------------------------------- */

static void each_way(void)
{
	struct sockaddr_nl any = {.nl_family = AF_NETLINK};

	for (size_t i = 0; i < COUNT_OF(ways); i++) {
		int fd = open_rdma();

		row("%s, not bound", ways[i].name);
		knows_us(fd, ways[i].send);
		close(fd);
		fd = open_rdma();
		row("%s, bound", ways[i].name);
		NEED(!bind(fd, (struct sockaddr *)&any, sizeof(any)));
		knows_us(fd, ways[i].send);
		row("%s, connected to the kernel", ways[i].name);
		NEED(!connect(fd, (struct sockaddr *)&any, sizeof(any)));
		knows_us(fd, ways[i].send);
		knows_us(fd, ways[i].send);
		close(fd);
	}
}

static void as_a_descriptor(void)
{
	int fd = open_rdma(), other, before = (int)open_descriptors();
	struct request r = make(NLDEV(SYS_GET), NLM_F_REQUEST, 0, 0);
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int status;
	pid_t child;

	row("poll()");
	EXPECT(poll(&p, 1, 0) == 0, "readable before");
	NEED(by_send(fd, &r, r.header.nlmsg_len) > 0);
	EXPECT(poll(&p, 1, 0) == 1 && p.revents == POLLIN, "not readable");
	EXPECT(hear(fd, false, 0).messages == 1, "the answer");
	EXPECT((int)open_descriptors() == before, "descriptors are left");
	row("a duplicate");
	other = dup(fd);
	NEED(other >= 0);
	close(fd);
	knows_us(other, by_send);
	row("a forked child");
	child = fork();
	NEED(child >= 0);
	if (!child)
		_exit(knows_us(other, by_send) ? 0 : 1);
	NEED(waitpid(child, &status, 0) == child);
	EXPECT(status == 0, "status %x", status);
	close(other);
	row("close-on-exec is what was asked for");
	fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_RDMA);
	EXPECT(!(fcntl(fd, F_GETFD) & FD_CLOEXEC), "it is close-on-exec");
	close(fd);
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_RDMA);
	EXPECT(fcntl(fd, F_GETFD) & FD_CLOEXEC && fcntl(fd, F_GETFL) & O_NONBLOCK, "flags");
	close(fd);
}

static void addresses_that_are_no_memory(void)
{
	char *nowhere = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct request r = make(NLDEV(GET), DUMP, 0, 0);
	struct iovec part = {nowhere, 20};
	struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
	int fd = open_rdma();

	row("bad addresses");
	NEED(nowhere != MAP_FAILED);
	for (size_t i = 0; i < COUNT_OF(ways); i++)
		EXPECT(ways[i].send(fd, nowhere, 20) == -1 && errno == EFAULT, "%s: errno %d",
		       ways[i].name, errno);
	EXPECT_MINUS_ONE((int)sendto(fd, &r, 20, 0, (struct sockaddr *)nowhere, sizeof(kernel)),
			 EFAULT);
	EXPECT_MINUS_ONE((int)sendmsg(fd, (struct msghdr *)nowhere, 0), EFAULT);
	m.msg_iov = (struct iovec *)nowhere;
	EXPECT_MINUS_ONE((int)sendmsg(fd, &m, 0), EFAULT);
	EXPECT_MINUS_ONE((int)sendto(fd, &r, 20, 0, (const struct sockaddr *)&kernel, 4), EINVAL);
	EXPECT(hear(fd, false, 0).results == 0, "something was answered");
	close(fd);
	munmap(nowhere, PAGE);
}

#define NONE 1 /* no answer at all */

/* Requests that name no device, or ours, and the errors that they get. */
static const struct {
	const char *what;
	uint16_t type, flags, attr;
	bool ours; /* ... whose value is our index */
	uint32_t value;
	int error;
} wrong[] = {
	{"no request", NLDEV(GET), 0, 0, false, 0, NONE},
	{"no request, to be acknowledged", NLDEV(GET), NLM_F_ACK, 0, false, 0, 0},
	{"a control message", NLMSG_NOOP, NLM_F_REQUEST, 0, false, 0, NONE},
	{"a device without a number", NLDEV(GET), NLM_F_REQUEST, 0, false, 0, -EINVAL},
	{"a port without a number", NLDEV(PORT_GET), NLM_F_REQUEST, ATTR(DEV_INDEX), true, 0,
	 -EINVAL},
	{"an object without a number", NLDEV(RES_QP_GET), NLM_F_REQUEST, ATTR(DEV_INDEX), true, 0,
	 -EINVAL},
	{"objects of no device", NLDEV(RES_QP_GET), DUMP, 0, false, 0, -EINVAL},
	{"ports of no device", NLDEV(PORT_GET), DUMP, 0, false, 0, -EINVAL},
	{"a device that is not there", NLDEV(GET), NLM_F_REQUEST, ATTR(DEV_INDEX), false, 99999,
	 -EINVAL},
	{"a node without a type", NLDEV(GET_CHARDEV), NLM_F_REQUEST, ATTR(DEV_INDEX), true, 0,
	 -EINVAL},
	{"counters of nothing", NLDEV(STAT_GET), DUMP, ATTR(DEV_INDEX), true, 0, -EINVAL},
	{"a new name", NLDEV(SET), NLM_F_REQUEST, ATTR(DEV_INDEX), true, 0, -EOPNOTSUPP},
	{"a new link", NLDEV(NEWLINK), NLM_F_REQUEST, 0, false, 0, -EOPNOTSUPP},
	{"an unknown command", RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, 999), NLM_F_REQUEST, ATTR(DEV_INDEX),
	 true, 0, -EOPNOTSUPP},
	{"another kind of requests", RDMA_NL_GET_TYPE(RDMA_NL_IWCM, 2), NLM_F_REQUEST, 0, false, 0,
	 -EINVAL},
};

static void requests_that_are_wrong(void)
{
	const char *path = "/sys/class/infiniband";
	int fd = open_rdma();

	for (size_t i = 0; i < COUNT_OF(wrong); i++) {
		struct request r = make(wrong[i].type, wrong[i].flags, wrong[i].attr,
					wrong[i].ours ? our_index : wrong[i].value);
		struct answer a;

		row("%s", wrong[i].what);
		if (!syscall(SYS_faccessat, AT_FDCWD, path, F_OK) && !wrong[i].ours)
			continue; /* the kernel's devices are nobody's to try things on */
		a = ask(fd, &r, 0);
		EXPECT(a.results + a.done == (wrong[i].error != NONE), "%u results", a.results);
		EXPECT(wrong[i].error == NONE || a.error == wrong[i].error, "%d, not %d", a.error,
		       wrong[i].error);
	}
	close(fd);
}

static void lengths_that_are_wrong(void)
{
	struct request r = make(NLDEV(GET), NLM_F_REQUEST, ATTR(DEV_INDEX), our_index), two[2];
	int fd = open_rdma();

	row("a number of three bytes");
	r.number[0].len--;
	EXPECT(ask(fd, &r, 0).error == -EINVAL, "it was accepted");
	row("a message longer than its datagram");
	r = make(NLDEV(GET), NLM_F_REQUEST | NLM_F_ACK, ATTR(DEV_INDEX), our_index);
	NEED(by_send(fd, &r, NLMSG_HDRLEN) == NLMSG_HDRLEN);
	EXPECT(hear(fd, false, 0).results == 0, "it was answered");
	row("nothing");
	EXPECT(by_send(fd, &r, 0) == 0 || errno == ENODATA, "errno %d", errno); /* older kernels */
	EXPECT(hear(fd, false, 0).results == 0, "it was answered");
	row("two requests in a datagram");
	r.header.nlmsg_len = sizeof(r);
	two[0] = two[1] = r;
	NEED(by_send(fd, two, sizeof(two)) == sizeof(two));
	EXPECT(hear(fd, false, 0).messages == 2, "not two answers");
	row("a port that is not there");
	r = make(NLDEV(PORT_GET), NLM_F_REQUEST, ATTR(DEV_INDEX), our_index);
	add(&r, ATTR(PORT_INDEX), 2);
	EXPECT(ask(fd, &r, 0).error == -EINVAL, "it was accepted");
	row("an object that is not there");
	r = make(NLDEV(RES_PD_GET), NLM_F_REQUEST, ATTR(DEV_INDEX), our_index);
	add(&r, ATTR(RES_PDN), 12345);
	EXPECT(ask(fd, &r, 0).error == -ENOENT, "it was found");
	close(fd);
}

/* As with the kernel's devices: libraries ask netlink for the number that they have from verbs. */
static void the_same_number_by_verbs(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	row("a device's number by verbs");
	NEED(list && list[0]);
	EXPECT((uint32_t)ibv_get_device_index(list[0]) == our_index, "%d, not %u",
	       ibv_get_device_index(list[0]), our_index);
	ibv_free_device_list(list);
}

/* --- more than a socket's queue holds ---------------------------------------------- */

static struct ibv_context *open_device(void)
{
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);
	struct ibv_context *ctx = list && count ? ibv_open_device(list[0]) : NULL;

	NEED(ctx);
	ibv_free_device_list(list);
	return ctx;
}

static void wait_for_threads(size_t count)
{
	EXPECT(WAIT_UNTIL(thread_count() <= count, 30000), "%zu threads, %zu before",
	       thread_count(), count);
}

static void a_long_dump(void)
{
	static struct ibv_pd *pd[MANY];
	struct ibv_context *ctx = open_device();
	struct request r = make(NLDEV(RES_PD_GET), DUMP, ATTR(DEV_INDEX), our_index);
	size_t before = thread_count();
	struct answer a;
	int fd = open_rdma();

	for (unsigned int i = 0; i < MANY; i++)
		NEED(pd[i] = ibv_alloc_pd(ctx));
	row("a dump that is longer than the queue");
	a = ask(fd, &r, ATTR(RES_PD));
	EXPECT(a.done && a.entries == MANY, "%u entries", a.entries);
	wait_for_threads(before);
	row("... of which nobody reads the rest");
	NEED(by_send(fd, &r, r.header.nlmsg_len) > 0);
	close(fd);
	wait_for_threads(before);
	for (unsigned int i = 0; i < MANY; i++)
		ibv_dealloc_pd(pd[i]);
	ibv_close_device(ctx);
}

/* --- others' sockets --------------------------------------------------------------- */

/* Of one for users, the kernel's port has nobody. */
static void netlink_of_users(void)
{
	struct sockaddr_nl any = {.nl_family = AF_NETLINK}, to = any;
	int own = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_USERSOCK);
	int rdma = open_rdma();
	char bytes[8];

	row("NETLINK_USERSOCK");
	NEED(own >= 0 && !bind(own, (struct sockaddr *)&any, sizeof(any)));
	for (size_t i = 0; i < COUNT_OF(ways); i++)
		EXPECT(ways[i].send(own, "message", 8) == -1 && errno == ECONNREFUSED,
		       "%s: errno %d", ways[i].name, errno);
	row("from ours to a port that is not the kernel's");
	to.nl_pid = port_of(own);
	EXPECT(sendto(rdma, "message", 8, 0, (struct sockaddr *)&to, sizeof(to)) == 8, "errno %d",
	       errno);
	EXPECT(recv(own, bytes, 8, MSG_DONTWAIT) == 8 && !strcmp(bytes, "message"), "its message");
	close(own);
	close(rdma);
}

static void others(void)
{
	struct {
		struct nlmsghdr header;
		struct ifinfomsg info;
	} links = {{sizeof(links), RTM_GETLINK, DUMP, SEQ, 0}, {0}};
	int route = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), pair[2];
	int file = open("/dev/null", O_WRONLY | O_CLOEXEC);
	char bytes[8];

	NEED(route >= 0 && !socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	for (size_t i = 0; i < COUNT_OF(ways); i++) {
		row("NETLINK_ROUTE, %s", ways[i].name);
		NEED(ways[i].send(route, &links, sizeof(links)) == sizeof(links));
		EXPECT(hear(route, true, 0).messages >= 1, "no interface");
	}
	row("a unix socket");
	EXPECT(by_send(pair[0], "message", 8) == 8, "errno %d", errno);
	EXPECT(recv(pair[1], bytes, 8, MSG_DONTWAIT) == 8 && !strcmp(bytes, "message"), "it");
	row("no socket, no descriptor");
	EXPECT_MINUS_ONE((int)by_send(file, "message", 8), ENOTSOCK);
	EXPECT_MINUS_ONE((int)by_send(-1, "message", 8), EBADF);
	close(pair[0]);
	close(pair[1]);
	close(route);
	close(file);
	netlink_of_users();
}

int main(void)
{
	int fd = (int)syscall(SYS_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_USERSOCK);

	if (fd < 0) {
		printf("no netlink here\n");
		return 77;
	}
	close(fd);
	sandbox_begin(120);
	each_way();
	as_a_descriptor();
	addresses_that_are_no_memory();
	requests_that_are_wrong();
	lengths_that_are_wrong();
	the_same_number_by_verbs();
	a_long_dump();
	others();
	return sandbox_end();
}
