/* SPDX-License-Identifier: MIT */
/*
 * The contents of the virtual files: one function per kind of file. The formats follow the kernel's
 * Documentation/ABI/stable/sysfs-class-infiniband.
 */
#ifndef AV_PRELOAD_VSYSFS_SHOW_H
#define AV_PRELOAD_VSYSFS_SHOW_H

#include "preload/vsysfs.h"

/*
 * Write the content of @node's file, or its link's target, to @bytes (AV_VSYSFS_CONTENT_BYTES).
 * Return: its length, or -EINVAL as for av_vsysfs_read().
 */
typedef ssize_t av_vsysfs_show(const struct av_vsysfs_node *node, char *bytes);

/* The device */
av_vsysfs_show av_show_node_type, av_show_guid, av_show_fw_ver, av_show_hw_rev, av_show_hca_type,
	av_show_board_id, av_show_node_desc, av_show_ib_uevent;
/* Its port */
av_vsysfs_show av_show_state, av_show_phys_state, av_show_rate, av_show_lid, av_show_lid_mask_count,
	av_show_sm_lid, av_show_sm_sl, av_show_cap_mask, av_show_link_layer, av_show_pkey;
/* A row of the port's GID table */
av_vsysfs_show av_show_gid, av_show_gid_type, av_show_gid_ndev;
/* Its character device */
av_vsysfs_show av_show_verbs_abi, av_show_uverbs_abi, av_show_mad_abi, av_show_ibdev, av_show_dev,
	av_show_uverbs_uevent;
/* Its place on the bus, where adapters have a PCI slot */
av_vsysfs_show av_show_vendor, av_show_device, av_show_numa_node, av_show_local_cpus,
	av_show_local_cpulist, av_show_bus_uevent;
/* A counter of the port */
av_vsysfs_show av_show_counter;
/* An ODP statistic */
av_vsysfs_show av_show_odp;
/* Targets of symbolic links */
av_vsysfs_show av_show_link_to_bus, av_show_link_to_ib, av_show_link_to_uverbs, av_show_link_to_net;

#endif
