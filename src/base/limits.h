/* SPDX-License-Identifier: MIT */
/* A device's limits. ANYVERBS_DEVICES can lower them: check its attr; use these for array sizes. */
#pragma once

#define AV_MAX_QP	   65535 /* queue pairs of a device */
#define AV_MAX_QP_WR	   16384 /* work requests of one send or receive queue */
#define AV_MAX_SGE	   32	 /* scatter/gather elements of one work request */
#define AV_MAX_INLINE	   1024	 /* bytes of inline data of one send request; not in an attribute */
#define AV_MIN_INLINE	   64	/* the same, of every queue: programs count on adapters' rounding */
#define AV_MAX_INLINE_RECV 1024 /* bytes that inline receive may be activated for */
#define AV_MAX_CQ	   65535   /* completion queues of a device */
#define AV_MAX_CQE	   1048575 /* entries of one completion queue */
#define AV_MAX_MR	   1048575 /* memory regions of a device */
#define AV_MAX_SRQ	   65535   /* shared receive queues of a device */
#define AV_MAX_SRQ_WR	   16384   /* receive requests of one */
#define AV_MAX_PD	   65536   /* protection domains of a device */
#define AV_MAX_RD_ATOM \
	128 /* outstanding RDMA READs and atomics of one queue pair, either direction */
#define AV_MAX_MCAST_ATTACH 4096  /* attachments to multicast groups, in total */
#define AV_MAX_AH	    65535 /* address handles of a device */
#define AV_GID_MAX	    64 /* rows of a port's GID table; configuration can lower gid_tbl_len */
#define AV_MAX_XRCD	    1024    /* XRC domains open, counted once per context */
#define AV_MAX_DM_BYTES	    5242880 /* device memory, all processes together */
#define AV_MAX_KLMS	    65536   /* elements of the list of a UMR key */
#define AV_MAX_INLINE_KLMS  20	    /* elements of a list inside a work request */
#define AV_KLM_PINS	    16	    /* keys pinned at a time: more than AV_KLM_DEPTH + 1 */
#define AV_KLM_DEPTH	    4 /* UMR keys on the way from a key to the bytes, itself included */
#define AV_MAX_ENTITY_BYTES (1ull << 31) /* length of an element of a list of equal ones */
#define AV_MAX_MSG_BYTES    (1u << 30)	 /* length of one message: the port's max_msg_sz */
