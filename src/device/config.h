/* SPDX-License-Identifier: MIT */
/*
 * Parses the text of ANYVERBS_DEVICES. It knows the grammar and the permitted values but nothing
 * about the host: a pure function from a string to device specifications and complaints.
 *
 *     LIST    = ITEM *("," ITEM)
 *     ITEM    = DEVICE / PROFILE
 *     DEVICE  = NAME *(":" KEY "=" VALUE)
 *     PROFILE = "connectx" [":" COUNT] *(":" KEY "=" VALUE)
 *               (1 to 16 devices of that model, one without COUNT: device/device.c)
 *     NAME    = 1 to 63 characters of A-Z a-z 0-9 _ . -
 *               (not "." or "..": it becomes the name of a directory)
 *
 *     link=ethernet|infiniband     link layer of the port; ethernet
 *     mtu=256|512|1024|2048|4096   of the port, in bytes; on InfiniBand 4096, on Ethernet what the
 *                                  interfaces carry
 *     lid=1..49151                 InfiniBand only, unicast; position in the list + 1
 *     guid=16 hex digits, not 0    node GUID; derived from the host's identity
 *     gids=1..AV_GID_MAX           length of the GID table
 *     gid_rows=single|mlx5         Ethernet: which rows it has; single, or as the model
 *     max_qp= max_qp_wr= max_sge= max_cq= max_cqe= max_mr= max_pd=
 *                                  smaller limits: 1 to the default in base/limits.h
 */
#ifndef AV_DEVICE_CONFIG_H
#define AV_DEVICE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#include "device/device.h"

#define AV_COMPLAINT_MAX   16  /* complaints that are kept */
#define AV_COMPLAINT_BYTES 200 /* per complaint, with NUL; quotes are cut to fit */

/* One configured device. All fields are final, but for a GUID of 0: to be derived. */
struct av_device_spec {
	char name[IBV_SYSFS_NAME_MAX];
	const struct av_model *model;
	uint8_t link_layer; /* IBV_LINK_LAYER_ETHERNET or IBV_LINK_LAYER_INFINIBAND */
	enum ibv_mtu mtu;   /* active_mtu and max_mtu; @mtu_follows: max_mtu */
	bool mtu_follows;   /* active_mtu is what the interfaces carry; Ethernet */
	unsigned int lid;   /* unique in the list; 0 on Ethernet */
	uint64_t guid;	    /* host byte order; unique in the list; 0: derive one */
	unsigned int gids;
	bool gids_paired; /* as mlx5 has them */
	unsigned int max_qp;
	unsigned int max_qp_wr;
	unsigned int max_sge;
	unsigned int max_cq;
	unsigned int max_cqe;
	unsigned int max_mr;
	unsigned int max_pd;
};

struct av_config {
	unsigned int device_count; /* 1 .. AV_DEVICE_MAX */
	struct av_device_spec device[AV_DEVICE_MAX];
	unsigned int complaint_count; /* of all; the first AV_COMPLAINT_MAX are kept */
	char complaint[AV_COMPLAINT_MAX][AV_COMPLAINT_BYTES];
};

/*
 * Parse the setting; @text NULL: there is none. What is wrong causes a complaint and keeps its
 * default; a device with an unusable name is left out. Without any device the list is "any0".
 * Context: any thread; allocates nothing, keeps nothing
 */
void av_config_parse(const char *text, struct av_config *config);

#endif
