/* SPDX-License-Identifier: MIT */
#include "cm/cm_address.h"

#include <infiniband/ib.h>

#include "base/real_calls.h"
#include "base/thread.h"
#include "cm/id.h"
#include "copy/copy.h"
#include "wire/address.h"

/* A GID that is all 0 stands for any. */
static void name_ib(const struct sockaddr_ib *from, struct av_cm_name *name)
{
	memcpy(name->address, &from->sib_addr, sizeof(name->address));
	name->v6 = !av_net_is_v4(name->address);
	name->ib = true;
	name->service_id = be64toh(from->sib_sid);
	name->port = av_cm_service_port(name->service_id);
}

/* Bytes of an address of that family; 0: of another one */
static socklen_t ip_sockaddr_bytes(sa_family_t family)
{
	return family == AF_INET    ? sizeof(struct sockaddr_in)
	       : family == AF_INET6 ? sizeof(struct sockaddr_in6)
				    : 0;
}

bool av_cm_name(const struct sockaddr *address, struct av_cm_name *name)
{
	socklen_t bytes = ip_sockaddr_bytes(address->sa_family);
	union av_net_name from = {0};

	*name = (struct av_cm_name){.v6 = address->sa_family == AF_INET6};
	if (address->sa_family == AF_IB)
		name_ib((const struct sockaddr_ib *)(const void *)address, name);
	if (bytes == 0)
		return name->ib;
	memcpy(&from, address, bytes);
	name->port = av_net_gid(&from, name->address);
	if (name->v6)
		name->ifindex = from.v6.sin6_scope_id;
	return true;
}

socklen_t av_cm_sockaddr_ip(const struct av_cm_name *name, struct sockaddr_storage *address)
{
	union av_net_name to = {0};
	socklen_t bytes = ip_sockaddr_bytes(name->v6 ? AF_INET6 : AF_INET);

	to.any.sa_family = name->v6 ? AF_INET6 : AF_INET;
	av_net_set_port(&to, name->port);
	if (name->v6) {
		memcpy(&to.v6.sin6_addr, name->address, sizeof(name->address));
		to.v6.sin6_scope_id = name->ifindex;
	} else {
		memcpy(&to.v4.sin_addr, name->address + 12, sizeof(to.v4.sin_addr));
	}
	memset(address, 0, sizeof(*address));
	memcpy(address, &to, bytes);
	return bytes;
}

/* --- whose ------------------------------------------------------------------------ */

static bool has_address(const struct av_gid *row, const struct av_cm_name *name)
{
	return memcmp(row->gid.raw, name->address, sizeof(name->address)) == 0 &&
	       (name->ifindex == 0 || name->ifindex == row->ifindex);
}

/* The row of an address. @any: the first of @name's family, else the first. Return: NULL: none */
static const struct av_gid *choose_row(const struct av_gid *gids, unsigned int count,
				       const struct av_cm_name *name, bool any)
{
	const struct av_gid *other = NULL;

	for (const struct av_gid *row = gids; row < gids + count; row++) {
		if (av_gid_is_empty(row) || row->type != IBV_GID_TYPE_ROCE_V2)
			continue;
		if (any ? av_net_is_v4(row->gid.raw) == !name->v6 : has_address(row, name))
			return row;
		if (any && !other)
			other = row;
	}
	return other;
}

static bool find_where(const struct av_cm_name *name, bool any, struct av_cm_where *where)
{
	unsigned int count;
	struct av_device *const *devices = av_devices(&count);

	for (unsigned int i = 0; i < count; i++) {
		struct av_gid gids[AV_GID_MAX];
		const struct av_gid *row =
			choose_row(gids, av_port_gids(devices[i], gids), name, any);

		if (!row)
			continue;
		*where = (struct av_cm_where){.dev = devices[i],
					      .gid_index = (unsigned int)(row - gids),
					      .ifindex = row->ifindex,
					      .type = IBV_GID_TYPE_ROCE_V2};
		memcpy(where->gid, row->gid.raw, sizeof(where->gid));
		return true;
	}
	return false;
}

bool av_cm_where(const struct av_cm_name *name, struct av_cm_where *where)
{
	return find_where(name, false, where);
}

bool av_cm_where_any(bool v6, struct av_cm_where *where)
{
	const struct av_cm_name any = {.v6 = v6};

	return find_where(&any, true, where);
}

bool av_cm_where_gid(const uint8_t gid[16], struct av_cm_where *where)
{
	struct av_cm_name name = {.v6 = !av_net_is_v4(gid)};

	memcpy(name.address, gid, sizeof(name.address));
	return av_cm_where(&name, where);
}

bool av_cm_is_own(const uint8_t gid[16])
{
	struct av_cm_where where;

	return av_cm_where_gid(gid, &where);
}

/* --- from where ------------------------------------------------------------------- */

/* The kernel looks up the route when a socket is connected, and sends nothing. */
static int query_route_source(int fd, struct av_cm_name dst, const struct av_cm_name *src,
			      struct sockaddr *chosen)
{
	struct sockaddr_storage address;
	socklen_t bytes, got = sizeof(address);

	if (src) {
		struct av_cm_name from = *src;

		from.port = 0;
		bytes = av_cm_sockaddr_ip(&from, &address);
		if (av_raw_bind(fd, (struct sockaddr *)&address, bytes))
			return -errno;
	}
	dst.port = AV_ROCE_PORT;
	bytes = av_cm_sockaddr_ip(&dst, &address);
	if (av_raw_connect(fd, (struct sockaddr *)&address, bytes) ||
	    av_raw_getsockname(fd, chosen, &got))
		return -errno;
	return 0;
}

int av_cm_source(const struct av_cm_name *dst, const struct av_cm_name *src,
		 struct av_cm_name *chosen)
{
	AV_UNCANCELLED;
	struct sockaddr_storage got = {0};
	AV_ERRNO_KEPT;
	int fd AV_CLOSED = -1, ret;

	if (src && src->v6 != dst->v6)
		return -av_refuse(EINVAL, AV_CHECK_CM_FAMILY, 0, 0);
	fd = av_raw_socket(dst->v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ret = fd < 0 ? -errno : query_route_source(fd, *dst, src, (struct sockaddr *)&got);
	if (ret == 0 && !av_cm_name((const struct sockaddr *)&got, chosen))
		ret = -EAFNOSUPPORT;
	if (ret == 0)
		chosen->port = src ? src->port : 0;
	return ret;
}

enum ibv_mtu av_cm_id_mtu(const struct av_cm_id *id)
{
	struct ibv_port_attr port;

	av_port_attr(id->where.dev, &port);
	return port.active_mtu;
}

/* --- what is wrong -------------------------------------------------------------------------- */

/* Note why a command is about to fail with @err: an address, and what that was taken for. */
static void note_address(int err, enum av_check check, uint64_t wanted, uint64_t limit,
			 const uint8_t named[16], const uint8_t taken_for[16])
{
	struct av_flight_record *r;

	(void)av_refuse(err, check, wanted, limit);
	r = av_diag_pending();
	memcpy(r->gid, named, sizeof(r->gid));
	r->has |= AV_HAS_GID;
	if (memcmp(named, taken_for, sizeof(r->taken_for)) == 0)
		return;
	memcpy(r->taken_for, taken_for, sizeof(r->taken_for));
	r->has |= AV_HAS_TAKEN_FOR;
}

static void record_failure(int err, enum av_check check, uint64_t wanted, uint64_t limit,
			   const struct av_cm_route *route)
{
	note_address(err, check, wanted, limit, route->named, route->path.dst);
	(void)av_refused(AV_VERB_CM_CONNECT, err);
}

/* Listeners of this network namespace in that port space. */
static unsigned int listeners(uint16_t ps)
{
	uint64_t netns = av_netns_of_thread();
	unsigned int count = 0;
	struct av_cm_port p;

	for (uint32_t at = 0; av_cm_port_next(&at, &p);)
		count += p.listens && p.netns == netns && p.ps == ps;
	return count;
}

void av_cm_report_refused(const struct av_cm_route *route, uint64_t service_id, uint32_t reason,
			  bool unknown)
{
	enum av_check check = AV_CHECK_CM_REFUSED;

	if (unknown) {
		reason =
			av_cm_is_own(route->path.dst) ? listeners(av_cm_service_ps(service_id)) : 0;
		check = reason ? AV_CHECK_CM_OTHER_PORTS : AV_CHECK_CM_NO_LISTENER;
	}
	record_failure(ECONNREFUSED, check, av_cm_service_port(service_id), reason, route);
}

void av_cm_report_silence(const struct av_cm_route *route, uint64_t service_id,
			  unsigned int requests)
{
	enum av_check check = route->proc ? AV_CHECK_PEER_SILENT
					  : av_check_of_silence(-av_net_icmp_error(&route->path));

	if (check == AV_CHECK_PEER_SILENT)
		record_failure(ETIMEDOUT, AV_CHECK_CM_NO_ANSWER, av_cm_service_port(service_id),
			       requests, route);
	else
		record_failure(ETIMEDOUT, check, AV_MAD_BYTES, 0, route);
}

/* Note that a command about @name is about to fail with @err. Return: -@err */
static int refuse_name(int err, enum av_check check, const struct av_cm_name *name)
{
	note_address(err, check, name->port, 0, name->address, name->address);
	return -err;
}

/* --- binding --------------------------------------------------------------------------- */

/* Addresses that many links may have, without the link. */
static bool lacks_link(const struct av_cm_name *name)
{
	return !name->ib && name->ifindex == 0 && av_net_is_link_local(name->address);
}

/* The host could not be asked: @err of av_cm_source() says nothing about an address. */
static bool is_unasked(int err)
{
	return err == -EMFILE || err == -ENFILE;
}

/* No device has that address. A host reaches each of its own from itself. Return: -errno */
static int refuse_foreign(const struct av_cm_name *name)
{
	struct av_cm_name chosen;
	int err = av_cm_source(name, name, &chosen);

	if (is_unasked(err))
		return err;
	return refuse_name(err ? EADDRNOTAVAIL : ENODEV, AV_CHECK_CM_NOT_OURS, name);
}

int av_cm_id_bind(struct av_cm_id *id, const struct av_cm_name *name)
{
	struct av_cm_where where = {.dev = NULL};
	bool v6 = !av_net_is_v4(name->address);
	struct av_cm_port p = {.id = id->number,
			       .netns = av_netns_of_thread(),
			       .ps = name->ib ? av_cm_service_ps(name->service_id) : id->ps,
			       .port = name->port,
			       .v6 = v6,
			       .afonly = id->afonly_set ? id->afonly : !v6,
			       .reuse = id->reuse};
	int handle;

	if (id->state != AV_CM_ID_IDLE)
		return av_cm_id_refuse(id, AV_CM_IN(IDLE));
	if (lacks_link(name))
		return refuse_name(EINVAL, AV_CHECK_CM_LINK, name);
	if (!av_cm_is_any(name->address) && !av_cm_where(name, &where))
		return refuse_foreign(name);
	if (where.dev)
		av_cm_since(&where);
	memcpy(p.address, name->address, sizeof(p.address));
	handle = av_cm_port_bind(&p);
	if (handle == -EADDRINUSE || handle == -EADDRNOTAVAIL)
		return refuse_name(-handle, AV_CHECK_CM_PORT_TAKEN, name);
	if (handle < 0)
		return handle;
	id->port = handle;
	id->afonly = p.afonly;
	id->src = *name;
	id->src.port = p.port;
	if (name->ib)
		id->src.service_id = (name->service_id & ~(uint64_t)UINT16_MAX) | p.port;
	id->where = where;
	id->state = AV_CM_ID_BOUND;
	return 0;
}

static int bind_to(struct av_cm_id *id, const void *address, size_t bytes)
{
	struct sockaddr_storage copy = {0};
	struct av_cm_name name;

	memcpy(&copy, address, bytes < sizeof(copy) ? bytes : sizeof(copy));
	if (!av_cm_name((const struct sockaddr *)&copy, &name))
		return -EAFNOSUPPORT;
	return av_cm_id_bind(id, &name);
}

static int bind_ip(struct av_cm_call *call)
{
	const struct rdma_ucm_bind_ip *command = AV_CM_BODY(call, struct rdma_ucm_bind_ip);

	return bind_to(call->id, &command->addr, sizeof(command->addr));
}

static int bind_id(struct av_cm_call *call)
{
	const struct rdma_ucm_bind *command = AV_CM_BODY(call, struct rdma_ucm_bind);
	int ret;

	if (command->reserved || !command->addr_size || command->addr_size > sizeof(command->addr))
		return -av_refuse(EINVAL, AV_CHECK_CM_ADDRESS, 0, command->addr_size);
	ret = av_cm_id_find(call->channel, command->id, &call->id);
	return ret ? ret : bind_to(call->id, &command->addr, command->addr_size);
}

/* --- the route to another -------------------------------------------------------------- */

/*
 * From that address to @dst. A loopback address leads to this host's own, from the device that has
 * it. Return: 0, or -ENODEV, which the event says
 */
static int resolve_id_addr(struct av_cm_id *id, struct av_cm_name src, const struct av_cm_name *dst)
{
	struct av_cm_where where;

	if (!av_cm_where(av_cm_is_any(src.address) ? dst : &src, &where))
		return -ENODEV;
	if (id->where.dev)
		where.since = id->where.since;
	else
		av_cm_since(&where);
	src.port = id->src.port;
	src.ib = id->src.ib;
	src.service_id = id->src.service_id;
	id->src = src;
	id->dst = *dst;
	id->where = where;
	memcpy(id->gid, dst->address, sizeof(id->gid));
	return 0;
}

static void put_loopback(struct av_cm_name *name)
{
	static const uint8_t v4[16] = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1},
			     v6[16] = {[15] = 1};

	memcpy(name->address, name->v6 ? v6 : v4, sizeof(name->address));
}

/*
 * This host itself, by a wildcard: from the id's device and address, or else a loopback address.
 * Source: Linux, cma_resolve_loopback(), cma_bind_loopback(). Return: 0 or -ENODEV
 */
static int resolve_here(struct av_cm_id *id, const struct av_cm_name *dst)
{
	if (!id->where.dev) {
		if (!av_cm_where_any(dst->v6, &id->where))
			return refuse_name(ENODEV, AV_CHECK_CM_NOT_OURS, dst);
		av_cm_since(&id->where);
		put_loopback(&id->src);
	}
	id->dst = *dst;
	memcpy(id->gid, id->where.gid, sizeof(id->gid));
	return 0;
}

/* An unbound id takes the program's source, or any. Its family must be the destination's. */
static int bind_first(struct av_cm_id *id, const struct av_cm_name *src,
		      const struct av_cm_name *dst)
{
	struct av_cm_name any = {.v6 = dst->v6,
				 .ib = dst->ib,
				 .service_id = dst->service_id & ~(uint64_t)UINT16_MAX};
	int ret = 0;

	if (!any.v6)
		any.address[10] = any.address[11] = 0xff;
	if (id->state == AV_CM_ID_IDLE)
		ret = av_cm_id_bind(id, src ? src : &any);
	if (ret)
		return ret;
	if (id->state != AV_CM_ID_BOUND)
		return av_cm_id_refuse(id, AV_CM_IN(IDLE) | AV_CM_IN(ADDR_BOUND));
	return id->src.ib == dst->ib && (dst->ib || id->src.v6 == dst->v6)
		       ? 0
		       : -av_refuse(EINVAL, AV_CHECK_CM_FAMILY, 0, 0);
}

/* @status: out, what the event says. Return: 0, or -errno without an event */
static int find_route(struct av_cm_id *id, const struct av_cm_name *dst, int *status)
{
	/* The family of an address that stands for any need not be that of a GID. */
	bool other = av_cm_is_any(id->src.address) && id->src.v6 != dst->v6;
	struct av_cm_name src;
	int ret;

	*status = 0;
	if (av_cm_is_any(dst->address))
		return resolve_here(id, dst);
	ret = av_cm_source(dst, other ? NULL : &id->src, &src);
	if (is_unasked(ret))
		return ret;
	if (ret)
		return refuse_name(-ret, AV_CHECK_CM_NO_ROUTE, dst);
	*status = resolve_id_addr(id, src, dst);
	return 0;
}

/* Return: 0, and an event comes; or -errno */
static int resolve_bound(struct av_cm_id *id, const struct av_cm_name *dst)
{
	int status, ret = find_route(id, dst, &status);

	if (ret)
		return ret;
	ret = av_cm_id_heard(id, status ? AV_CM_EVENT_ADDR_ERROR : AV_CM_EVENT_ADDR_RESOLVED,
			     status, NULL);
	if (ret)
		return ret;
	if (status)
		(void)av_refused(AV_VERB_CM_RESOLVE_ADDR,
				 -refuse_name(ENODEV, AV_CHECK_CM_NOT_OURS, dst));
	else
		id->state = AV_CM_ID_RESOLVED;
	return 0;
}

static int resolve_to(struct av_cm_id *id, const void *src, const void *dst)
{
	bool has_source = ((const struct sockaddr *)src)->sa_family != AF_UNSPEC;
	struct av_cm_name from, to;
	int ret;

	if (!av_cm_name(dst, &to) || (has_source && !av_cm_name(src, &from)))
		return -EAFNOSUPPORT;
	ret = bind_first(id, has_source ? &from : NULL, &to);
	return ret ? ret : resolve_bound(id, &to);
}

static int resolve_ip(struct av_cm_call *call)
{
	const struct rdma_ucm_resolve_ip *command = AV_CM_BODY(call, struct rdma_ucm_resolve_ip);

	return resolve_to(call->id, &command->src_addr, &command->dst_addr);
}

static int resolve_addr(struct av_cm_call *call)
{
	const struct rdma_ucm_resolve_addr *command =
		AV_CM_BODY(call, struct rdma_ucm_resolve_addr);
	int ret;

	if (command->reserved || command->src_size > sizeof(command->src_addr) ||
	    !command->dst_size || command->dst_size > sizeof(command->dst_addr))
		return -av_refuse(EINVAL, AV_CHECK_CM_ADDRESS, command->dst_size,
				  command->src_size);
	ret = av_cm_id_find(call->channel, command->id, &call->id);
	return ret ? ret : resolve_to(call->id, &command->src_addr, &command->dst_addr);
}

/* A route of RoCE is the kernel's; there is nothing to ask for. */
static int resolve_route(struct av_cm_call *call)
{
	struct av_cm_id *id = call->id;
	int ret;

	if (id->state != AV_CM_ID_RESOLVED)
		return av_cm_id_refuse(id, AV_CM_IN(ADDR_RESOLVED));
	ret = av_cm_id_heard(id, AV_CM_EVENT_ROUTE_RESOLVED, 0, NULL);
	if (ret == 0)
		id->state = AV_CM_ID_ROUTED;
	return ret;
}

/* Services are the subnet administrator's records: there is none. */
static int resolve_ib_service(struct av_cm_call *call)
{
	if (call->id->state != AV_CM_ID_BOUND)
		return av_cm_id_refuse(call->id, AV_CM_IN(ADDR_BOUND));
	return -av_refuse(call->id->where.dev ? EOPNOTSUPP : EINVAL, AV_CHECK_CM_SERVICE, 0, 0);
}

/* --- options --------------------------------------------------------------------------- */

static int set_tos(struct av_cm_id *id, const uint8_t *value)
{
	id->tos = *value;
	return 0;
}

/* Values of int: the kernel takes any that is not 0 for yes. */
static int load_int_option(const uint8_t *value)
{
	int number;

	memcpy(&number, value, sizeof(number));
	return number;
}

/* Whoever shares its port number, or wants to, learns of it. */
static void publish_port_options(const struct av_cm_id *id)
{
	if (id->port >= 0)
		av_cm_port_options(id->port, id->afonly, id->reuse);
}

/* Once bound it may begin to share, but not cease to. Who listens is alone. */
static int set_reuse(struct av_cm_id *id, const uint8_t *value)
{
	bool reuse = load_int_option(value) != 0;

	if (id->state == AV_CM_ID_LISTENS || (id->state != AV_CM_ID_IDLE && !reuse))
		return av_cm_id_refuse(id, AV_CM_IN(IDLE) | (reuse ? AV_CM_IN(ADDR_BOUND) : 0));
	id->reuse = reuse;
	publish_port_options(id);
	return 0;
}

static int set_afonly(struct av_cm_id *id, const uint8_t *value)
{
	if (id->state != AV_CM_ID_IDLE && id->state != AV_CM_ID_BOUND)
		return av_cm_id_refuse(id, AV_CM_IN(IDLE) | AV_CM_IN(ADDR_BOUND));
	id->afonly = load_int_option(value) != 0;
	id->afonly_set = true;
	publish_port_options(id);
	return 0;
}

/* 5 bits, and only of reliable connections. */
static int set_ack_timeout(struct av_cm_id *id, const uint8_t *value)
{
	if ((id->qp_type != IBV_QPT_RC && id->qp_type != IBV_QPT_XRC_SEND) || *value > 31)
		return -av_refuse(EINVAL, AV_CHECK_CM_ACK_TIMEOUT, *value, 0);
	id->ack_timeout = *value;
	id->ack_timeout_set = true;
	return 0;
}

static const struct option {
	uint32_t level, name, bytes;
	int (*set)(struct av_cm_id *id, const uint8_t *value);
} options[] = {
	{RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, sizeof(uint8_t), set_tos},
	{RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, sizeof(int), set_reuse},
	{RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, sizeof(int), set_afonly},
	{RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, sizeof(uint8_t), set_ack_timeout},
};

/* Paths are the kernel's routes: a program's own record is checked, and changes nothing. */
static int set_path(struct av_cm_call *call, uint32_t bytes)
{
	if (bytes == 0 || bytes % sizeof(struct ib_path_rec_data))
		return -av_refuse(EINVAL, AV_CHECK_CM_OPTION, bytes,
				  sizeof(struct ib_path_rec_data));
	return resolve_route(call);
}

static int set_option(struct av_cm_call *call)
{
	const struct rdma_ucm_set_option *command = AV_CM_BODY(call, struct rdma_ucm_set_option);
	uint8_t value[sizeof(int)];

	if (command->level == RDMA_OPTION_IB && command->optname == RDMA_OPTION_IB_PATH)
		return set_path(call, command->optlen);
	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++) {
		const struct option *o = &options[i];

		if (o->level != command->level || o->name != command->optname)
			continue;
		if (command->optlen != o->bytes)
			return -av_refuse(EINVAL, AV_CHECK_CM_OPTION, command->optlen, o->bytes);
		if (av_copy(value, (const void *)(uintptr_t)command->optval, o->bytes) !=
		    AV_COPY_OK)
			return -EFAULT;
		return o->set(call->id, value);
	}
	return -ENOSYS;
}

const struct av_cm_row av_cm_address_rows[] = {
	AV_CM_ROW(BIND_IP, BIND_ADDR, bind_ip, 0, AV_CM_ID_OF(bind_ip), bind_ip),
	AV_CM_ROW(BIND, BIND_ADDR, bind, 0, AV_CM_NO_ID, bind_id),
	AV_CM_ROW(RESOLVE_IP, RESOLVE_ADDR, resolve_ip, 0, AV_CM_ID_OF(resolve_ip), resolve_ip),
	AV_CM_ROW(RESOLVE_ADDR, RESOLVE_ADDR, resolve_addr, 0, AV_CM_NO_ID, resolve_addr),
	AV_CM_ROW(RESOLVE_ROUTE, RESOLVE_ROUTE, resolve_route, 0, AV_CM_ID_OF(resolve_route),
		  resolve_route),
	{AV_CM_CMD_RESOLVE_IB_SERVICE, AV_VERB_CM_RESOLVE_ADDRINFO,
	 sizeof(struct av_cm_resolve_ib_service), 0, offsetof(struct av_cm_resolve_ib_service, id),
	 resolve_ib_service},
	AV_CM_ROW(SET_OPTION, SET_OPTION, set_option, 0, AV_CM_ID_OF(set_option), set_option),
	{0},
};
