/* SPDX-License-Identifier: MIT */
/* Joining and leaving, slots of processes and contexts, clearing up after the dead. */
#include "registry/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_size.h"
#include "base/fork.h"
#include "base/lock_order.h"
#include "base/map.h"
#include "base/own_fd.h"
#include "base/uncancelled.h"
#include "registry/directory_file.h"
#include "registry/folder.h"
#include "observe/flight.h"
#include "observe/log.h"

#define LOCK_CHANGE 0 /* byte that is locked during a change of the directory */

/* @mutex guards all of these. Only *@av_dir is read without it, and only while joined. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
struct av_dir_file *av_dir;
static struct av_own_fd dir_file = {.fd = -1};
static struct av_own_fd folder = {.fd = -1}; /* the folder it is in */
static uint32_t self;
static unsigned int joins;
static av_dir_count *count_context;
static char path[256];

/* --- record locks, of the open file ------------------------------------------------ */

int av_dir_record_lock(int cmd, short type, off_t byte)
{
	struct flock fl = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
	int ret;

	do
		ret = fcntl(av_own_fd(&dir_file), cmd, &fl);
	while (ret < 0 && errno == EINTR);
	if (ret < 0)
		return -errno;
	return cmd == F_OFD_GETLK && fl.l_type != F_UNLCK;
}

/* Open a file again that the program has closed, if its name still leads to it. */
static void open_again(struct av_own_fd *own, const char *name, int flags)
{
	struct av_own_fd again;

	if (own->fd < 0 || av_own_fd(own) >= 0 ||
	    !av_own_fd_keep(&again, open(name, flags | O_CLOEXEC | O_NOFOLLOW)))
		return;
	if (again.dev == own->dev && again.ino == own->ino)
		*own = again;
	else
		av_own_fd_close(&again);
}

/*
 * The program has closed our descriptors. The mapping holds the open file, so the lock that says
 * that this process lives is there still. What is opened again serves the other locks.
 */
static void recover(void)
{
	char name[sizeof(path) + sizeof("/directory")];

	av_warn_once("the program has closed descriptors of this library in %s", path);
	snprintf(name, sizeof(name), "%s/directory", path);
	open_again(&folder, path, O_RDONLY | O_DIRECTORY);
	open_again(&dir_file, name, O_RDWR);
}

void av_dir_change_begin(void)
{
	pthread_mutex_lock(&mutex);
	if (joins && (av_own_fd(&dir_file) < 0 || av_own_fd(&folder) < 0))
		recover();
	(void)av_dir_record_lock(F_OFD_SETLKW, F_WRLCK, LOCK_CHANGE);
}

void av_dir_change_end(void)
{
	(void)av_dir_record_lock(F_OFD_SETLK, F_UNLCK, LOCK_CHANGE);
	pthread_mutex_unlock(&mutex);
}

void av_dir_hold(void)
{
	pthread_mutex_lock(&mutex);
}

void av_dir_release(void)
{
	pthread_mutex_unlock(&mutex);
}

bool av_dir_proc_alive(uint32_t proc)
{
	AV_UNCANCELLED;

	if (proc == 0 || !av_dir || atomic_load(&av_dir->proc[AV_REF_SLOT(proc)].ref) != proc)
		return false;
	return proc == self ||
	       av_dir_record_lock(F_OFD_GETLK, F_WRLCK, AV_DIR_LOCK_SLOT(AV_REF_SLOT(proc))) != 0;
}

pid_t av_dir_proc_pid(uint32_t proc)
{
	const struct av_dir_proc *p = &av_dir->proc[AV_REF_SLOT(proc)];
	pid_t pid = atomic_load(&p->pid);

	return atomic_load(&p->ref) == proc ? pid : 0;
}

/* --- references ------------------------------------------------------------------ */

static uint32_t next_ref(uint32_t slot, uint32_t *last)
{
	*last = (*last + 1) & (UINT32_MAX >> AV_REF_SLOT_BITS);
	if (*last == 0)
		*last = 1;
	return *last << AV_REF_SLOT_BITS | slot;
}

static void context_name(char name[32], uint32_t ref)
{
	snprintf(name, 32, AV_CONTEXT_NAME, AV_CONTEXT_NAME_OF(ref));
}

/* --- sweeping; the change lock is held ------------------------------------------- */

static void context_free(struct av_dir_context *c)
{
	char name[32];
	uint32_t ref = atomic_load(&c->ref), begun = atomic_load(&av_dir->fold.ref);

	/* Who began to free this one died doing so: finish its work. */
	if (begun && begun != ref && atomic_load(&av_dir->context[AV_REF_SLOT(begun)].ref) == begun)
		context_free(&av_dir->context[AV_REF_SLOT(begun)]);
	/* The slot is freed last: if this process dies before, the next sweep finds both. */
	av_ended_keep(c, av_own_fd(&folder), count_context);
	context_name(name, ref);
	av_folder_remove(av_own_fd(&folder), name);
	atomic_store(&c->proc, 0);
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): @c is a row of a table */
	av_dir->qps -= c->qps < av_dir->qps ? c->qps : av_dir->qps;
	c->qps = 0;
	av_dir->dm_bytes -= c->dm_bytes < av_dir->dm_bytes ? c->dm_bytes : av_dir->dm_bytes;
	c->dm_bytes = 0;
	c->device = 0;
	atomic_store(&c->port, 0);
	atomic_store(&c->memory_ino, 0);
	for (int i = 0; i < AV_DIR_GAUGES; i++)
		atomic_store(&c->gauge[i], 0);
	atomic_store(&c->ref, 0);
	av_ended_kept();
}

static void process_free(uint32_t slot)
{
	uint32_t ref = atomic_load(&av_dir->proc[slot].ref);

	for (uint32_t i = 0; i < av_dir_rows(&av_dir->context_end, AV_REF_SLOTS); i++)
		if (atomic_load(&av_dir->context[i].ref) &&
		    atomic_load(&av_dir->context[i].proc) == ref)
			context_free(&av_dir->context[i]);
	atomic_store(&av_dir->proc[slot].ref, 0);
}

/* Free the slots of the dead. Return: number of living processes, including the caller. */
unsigned int av_dir_sweep(void)
{
	unsigned int living = 0;

	for (uint32_t slot = 0; slot < av_dir_rows(&av_dir->proc_end, AV_REF_SLOTS); slot++) {
		uint32_t ref = atomic_load(&av_dir->proc[slot].ref);

		if (ref == 0)
			continue;
		if (av_dir_proc_alive(ref))
			living++;
		else
			process_free(slot);
	}
	for (uint32_t i = 0; i < av_dir_rows(&av_dir->context_end, AV_REF_SLOTS); i++)
		if (atomic_load(&av_dir->context[i].ref) && !atomic_load(&av_dir->context[i].proc))
			context_free(&av_dir->context[i]); /* its process died while freeing it */
	return living;
}

/* --- joining and leaving --------------------------------------------------------- */

/*
 * The mapping holds the open file, too, with the parent's locks: map the file anew, opened once
 * more. Objects of the parent's point there. Without the file they point to memory of nobody.
 */
static void map_anew(void)
{
	int fd = openat(av_own_fd(&folder), "directory", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	const int both = PROT_READ | PROT_WRITE;
	void *p = MAP_FAILED;
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == dir_file.dev &&
	    st.st_ino == dir_file.ino)
		p = av_mmap(av_dir, sizeof(*av_dir), both, MAP_SHARED | MAP_FIXED, fd, 0);
	if (p == MAP_FAILED)
		(void)!av_mmap(av_dir, sizeof(*av_dir), both,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	if (fd >= 0)
		close(fd);
}

static void after_fork_in_child(void)
{
	int saved = errno;

	/* A thread that is not here may hold the mutex. */
	pthread_mutex_init(&mutex, NULL);
	if (av_dir)
		map_anew();
	av_own_fd_close(&dir_file); /* the parent's locks are to end with the parent */
	av_lock_order_forked();
	av_flight_forked();
	if (joins) {
		joins = 0;
		self = 0;
		av_lock_self = UINT32_MAX; /* counts as dead everywhere */
	}
	errno = saved;
}

static const struct av_fork_handlers fork_handlers = {.child = after_fork_in_child};

static void close_all(void)
{
	av_flight_leave();
	if (av_dir)
		av_munmap(av_dir, sizeof(*av_dir));
	av_dir = NULL;
	av_own_fd_close(&dir_file);
	av_own_fd_close(&folder);
}

bool av_dir_is_sound(const struct av_dir_file *d)
{
	return d->magic == AV_DIR_MAGIC && d->layout == av_layout &&
	       atomic_load(&d->proc_end) <= AV_REF_SLOTS &&
	       atomic_load(&d->context_end) <= AV_REF_SLOTS &&
	       atomic_load(&d->port_end) <= AV_DIR_PORTS &&
	       atomic_load(&d->capture_end) <= AV_CAPTURES &&
	       atomic_load(&d->member_end) <= AV_MAX_MCAST_ATTACH;
}

/* Give the file its size and its pages now, so that no later access finds the file system full. */
static int map_file(void)
{
	int ret = -av_file_may_have(dir_file.fd, sizeof(*av_dir));
	void *p;

	if (ret == 0)
		ret = posix_fallocate(dir_file.fd, 0, sizeof(*av_dir));
	if (ret)
		return -ret;
	p = mmap(NULL, sizeof(*av_dir), PROT_READ | PROT_WRITE, MAP_SHARED, dir_file.fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	av_dir = p;
	if (av_dir->magic == 0 && av_dir->layout == 0) {
		av_dir->layout = av_layout;
		av_dir_qpn_begin();
		av_dir->magic = AV_DIR_MAGIC;
		av_folder_sweep();
	}
	return av_dir_is_sound(av_dir) ? 0 : -EPROTO;
}

/*
 * Open and lock the file. Return: 0 or -errno; -EAGAIN: the last process removed it meanwhile;
 * -EPROTO: it is damaged, or no file
 */
static int open_file(void)
{
	struct stat st;
	int fd = av_folder_open(path, sizeof(path));
	int ret;

	if (fd < 0)
		return fd;
	if (!av_own_fd_keep(&folder, fd))
		return -errno;
	fd = openat(folder.fd, "directory", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
		    0600);
	if (fd < 0 && (errno == ELOOP || errno == EISDIR || errno == ENXIO))
		return -EPROTO;
	if (!av_own_fd_keep(&dir_file, fd))
		return errno == ENOENT ? -EAGAIN : -errno;
	if (fstat(dir_file.fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EPROTO;
	ret = av_dir_record_lock(F_OFD_SETLKW, F_WRLCK, LOCK_CHANGE);
	if (ret)
		return ret;
	if (fstat(dir_file.fd, &st))
		return -errno;
	return st.st_nlink == 0 ? -EAGAIN : map_file();
}

/* The same, but a damaged directory is set aside. */
static int open_sound(void)
{
	int ret = open_file();

	if (ret != -EPROTO)
		return ret;
	ret = av_folder_set_aside(folder.fd, path);
	return ret ? ret : -EAGAIN;
}

static int take_process_slot(void)
{
	for (uint32_t slot = 0; slot < AV_REF_SLOTS; slot++) {
		if (atomic_load(&av_dir->proc[slot].ref))
			continue;
		if (av_dir_record_lock(F_OFD_SETLK, F_WRLCK, AV_DIR_LOCK_SLOT(slot)))
			continue;
		av_dir_will_use(&av_dir->proc_end, slot);
		self = next_ref(slot, &av_dir->proc[slot].last);
		atomic_store(&av_dir->proc[slot].pid, getpid());
		atomic_store(&av_dir->proc[slot].ref, self);
		return 0;
	}
	return -EUSERS;
}

static int join_first(av_dir_count *count)
{
	int ret;

	count_context = count;
	do {
		close_all(); /* in a forked child, what is left of the parent's */
		ret = open_sound();
	} while (ret == -EAGAIN);
	if (ret == 0) {
		(void)av_dir_sweep();
		ret = take_process_slot();
	}
	if (ret) {
		close_all();
		return ret;
	}
	av_flight_join(av_own_fd(&folder));
	av_lock_self = self;
	av_lock_owner_alive = av_dir_proc_alive;
	(void)av_dir_record_lock(F_OFD_SETLK, F_UNLCK, LOCK_CHANGE);
	return 0;
}

int av_dir_join(av_dir_count *count)
{
	int ret = 0;

	if (av_fork_register(AV_FORK_DIRECTORY, &fork_handlers))
		return -ENOMEM;
	pthread_mutex_lock(&mutex);
	if (joins == 0)
		ret = join_first(count);
	if (ret == 0)
		joins++;
	pthread_mutex_unlock(&mutex);
	return ret;
}

bool av_dir_join_again(void)
{
	bool joined;

	pthread_mutex_lock(&mutex);
	joined = joins > 0;
	joins += joined;
	pthread_mutex_unlock(&mutex);
	return joined;
}

/* Who opens the file after the unlink makes a new one; who opened it before sees nlink 0. */
static void remove_everything(void)
{
	av_folder_clear(
		av_own_fd(&folder)); /* left by a process that died before it had the slot */
	av_flight_forget(av_own_fd(&folder));
	unlinkat(av_own_fd(&folder), "directory", 0);
	av_folder_remove_self(path);
}

/* Context: the change lock is held. */
static void remove_traces(void)
{
	process_free(AV_REF_SLOT(self));
	if (av_dir_sweep() == 0)
		remove_everything();
}

void av_dir_leave(void)
{
	pthread_mutex_lock(&mutex);
	if (joins > 0 && --joins == 0) {
		(void)av_dir_record_lock(F_OFD_SETLKW, F_WRLCK, LOCK_CHANGE);
		remove_traces();
		self = 0;
		close_all(); /* this drops the locks */
	}
	pthread_mutex_unlock(&mutex);
}

/*
 * Threads of this process may still run and hold execution rights, which peers would take over if
 * it were declared dead. The kernel drops the record lock when it really ends.
 */
void av_dir_abandon(void)
{
	char name[32];

	if (pthread_mutex_trylock(&mutex))
		return; /* a thread is still in here: the next process sweeps */
	if (joins > 0) {
		(void)av_dir_record_lock(F_OFD_SETLKW, F_WRLCK, LOCK_CHANGE);
		for (uint32_t i = 0; i < av_dir_rows(&av_dir->context_end, AV_REF_SLOTS); i++) {
			if (atomic_load(&av_dir->context[i].proc) != self)
				continue;
			av_ended_keep(&av_dir->context[i], av_own_fd(&folder), count_context);
			context_name(name, atomic_load(&av_dir->context[i].ref));
			av_folder_remove(av_own_fd(&folder), name);
			av_ended_kept();
		}
		if (av_dir_sweep() == 1)
			remove_everything();
		(void)av_dir_record_lock(F_OFD_SETLK, F_UNLCK, LOCK_CHANGE);
	}
	pthread_mutex_unlock(&mutex);
}

/* --- contexts -------------------------------------------------------------------- */

static struct av_dir_context *free_context_slot(uint32_t *slot)
{
	for (uint32_t i = 0; i < AV_REF_SLOTS; i++) {
		if (atomic_load(&av_dir->context[i].ref) == 0) {
			*slot = i;
			return &av_dir->context[i];
		}
	}
	return NULL;
}

int av_dir_context_add(uint32_t *ref)
{
	struct av_dir_context *c;
	uint32_t slot, r;
	char name[32];
	int fd = -EUSERS;

	av_dir_change_begin();
	c = free_context_slot(&slot);
	if (!c && av_dir_sweep() > 0)
		c = free_context_slot(&slot);
	if (c) {
		av_dir_will_use(&av_dir->context_end, slot);
		r = next_ref(slot, &c->last);
		context_name(name, r);
		fd = av_folder_make(av_own_fd(&folder), name);
	}
	if (fd == -ENOENT)
		av_warn_once("%s was removed while in use: close all devices, then open them again",
			     path);
	if (fd >= 0) {
		c->qps = 0;
		atomic_store(&c->proc, self);
		atomic_store(&c->ref, r);
		*ref = r;
	}
	av_dir_change_end();
	return fd;
}

void av_dir_context_remove(uint32_t ref)
{
	struct av_dir_context *c = &av_dir->context[AV_REF_SLOT(ref)];

	av_dir_change_begin();
	if (atomic_load(&c->ref) == ref)
		context_free(c);
	av_dir_change_end();
}

uint32_t av_dir_context_owner(uint32_t ref)
{
	struct av_dir_context *c;
	uint32_t proc;

	if (ref == 0 || !av_dir)
		return 0;
	c = &av_dir->context[AV_REF_SLOT(ref)];
	proc = atomic_load(&c->proc);
	return atomic_load(&c->ref) == ref ? proc : 0;
}

uint32_t av_dir_context_at(uint32_t *slot)
{
	while (*slot < av_dir_rows(&av_dir->context_end, AV_REF_SLOTS)) {
		uint32_t ref = atomic_load(&av_dir->context[(*slot)++].ref);

		if (ref)
			return ref;
	}
	return 0;
}

int av_dir_context_open(uint32_t ref)
{
	char name[32];
	int fd;

	context_name(name, ref);
	fd = openat(av_own_fd(&folder), name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

bool av_dir_context_path(uint32_t ref, char *name, size_t size)
{
	return snprintf(name, size, "%s/" AV_CONTEXT_NAME, path, AV_CONTEXT_NAME_OF(ref)) <
	       (int)size;
}

void av_dir_context_set_memory(uint32_t ref, int number, uint64_t ino)
{
	struct av_dir_context *c = &av_dir->context[AV_REF_SLOT(ref)];

	atomic_store(&c->memory_number, number);
	atomic_store(&c->memory_ino, ino);
}

struct av_dir_memory av_dir_context_memory(const struct av_dir_file *d, uint32_t ref)
{
	const struct av_dir_context *c = &d->context[AV_REF_SLOT(ref)];
	uint32_t proc = atomic_load(&c->proc);
	const struct av_dir_proc *p = &d->proc[AV_REF_SLOT(proc)];
	struct av_dir_memory memory = {
		.pid = atomic_load(&p->pid),
		.number = atomic_load(&c->memory_number),
		.ino = atomic_load(&c->memory_ino),
	};

	if (atomic_load(&p->ref) != proc || atomic_load(&c->ref) != ref)
		memory.ino = 0;
	return memory;
}

struct av_lock *av_dir_atomic_lock(uint32_t owner, uint64_t addr)
{
	uint64_t h = addr / AV_ATOMIC_BLOCK * 0x9e3779b97f4a7c15ull;

	return &av_dir->atomic[AV_REF_SLOT(owner)][(h >> 32) % AV_ATOMIC_STRIPES];
}
