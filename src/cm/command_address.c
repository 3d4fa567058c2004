/* SPDX-License-Identifier: MIT */
/* Commands about addresses: binding one, finding the way to another. */
#include <errno.h>
#include <string.h>

#include "cm/cm_report.h"
#include "cm/command.h"
#include "cm/newer_command.h"
#include "device/port.h"
#include "net/address.h"
#include "registry/cm_ports.h"
#include "registry/directory.h"

static bool where_is(const struct av_cm_name *name, struct av_cm_where *where)
{
	struct sockaddr_storage address;

	(void)av_cm_sockaddr_ip(name, &address);
	return av_cm_where((const struct sockaddr *)&address, where);
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
	struct sockaddr_storage address, chosen;
	const struct sockaddr *own = (const struct sockaddr *)&address;
	int err;

	(void)av_cm_sockaddr_ip(name, &address);
	err = av_cm_source(own, own, &chosen);
	if (is_unasked(err))
		return err;
	return av_cm_refuse_name(err ? EADDRNOTAVAIL : ENODEV, AV_CHECK_CM_NOT_OURS, name);
}

int av_cm_id_bind(struct av_cm_id *id, const struct av_cm_name *name)
{
	struct av_cm_where where = {.dev = NULL};
	bool v6 = !av_net_is_v4(name->address);
	struct av_cm_port p = {.id = id->number,
			       .netns = av_netns_of_thread(),
			       .ps = av_cm_name_ps(name, id->ps),
			       .port = name->port,
			       .v6 = v6,
			       .afonly = id->afonly_set ? id->afonly : !v6,
			       .reuse = id->reuse};
	int handle;

	if (id->state != AV_CM_ID_IDLE)
		return av_cm_id_refuse(id, AV_CM_IN(IDLE));
	if (lacks_link(name))
		return av_cm_refuse_name(EINVAL, AV_CHECK_CM_LINK, name);
	if (!av_cm_is_any(name->address) && !where_is(name, &where))
		return refuse_foreign(name);
	if (where.dev)
		av_cm_since(&where);
	memcpy(p.address, name->address, sizeof(p.address));
	handle = av_cm_port_bind(&p);
	if (handle == -EADDRINUSE || handle == -EADDRNOTAVAIL)
		return av_cm_refuse_name(-handle, AV_CHECK_CM_PORT_TAKEN, name);
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

static int bind_to(struct av_cm_call *call, uint32_t number, const void *address, size_t bytes)
{
	struct sockaddr_storage copy = {0};
	struct av_cm_name name;
	struct av_cm_id *id;
	int ret = av_cm_id_find(call->channel, number, &id);

	if (ret)
		return ret;
	memcpy(&copy, address, bytes < sizeof(copy) ? bytes : sizeof(copy));
	if (!av_cm_name((const struct sockaddr *)&copy, &name))
		return -EAFNOSUPPORT;
	return av_cm_id_bind(id, &name);
}

int av_cm_bind_ip(struct av_cm_call *call)
{
	const struct rdma_ucm_bind_ip *command = AV_CM_BODY(call, struct rdma_ucm_bind_ip);

	return bind_to(call, command->id, &command->addr, sizeof(command->addr));
}

int av_cm_bind(struct av_cm_call *call)
{
	const struct rdma_ucm_bind *command = AV_CM_BODY(call, struct rdma_ucm_bind);

	if (command->reserved || !command->addr_size || command->addr_size > sizeof(command->addr))
		return -av_refuse(EINVAL, AV_CHECK_CM_ADDRESS, 0, command->addr_size);
	return bind_to(call, command->id, &command->addr, command->addr_size);
}

/* --- the way to another ---------------------------------------------------------------- */

/* The family of an address that stands for any need not be that of a GID. */
static int source_of(const struct av_cm_id *id, const struct av_cm_name *dst,
		     struct av_cm_name *src)
{
	struct sockaddr_storage to, from, chosen;
	bool any = av_cm_is_any(id->src.address);
	int ret;

	(void)av_cm_sockaddr_ip(dst, &to);
	(void)av_cm_sockaddr_ip(&id->src, &from);
	ret = av_cm_source((const struct sockaddr *)&to,
			   any && from.ss_family != to.ss_family ? NULL
								 : (const struct sockaddr *)&from,
			   &chosen);
	if (ret)
		return ret;
	return av_cm_name((const struct sockaddr *)&chosen, src) ? 0 : -EAFNOSUPPORT;
}

/*
 * From that address to @dst. A loopback address leads to this host's own: from the device that has
 * it. Return: 0, or -ENODEV, which the event says
 */
static int resolve(struct av_cm_id *id, struct av_cm_name src, const struct av_cm_name *dst)
{
	struct av_cm_where where;

	if (!where_is(av_cm_is_any(src.address) ? dst : &src, &where))
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
 * This host itself, by an address that stands for any: from the id's device and address, if it has
 * one; else from a loopback address. Source: Linux, cma_resolve_loopback(), cma_bind_loopback().
 * Return: 0 or -ENODEV
 */
static int resolve_here(struct av_cm_id *id, const struct av_cm_name *dst)
{
	if (!id->where.dev) {
		if (!av_cm_where_any(dst->v6, &id->where))
			return av_cm_refuse_name(ENODEV, AV_CHECK_CM_NOT_OURS, dst);
		av_cm_since(&id->where);
		put_loopback(&id->src);
	}
	id->dst = *dst;
	memcpy(id->gid, id->where.gid, sizeof(id->gid));
	return 0;
}

/*
 * An id that is not bound takes the source that the program names, or any. Its family must be that
 * of the destination.
 */
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

/* @status: out, what the event says. Return: 0 or -errno: none comes */
static int find_way(struct av_cm_id *id, const struct av_cm_name *dst, int *status)
{
	struct av_cm_name src;
	int ret;

	*status = 0;
	if (av_cm_is_any(dst->address))
		return resolve_here(id, dst);
	ret = source_of(id, dst, &src);
	if (is_unasked(ret))
		return ret;
	if (ret)
		return av_cm_refuse_name(-ret, AV_CHECK_CM_NO_ROUTE, dst);
	*status = resolve(id, src, dst);
	return 0;
}

/* Return: 0, and an event comes; or -errno */
static int resolve_bound(struct av_cm_id *id, const struct av_cm_name *dst)
{
	int status, ret = find_way(id, dst, &status);

	if (ret)
		return ret;
	ret = av_cm_id_heard(id, status ? AV_CM_EVENT_ADDR_ERROR : AV_CM_EVENT_ADDR_RESOLVED,
			     status, NULL);
	if (ret)
		return ret;
	if (status)
		av_cm_report_unresolved(dst);
	else
		id->state = AV_CM_ID_RESOLVED;
	return 0;
}

static int resolve_to(struct av_cm_call *call, uint32_t number, const void *src, const void *dst)
{
	struct av_cm_name from, to;
	struct av_cm_id *id;
	bool has_source;
	int ret = av_cm_id_find(call->channel, number, &id);

	if (ret)
		return ret;
	if (!av_cm_name(dst, &to))
		return -EAFNOSUPPORT;
	has_source = ((const struct sockaddr *)src)->sa_family != AF_UNSPEC;
	if (has_source && !av_cm_name(src, &from))
		return -EAFNOSUPPORT;
	ret = bind_first(id, has_source ? &from : NULL, &to);
	if (ret)
		return ret;
	return resolve_bound(id, &to);
}

int av_cm_resolve_ip(struct av_cm_call *call)
{
	const struct rdma_ucm_resolve_ip *command = AV_CM_BODY(call, struct rdma_ucm_resolve_ip);

	return resolve_to(call, command->id, &command->src_addr, &command->dst_addr);
}

int av_cm_resolve_addr(struct av_cm_call *call)
{
	const struct rdma_ucm_resolve_addr *command =
		AV_CM_BODY(call, struct rdma_ucm_resolve_addr);

	if (command->reserved || command->src_size > sizeof(command->src_addr) ||
	    !command->dst_size || command->dst_size > sizeof(command->dst_addr))
		return -av_refuse(EINVAL, AV_CHECK_CM_ADDRESS, command->dst_size,
				  command->src_size);
	return resolve_to(call, command->id, &command->src_addr, &command->dst_addr);
}

/* A route of RoCE is the kernel's; there is nothing to ask for. */
int av_cm_id_route(struct av_cm_id *id)
{
	int ret;

	if (id->state != AV_CM_ID_RESOLVED)
		return av_cm_id_refuse(id, AV_CM_IN(ADDR_RESOLVED));
	ret = av_cm_id_heard(id, AV_CM_EVENT_ROUTE_RESOLVED, 0, NULL);
	if (ret == 0)
		id->state = AV_CM_ID_ROUTED;
	return ret;
}

int av_cm_resolve_route(struct av_cm_call *call)
{
	const struct rdma_ucm_resolve_route *command =
		AV_CM_BODY(call, struct rdma_ucm_resolve_route);
	struct av_cm_id *id;
	int ret = av_cm_id_find(call->channel, command->id, &id);

	return ret ? ret : av_cm_id_route(id);
}

/* Services are the subnet administrator's records: there is none. */
int av_cm_resolve_ib_service(struct av_cm_call *call)
{
	const struct av_cm_resolve_ib_service *command =
		AV_CM_BODY(call, struct av_cm_resolve_ib_service);
	struct av_cm_id *id;
	int ret = av_cm_id_find(call->channel, command->id, &id);

	if (ret)
		return ret;
	if (id->state != AV_CM_ID_BOUND)
		return av_cm_id_refuse(id, AV_CM_IN(ADDR_BOUND));
	return -av_refuse(id->where.dev ? EOPNOTSUPP : EINVAL, AV_CHECK_CM_SERVICE, 0, 0);
}

enum ibv_mtu av_cm_id_mtu(const struct av_cm_id *id)
{
	struct ibv_port_attr port;

	av_port_attr(id->where.dev, &port);
	return port.active_mtu;
}
