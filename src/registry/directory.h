/* SPDX-License-Identifier: MIT */
/*
 * The directory: one small shared file per user, the only thing that processes find by name. It
 * says which processes use anyverbs, which contexts they have open, and which owns a queue pair
 * number.
 *
 * Place: DIR/anyverbs-UID-LAYOUT/ (mode 0700). DIR is $ANYVERBS_DIR, or else the first usable one
 * of /dev/shm, $XDG_RUNTIME_DIR and /tmp. Each context has a folder "cSLOT-GENERATION" in it, with
 * its segment and its FIFOs; a process that receives packets, a socket "pSLOT-GENERATION".
 *
 * Life and death: a process holds a record lock on the byte of its slot, which the kernel drops
 * when it ends in any way. It is a lock of the open file (F_OFD_SETLK), so that it does not go when
 * the program closes another descriptor of that file; a forked child closes what it inherits.
 * Whoever joins or leaves next sweeps the dead: removes their folders and frees their numbers. The
 * last process to leave removes everything: it locks the bytes of all slots, so that nobody joins.
 * What devices have counted stays, in a small file (av_dir_counts_keep()), and the record of
 * failures (observe/flight.h).
 *
 * References to a process or a context are generation << AV_REF_SLOT_BITS | slot: never 0, and not
 * repeated before 2^20 later users of the slot, so that a stale one is recognised.
 *
 * Locks: a process that is stopped (SIGSTOP, a debugger) stops nobody. So it claims its slot by the
 * record lock, and rows of contexts and numbers by compare-and-swap. A mutex of the process and a
 * record lock on byte 0 serialise all other changes; who cannot have it soon fails, or leaves the
 * work to the next one. Look-ups read single words without a lock.
 */
#ifndef AV_REGISTRY_DIRECTORY_H
#define AV_REGISTRY_DIRECTORY_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <infiniband/verbs.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "base/lock.h"
#include "observe/counters.h"

/* === folder ====================================================================== */

/* Where shared files are: finding, making, replacing and removing them safely. */

/*
 * Version of everything in shared memory: a checksum of all headers of src/, without comments and
 * blanks (scripts/layout-number.sh). Part of the folder's name, so two builds understand each other
 * wholly or not at all.
 */
extern const uint32_t av_layout;

/* The same for whoever only has the library's file: this, and the number in decimal digits. */
#define AV_LAYOUT_MARK "anyverbs-layout-"
extern const char av_layout_mark[];

/* DIR of registry/directory.h. Never NULL. The string is static or from the environment. */
const char *av_folder_base(void);

/*
 * Open this user's folder, and make it if needed. @path: out. The name is predictable, and
 * everybody may be allowed to write to DIR: anything that is not a directory, not ours, or
 * accessible to others is left alone, and the next of AV_FOLDER_NAMES names is tried. A folder of
 * ours counts before a name that is free, so that all processes find the same one. A relative DIR
 * is refused (-EINVAL): it would be another folder wherever a program goes.
 * Return: descriptor (close-on-exec) or -errno.
 */
#define AV_FOLDER_NAMES 8
AV_MUST_USE int av_folder_open(char *path, size_t size);

/* The same, but does not make it: -ENOENT if there is none. */
AV_MUST_USE int av_folder_find(char *path, size_t size);

/* Remove the main folder if it is empty. Fails silently. */
void av_folder_remove_self(const char *path);

/* Beginning of the name of a file that is being made. */
#define AV_FOLDER_NEW "new-"

/* What a folder that is set aside has behind its name, before a number. */
#define AV_FOLDER_ASIDE ".aside-"

/*
 * The file @fd of the folder cannot get @bytes more, and a verb is going to fail with @err for
 * that: note it for its record, and warn once, as there may be no room for records either.
 */
AV_COLD void av_folder_full(int fd, uint64_t bytes, int err);

/* Does @path lead to the folder @fd? */
bool av_folder_is(int fd, const char *path);

/*
 * Rename the folder @fd, so that a new one can be made at @path. @why, for the warning: it is ...
 * Processes that have it open go on in it. Does nothing if another process has renamed it.
 * Return: 0 or -errno; -EAGAIN: another process is about to
 */
AV_MUST_USE int av_folder_set_aside(int fd, const char *path, const char *why);

/*
 * Remove this user's folders that no living process uses: of other layouts, and those set aside.
 * Context: this process has joined no directory, or one that has just been made.
 */
void av_folder_sweep(void);

/*
 * Does a living process use a folder of this user's that is of another layout? It and processes of
 * this layout do not see each other. @name: out; of the folder
 */
bool av_folder_find_other(char *name, size_t size);

/*
 * Call @visit for each name in a folder. Takes no memory: folders must be removed even when there
 * is none.
 */
void av_folder_each(int fd, void (*visit)(int fd, const char *name));

/* Remove the folders of all contexts, sockets of processes, and files that nobody has finished. */
void av_folder_clear(int fd);

/* Undo what the program's umask(2) took from what was just made in the folder. Changes errno. */
void av_folder_rights(int fd, const char *name, mode_t mode);

/* Make the subfolder @name, mode 0700, in place of one left over. Return: descriptor or -errno. */
AV_MUST_USE int av_folder_make(int parent_fd, const char *name);

/* Remove the subfolder @name with the files in it. It contains no folders. */
void av_folder_remove(int parent_fd, const char *name);

/*
 * Small text files of the user, read and replaced as a whole. Within a change of the directory, so
 * that one at a time changes a file.
 *
 * Read as much as fits, NUL terminated. Return: false if there is no such file, it cannot be read,
 * or (with a warning) others may write it.
 */
AV_MUST_USE bool av_small_file_read(const char *path, char *text, size_t size);

/* Make or replace a file. Return: 0 or -errno; then nothing has changed. */
AV_MUST_USE int av_small_file_write(const char *path, const char *text, size_t bytes);

/* === directory =================================================================== */

#define AV_REF_SLOT_BITS  12
#define AV_REF_SLOTS	  (1u << AV_REF_SLOT_BITS)
#define AV_REF_SLOT(ref)  ((ref) & (AV_REF_SLOTS - 1))
#define AV_ATOMIC_STRIPES 16  /* of each process */
#define AV_ATOMIC_BLOCK	  32u /* the largest operand: all sizes use the same locks */

/* A QP number is tag << AV_QPN_INDEX_BITS | index. Each use of an index has another tag. */
#define AV_QPN_INDEX_BITS 17
#define AV_QPN_MASK	  0xffffffu
#define AV_QPN_INDEX(qpn) ((qpn) & ((1u << AV_QPN_INDEX_BITS) - 1))

/* Indices close together are one block: what the kernel is told of (registry/tables.h). */
#define AV_QPN_BLOCK_BITS 4
#define AV_QPN_BLOCKS	  (1u << (AV_QPN_INDEX_BITS - AV_QPN_BLOCK_BITS))
#define AV_QPN_BLOCK(qpn) (AV_QPN_INDEX(qpn) >> AV_QPN_BLOCK_BITS)

/* Its context's reference (0: none) and its index in that context's table. */
struct av_qp_location {
	uint32_t ref;
	uint32_t index;
};

struct av_totals;

/* Adds the counts of a context, still with its folder in the directory's @folder, to @sum. */
typedef void av_dir_count(int folder, uint32_t ref, struct av_totals *sum);

/*
 * Make this process known, or count one more use of it (av_dir_leave()). Sets av_lock_self. Sweeps
 * what dead processes left. @count: for each context whose end this process sees to; NULL: counts
 * are dropped. That of the first join is used until the last leave.
 * Context: any thread; waits briefly for others.
 * Return: 0 or -errno. -EACCES: the folder belongs to another user; -ENOSPC; -EUSERS: no free slot
 */
AV_MUST_USE int av_dir_join(av_dir_count *count);

/* Count one more use if this process has joined. Return: false if it has not. */
AV_MUST_USE bool av_dir_join_again(void);

/* Undo one join. The last one frees the slot; the last process removes the directory. */
void av_dir_leave(void);

/* At the exit of the process: remove its traces. Nothing works afterwards. */
void av_dir_abandon(void);

/* Does the process live? Costs a system call, unless it is the caller itself. */
bool av_dir_proc_alive(uint32_t proc);

/* The process that has that slot now; 0: none. Lock-free. */
uint32_t av_dir_proc_at(uint32_t slot);

/* The PID of a process in its own namespace; 0: there is no such process. */
pid_t av_dir_proc_pid(uint32_t proc);

/* Take a slot (@ref: out) and make its folder. Return: descriptor (close-on-exec) or -errno. */
AV_MUST_USE int av_dir_context_add(uint32_t *ref);

/*
 * Remove a context of this process: its folder with all files, its QP numbers, its slot. While
 * somebody is in a change, the folder and the slot stay until the next sweep.
 */
void av_dir_context_remove(uint32_t ref);

/* The process that owns a context, or 0 if the context is gone. Lock-free. */
uint32_t av_dir_context_owner(uint32_t ref);

/* The next context at or after @slot (in and out), or 0; each may end at any time. Lock-free. */
uint32_t av_dir_context_at(uint32_t *slot);

/* The name of a context's folder: printf() format and arguments. */
#define AV_CONTEXT_NAME		"c%u-%u"
#define AV_CONTEXT_NAME_OF(ref) AV_REF_SLOT(ref), (ref) >> AV_REF_SLOT_BITS

/* The path of that folder while joined. Return: false: it is too long */
AV_MUST_USE bool av_dir_context_path(uint32_t ref, char *name, size_t size);

/* The memory of a context, as its process has it open (segment/segment.h). @ino: 0: none */
struct av_dir_memory {
	pid_t pid;
	int number;
	uint64_t ino;
};

/* Say so of a context of this process. */
void av_dir_context_set_memory(uint32_t ref, int number, uint64_t ino);

struct av_dir_file;
struct av_dir_memory av_dir_context_memory(const struct av_dir_file *d, uint32_t ref);

/*
 * Open the file @name in the folder of a context; @dir: where that folder is, av_dir_folder() while
 * joined. @flags: as for open(2), of a file that exists; a link is none.
 * Return: close-on-exec descriptor, or -1 and errno
 */
AV_MUST_USE int av_dir_context_open(int dir, uint32_t ref, const char *name, int flags);

/* Return: the number (never 0, 1 or 0xffffff), or -ENOMEM: beyond @limit in all processes. */
AV_MUST_USE int av_dir_qpn_add(uint32_t ref, uint32_t index, uint32_t limit);
void av_dir_qpn_remove(uint32_t qpn);

/* Where the queue pair with this number is; .ref is 0 if the number is not in use. Lock-free. */
struct av_qp_location av_dir_qpn_find(uint32_t qpn);

/* Is this the number of a queue pair that is gone? The index may not have been used since. */
bool av_dir_qpn_ended(uint32_t qpn);

/*
 * Open an XRC domain in a context of this process. @dev, @ino: of the file that names it; both 0: a
 * private one. @oflags: O_CREAT, O_EXCL as in ibv_open_xrcd(3). Return: its number (> 0), or
 * -EAGAIN (unknown, without O_CREAT), -EINVAL (known, with O_EXCL), -ENOMEM, -EBUSY.
 */
AV_MUST_USE int av_dir_xrcd_open(uint32_t ref, uint64_t dev, uint64_t ino, int oflags);
void av_dir_xrcd_close(uint32_t ref, uint32_t number);

/* What all processes of a user share, so that there is a limit. */
enum av_dir_limited { AV_DIR_NUMBERS, AV_DIR_DM_BYTES, AV_DIR_LIMITED_N };

/*
 * Use @amount more of it, in a context of this process, until its end. Two processes that ask for
 * the last of it at once may both be refused. Return: 0 or -ENOMEM: beyond @limit
 */
AV_MUST_USE int av_dir_use(uint32_t ref, enum av_dir_limited what, uint64_t amount, uint64_t limit);
void av_dir_unuse(uint32_t ref, enum av_dir_limited what, uint64_t amount);

/* How much of it all living processes use. */
uint64_t av_dir_used(enum av_dir_limited what);

/*
 * Makes read-modify-write atomic among all processes in one aligned block of AV_ATOMIC_BLOCK bytes
 * (IBV_ATOMIC_HCA). @owner: reference of the process whose memory it is; for pages of the library,
 * of the context that they belong to. Others have other locks: whoever is stopped while it holds
 * one is noticed only by peers of that process. One taken over from a dead process needs no repair.
 */
struct av_dir_stripe {
	struct av_lock lock;
	_Atomic uint32_t taken; /* how often; counted by its holder before it changes anything */
};
struct av_dir_stripe *av_dir_stripe(uint32_t owner, uint64_t addr);

/*
 * Statistics of a device that all processes share: counters, which outlive the directory, and
 * gauges of a context, which end with it. Only their users know what they mean.
 */
#define AV_DIR_COUNTERS 16
#define AV_DIR_GAUGES	2

/* NULL if there are too many devices. Context: the directory is joined. */
_Atomic uint64_t *av_dir_counters(const char *device);

/*
 * All that the device has counted so far counts as 0 from now on, also what its contexts have.
 * Context: within a change.
 */
void av_dir_counters_reset(const char *device);

_Atomic uint64_t *av_dir_gauges(uint32_t ref, const char *device);

/* The counters and the sums of the gauges, now; 0 if nobody uses it. Needs no joining. */
void av_dir_read(const char *device, uint64_t counters[AV_DIR_COUNTERS],
		 uint64_t gauges[AV_DIR_GAUGES]);

/*
 * How often devices have failed, all contexts of all processes together: whether something began
 * before or after a failure is seen by its number. av_dir_failures_add(): one more. Return: the
 * number, never 0. Context: joined; lock-free
 */
uint32_t av_dir_failures(void);
uint32_t av_dir_failures_add(void);

/* Contexts whose processes live: @refs has room for AV_REF_SLOTS. Needs no joining. */
unsigned int av_dir_contexts(const char *device, uint32_t *refs);

/* Layout of the directory file, and how to change it: for files that keep something in it. */

#define AV_DIR_MAGIC	 0x31737262766e7961ull
#define AV_DIR_QPNS	 (1u << AV_QPN_INDEX_BITS)
#define AV_DIR_QPN_FIRST 16u /* QP numbers 0 and 1 are special */
#define AV_DIR_DEVICES	 64
#define AV_DIR_PORTS	 64 /* that can be in use at the same time */

struct av_dir_proc {
	_Atomic uint32_t ref; /* 0: free */
	uint32_t last;	      /* generation of its last user; changed by who has the slot's lock */
	_Atomic int32_t pid;  /* in its own namespace; set before @ref */
	_Atomic uint32_t qpn; /* index of the number that it was given last; 0: none */
};

/* Found by name, since processes may have different lists of devices. */
struct av_dir_device {
	char name[64];
	_Atomic uint64_t counter[AV_DIR_COUNTERS];
	_Atomic uint64_t link_downed; /* how often its port went down */
	struct av_totals ended;	      /* counts of its ended contexts: context_rows.c */
};

/*
 * The counts of an ended context on their way into the totals of its device. @ref publishes it:
 * while not 0, @after replaces both the device's @ended and the counts of that context. Who finds
 * it set within a change finishes the work.
 */
struct av_dir_fold {
	_Atomic uint32_t ref;
	uint32_t device;
	_Atomic uint32_t done; /* counts those that are finished */
	struct av_totals after;
};

/* A row of a GID table. @stamp publishes it: odd while in use, different after each change. */
struct av_dir_gid {
	_Atomic uint32_t stamp;
	_Atomic uint32_t type, ifindex;
	uint32_t unused;
	_Atomic uint64_t gid[2], ifname[2];
};

/*
 * A port: of one device in one network namespace, shared by all contexts opened there.
 *
 * Who is in a change of the directory writes it, and alone uses @past_count. Any thread reads the
 * other fields at any time, even while the row of a port that nobody uses becomes another port. So
 * all of them are atomic, and whoever needs the port of a certain device looks again after it has
 * read, or has written down that it uses the port (device/port.c).
 */
#define AV_DIR_NAME_WORDS 8 /* a name of 63 bytes, its end and zeros */

struct av_dir_port {
	_Atomic uint32_t ready; /* 0 while device and namespace change */
	_Atomic uint32_t max;	/* rows that the device may have */
	_Atomic uint64_t device[AV_DIR_NAME_WORDS];
	_Atomic uint64_t netns;	  /* inode number; 0: unknown */
	_Atomic uint32_t served;  /* enum av_link of the host when it was last well */
	_Atomic uint32_t state;	  /* enum port_state of device/port.c */
	_Atomic uint32_t follows; /* its GIDs are the host's addresses (Ethernet) */
	_Atomic uint32_t mtu;	  /* enum ibv_mtu: what its interfaces carry */
	_Atomic uint32_t paired;  /* each in two rows, the first made of the GUID if need be */
	_Atomic uint64_t guid;	  /* of the device */
	struct av_dir_gid row[AV_GID_MAX];
	uint32_t past_count; /* the last AV_GID_MAX addresses that have left the table */
	_Atomic uint64_t past[AV_GID_MAX][2];
};

/*
 * A process claims a row by putting itself into @proc, and publishes @ref last. From then on, only
 * it may end the context, and whoever has the change lock once it is dead (context_rows.c).
 */
#define AV_DIR_PROC_ENDED UINT32_MAX /* no process: the row waits to be cleared */

struct av_dir_context {
	_Atomic uint32_t ref; /* 0: none yet, or none any more */
	uint32_t last;
	_Atomic uint32_t proc; /* 0: free */
	_Atomic uint64_t used[AV_DIR_LIMITED_N];
	_Atomic uint32_t device; /* index in the table of devices + 1 */
	_Atomic uint32_t port;	 /* index in the table of ports + 1 */
	_Atomic int32_t memory_number;
	_Atomic uint64_t memory_ino; /* written last; 0: none yet */
	_Atomic uint64_t gauge[AV_DIR_GAUGES];
};

/* One word, read as a whole: ref << 32 | index in the context << 8 | tag. */
typedef _Atomic uint64_t av_dir_qpn;

/* An XRC domain that a context has open, perhaps several times: one entry per context. */
struct av_dir_xrcd {
	_Atomic uint32_t ref; /* the context; 0: free */
	uint32_t number;
	uint32_t opens;
	uint32_t unused;
	uint64_t dev, ino; /* of the file that names it; 0, 0: private */
};

/* @qpn publishes it: written last, cleared first. */
struct av_dir_member {
	_Atomic uint32_t qpn; /* 0: free */
	uint32_t index;
	_Atomic uint32_t ref;
	uint32_t unused;
	union ibv_gid gid;
};

/* What a capture writes: which traffic, how much of it, and to which file. */
#define AV_CAPTURES 64 /* that can run at the same time */

struct av_capture_spec {
	char path[PATH_MAX]; /* absolute; names the file with this device and inode number */
	uint64_t dev, ino;
	char device[64];  /* "": any */
	bool everybody;	  /* the traffic of all processes, not only of the one that began it */
	uint32_t snaplen; /* bytes written of each frame at most */
	uint64_t limit;	  /* frames after which it ends */
};

/* Flag in @taken: no more frames are written. */
#define AV_CAPTURE_CLOSED (UINT64_C(1) << 63)

/* A capture (registry/capture_table.c). @stamp publishes it: 0 if free, else different for each. */
struct av_dir_capture {
	_Atomic uint32_t stamp;
	uint32_t proc;		  /* began it */
	_Atomic uint64_t taken;	  /* by all captures of this row, with AV_CAPTURE_CLOSED */
	_Atomic uint64_t settled; /* of these: written, or known to be lost */
	_Atomic uint64_t before;  /* value of @taken when this capture began */
	_Atomic uint64_t lost;
	_Atomic int32_t err;
	uint32_t unused;
	struct av_capture_spec spec;
};

/*
 * Processes that share port 4791 of an address, in the order of the kernel's array of their sockets
 * (registry/reuseport.c). Changed within a change of the directory; read at any time.
 */
#define AV_DIR_REUSEPORTS	 64 /* addresses that can be in use at the same time */
#define AV_DIR_REUSEPORT_MEMBERS 512

struct av_dir_reuseport {
	_Atomic uint32_t count; /* 0: free */
	_Atomic uint32_t stamp; /* different after each change */
	_Atomic uint32_t told;	/* what it was when the kernel was told */
	uint32_t unused;
	uint64_t netns;
	uint8_t address[16];
	_Atomic uint32_t member[AV_DIR_REUSEPORT_MEMBERS]; /* 0: it has gone */
};

/*
 * A bound port of the connection manager (registry/cm_ports.c). @stamp publishes it: 0 if free,
 * else different for each. Bound within a change of the directory, released and read at any time.
 */
#define AV_DIR_CM_PORTS 16384u

struct av_dir_cm_port {
	_Atomic uint32_t stamp;
	_Atomic uint32_t reach; /* rows from here on that may be of the numbers that belong here */
	_Atomic uint32_t proc;
	_Atomic uint32_t flags;
	_Atomic uint64_t netns;
	_Atomic uint64_t name; /* port space << 48 | port << 32 | what its process calls it */
	_Atomic uint64_t address[2];
};

struct av_dir_file {
	uint64_t magic;
	uint32_t layout;	     /* av_layout */
	uint32_t qpn_tag;	     /* of indices that were never used */
	_Atomic uint32_t qpn_cursor; /* the index to try first */
	_Atomic uint32_t failures;   /* av_dir_failures() */
	/* Rows ever used lie before these. Raised before the first use; @device_end after it. */
	_Atomic uint32_t proc_end, context_end, device_end, port_end, capture_end;
	struct av_dir_proc proc[AV_REF_SLOTS];
	struct av_dir_context context[AV_REF_SLOTS];
	struct av_dir_stripe atomic[AV_REF_SLOTS][AV_ATOMIC_STRIPES] AV_ALIGNED(AV_CACHE_LINE);
	struct av_dir_device device[AV_DIR_DEVICES];
	struct av_dir_fold fold;
	struct av_dir_port port[AV_DIR_PORTS];
	uint32_t xrcd_last; /* the number given last */
	struct av_dir_xrcd xrcd[AV_MAX_XRCD];
	_Atomic uint32_t member_end; /* members in use lie before it */
	struct av_dir_member member[AV_MAX_MCAST_ATTACH];
	struct av_dir_capture capture[AV_CAPTURES];
	av_dir_qpn qpn[AV_DIR_QPNS];
	struct av_dir_reuseport reuseport[AV_DIR_REUSEPORTS];
	_Atomic uint32_t block_owner[AV_QPN_BLOCKS]; /* the process; 0: none */
	uint32_t cm_port_last;			     /* the stamp given last */
	struct av_dir_cm_port cm_port[AV_DIR_CM_PORTS];
};

/* The file while this process has joined, else NULL. */
extern struct av_dir_file *av_dir;

/* The folder it is in, -1: the program has closed it; and its path. */
int av_dir_folder(void);
const char *av_dir_path(void);

/* Byte of the file whose record lock says that the process of a slot lives. */
#define AV_DIR_LOCK_SLOT(slot) (1 + (off_t)(slot))

/*
 * A change of the directory: a mutex serialises the threads of this process, a record lock the
 * processes. Who holds it may be stopped. So nobody waits for it without end, and opening a device,
 * numbers of queue pairs, closing and exiting do without.
 * Context: joined; no lock of the data path held. Waits AV_PATIENCE_NS at most.
 * Return: 0, or -EBUSY: somebody else is in a change all that time
 */
AV_MUST_USE int av_dir_change_begin(void);
void av_dir_change_end(void);

/* The same for what can be left to others: waits as long as a busy machine needs. */
AV_MUST_USE bool av_dir_change_soon(void);

/*
 * A record lock on one byte of the file: fcntl() with @cmd F_OFD_SETLK or _GETLK. Context: within a
 * change, or a byte that only this process takes. Return: 0 or -errno; for F_OFD_GETLK, 1 if
 * another process has a conflicting lock.
 */
int av_dir_record_lock(int cmd, short type, off_t byte);

/* Clear the rows of contexts that have ended and of processes that are dead. Within a change. */
void av_dir_sweep(void);

/*
 * The process ends, or at least its contexts do. @for_good: no thread of it uses them any more, so
 * that the rows can be cleared; else the counts are kept and the folders removed. Within a change.
 */
void av_dir_contexts_end(uint32_t proc, bool for_good);

/* The counts of a context are kept by this when it ends: av_dir_join(). */
extern av_dir_count *av_dir_count_context;

/* The next reference of a slot. @last: its last generation. Never 0, and no AV_DIR_PROC_ENDED. */
uint32_t av_dir_next_ref(uint32_t slot, uint32_t *last);

/*
 * Read the directory, joined or not; false: there is none, nor has any device counted. Its mutex is
 * held until av_dir_view_end(), so that nobody joins or leaves meanwhile.
 */
struct av_dir_view {
	const struct av_dir_file *dir;
	int fd;	   /* -1: joined, or @copy */
	bool copy; /* there is no directory: this has what devices have counted, and nothing else */
};
bool av_dir_view(struct av_dir_view *view);
void av_dir_view_end(struct av_dir_view *view);

/* Rows of a table of @max rows that were ever used, whatever a damaged directory says. */
static inline uint32_t av_dir_rows(const _Atomic uint32_t *end, uint32_t max)
{
	uint32_t rows = atomic_load(end);

	return rows < max ? rows : max;
}

/* Entry @index of a table is about to be used. */
static inline void av_dir_will_use(_Atomic uint32_t *end, uint32_t index)
{
	uint32_t rows = atomic_load(end);

	while (rows <= index && !atomic_compare_exchange_weak(end, &rows, index + 1))
		;
}

/* Does that process live? */
bool av_dir_view_knows(const struct av_dir_view *view, uint32_t proc);

/* Does the process of the context in that slot live? */
bool av_dir_view_lives(const struct av_dir_view *view, uint32_t slot);

/* Place of a device in the table of devices, index + 1; 0 if it has none. */
uint32_t av_dir_find_device(const struct av_dir_file *d, const char *name);

/*
 * Choose where numbers begin: at random, so that two directories of one network, say of two
 * containers, hardly ever give the same ones. Context: @d is being made
 */
void av_dir_qpn_begin(struct av_dir_file *d);

/* The port of a device went down. Context: within a change. */
static inline void av_dir_count_down(const char *device)
{
	uint32_t place = av_dir_find_device(av_dir, device);

	if (place)
		atomic_fetch_add(&av_dir->device[place - 1].link_downed, 1);
}

/*
 * Add the counts of an ending context to the totals of its device, by @count of av_dir_join().
 * @folder: of the directory; the context's segment is still in it. If the process dies before
 * av_ended_kept(), the counts are still added exactly once: whoever frees the slot calls both
 * again. Context: within a change.
 */
void av_ended_keep(const struct av_dir_context *c, int folder, av_dir_count *count);

/* The slot of the context is free. */
void av_ended_kept(void);

/*
 * What devices have counted, in a file of the folder while there is no directory. The maker of the
 * next directory loads it; who only looks, too. Nothing to keep: there is no file. @folder: its
 * path. Context: the directory's mutex is held.
 * Return: false: there is no such file
 */
#define AV_DIR_TOTALS "totals"
bool av_dir_counts_load(const char *folder, struct av_dir_file *d);
/* Also: nobody else uses @d. A full file system loses the counts. */
void av_dir_counts_keep(const char *folder, const struct av_dir_file *d);

void av_dir_hold(void);
void av_dir_release(void);

#endif
