/* SPDX-License-Identifier: MIT */
/*
 * Events of connection management, as librdmacm numbers them: enum rdma_cm_event_type of
 * rdma_get_cm_event(3). Its header and the kernel's <rdma/rdma_user_cm.h> exclude each other.
 */
#ifndef AV_CM_EVENT_TYPE_H
#define AV_CM_EVENT_TYPE_H

enum av_cm_event_type {
	AV_CM_EVENT_ADDR_RESOLVED,
	AV_CM_EVENT_ADDR_ERROR,
	AV_CM_EVENT_ROUTE_RESOLVED,
	AV_CM_EVENT_ROUTE_ERROR,
	AV_CM_EVENT_CONNECT_REQUEST,
	AV_CM_EVENT_CONNECT_RESPONSE,
	AV_CM_EVENT_CONNECT_ERROR,
	AV_CM_EVENT_UNREACHABLE,
	AV_CM_EVENT_REJECTED,
	AV_CM_EVENT_ESTABLISHED,
	AV_CM_EVENT_DISCONNECTED,
	AV_CM_EVENT_DEVICE_REMOVAL,
	AV_CM_EVENT_MULTICAST_JOIN,
	AV_CM_EVENT_MULTICAST_ERROR,
	AV_CM_EVENT_ADDR_CHANGE,
	AV_CM_EVENT_TIMEWAIT_EXIT,
	AV_CM_EVENT_ADDRINFO_RESOLVED,
	AV_CM_EVENT_ADDRINFO_ERROR,
	AV_CM_EVENT_USER,     /* the program's own */
	AV_CM_EVENT_INTERNAL, /* librdmacm's own */
};

#define AV_CM_UDP_QKEY 0x01234567u /* of datagrams, and of multicast groups: RDMA_UDP_QKEY */

#endif
