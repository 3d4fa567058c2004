/* SPDX-License-Identifier: MIT */
/*
 * The directory: one small shared file per user, the only thing that processes find by name.
 *
 * Place: DIR/anyverbs-UID-LAYOUT/ (mode 0700). DIR is $ANYVERBS_DIR, or else the first usable one
 * of /dev/shm, $XDG_RUNTIME_DIR and /tmp. In it, each context has a folder "cSLOT-GENERATION" with
 * its tables, socket and FIFOs; a process that receives packets has a socket "pSLOT-GENERATION".
 *
 * Life and death: a process holds a record lock on the byte of its slot, of the open file
 * (F_OFD_SETLK), so it survives when the program closes another descriptor of that file. Whoever
 * joins or leaves next sweeps the dead. The last process to leave locks the bytes of all slots, and
 * removes everything but two small files, unless they are empty: the counts of devices
 * (av_dir_counts_keep()), and the record of failures (observe/flight.h).
 *
 * A reference to a process or a context is generation << AV_REF_SLOT_BITS | slot. It is never 0,
 * and differs from those of the next 2^20 users of the slot, so that a stale one is recognised.
 *
 * Locks: registry/README.md. Whoever waits for the change lock in vain fails (-EBUSY), or leaves
 * the work to the next one. Returned descriptors are close-on-exec, and the caller's to close.
 * "Joined": to the directory.
 */
#pragma once

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

/*
 * Version of everything in shared memory: a checksum of all headers of src/, without comments and
 * blanks (scripts/layout-number.sh). In the folder's name: other layouts have other folders.
 */
extern const uint32_t av_layout;

/* The same for a reader of the library's file: this text, then the number in decimal digits. */
#define AV_LAYOUT_MARK "anyverbs-layout-"
extern const char av_layout_mark[];

/* DIR, as above. Never NULL. The string is static or from the environment. */
const char *av_folder_base(void);

/*
 * Open this user's folder, and make it if needed. Another user may know the name and be allowed to
 * write to DIR. So ignores anything that is not a directory, not this user's, or accessible to
 * others, and tries the next of AV_FOLDER_NAMES names. An existing folder of this user precedes a
 * free name, so that all processes find the same. Refuses a relative DIR: chdir(2) would change it.
 * Return: descriptor or -errno: -EINVAL: DIR is relative; -EACCES, -ELOOP or -ENOTDIR: no name is
 * usable; -EAGAIN: the last process has just removed the folder
 */
#define AV_FOLDER_NAMES 8
AV_MUST_USE int av_folder_open(char *path, size_t size);

/* The same, but does not make the folder. Return: -ENOENT, too: there is none */
AV_MUST_USE int av_folder_find(char *path, size_t size);

/* Prefix of the name of a file that is not complete yet. */
#define AV_FOLDER_NEW "new-"

/* Suffix of the name of a folder that is set aside; a number follows. */
#define AV_FOLDER_ASIDE ".aside-"

/*
 * The file @fd of the folder cannot get @bytes more, so a verb fails with @err. Adds a note to the
 * verb's record. Warns once, too, because the records may find no room either.
 */
AV_COLD void av_folder_full(int fd, uint64_t bytes, int err);

/*
 * Remove this user's folders of other layouts, or set aside, that no living process uses.
 * Context: this process has joined no directory, or only one that it has just made.
 */
void av_folder_sweep(void);

/* Does a living process, invisible to ours, use this user's folder of another layout, @name? */
bool av_folder_find_other(char *name, size_t size);

/*
 * Call @visit for each name in a folder, until it returns false. Is no cancellation point.
 * Allocates no memory, because folders must be removed even when none is left.
 */
typedef bool av_folder_visit(int fd, const char *name, void *arg);
void av_folder_each(int fd, av_folder_visit *visit, void *arg);

/* Remove the folders of all contexts, the sockets of processes, and incomplete files. */
void av_folder_clear(int fd);

/* Undo the program's umask(2) for a new file in the folder: set its rights. Changes errno. */
void av_folder_rights(int fd, const char *name, mode_t mode);

/* Make the subfolder @name, mode 0700; removes an old one first. Return: descriptor or -errno */
AV_MUST_USE int av_folder_make(int parent_fd, const char *name);

/* Remove the subfolder @name with its files. It contains no folders. */
void av_folder_remove(int parent_fd, const char *name);

/*
 * Small text files of the user. A writer calls this within a change of the directory, so that one
 * process at a time replaces a file. Reads as much as fits, NUL terminated.
 * Return: false: there is no such file, it cannot be read, or (with a warning) others may write it
 */
AV_MUST_USE bool av_small_file_read(const char *path, char *text, size_t size);

/* Make or replace a file. Return: 0; or -errno: nothing has changed */
AV_MUST_USE int av_small_file_write(const char *path, const char *text, size_t bytes);

/* === directory =================================================================== */

#define AV_REF_SLOT_BITS  12
#define AV_REF_SLOTS	  (1u << AV_REF_SLOT_BITS)
#define AV_REF_SLOT(ref)  ((ref) & (AV_REF_SLOTS - 1))
#define AV_ATOMIC_STRIPES 16  /* for each process */
#define AV_ATOMIC_BLOCK	  32u /* the largest operand; all sizes use the same locks */

/* A QP number is tag << AV_QPN_INDEX_BITS | index. Each use of an index has another tag. */
#define AV_QPN_INDEX_BITS 17
#define AV_QPN_MASK	  0xffffffu
#define AV_QPN_INDEX(qpn) ((qpn) & ((1u << AV_QPN_INDEX_BITS) - 1))

/* Indices close together form one block. The kernel learns blocks' owners (registry/tables.h). */
#define AV_QPN_BLOCK_BITS 4
#define AV_QPN_BLOCKS	  (1u << (AV_QPN_INDEX_BITS - AV_QPN_BLOCK_BITS))
#define AV_QPN_BLOCK(qpn) (AV_QPN_INDEX(qpn) >> AV_QPN_BLOCK_BITS)

/* The reference of a queue pair's context (0: none), and its index in that context's table. */
struct av_qp_location {
	uint32_t ref;
	uint32_t index;
};

struct av_totals;

/* Add the counts of a context to @sum. The directory's @folder still holds the context's folder. */
typedef void av_dir_count(int folder, uint32_t ref, struct av_totals *sum);

/*
 * Join the directory: publish this process, or count one more use of it (av_dir_leave()). Sets
 * av_lock_self. Sweeps the rows and files of dead processes.
 * @count: called for each context whose end this process handles; NULL: the counts are lost. The
 * function of the first join remains until the last leave.
 * Context: any thread. Waits AV_PEER_TIMEOUT_NS at most for other processes.
 * Return: 0; -EACCES: the folder is another user's; -ENOSPC; -EUSERS: no free slot; -EBUSY; -ENOMEM
 */
AV_MUST_USE int av_dir_join(av_dir_count *count);

/* Count one more use if this process has joined. Return: false: it has not */
AV_MUST_USE bool av_dir_join_again(void);

/* Undo one join. The last one frees the slot. The last process removes the directory. */
void av_dir_leave(void);

/* At exit: remove our contexts and folders, for good. The slot's lock stays until we have ended. */
void av_dir_abandon(void);

/* Does the process live? Makes a system call, unless it is the caller itself. */
bool av_dir_proc_alive(uint32_t proc);

/* The process that has that slot now. 0: none. Lock-free. */
uint32_t av_dir_proc_at(uint32_t slot);

/* The PID of a process in its own namespace. 0: there is no such process. */
pid_t av_dir_proc_pid(uint32_t proc);

/*
 * Claim a row for a context, and make its folder. If no row is free, sweeps the dead.
 * Return: descriptor of the folder; or -errno: -EUSERS: no free row
 */
AV_MUST_USE int av_dir_context_add(uint32_t *ref);

/*
 * Remove a context of this process: its folder, its QP numbers, its row. Without the change lock,
 * folder and row remain until the next sweep. Does nothing in a forked child.
 */
void av_dir_context_remove(uint32_t ref);

/* The process that owns a context. 0: the context has ended. Lock-free. */
uint32_t av_dir_context_owner(uint32_t ref);

/* The first context at or after @slot (in and out); 0: none. It may end at any time. Lock-free. */
uint32_t av_dir_context_at(uint32_t *slot);

/* The name of a context's folder: printf() format and arguments. */
#define AV_CONTEXT_NAME		"c%u-%u"
#define AV_CONTEXT_NAME_OF(ref) AV_REF_SLOT(ref), (ref) >> AV_REF_SLOT_BITS

/* The path of that folder. Context: the process has joined. Return: false: the path is too long */
AV_MUST_USE bool av_dir_context_path(uint32_t ref, char *name, size_t size);

/* The memory of a context, as a descriptor of its process (segment/segment.h). @ino: 0: none */
struct av_dir_memory {
	pid_t pid;
	int number;
	uint64_t ino;
};

/* Publish the memory of a context of this process; read what a context's process has published. */
void av_dir_context_set_memory(uint32_t ref, int number, uint64_t ino);

struct av_dir_file;
struct av_dir_memory av_dir_context_memory(const struct av_dir_file *d, uint32_t ref);

/*
 * Open the existing file @name in a context's folder, but no symbolic link. @dir: folder that holds
 * the context's, such as av_dir_folder(). @flags: of open(2). Return: descriptor; or -1 and errno
 */
AV_MUST_USE int av_dir_context_open(int dir, uint32_t ref, const char *name, int flags);

/* Claim a number for a queue pair: never 0, 1, 0xffffff. -ENOMEM: @limit are in use. Lock-free. */
AV_MUST_USE int av_dir_qpn_add(uint32_t ref, uint32_t index, uint32_t limit);
void av_dir_qpn_remove(uint32_t qpn);

/* Find the queue pair with this number. .ref is 0: nobody uses the number. Lock-free. */
struct av_qp_location av_dir_qpn_find(uint32_t qpn);

/* Has a queue pair with this number ended? True only if no later one has used its index. */
bool av_dir_qpn_ended(uint32_t qpn);

/*
 * Open an XRC domain in a context of this process. @dev, @ino: of the file that names it; both 0: a
 * private domain. @oflags: O_CREAT, O_EXCL as in ibv_open_xrcd(3).
 * Context: waits for the change lock, AV_PEER_TIMEOUT_NS at most. Return: its number (> 0);
 * -EAGAIN: unknown, without O_CREAT; -EINVAL: known, with O_EXCL; -ENOMEM; -EBUSY
 */
AV_MUST_USE int av_dir_xrcd_open(uint32_t ref, uint64_t dev, uint64_t ino, int oflags);
void av_dir_xrcd_close(uint32_t ref, uint32_t number);

/* Resources that all processes of a user share, and that have a limit. */
enum av_dir_limited { AV_DIR_NUMBERS, AV_DIR_DM_BYTES, AV_DIR_LIMITED_N };

/*
 * Use @amount more of a resource, in a context of this process; the use ends with it. Two processes
 * that want the rest at once may both be refused. Lock-free, but may ask the kernel who lives.
 * Return: 0; -ENOMEM: beyond @limit
 */
AV_MUST_USE int av_dir_use(uint32_t ref, enum av_dir_limited what, uint64_t amount, uint64_t limit);
void av_dir_unuse(uint32_t ref, enum av_dir_limited what, uint64_t amount);

/* How much of the resource all living processes use. */
uint64_t av_dir_used(enum av_dir_limited what);

/*
 * The lock that makes a read-modify-write atomic among all processes, in one aligned block of
 * AV_ATOMIC_BLOCK bytes (IBV_ATOMIC_HCA). @owner: reference of the process whose memory it is; for
 * pages of the library, of their context. Each owner has locks of its own: a process that stops
 * while it holds one delays only peers of that owner. A lock of a dead process needs no repair.
 */
struct av_dir_stripe {
	struct av_lock lock;
	_Atomic uint32_t taken; /* number of times; its holder counts before it changes anything */
};
struct av_dir_stripe *av_dir_stripe(uint32_t owner, uint64_t addr);

/*
 * Statistics of a device that all processes share: counters, which outlive the directory, and
 * gauges of a context, which end with it. Only their users know their meaning.
 */
#define AV_DIR_COUNTERS 16
#define AV_DIR_GAUGES	2

/*
 * The counters of a device. NULL: too many devices, or the change lock timed out.
 * Context: joined. The first use of a name waits for the change lock, AV_PEER_TIMEOUT_NS at most.
 */
_Atomic uint64_t *av_dir_counters(const char *device);

/* Reset the counts of a device and of its open contexts to 0. Context: within a change. */
void av_dir_counters_reset(const char *device);

_Atomic uint64_t *av_dir_gauges(uint32_t ref, const char *device);

/* Read the counters, and the sums of the gauges; 0 if nobody uses the device. Joined or not. */
void av_dir_read(const char *device, uint64_t counters[AV_DIR_COUNTERS],
		 uint64_t gauges[AV_DIR_GAUGES]);

/*
 * Failures of devices have numbers, never 0, common to all contexts of all processes. The number at
 * the start of an action tells whether it began before or after a failure. av_dir_failures(): the
 * last one; av_dir_failures_add(): of one more. Context: joined; lock-free.
 */
uint32_t av_dir_failures(void);
uint32_t av_dir_failures_add(void);

/* A device's first context from @slot (in, out) on whose process lives; 0: none. Joined or not. */
uint32_t av_dir_next_context(const char *device, uint32_t *slot, struct av_dir_memory *memory);

/* Layout of the directory file, and functions to change it: for files with a table in it. */

#define AV_DIR_MAGIC	 0x31737262766e7961ull
#define AV_DIR_QPNS	 (1u << AV_QPN_INDEX_BITS)
#define AV_DIR_QPN_FIRST 16u /* QP numbers 0 and 1 are special */
#define AV_DIR_DEVICES	 64
#define AV_DIR_PORTS	 64 /* most ports in use at the same time */

struct av_dir_proc {
	_Atomic uint32_t ref; /* 0: free */
	uint32_t last;	      /* generation of its last user; written under the slot's lock */
	_Atomic int32_t pid;  /* in its own namespace; stored before @ref */
	_Atomic uint32_t qpn; /* index of its newest queue pair number; 0: none */
};

/* A process finds a device by name, because processes may have different lists of devices. */
struct av_dir_device {
	char name[64];
	_Atomic uint64_t counter[AV_DIR_COUNTERS];
	_Atomic uint64_t link_downed; /* number of times that its port went down */
	struct av_totals ended;	      /* counts of its ended contexts: context_rows.c */
};

/*
 * Adds the counts of an ended context to the totals of its device. @ref publishes the row. While
 * @ref is not 0, @after replaces both the device's @ended and the counts of that context. A process
 * that finds @ref set within a change finishes the work.
 */
struct av_dir_fold {
	_Atomic uint32_t ref;
	uint32_t device;
	_Atomic uint32_t done; /* number of finished additions */
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
 * A port of one device in one network namespace. All contexts opened there share it.
 *
 * A process writes the row within a change, and only then uses @past_count. Any thread reads the
 * other fields at any time, even while the row of an unused port becomes another port. So all of
 * them are atomic. A reader that needs the port of a certain device checks the row again after it
 * has read, or first records that it uses the port (device/port.c).
 */
#define AV_DIR_NAME_WORDS 8 /* a name of 63 bytes, and its end; zeros fill the rest */

struct av_dir_port {
	_Atomic uint32_t ready; /* 0 while device and namespace change */
	_Atomic uint32_t max;	/* rows that the device may have, */
	_Atomic uint32_t empty; /* and those in front that stay empty */
	_Atomic uint64_t device[AV_DIR_NAME_WORDS];
	_Atomic uint64_t netns;	  /* inode number; 0: unknown */
	_Atomic uint32_t served;  /* enum av_link of the host when the port was last up */
	_Atomic uint32_t state;	  /* enum port_state of device/port.c */
	_Atomic uint32_t follows; /* its GIDs are the host's addresses (Ethernet) */
	_Atomic uint32_t mtu;	  /* enum ibv_mtu: what its interfaces carry */
	_Atomic uint32_t paired;  /* two rows for each GID, the first from the GUID if need be */
	_Atomic uint64_t guid;	  /* of the device */
	struct av_dir_gid row[AV_GID_MAX];
	uint32_t past_count; /* addresses ever removed from the table; @past holds the last ones */
	_Atomic uint64_t past[AV_GID_MAX][2];
};

/*
 * A process claims a row when it stores itself in @proc, and publishes @ref last. From then on only
 * that process ends the context; after its death, the change lock's holder does (context_rows.c).
 */
#define AV_DIR_PROC_ENDED UINT32_MAX /* no process: the row must be cleared */

struct av_dir_context {
	_Atomic uint32_t ref; /* 0: not published yet, or ended */
	uint32_t last;
	_Atomic uint32_t proc; /* 0: free */
	_Atomic uint64_t used[AV_DIR_LIMITED_N];
	_Atomic uint32_t device; /* index in the table of devices + 1 */
	_Atomic uint32_t port;	 /* index in the table of ports + 1 */
	_Atomic int32_t memory_number;
	_Atomic uint64_t memory_ino; /* stored last; 0: not published yet */
	_Atomic uint64_t gauge[AV_DIR_GAUGES];
};

/* One word, read whole: ref << 32 | index in the context << 8 | tag. */
typedef _Atomic uint64_t av_dir_qpn;

/* An XRC domain that a context has open, perhaps several times: one entry for each context. */
struct av_dir_xrcd {
	_Atomic uint32_t ref; /* the context; 0: free */
	uint32_t number;
	uint32_t opens;
	uint32_t unused;
	uint64_t dev, ino; /* of the file that names it; 0, 0: private */
};

/* A member of a multicast group. @qpn publishes the row: stored last, cleared first. */
struct av_dir_member {
	_Atomic uint32_t qpn; /* 0: free */
	uint32_t index;
	_Atomic uint32_t ref;
	uint32_t unused;
	union ibv_gid gid;
};

/* What a capture writes: which traffic, how much of it, and to which file. */
#define AV_CAPTURES 64 /* most captures at the same time */

struct av_capture_spec {
	char path[PATH_MAX]; /* absolute; leads to the file with this device and inode number */
	uint64_t dev, ino;
	char device[64];  /* "": any */
	bool everybody;	  /* the traffic of all processes, not only of the one that began it */
	uint32_t snaplen; /* most bytes written of each frame */
	uint64_t limit;	  /* the capture ends after this many frames */
};

/* Flag in @taken: nobody can reserve frames any more. */
#define AV_CAPTURE_CLOSED (UINT64_C(1) << 63)

/* A capture (registry/capture_table.c). @stamp publishes it: 0 if free, else different for each. */
struct av_dir_capture {
	_Atomic uint32_t stamp;
	uint32_t proc;		  /* the process that began it */
	_Atomic uint64_t taken;	  /* reserved by all captures of this row, with AV_CAPTURE_CLOSED */
	_Atomic uint64_t settled; /* of these: written, or lost with a dead process */
	_Atomic uint64_t before;  /* value of @taken at the beginning of this capture */
	_Atomic uint64_t lost;
	_Atomic int32_t err;
	uint32_t unused;
	struct av_capture_spec spec;
};

/*
 * Processes that share port 4791 of an address, in the order of the kernel's array of their sockets
 * (registry/reuseport.c). Written within a change, but for av_reuseport_gone(); read at any time.
 */
#define AV_DIR_REUSEPORTS	 64 /* most addresses in use at the same time */
#define AV_DIR_REUSEPORT_MEMBERS 512

struct av_dir_reuseport {
	_Atomic uint32_t count; /* 0: free */
	_Atomic uint32_t stamp; /* different after each change */
	_Atomic uint32_t told;	/* @stamp at the last av_reuseport_tell() */
	uint32_t unused;
	uint64_t netns;
	uint8_t address[16];
	_Atomic uint32_t member[AV_DIR_REUSEPORT_MEMBERS]; /* 0: it has closed its socket */
};

/*
 * A bound port of the connection manager (registry/cm_ports.c). @stamp publishes it: 0 if free,
 * else different for each. Bound within a change; released and read at any time.
 */
#define AV_DIR_CM_PORTS 16384u

struct av_dir_cm_port {
	_Atomic uint32_t stamp;
	_Atomic uint32_t reach; /* rows, from here on, that may hold ports whose home is here */
	_Atomic uint32_t proc;
	_Atomic uint32_t flags;
	_Atomic uint64_t netns;
	_Atomic uint64_t name; /* port space << 48 | port << 32 | the process's name for it */
	_Atomic uint64_t address[2];
};

struct av_dir_file {
	uint64_t magic;
	uint32_t layout;	     /* av_layout */
	uint32_t qpn_tag;	     /* first tag of an index that was never used */
	_Atomic uint32_t qpn_cursor; /* the index to try first */
	_Atomic uint32_t failures;   /* number of the last failure: av_dir_failures() */
	/* Ends of the rows ever used. Raised before a row's first use; @device_end after it. */
	_Atomic uint32_t proc_end, context_end, device_end, port_end, capture_end;
	struct av_dir_proc proc[AV_REF_SLOTS];
	struct av_dir_context context[AV_REF_SLOTS];
	struct av_dir_stripe atomic[AV_REF_SLOTS][AV_ATOMIC_STRIPES] AV_ALIGNED(AV_CACHE_LINE);
	struct av_dir_device device[AV_DIR_DEVICES];
	struct av_dir_fold fold;
	struct av_dir_port port[AV_DIR_PORTS];
	uint32_t xrcd_last; /* the last number given */
	struct av_dir_xrcd xrcd[AV_MAX_XRCD];
	_Atomic uint32_t member_end; /* all members in use lie before it */
	struct av_dir_member member[AV_MAX_MCAST_ATTACH];
	struct av_dir_capture capture[AV_CAPTURES];
	av_dir_qpn qpn[AV_DIR_QPNS];
	struct av_dir_reuseport reuseport[AV_DIR_REUSEPORTS];
	_Atomic uint32_t block_owner[AV_QPN_BLOCKS]; /* the process; 0: none */
	uint32_t cm_port_last;			     /* the last stamp given */
	struct av_dir_cm_port cm_port[AV_DIR_CM_PORTS];
};

/* The file, while this process has joined. Else NULL. */
extern struct av_dir_file *av_dir;

/* The file's folder: its descriptor (-1: the program has closed it), not to be closed; its path. */
int av_dir_folder(void);
const char *av_dir_path(void);

/* Byte of the file whose record lock says that the process of this slot lives. */
#define AV_DIR_LOCK_SLOT(slot) (1 + (off_t)(slot))

/*
 * Begin and end a change of the directory. A mutex serialises this process's threads, then a record
 * lock on byte 0 the processes. A holder may be stopped, so nobody waits without limit. Opening a
 * device, claiming a queue pair number, closing and exiting need no change. Context: joined; no
 * lock of the data path is held. Waits AV_PEER_TIMEOUT_NS at most; -EBUSY: timed out
 */
AV_MUST_USE int av_dir_change_begin(void);
void av_dir_change_end(void);

/* A change that the next process can do instead. Waits 20 ms at most, enough on a busy machine. */
AV_MUST_USE bool av_dir_change_soon(void);

/*
 * Set or query a record lock on one byte of the file. @cmd: F_OFD_SETLK or F_OFD_GETLK of fcntl(2).
 * Context: within a change, or for a byte that only this process takes.
 * Return: 0 or -errno; for F_OFD_GETLK, 1: another process has a conflicting lock
 */
int av_dir_record_lock(int cmd, short type, off_t byte);

/* Clear the rows of what has ended: within a change; in one of its own (av_dir_change_soon()). */
void av_dir_sweep(void);
void av_dir_sweep_soon(void);

/*
 * End all contexts of a process. @for_good: no thread of it uses them any more, so clears the rows;
 * else keeps them, adds the counts, and removes the folders. Context: within a change.
 */
void av_dir_contexts_end(uint32_t proc, bool for_good);

/* @count of av_dir_join(), which adds the counts of an ending context. */
extern av_dir_count *av_dir_count_context;

/* The next reference of a slot, of generation *last (in, out). Never 0 nor AV_DIR_PROC_ENDED. */
static inline uint32_t av_dir_next_ref(uint32_t slot, uint32_t *last)
{
	*last = *last >= (UINT32_MAX >> AV_REF_SLOT_BITS) - 1 ? 1 : *last + 1;
	return *last << AV_REF_SLOT_BITS | slot;
}

/*
 * View the directory for reading, joined or not. Holds the directory's mutex until
 * av_dir_view_end(), so that no thread of this process joins or leaves meanwhile.
 * Return: false: there is no directory, and no device has counted anything
 */
struct av_dir_view {
	const struct av_dir_file *dir;
	int fd; /* -1: this process has joined; or @dir has only the counts of devices */
};
bool av_dir_view(struct av_dir_view *view);
void av_dir_view_end(struct av_dir_view *view);

/* Number of rows ever used in a table of @max; at most that, even if the directory is damaged. */
static inline uint32_t av_dir_rows(const _Atomic uint32_t *end, uint32_t max)
{
	uint32_t rows = atomic_load(end);

	return rows < max ? rows : max;
}

/* Raise @end before entry @index of a table is used. */
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

/* Place of a device in the table of devices: index + 1. 0: it has none. */
uint32_t av_dir_find_device(const struct av_dir_file *d, const char *name);

/* Count that the port of a device went down. Context: within a change. */
static inline void av_dir_count_down(const char *device)
{
	uint32_t place = av_dir_find_device(av_dir, device);

	if (place)
		atomic_fetch_add(&av_dir->device[place - 1].link_downed, 1);
}

/*
 * Add the counts of an ending context to the totals of its device, by @count, within a change.
 * @folder: of the directory; still holds the context's. If the process dies before av_ended_kept(),
 * the counts are still added exactly once: whoever clears the row calls both functions again.
 */
void av_ended_keep(const struct av_dir_context *c, int folder, av_dir_count *count);

/* The row of the context is clear. Context: within a change. */
void av_ended_kept(void);

/*
 * The counts of devices, in a file of @folder (its path) while there is no directory. The maker of
 * the next directory loads them; so does a mere reader. Without counts there is no file.
 * Context: the caller holds the directory's mutex; for av_dir_counts_keep(), nobody else uses @d. A
 * full file system loses the counts. Return: false: there is no such file, or it is unusable
 */
#define AV_DIR_TOTALS "totals"
bool av_dir_counts_load(const char *folder, struct av_dir_file *d);
void av_dir_counts_keep(const char *folder, const struct av_dir_file *d);

/* Take and release the directory's mutex, without the record lock. */
void av_dir_hold(void);
void av_dir_release(void);
