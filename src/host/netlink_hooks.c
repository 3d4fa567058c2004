/* SPDX-License-Identifier: MIT */
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/thread.h"
#include "copy/copy.h"
#include "host/vsysfs.h"

/* The kernel's datagrams fit the buffers of programs, which have a page. */
#define DATAGRAM_BYTES 4096

/* The kernel's module makes it. Without it, opening the protocol would start modprobe(8). */
#define DEVICES "/sys/class/infiniband"

AV_LIBC_NEXT(int, socket, (int, int, int));
AV_LIBC_NEXT(ssize_t, sendto, (int, const void *, size_t, int, const struct sockaddr *, socklen_t));
AV_LIBC_NEXT(ssize_t, sendmsg, (int, const struct msghdr *, int));

/* Add the messages of one datagram. Return: true: the end of a dump was among them */
static bool pass_nl_datagram(const void *datagram, size_t len, struct av_nl_out *out)
{
	const struct nlmsghdr *message;
	bool done = false;
	size_t at = 0;

	while ((message = av_nl_next(datagram, len, &at))) {
		av_nl_pass(out, message);
		done = done || message->nlmsg_type == NLMSG_DONE;
	}
	return done;
}

/* The kernel answers before send(2) returns, except that it continues a dump while we read. */
static void receive_answers(int fd, bool dump, struct av_nl_out *out)
{
	char bytes[DATAGRAM_BYTES] AV_ALIGNED(NLMSG_ALIGNTO);
	bool done = false;
	ssize_t n;

	while (!done && (n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
		done = pass_nl_datagram(bytes, (size_t)n, out);
	if (dump && !done)
		av_nl_done(out, 0);
}

bool av_netlink_ask_kernel(const struct nlmsghdr *request, struct av_nl_out *out)
{
	const struct sockaddr_nl to = {.nl_family = AF_NETLINK};
	bool dump = (request->nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP, sent;
	int fd AV_CLOSED = -1;

	if (av_next_access()(DEVICES, F_OK))
		return false;
	fd = av_next_socket()(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);
	if (fd < 0)
		return false;
	sent = av_next_sendto()(fd, request, request->nlmsg_len, 0, (const struct sockaddr *)&to,
				sizeof(to)) >= 0;
	if (sent)
		receive_answers(fd, dump, out);
	return sent;
}

/*
 * The program gets a real socket of another netlink protocol, so the kernel does everything but
 * sending to itself: docs/NETLINK.md. The kernel keeps a mark for us with the socket: no table of
 * descriptors could be wrong after close(), dup() or fork(). The mark is a pacing rate, which means
 * nothing to netlink, and needs no privilege.
 */

#define MARK 0x616e796eu

/* Has this process, or one that forked it, opened such a socket? If not, none is ours. */
static atomic_bool handed_out;

static bool is_quiet(void)
{
	return av_likely(!atomic_load_explicit(&handed_out, memory_order_relaxed));
}

/* --- opening ----------------------------------------------------------------------- */

static bool mark_nl_socket(int fd)
{
	const uint32_t pace = MARK;

	return setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &pace, sizeof(pace)) == 0;
}

/* Return: descriptor, or -1 */
static int open_ours(int type)
{
	AV_UNCANCELLED;
	int fd = av_next_socket()(AF_NETLINK, type, NETLINK_USERSOCK);

	if (fd >= 0 && !mark_nl_socket(fd)) {
		close(fd);
		return -1;
	}
	if (fd >= 0)
		atomic_store_explicit(&handed_out, true, memory_order_relaxed);
	return fd;
}

AV_LIBC(int, socket, (int domain, int type, int protocol))
{
	int fd = -1, saved = errno;

	if (av_unlikely(domain == AF_NETLINK && protocol == NETLINK_RDMA) && !av_real_files_only())
		fd = open_ours(type);
	if (av_unlikely(fd >= 0)) {
		errno = saved;
		return fd;
	}
	return av_next_socket()(domain, type, protocol);
}

/* --- whose socket, and whose message ----------------------------------------------- */

static uint32_t option(int fd, int name)
{
	uint32_t value = 0;
	socklen_t len = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, name, &value, &len) ? 0 : value;
}

static bool is_marked(int fd)
{
	return option(fd, SO_MAX_PACING_RATE) == MARK && option(fd, SO_DOMAIN) == AF_NETLINK &&
	       option(fd, SO_PROTOCOL) == NETLINK_USERSOCK;
}

static bool is_the_kernel(const struct sockaddr_nl *to)
{
	return to->nl_family == AF_NETLINK && !to->nl_pid && !to->nl_groups;
}

/* Is the message for the kernel? @to: the program's; none: whom the socket is connected to */
static bool goes_to_kernel(int fd, const void *to, socklen_t len)
{
	struct sockaddr_nl addr = {0};
	socklen_t room = sizeof(addr);

	if (to && len)
		return len >= sizeof(addr) && av_copy(&addr, to, sizeof(addr)) == AV_COPY_OK &&
		       is_the_kernel(&addr);
	return !getpeername(fd, (struct sockaddr *)&addr, &room) && is_the_kernel(&addr);
}

/* Keeps errno. */
static bool is_emulated_nl_send(int fd, const void *to, socklen_t len)
{
	AV_ERRNO_KEPT;

	return is_marked(fd) && goes_to_kernel(fd, to, len);
}

/*
 * The request goes to a socket of ours that lives as long as the call; we send the answers to the
 * program's port (docs/NETLINK.md). The kernel makes a long dump while the program reads it. We get
 * no notice of reads: a thread waits for room in the program's socket, and sends the rest.
 */

/* Our ports: each thread has its own, above all PIDs. */
#define PORT_BASE	0x40000000u
#define PORT_STEP	(1u << 22) /* more than there are threads: PID_MAX_LIMIT */
#define PORT_TRIES	64u
#define TIMEOUT_SECONDS 10 /* for a program that does not read */

/* A request that is being answered: our socket, and the program's, to which the answers go. */
struct talk {
	int fd, theirs;
	struct av_nl_out out;
	size_t sent;
};

static struct sockaddr_nl address(uint32_t port)
{
	return (struct sockaddr_nl){.nl_family = AF_NETLINK, .nl_pid = port};
}

/* Return: descriptor, bound to *@port; -1: none */
static int open_port(uint32_t *port)
{
	int fd = av_next_socket()(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_USERSOCK);

	for (unsigned int i = 0; fd >= 0 && i < PORT_TRIES; i++) {
		struct sockaddr_nl addr = address(PORT_BASE + i * PORT_STEP + (uint32_t)gettid());

		*port = addr.nl_pid;
		if (!bind(fd, (struct sockaddr *)&addr, sizeof(addr)))
			return fd;
	}
	if (fd >= 0)
		close(fd);
	return -1;
}

/* --- answering --------------------------------------------------------------------- */

/* A socket that is connected to the kernel (port 0) accepts no other's messages. */
static bool disconnect(const struct talk *t)
{
	struct sockaddr none = {.sa_family = AF_UNSPEC};

	return !connect(t->theirs, &none, sizeof(struct sockaddr_nl));
}

/* Send what is left. Return: 0 or errno */
static int send_rest(struct talk *t, int flags)
{
	struct sockaddr_nl to = address(t->out.port);
	size_t len;

	while ((len = av_nl_datagram(&t->out, t->sent))) {
		ssize_t n = av_next_sendto()(t->fd, t->out.bytes + t->sent, len, flags,
					     (struct sockaddr *)&to, sizeof(to));

		if (n < 0 && errno != EINTR)
			return errno;
		if (n >= 0)
			t->sent += len;
	}
	return 0;
}

static void close_nl_talk(struct talk *t)
{
	close(t->fd);
	free(t->out.bytes);
}

/* Ends after the answers, with the program's socket, or after the timeout. */
static void *send_later(void *arg)
{
	const struct timeval timeout = {.tv_sec = TIMEOUT_SECONDS};
	struct talk *t = arg;

	if (!setsockopt(t->fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)))
		(void)send_rest(t, 0);
	close_nl_talk(t);
	free(t);
	return NULL;
}

/* Return: 0: the thread ends the talk; or errno */
static int leave_to_thread(const struct talk *t)
{
	struct talk *theirs = malloc(sizeof(*theirs));
	struct av_thread *thread;

	if (!theirs)
		return ENOMEM;
	*theirs = *t;
	if (av_thread_start(&thread, "anyverbs-nl", send_later, theirs)) {
		free(theirs);
		return EAGAIN;
	}
	av_thread_leave(thread);
	return 0;
}

/* Send the answers, and end the talk. Return: false: some are lost */
static bool send_nl_answers(struct talk *t)
{
	int err = t->out.failed ? ENOMEM : send_rest(t, MSG_DONTWAIT);

	if (err == ECONNREFUSED && disconnect(t))
		err = send_rest(t, MSG_DONTWAIT);
	if (err == EAGAIN && !leave_to_thread(t))
		return true;
	close_nl_talk(t);
	return !err;
}

/* --- receiving --------------------------------------------------------------------- */

static uint32_t port_of(int fd)
{
	struct sockaddr_nl addr = {0};
	socklen_t len = sizeof(addr);

	return getsockname(fd, (struct sockaddr *)&addr, &len) ? 0 : addr.nl_pid;
}

/* Receive what port @from has sent, and drop what others send. Return: false: there is nothing */
static bool receive_request(int fd, uint32_t from, void *bytes, size_t len)
{
	struct sockaddr_nl addr = {0};
	ssize_t n;

	do {
		socklen_t room = sizeof(addr);

		n = recvfrom(fd, bytes, len, MSG_DONTWAIT | MSG_TRUNC, (struct sockaddr *)&addr,
			     &room);
	} while (n >= 0 && addr.nl_pid != from);
	return n == (ssize_t)len;
}

/* Answer the @len bytes that the program sent to @fd, and close @fd. Return: false: failed */
static bool answer_nl_request(int fd, int theirs, size_t len)
{
	struct talk t = {.fd = fd, .theirs = theirs, .out = {.port = port_of(theirs)}};
	void *request = malloc(len + 1); /* an empty one is one, too */

	if (!request || !receive_request(fd, t.out.port, request, len)) {
		free(request);
		close_nl_talk(&t);
		return false;
	}
	av_netlink_answer(request, len, &t.out);
	free(request);
	return send_nl_answers(&t);
}

/*
 * sendmsg(2) that puts the answers into the socket's queue. @message: a copy of the program's,
 * whose address is replaced. Context: allocates, opens files, takes locks. Keeps errno on success.
 * Return: bytes sent; -1 and errno, ENOBUFS: no memory or descriptors for an answer
 */
static ssize_t netlink_talk(int fd, struct msghdr *message, int flags)
{
	AV_UNCANCELLED;
	int saved = errno, ours;
	struct sockaddr_nl to;
	uint32_t port;
	ssize_t n;

	ours = open_port(&port);
	if (ours < 0)
		return av_vlibc_fail(ENOBUFS);
	to = address(port);
	message->msg_name = &to;
	message->msg_namelen = sizeof(to);
	n = av_next_sendmsg()(fd, message, flags);
	if (n < 0) {
		saved = errno;
		close(ours);
	} else if (!answer_nl_request(ours, fd, (size_t)n)) {
		return av_vlibc_fail(ENOBUFS);
	}
	errno = saved;
	return n;
}

/* --- sending ----------------------------------------------------------------------- */

static ssize_t talk_of(int fd, const void *bytes, size_t len, int flags)
{
	struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = len};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	return netlink_talk(fd, &message, flags);
}

AV_LIBC(ssize_t, send, (int fd, const void *bytes, size_t len, int flags))
{
	if (is_quiet() || !is_emulated_nl_send(fd, NULL, 0))
		return av_next_send()(fd, bytes, len, flags);
	return talk_of(fd, bytes, len, flags);
}

AV_LIBC(ssize_t, sendto,
	(int fd, const void *bytes, size_t len, int flags, const struct sockaddr *to,
	 socklen_t to_len))
{
	if (is_quiet() || !is_emulated_nl_send(fd, to, to_len))
		return av_next_sendto()(fd, bytes, len, flags, to, to_len);
	return talk_of(fd, bytes, len, flags);
}

AV_LIBC(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags))
{
	struct msghdr copy;

	if (is_quiet() || av_copy(&copy, message, sizeof(copy)) != AV_COPY_OK ||
	    !is_emulated_nl_send(fd, copy.msg_name, copy.msg_namelen))
		return av_next_sendmsg()(fd, message, flags);
	return netlink_talk(fd, &copy, flags);
}
