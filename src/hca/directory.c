/* SPDX-License-Identifier: MIT */
/* The directory file: joining and leaving, slots of processes and contexts, queue-pair numbers. */
#include "hca/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hca/folder.h"
#include "hca/limits.h"
#include "hca/multicast.h"
#include "observe/log.h"

#define MAGIC	    0x31737262766e7961ull
#define QPN_COUNT   (1u << AV_QPN_INDEX_BITS)
#define QPN_FIRST   16u /* indices below are left to the numbers with a meaning of their own (0, 1) */
#define MAX_DEVICES 64
#define LOCK_CHANGE 0 /* byte of the file: whoever changes the directory */
#define LOCK_SLOT   1 /* byte LOCK_SLOT + slot: the process in that slot lives */

struct dir_proc {
	_Atomic uint32_t ref; /* 0: free */
	uint32_t last;	      /* the slot's last generation */
};

/* By name: processes may have different lists. */
struct dir_device {
	char name[64]; /* "": free */
	_Atomic uint64_t counter[AV_DIR_COUNTERS];
};

struct dir_context {
	_Atomic uint32_t ref; /* 0: free */
	uint32_t last;
	_Atomic uint32_t proc;
	uint32_t qps;
	uint64_t dm_bytes;
	uint32_t device; /* index in the table of devices + 1 */
	_Atomic uint64_t gauge[AV_DIR_GAUGES];
};

/* One word, so that a reader sees all of it or nothing: ref << 32 | index in the context << 8 | tag. */
typedef _Atomic uint64_t dir_qpn;

/* An XRC domain: opened by a context, more than once perhaps. The same domain has one entry per context. */
struct dir_xrcd {
	_Atomic uint32_t ref; /* context that has it open; 0: free */
	uint32_t number;
	uint32_t opens;
	uint32_t unused;
	uint64_t dev, ino; /* of the file that names it; 0, 0: private */
};

/* @qpn is the publication: written last, cleared first. */
struct dir_member {
	_Atomic uint32_t qpn; /* 0: free */
	uint32_t index;
	_Atomic uint32_t ref;
	uint32_t unused;
	union ibv_gid gid;
};

struct dir {
	uint64_t magic;
	uint32_t layout;
	uint32_t qpn_cursor;
	uint64_t dm_bytes; /* device memory in use, likewise */
	uint32_t qps;	   /* numbers in use, living contexts and dead ones that are not swept yet */
	struct dir_proc proc[AV_REF_SLOTS];
	struct dir_context context[AV_REF_SLOTS];
	struct {
		struct av_lock lock;
	} AV_ALIGNED(AV_CACHE_LINE) atomic[AV_ATOMIC_STRIPES];
	struct dir_device device[MAX_DEVICES];
	uint32_t xrcd_last; /* number given last */
	struct dir_xrcd xrcd[AV_MAX_XRCD];
	_Atomic uint32_t member_end; /* members in use lie before it */
	struct dir_member member[AV_MAX_MCAST_ATTACH];
	dir_qpn qpn[QPN_COUNT];
};

/* All guarded by @mutex, but for lock-free reads of *dir while joined. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct dir *dir;
static int dir_fd = -1;	   /* the only descriptor on the file: closing any would drop every record lock */
static int folder_fd = -1; /* the folder it is in */
static uint32_t self;
static unsigned int joins;
static bool forked_child;
static char path[256];

/* --- record locks ----------------------------------------------------------------------------------------
 */

static int record_lock(int cmd, short type, off_t byte)
{
	struct flock fl = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
	int ret;

	do
		ret = fcntl(dir_fd, cmd, &fl);
	while (ret < 0 && errno == EINTR);
	if (ret < 0)
		return -errno;
	return cmd == F_GETLK && fl.l_type != F_UNLCK;
}

static void change_begin(void)
{
	pthread_mutex_lock(&mutex);
	(void)record_lock(F_SETLKW, F_WRLCK, LOCK_CHANGE);
}

static void change_end(void)
{
	(void)record_lock(F_SETLK, F_UNLCK, LOCK_CHANGE);
	pthread_mutex_unlock(&mutex);
}

bool av_dir_proc_alive(uint32_t proc)
{
	if (proc == 0 || !dir || atomic_load(&dir->proc[AV_REF_SLOT(proc)].ref) != proc)
		return false;
	return proc == self || record_lock(F_GETLK, F_WRLCK, LOCK_SLOT + (off_t)AV_REF_SLOT(proc)) != 0;
}

/* --- references ------------------------------------------------------------------------------------------
 */

static uint32_t next_ref(uint32_t slot, uint32_t *last)
{
	*last = (*last + 1) & (UINT32_MAX >> AV_REF_SLOT_BITS);
	if (*last == 0)
		*last = 1;
	return *last << AV_REF_SLOT_BITS | slot;
}

static void context_name(char name[32], uint32_t ref)
{
	snprintf(name, 32, "c%u-%u", AV_REF_SLOT(ref), ref >> AV_REF_SLOT_BITS);
}

/* --- sweeping; the change lock is held -------------------------------------------------------------------
 */

static void context_free(struct dir_context *c)
{
	char name[32];
	uint32_t ref = atomic_load(&c->ref);

	/* The slot goes last: who dies in here leaves it to the next to sweep, folder and all. */
	context_name(name, ref);
	av_folder_remove(folder_fd, name);
	atomic_store(&c->proc, 0);
	dir->qps -= c->qps < dir->qps ? c->qps : dir->qps;
	c->qps = 0;
	dir->dm_bytes -= c->dm_bytes < dir->dm_bytes ? c->dm_bytes : dir->dm_bytes;
	c->dm_bytes = 0;
	c->device = 0;
	for (int i = 0; i < AV_DIR_GAUGES; i++)
		atomic_store(&c->gauge[i], 0);
	atomic_store(&c->ref, 0);
}

static void process_free(uint32_t slot)
{
	uint32_t ref = atomic_load(&dir->proc[slot].ref);

	for (uint32_t i = 0; i < AV_REF_SLOTS; i++)
		if (atomic_load(&dir->context[i].ref) && atomic_load(&dir->context[i].proc) == ref)
			context_free(&dir->context[i]);
	atomic_store(&dir->proc[slot].ref, 0);
}

/* Free the slots of the dead. Return: number of living processes, the caller's included. */
static unsigned int sweep(void)
{
	unsigned int living = 0;

	for (uint32_t slot = 0; slot < AV_REF_SLOTS; slot++) {
		uint32_t ref = atomic_load(&dir->proc[slot].ref);

		if (ref == 0)
			continue;
		if (av_dir_proc_alive(ref))
			living++;
		else
			process_free(slot);
	}
	for (uint32_t i = 0; i < AV_REF_SLOTS; i++)
		if (atomic_load(&dir->context[i].ref) && !atomic_load(&dir->context[i].proc))
			context_free(&dir->context[i]); /* somebody died freeing it */
	return living;
}

/* --- joining and leaving ---------------------------------------------------------------------------------
 */

static void after_fork_in_child(void)
{
	/* The mutex may have been held by a thread that does not exist here; record locks were not inherited.
	 */
	pthread_mutex_init(&mutex, NULL);
	if (joins) {
		forked_child = true;
		joins = 0;
		self = 0;
		av_lock_self = UINT32_MAX; /* an identity that no liveness question answers with yes */
	}
}

static void register_fork_handler(void)
{
	pthread_atfork(NULL, NULL, after_fork_in_child);
}

static void close_all(void)
{
	if (dir)
		munmap(dir, sizeof(*dir));
	dir = NULL;
	if (dir_fd >= 0)
		close(dir_fd);
	if (folder_fd >= 0)
		close(folder_fd);
	dir_fd = folder_fd = -1;
}

/* Give the file its size and backing, so that no later access can find the file system full. */
static int map_file(void)
{
	int ret = posix_fallocate(dir_fd, 0, sizeof(*dir));
	void *p;

	if (ret)
		return -ret;
	p = mmap(NULL, sizeof(*dir), PROT_READ | PROT_WRITE, MAP_SHARED, dir_fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	dir = p;
	if (dir->magic == 0) {
		dir->layout = AV_LAYOUT;
		dir->qpn_cursor = QPN_FIRST;
		dir->magic = MAGIC;
	}
	return dir->magic == MAGIC && dir->layout == AV_LAYOUT ? 0 : -EPROTO;
}

/* Open and lock the file; -EAGAIN if the last process removed it in between. */
static int open_file(void)
{
	struct stat st;
	int ret;

	folder_fd = av_folder_open(path, sizeof(path));
	if (folder_fd < 0)
		return folder_fd;
	dir_fd = openat(folder_fd, "directory", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (dir_fd < 0)
		return errno == ENOENT ? -EAGAIN : -errno;
	ret = record_lock(F_SETLKW, F_WRLCK, LOCK_CHANGE);
	if (ret)
		return ret;
	if (fstat(dir_fd, &st))
		return -errno;
	return st.st_nlink == 0 ? -EAGAIN : map_file();
}

static int take_process_slot(void)
{
	for (uint32_t slot = 0; slot < AV_REF_SLOTS; slot++) {
		if (atomic_load(&dir->proc[slot].ref))
			continue;
		if (record_lock(F_SETLK, F_WRLCK, LOCK_SLOT + (off_t)slot))
			continue;
		self = next_ref(slot, &dir->proc[slot].last);
		atomic_store(&dir->proc[slot].ref, self);
		return 0;
	}
	return -EUSERS;
}

static int join_first(void)
{
	int ret;

	if (forked_child) /* the parent's; closing it here drops no lock of the parent */
		close_all();
	forked_child = false;
	do {
		close_all();
		ret = open_file();
	} while (ret == -EAGAIN);
	if (ret == 0) {
		(void)sweep();
		ret = take_process_slot();
	}
	if (ret) {
		close_all();
		return ret;
	}
	av_lock_self = self;
	av_lock_owner_alive = av_dir_proc_alive;
	(void)record_lock(F_SETLK, F_UNLCK, LOCK_CHANGE);
	return 0;
}

int av_dir_join(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int ret = 0;

	pthread_once(&once, register_fork_handler);
	pthread_mutex_lock(&mutex);
	if (joins == 0)
		ret = join_first();
	if (ret == 0)
		joins++;
	pthread_mutex_unlock(&mutex);
	return ret;
}

/* The change lock is held. Whoever opens the file after the unlink makes a new one; before it, sees nlink 0.
 */
static void remove_traces(void)
{
	process_free(AV_REF_SLOT(self));
	if (sweep() == 0) {
		av_folder_clear(folder_fd); /* of somebody who died between making it and taking its slot */
		unlinkat(folder_fd, "directory", 0);
		av_folder_remove_self(path);
	}
}

void av_dir_leave(void)
{
	pthread_mutex_lock(&mutex);
	if (joins > 0 && --joins == 0) {
		(void)record_lock(F_SETLKW, F_WRLCK, LOCK_CHANGE);
		remove_traces();
		self = 0;
		close_all(); /* drops the locks */
	}
	pthread_mutex_unlock(&mutex);
}

void av_dir_abandon(void)
{
	if (pthread_mutex_trylock(&mutex))
		return; /* a thread still runs in here: the next process sweeps */
	if (joins > 0) {
		(void)record_lock(F_SETLKW, F_WRLCK, LOCK_CHANGE);
		remove_traces();
		joins = 0;
		(void)record_lock(F_SETLK, F_UNLCK, LOCK_CHANGE);
	}
	pthread_mutex_unlock(&mutex);
}

bool av_dir_is_forked_child(void)
{
	return forked_child;
}

const char *av_dir_path(void)
{
	return path;
}

/* --- contexts --------------------------------------------------------------------------------------------
 */

static struct dir_context *free_context_slot(uint32_t *slot)
{
	for (uint32_t i = 0; i < AV_REF_SLOTS; i++) {
		if (atomic_load(&dir->context[i].ref) == 0) {
			*slot = i;
			return &dir->context[i];
		}
	}
	return NULL;
}

int av_dir_context_add(uint32_t *ref)
{
	struct dir_context *c;
	uint32_t slot, r;
	char name[32];
	int fd = -EUSERS;

	change_begin();
	c = free_context_slot(&slot);
	if (!c && sweep() > 0)
		c = free_context_slot(&slot);
	if (c) {
		r = next_ref(slot, &c->last);
		context_name(name, r);
		fd = av_folder_make(folder_fd, name);
	}
	if (fd >= 0) {
		c->qps = 0;
		atomic_store(&c->proc, self);
		atomic_store(&c->ref, r);
		*ref = r;
	}
	change_end();
	return fd;
}

void av_dir_context_remove(uint32_t ref)
{
	struct dir_context *c = &dir->context[AV_REF_SLOT(ref)];

	change_begin();
	if (atomic_load(&c->ref) == ref)
		context_free(c);
	change_end();
}

uint32_t av_dir_context_owner(uint32_t ref)
{
	struct dir_context *c;
	uint32_t proc;

	if (ref == 0 || !dir)
		return 0;
	c = &dir->context[AV_REF_SLOT(ref)];
	proc = atomic_load(&c->proc);
	return atomic_load(&c->ref) == ref ? proc : 0;
}

int av_dir_context_open(uint32_t ref)
{
	char name[32];
	int fd;

	context_name(name, ref);
	fd = openat(folder_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* --- queue-pair numbers ----------------------------------------------------------------------------------
 */

static uint64_t qpn_word(uint32_t ref, uint32_t index, uint32_t tag)
{
	return (uint64_t)ref << 32 | (uint64_t)index << 8 | tag;
}

static bool qpn_free(uint64_t word)
{
	return word >> 32 == 0 || av_dir_context_owner((uint32_t)(word >> 32)) == 0;
}

/* The first free index at or after the cursor, or 0. */
static uint32_t qpn_next(void)
{
	for (uint32_t n = 0; n < QPN_COUNT; n++) {
		uint32_t i = dir->qpn_cursor + n;

		if (i >= QPN_COUNT - 1) /* the last index with the last tag would be 0xffffff */
			i = i - (QPN_COUNT - 1) + QPN_FIRST;
		if (i < QPN_COUNT - 1 && qpn_free(atomic_load(&dir->qpn[i])))
			return i;
	}
	return 0;
}

int av_dir_qpn_add(uint32_t ref, uint32_t index, uint32_t limit)
{
	uint32_t i = 0, tag = 0;

	change_begin();
	if (dir->qps >= limit)
		(void)sweep();
	if (dir->qps < limit)
		i = qpn_next();
	if (i) {
		tag = ((uint32_t)atomic_load(&dir->qpn[i]) + 1) & (AV_QPN_MASK >> AV_QPN_INDEX_BITS);
		atomic_store(&dir->qpn[i], qpn_word(ref, index, tag));
		dir->qpn_cursor = i + 1;
		dir->qps++;
		dir->context[AV_REF_SLOT(ref)].qps++;
	}
	change_end();
	return i ? (int)(tag << AV_QPN_INDEX_BITS | i) : -ENOMEM;
}

void av_dir_qpn_remove(uint32_t qpn)
{
	dir_qpn *entry = &dir->qpn[qpn & (QPN_COUNT - 1)];
	uint32_t ref;

	change_begin();
	ref = (uint32_t)(atomic_load(entry) >> 32);
	if (ref && atomic_load(&dir->context[AV_REF_SLOT(ref)].ref) == ref) { /* else swept at exit already */
		atomic_store(entry, qpn_word(0, 0, qpn >> AV_QPN_INDEX_BITS));
		dir->qps--;
		dir->context[AV_REF_SLOT(ref)].qps--;
	}
	change_end();
}

struct av_qp_home av_dir_qpn_find(uint32_t qpn)
{
	uint64_t word = atomic_load(&dir->qpn[qpn & (QPN_COUNT - 1)]);
	struct av_qp_home home = {0};

	if ((word & 0xff) == qpn >> AV_QPN_INDEX_BITS && !qpn_free(word)) {
		home.ref = (uint32_t)(word >> 32);
		home.index = (uint32_t)(word >> 8) & 0xffffff;
	}
	return home;
}

/* --- multicast groups
 * --------------------------------------------------------------------------------------- */

static bool same_gid(const union ibv_gid *a, const union ibv_gid *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

/* The member @qpn of a group, or with 0, a free place. The change lock is held. */
static struct dir_member *find_member(const union ibv_gid *gid, uint32_t qpn)
{
	for (uint32_t i = 0; i < AV_MAX_MCAST_ATTACH; i++) {
		struct dir_member *m = &dir->member[i];
		uint32_t there = atomic_load(&m->qpn);

		if (there && !av_dir_context_owner(atomic_load(&m->ref)))
			atomic_store(&m->qpn, there = 0); /* its process is gone */
		if (there == qpn && (qpn == 0 || same_gid(&m->gid, gid)))
			return m;
	}
	return NULL;
}

int av_multicast_attach(const union ibv_gid *gid, const struct av_multicast_member *member)
{
	struct dir_member *m;

	change_begin();
	m = find_member(gid, member->qpn);
	if (!m) {
		m = find_member(gid, 0);
		if (m) {
			uint32_t end = (uint32_t)(m - dir->member) + 1;

			m->gid = *gid;
			m->index = member->home.index;
			atomic_store(&m->ref, member->home.ref);
			atomic_store(&m->qpn, member->qpn);
			if (atomic_load(&dir->member_end) < end)
				atomic_store(&dir->member_end, end);
		}
	}
	change_end();
	return m ? 0 : -ENOMEM;
}

bool av_multicast_has(const union ibv_gid *gid, uint32_t qpn)
{
	struct av_multicast_member member;
	uint32_t at = 0;

	while (av_multicast_next(gid, &at, &member))
		if (member.qpn == qpn)
			return true;
	return false;
}

int av_multicast_detach(const union ibv_gid *gid, uint32_t qpn)
{
	struct dir_member *m;

	change_begin();
	m = find_member(gid, qpn);
	if (m)
		atomic_store(&m->qpn, 0);
	change_end();
	return m ? 0 : -EINVAL;
}

bool av_multicast_next(const union ibv_gid *gid, uint32_t *at, struct av_multicast_member *member)
{
	uint32_t end = atomic_load(&dir->member_end);

	while (*at < end && *at < AV_MAX_MCAST_ATTACH) {
		const struct dir_member *m = &dir->member[(*at)++];
		uint32_t qpn = atomic_load(&m->qpn);

		if (qpn == 0 || !same_gid(&m->gid, gid))
			continue;
		*member = (struct av_multicast_member){{atomic_load(&m->ref), m->index}, qpn};
		if (atomic_load(&m->qpn) == qpn)
			return true;
	}
	return false;
}

/* --- XRC domains -------------------------------------------------------------------------------------------
 */

static bool xrcd_live(struct dir_xrcd *x)
{
	uint32_t ref = atomic_load(&x->ref);

	if (ref && !av_dir_context_owner(ref))
		atomic_store(&x->ref, ref = 0);
	return ref != 0;
}

/* The number of the domain a file names, 0 if nobody has it open; and this context's entry of it. */
static uint32_t xrcd_find(uint32_t ref, uint64_t dev, uint64_t ino, struct dir_xrcd **mine,
			  struct dir_xrcd **free)
{
	uint32_t number = 0;

	for (uint32_t i = 0; i < AV_MAX_XRCD; i++) {
		struct dir_xrcd *x = &dir->xrcd[i];

		if (!xrcd_live(x)) {
			if (!*free)
				*free = x;
		} else if ((dev || ino) && x->dev == dev && x->ino == ino) {
			number = x->number;
			if (atomic_load(&x->ref) == ref)
				*mine = x;
		}
	}
	return number;
}

static int xrcd_open(uint32_t ref, uint64_t dev, uint64_t ino, int oflags)
{
	struct dir_xrcd *mine = NULL, *free = NULL;
	uint32_t number = xrcd_find(ref, dev, ino, &mine, &free);

	if (!number && !(oflags & O_CREAT))
		return -EAGAIN;
	if (number && (oflags & O_EXCL))
		return -EINVAL;
	if (mine) {
		mine->opens++;
		return (int)number;
	}
	if (!free)
		return -ENOMEM;
	if (!number)
		number = ++dir->xrcd_last & 0x7fffffff;
	*free = (struct dir_xrcd){.number = number, .opens = 1, .dev = dev, .ino = ino};
	atomic_store(&free->ref, ref);
	return (int)number;
}

int av_dir_xrcd_open(uint32_t ref, uint64_t dev, uint64_t ino, int oflags)
{
	int ret;

	change_begin();
	ret = xrcd_open(ref, dev, ino, oflags);
	change_end();
	return ret;
}

void av_dir_xrcd_close(uint32_t ref, uint32_t number)
{
	change_begin();
	for (uint32_t i = 0; i < AV_MAX_XRCD; i++) {
		struct dir_xrcd *x = &dir->xrcd[i];

		if (atomic_load(&x->ref) == ref && x->number == number) {
			if (--x->opens == 0)
				atomic_store(&x->ref, 0);
			break;
		}
	}
	change_end();
}

/* --- device memory -----------------------------------------------------------------------------------------
 */

int av_dir_dm_take(uint32_t ref, uint64_t bytes, uint64_t limit)
{
	int ret = -ENOMEM;

	change_begin();
	if (bytes > limit - (dir->dm_bytes < limit ? dir->dm_bytes : limit))
		(void)sweep();
	if (dir->dm_bytes <= limit && bytes <= limit - dir->dm_bytes) {
		dir->dm_bytes += bytes;
		dir->context[AV_REF_SLOT(ref)].dm_bytes += bytes;
		ret = 0;
	}
	change_end();
	return ret;
}

void av_dir_dm_give(uint32_t ref, uint64_t bytes)
{
	struct dir_context *c = &dir->context[AV_REF_SLOT(ref)];

	change_begin();
	if (atomic_load(&c->ref) == ref && c->dm_bytes >= bytes) {
		c->dm_bytes -= bytes;
		dir->dm_bytes -= bytes;
	}
	change_end();
}

/* --- statistics --------------------------------------------------------------------------------------------
 */

/* Index + 1 of a device, which gets a place if it has none and @add; 0: none. */
static uint32_t find_device(const struct dir *d, const char *name)
{
	for (uint32_t i = 0; i < MAX_DEVICES; i++)
		if (strncmp(d->device[i].name, name, sizeof(d->device[i].name)) == 0)
			return i + 1;
	return 0;
}

static uint32_t device_place(const char *name)
{
	uint32_t place;

	change_begin();
	place = find_device(dir, name);
	if (!place) {
		place = find_device(dir, "");
		if (place)
			snprintf(dir->device[place - 1].name, sizeof(dir->device[0].name), "%s", name);
	}
	change_end();
	return place;
}

_Atomic uint64_t *av_dir_counters(const char *device)
{
	uint32_t place = device_place(device);

	return place ? dir->device[place - 1].counter : NULL;
}

_Atomic uint64_t *av_dir_gauges(uint32_t ref, const char *device)
{
	struct dir_context *c = &dir->context[AV_REF_SLOT(ref)];

	c->device = device_place(device);
	return c->gauge;
}

static void read_from(const struct dir *d, const char *device, uint64_t *counters, uint64_t *gauges)
{
	uint32_t place = find_device(d, device);

	if (!place)
		return;
	for (int i = 0; i < AV_DIR_COUNTERS; i++)
		counters[i] = atomic_load(&d->device[place - 1].counter[i]);
	for (uint32_t slot = 0; slot < AV_REF_SLOTS; slot++)
		for (int i = 0; d->context[slot].device == place && i < AV_DIR_GAUGES; i++)
			gauges[i] += atomic_load(&d->context[slot].gauge[i]);
}

void av_dir_read(const char *device, uint64_t counters[AV_DIR_COUNTERS], uint64_t gauges[AV_DIR_GAUGES])
{
	const struct dir *d = NULL;
	char name[256];
	void *p;
	int folder = -1, fd = -1;

	memset(counters, 0, AV_DIR_COUNTERS * sizeof(*counters));
	memset(gauges, 0, AV_DIR_GAUGES * sizeof(*gauges));
	pthread_mutex_lock(&mutex);
	if (joins > 0)
		read_from(dir, device, counters, gauges);
	else
		folder = av_folder_find(name, sizeof(name));
	pthread_mutex_unlock(&mutex);
	if (folder < 0)
		return;
	fd = openat(folder, "directory", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	close(folder);
	p = fd >= 0 ? mmap(NULL, sizeof(*d), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
	if (fd >= 0)
		close(fd); /* this process holds no record lock that this could drop: it has not joined */
	if (p == MAP_FAILED)
		return;
	d = p;
	if (d->magic == MAGIC && d->layout == AV_LAYOUT)
		read_from(d, device, counters, gauges);
	munmap(p, sizeof(*d));
}

struct av_lock *av_dir_atomic_lock(pid_t pid, uint64_t addr)
{
	uint64_t h = ((addr >> 3) ^ ((uint64_t)pid << 20)) * 0x9e3779b97f4a7c15ull;

	return &dir->atomic[h >> 58].lock;
}
