/* SPDX-License-Identifier: MIT */
/* The MTU of a port that follows the host's interfaces. */
#ifndef AV_DEVICE_MTU_H
#define AV_DEVICE_MTU_H

#include <stdint.h>
#include <infiniband/verbs.h>

#include "device/gid.h"

/* In bytes, of enum ibv_mtu; a peer's segment may say anything. */
static inline uint32_t av_mtu_bytes(uint32_t mtu)
{
	return 128u << (mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? mtu : IBV_MTU_256);
}

/*
 * The largest path MTU whose packets fit an interface. @bytes: the MTU of the interface
 * Return: at least IBV_MTU_256, which every interface with IPv6 carries
 */
enum ibv_mtu av_mtu_within(uint32_t bytes);

/*
 * What fits all interfaces of a GID table: whichever row a program takes, its packets pass. Those
 * that cannot be asked do not count.
 * Context: makes system calls; keeps errno
 */
enum ibv_mtu av_mtu_of_rows(const struct av_gid *rows, unsigned int count);

#endif
