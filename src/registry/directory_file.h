/* SPDX-License-Identifier: MIT */
/*
 * Inside the directory file: its layout, and changing it. Only the files that keep something in it
 * include this.
 */
#ifndef AV_REGISTRY_DIRECTORY_FILE_H
#define AV_REGISTRY_DIRECTORY_FILE_H

#include <stdatomic.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#include "base/limits.h"
#include "registry/capture_spec.h"
#include "registry/directory.h"
#include "observe/counters.h"

#define AV_DIR_MAGIC 0x31737262766e7961ull
#define AV_DIR_QPNS  (1u << AV_QPN_INDEX_BITS)
/* Indices below are left to the numbers with a meaning of their own (0, 1). */
#define AV_DIR_QPN_FIRST 16u
#define AV_DIR_DEVICES	 64
#define AV_DIR_PORTS	 64 /* in use at a time */

struct av_dir_proc {
	_Atomic uint32_t ref; /* 0: free */
	uint32_t last;	      /* the slot's last generation */
};

/* By name: processes may have different lists. */
struct av_dir_device {
	char name[64]; /* "": free */
	_Atomic uint64_t counter[AV_DIR_COUNTERS];
	_Atomic uint64_t link_downed; /* times its port went down */
	struct av_totals ended; /* what contexts had counted that have ended: ended_totals.c */
};

/*
 * A context whose counts are being added to its device's: @ref is the publication, and from then
 * on, until it is 0 again, @after is what counts, instead of the device's @ended and of that
 * context. Whoever finds it set within a change finishes it.
 */
struct av_dir_fold {
	_Atomic uint32_t ref;
	uint32_t device;
	_Atomic uint32_t done; /* goes up with each that is finished */
	struct av_totals after;
};

/* A row of a GID table. @stamp is the publication: odd while the row is populated, another number
 * after each change. */
struct av_dir_gid {
	_Atomic uint32_t stamp;
	_Atomic uint32_t type, ifindex;
	uint32_t unused;
	_Atomic uint64_t gid[2], ifname[2];
};

/*
 * A port: of a device in a network namespace, as all contexts share it that were opened there. It
 * exists while one of them does. Changed within a change of the directory, read at any time.
 * device/port.c.
 */
struct av_dir_port {
	char device[64];
	uint64_t netns;		/* inode number; 0: unknown */
	uint32_t max;		/* rows that the device may have */
	uint32_t served;	/* enum av_link of the host when it last was well */
	_Atomic uint32_t state; /* enum port_state of device/port.c */
	uint32_t follows;	/* its GIDs are the host's addresses (Ethernet) */
	struct av_dir_gid row[AV_GID_MAX];
	uint32_t past_count; /* addresses that have left the table: the last AV_GID_MAX of them */
	_Atomic uint64_t past[AV_GID_MAX][2];
};

struct av_dir_context {
	_Atomic uint32_t ref; /* 0: free */
	uint32_t last;
	_Atomic uint32_t proc;
	uint32_t qps;
	uint64_t dm_bytes;
	uint32_t device;       /* index in the table of devices + 1 */
	_Atomic uint32_t port; /* index in the table of ports + 1 */
	_Atomic uint64_t gauge[AV_DIR_GAUGES];
};

/* One word, so that a reader sees all of it or nothing: ref << 32 | index in the context << 8 |
 * tag. */
typedef _Atomic uint64_t av_dir_qpn;

/* An XRC domain: opened by a context, more than once perhaps. The same domain has one entry per
 * context. */
struct av_dir_xrcd {
	_Atomic uint32_t ref; /* context that has it open; 0: free */
	uint32_t number;
	uint32_t opens;
	uint32_t unused;
	uint64_t dev, ino; /* of the file that names it; 0, 0: private */
};

/* @qpn is the publication: written last, cleared first. */
struct av_dir_member {
	_Atomic uint32_t qpn; /* 0: free */
	uint32_t index;
	_Atomic uint32_t ref;
	uint32_t unused;
	union ibv_gid gid;
};

/* In the count of frames: no more are written. */
#define AV_CAPTURE_CLOSED (UINT64_C(1) << 63)

/* A capture: registry/capture_table.c. @stamp is the publication: 0: free; else another number for
 * each.
 */
struct av_dir_capture {
	_Atomic uint32_t stamp;
	uint32_t proc;		/* that began it */
	_Atomic uint64_t taken; /* by all captures that this row was used for; AV_CAPTURE_CLOSED */
	_Atomic uint64_t settled; /* of those: written, or known to be lost */
	_Atomic uint64_t before;  /* what was taken when this one began */
	_Atomic uint64_t lost;
	_Atomic int32_t err;
	uint32_t unused;
	struct av_capture_spec spec;
};

struct av_dir_file {
	uint64_t magic;
	uint32_t layout;
	uint32_t qpn_cursor;
	uint64_t dm_bytes; /* device memory in use, likewise */
	uint32_t qps; /* numbers in use, living contexts and dead ones that are not swept yet */
	/* What has ever been used lies before these: so nobody looks at, and has in memory, tables
	 * for thousands. Raised within a change, before the first use. */
	_Atomic uint32_t proc_end, context_end, port_end, capture_end;
	struct av_dir_proc proc[AV_REF_SLOTS];
	struct av_dir_context context[AV_REF_SLOTS];
	struct {
		struct av_lock lock;
	} AV_ALIGNED(AV_CACHE_LINE) atomic[AV_ATOMIC_STRIPES];
	struct av_dir_device device[AV_DIR_DEVICES];
	struct av_dir_fold fold;
	struct av_dir_port port[AV_DIR_PORTS];
	uint32_t xrcd_last; /* number given last */
	struct av_dir_xrcd xrcd[AV_MAX_XRCD];
	_Atomic uint32_t member_end; /* members in use lie before it */
	struct av_dir_member member[AV_MAX_MCAST_ATTACH];
	struct av_dir_capture capture[AV_CAPTURES];
	av_dir_qpn qpn[AV_DIR_QPNS];
};

/* The file, while this process has joined; else NULL. */
extern struct av_dir_file *av_dir;

/* Byte of the file whose record lock says that the process in a slot lives. */
#define AV_DIR_LOCK_SLOT(slot) (1 + (off_t)(slot))

/*
 * A change of the directory: serialises the threads of this process by a mutex and the processes by
 * a record lock. Context: the directory is joined; no lock of the data path held; waits for other
 * processes.
 */
void av_dir_change_begin(void);
void av_dir_change_end(void);

/*
 * A record lock of this process on one byte of the file: fcntl() with @cmd F_SETLK, F_SETLKW or
 * F_GETLK. Return: 0 or -errno; of F_GETLK 1 if another process has one that is in the way. Within
 * a change, but for the lock that makes the change.
 */
int av_dir_record_lock(int cmd, short type, off_t byte);

/* Within a change: free what dead processes left. Return: number of living processes, the caller's
 * included.
 */
unsigned int av_dir_sweep(void);

/*
 * The directory for a reader that may find it not joined: keeps it from being joined or left
 * meanwhile. Between the two calls the mutex of the directory is held. Return of the first: false
 * if there is none.
 */
struct av_dir_view {
	const struct av_dir_file *dir;
	int fd; /* -1: joined */
};
bool av_dir_view(struct av_dir_view *view);
void av_dir_view_end(struct av_dir_view *view);

/* Within a change: entry @index of a table is going to be used. */
static inline void av_dir_will_use(_Atomic uint32_t *end, uint32_t index)
{
	if (atomic_load(end) <= index)
		atomic_store(end, index + 1);
}

/* Does the process of the context in that slot live? */
bool av_dir_view_lives(const struct av_dir_view *view, uint32_t slot);

/* Place of a device in the table of devices, index + 1; 0: it has none. */
uint32_t av_dir_find_device(const struct av_dir_file *d, const char *name);

/* The port of a device went down. Within a change. */
static inline void av_dir_count_down(const char *device)
{
	uint32_t place = av_dir_find_device(av_dir, device);

	if (place)
		atomic_fetch_add(&av_dir->device[place - 1].link_downed, 1);
}

/**
 * av_ended_keep() - a context ends: add what it has counted to its device's totals
 * @folder: of the directory; the context's segment is still in it
 * @count: what av_dir_join() was given
 *
 * Within a change of the directory. If the process dies between this and av_ended_kept(), it has
 * been added all the same, once: whoever frees the context's slot afterwards calls both again.
 */
void av_ended_keep(const struct av_dir_context *c, int folder, av_dir_count *count);

/* The slot is free. */
void av_ended_kept(void);

/* The mutex alone. */
void av_dir_hold(void);
void av_dir_release(void);

#endif
