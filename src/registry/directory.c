/* SPDX-License-Identifier: MIT */
#include "registry/directory.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/random.h"
#include "base/real_calls.h"
#include "base/thread.h"
#include "observe/flight.h"
#include "registry/tables.h"

#define LOCK_CHANGE 0	      /* byte that is locked during a change of the directory */
#define SOON_NS	    20000000u /* long for a change, on a busy machine, too */
#define FILE_NAME   "directory"

/* @mutex guards all of these. Only *@av_dir is read without it, and only while joined. */
static pthread_mutex_t mutex = AV_EXIT_MUTEX;
struct av_dir_file *av_dir;
av_dir_count *av_dir_count_context;
static struct av_own_fd dir_file = {.fd = -1};
static struct av_own_fd folder = {.fd = -1}; /* the folder it is in */
static uint32_t self;
static unsigned int joins;
static char path[256];

int av_dir_folder(void)
{
	return av_own_fd(&folder);
}

const char *av_dir_path(void)
{
	return path;
}

/* --- record locks, of the open file ------------------------------------------------ */

/* As av_dir_record_lock(), for any file and range. */
static int record_lock(int fd, int cmd, short type, off_t first, off_t count)
{
	struct flock fl = {.l_type = type, .l_whence = SEEK_SET, .l_start = first, .l_len = count};
	int ret;

	do
		ret = fcntl(fd, cmd, &fl);
	while (ret < 0 && errno == EINTR);
	return ret < 0 ? -errno : cmd == F_OFD_GETLK && fl.l_type != F_UNLCK;
}

int av_dir_record_lock(int cmd, short type, off_t byte)
{
	return record_lock(av_own_fd(&dir_file), cmd, type, byte, 1);
}

/* Lock the bytes of all slots: nobody lives, and nobody can join. Return: false: somebody lives */
static bool lock_all_slots(void)
{
	return record_lock(av_own_fd(&dir_file), F_OFD_SETLK, F_WRLCK, AV_DIR_LOCK_SLOT(0),
			   AV_REF_SLOTS) == 0;
}

/* Does another process hold all slots? */
static bool is_being_removed(void)
{
	struct flock fl = {.l_type = F_WRLCK,
			   .l_whence = SEEK_SET,
			   .l_start = AV_DIR_LOCK_SLOT(AV_REF_SLOTS - 1),
			   .l_len = 1};

	return fcntl(av_own_fd(&dir_file), F_OFD_GETLK, &fl) == 0 && fl.l_type != F_UNLCK &&
	       fl.l_start <= AV_DIR_LOCK_SLOT(0);
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
	char name[sizeof(path) + sizeof("/" FILE_NAME)];

	av_warn_once("the program has closed descriptors of this library in %s", path);
	snprintf(name, sizeof(name), "%s/" FILE_NAME, path);
	open_again(&folder, path, O_RDONLY | O_DIRECTORY);
	open_again(&dir_file, name, O_RDWR);
}

/*
 * Context: the mutex is held. Without the file, which nobody can join then either, changes are made
 * without the lock. Return: false: another process has it
 */
static bool lock_change(void)
{
	int ret;

	if (joins && (av_own_fd(&dir_file) < 0 || av_own_fd(&folder) < 0))
		recover();
	ret = av_dir_record_lock(F_OFD_SETLK, F_WRLCK, LOCK_CHANGE);
	return ret != -EAGAIN && ret != -EACCES;
}

/* The mutex is free while this sleeps, for threads that do not need the lock. */
static bool change_begin(uint64_t timeout_ns)
{
	AV_UNCANCELLED;
	struct timespec nap = {.tv_nsec = 20000};
	uint64_t until = av_now_coarse_ns() + timeout_ns;

	pthread_mutex_lock(&mutex);
	while (!lock_change()) {
		pthread_mutex_unlock(&mutex);
		if (av_now_coarse_ns() >= until)
			return false;
		nanosleep(&nap, NULL);
		if (nap.tv_nsec < 1000000)
			nap.tv_nsec *= 2;
		pthread_mutex_lock(&mutex);
	}
	return true;
}

int av_dir_change_begin(void)
{
	return change_begin(AV_PEER_TIMEOUT_NS) ? 0 : -EBUSY;
}

bool av_dir_change_soon(void)
{
	return change_begin(SOON_NS);
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

uint32_t av_dir_proc_at(uint32_t slot)
{
	return slot < AV_REF_SLOTS ? atomic_load(&av_dir->proc[slot].ref) : 0;
}

pid_t av_dir_proc_pid(uint32_t proc)
{
	const struct av_dir_proc *p = &av_dir->proc[AV_REF_SLOT(proc)];
	pid_t pid = atomic_load(&p->pid);

	return atomic_load(&p->ref) == proc ? pid : 0;
}

/* --- the mapping ------------------------------------------------------------------ */

/*
 * The mapping holds the open file, too, with the parent's locks: map the file anew, opened once
 * more. Objects of the parent's point there. Without the file they point to memory of nobody.
 */
static void map_anew(void)
{
	int fd AV_CLOSED = openat(av_own_fd(&folder), FILE_NAME, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	const int both = PROT_READ | PROT_WRITE;
	void *p = MAP_FAILED;
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == dir_file.dev &&
	    st.st_ino == dir_file.ino)
		p = av_mmap(av_dir, sizeof(*av_dir), both, MAP_SHARED | MAP_FIXED, fd, 0);
	if (p == MAP_FAILED)
		(void)!av_mmap(av_dir, sizeof(*av_dir), both,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static void reset_directory_in_child(void)
{
	AV_ERRNO_KEPT;

	/* A thread that is not here may hold the mutex. */
	av_exit_mutex_forked(&mutex);
	if (av_dir)
		map_anew();
	av_own_fd_close(&dir_file); /* the parent's locks are to end with the parent */
	av_lock_order_forked();
	av_flight_forked();
	av_page_users_forked();
	if (joins) {
		joins = 0;
		self = 0;
		av_lock_self = UINT32_MAX; /* counts as dead everywhere */
	}
}

static const struct av_fork_handlers fork_handlers = {.child = reset_directory_in_child};

static void close_all(void)
{
	struct av_dir_file *d = av_dir;

	av_flight_leave();
	/* Before other memory may be there: a child that is forked now maps it anew. */
	av_dir = NULL;
	if (d)
		av_munmap(d, sizeof(*d));
	av_own_fd_close(&dir_file);
	av_own_fd_close(&folder);
}

/* Is this a directory of this build, with counts within its tables? */
static bool dir_is_sound(const struct av_dir_file *d)
{
	return d->magic == AV_DIR_MAGIC && d->layout == av_layout &&
	       atomic_load(&d->proc_end) <= AV_REF_SLOTS &&
	       atomic_load(&d->context_end) <= AV_REF_SLOTS &&
	       atomic_load(&d->device_end) <= AV_DIR_DEVICES &&
	       atomic_load(&d->port_end) <= AV_DIR_PORTS &&
	       atomic_load(&d->capture_end) <= AV_CAPTURES &&
	       atomic_load(&d->member_end) <= AV_MAX_MCAST_ATTACH;
}

/* @d: out. Return: 0 or -errno; -EPROTO: it is damaged, or no file */
static int map_directory_file(int fd, int prot, struct av_dir_file **d)
{
	struct stat st;
	void *p;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(**d))
		return -EPROTO;
	p = av_mmap(NULL, sizeof(**d), prot, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	if (!dir_is_sound(p)) {
		av_munmap(p, sizeof(**d));
		return -EPROTO;
	}
	*d = p;
	return 0;
}

/* --- the directory, read by a process that need not have joined it ----------------- */

/* Not joined. Without a directory, map an empty one, with what its devices have counted. */
static bool map_unjoined(struct av_dir_view *view)
{
	char name[256];
	struct av_dir_file *d;
	int dir AV_CLOSED = av_folder_find(name, sizeof(name));

	if (dir < 0)
		return false;
	/* To ask for a write lock needs O_RDWR. */
	view->fd = openat(dir, FILE_NAME, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (view->fd >= 0 && map_directory_file(view->fd, PROT_READ, &d) == 0) {
		view->dir = d;
		return true;
	}
	if (view->fd >= 0)
		close(view->fd);
	view->fd = -1;
	d = av_mmap(NULL, sizeof(*d), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (d == MAP_FAILED)
		return false;
	view->dir = d;
	if (av_dir_counts_load(name, d))
		return true;
	av_munmap(d, sizeof(*d));
	return false;
}

bool av_dir_view(struct av_dir_view *view)
{
	av_dir_hold();
	*view = (struct av_dir_view){.dir = av_dir, .fd = -1};
	if (av_dir || map_unjoined(view))
		return true;
	av_dir_release();
	return false;
}

void av_dir_view_end(struct av_dir_view *view)
{
	if (view->dir != av_dir)
		av_munmap((void *)(uintptr_t)view->dir, sizeof(struct av_dir_file));
	if (view->fd >= 0)
		close(view->fd);
	av_dir_release();
}

bool av_dir_view_knows(const struct av_dir_view *view, uint32_t proc)
{
	off_t byte = AV_DIR_LOCK_SLOT(AV_REF_SLOT(proc));

	if (proc == 0 || atomic_load(&view->dir->proc[AV_REF_SLOT(proc)].ref) != proc)
		return false;
	return view->fd < 0 ? av_dir_proc_alive(proc)
			    : record_lock(view->fd, F_OFD_GETLK, F_WRLCK, byte, 1) == 1;
}

bool av_dir_view_lives(const struct av_dir_view *view, uint32_t slot)
{
	return av_dir_view_knows(view, atomic_load(&view->dir->context[slot].proc));
}

/* --- making the file -------------------------------------------------------------- */

/* What is there, and cannot be read now, would be written over when the last process leaves. */
static int load_counts(struct av_dir_file *d)
{
	AV_ERRNO_KEPT;
	int ret = 0;

	errno = 0;
	if (!av_dir_counts_load(path, d) && (errno == EMFILE || errno == ENFILE))
		ret = -errno;
	return ret;
}

/* Begin anywhere: directories of one network, as of containers, hardly ever share numbers. */
static void choose_numbers(struct av_dir_file *d)
{
	uint64_t seed = av_random();

	d->qpn_cursor = AV_DIR_QPN_FIRST + (uint32_t)seed % (AV_DIR_QPNS - 1 - AV_DIR_QPN_FIRST);
	d->qpn_tag = (uint32_t)(seed >> 32);
}

/* Give it its size and its pages now, so that no later access finds the file system full. */
static int fill_file(int fd)
{
	int ret = av_file_may_have(fd, sizeof(struct av_dir_file));
	struct av_dir_file *d;

	if (ret == 0)
		ret = av_file_back(fd, 0, sizeof(*d));
	if (ret == -ENOSPC)
		av_folder_full(fd, sizeof(*d), ENOSPC);
	if (ret)
		return ret;
	d = av_mmap(NULL, sizeof(*d), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (d == MAP_FAILED)
		return -errno;
	d->layout = av_layout;
	d->magic = AV_DIR_MAGIC;
	choose_numbers(d);
	ret = load_counts(d);
	av_munmap(d, sizeof(*d));
	return ret;
}

/*
 * It has a name of its own until it is complete, so nobody sees a part of one, whenever its maker
 * dies. Return: 0: there is one, perhaps another process's; or -errno
 */
static int create_directory_file(void)
{
	char name[32];
	int fd AV_CLOSED = -1, ret;

	snprintf(name, sizeof(name), AV_FOLDER_NEW "%016llx", (unsigned long long)av_random());
	fd = openat(folder.fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return errno == ENOENT ? -EAGAIN : -errno;
	av_folder_rights(folder.fd, name, 0600);
	ret = fill_file(fd);
	if (ret == 0 && linkat(folder.fd, name, folder.fd, FILE_NAME, 0))
		ret = errno == EEXIST ? 0 : errno == ENOENT ? -EAGAIN : -errno;
	unlinkat(folder.fd, name, 0);
	if (ret == 0)
		av_folder_sweep();
	return ret;
}

/* Return: 0 or -errno; -EAGAIN: just made, or removed meanwhile; -EPROTO: damaged, or no file */
static int open_directory_file(void)
{
	const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
	int fd = av_folder_open(path, sizeof(path));
	int ret;

	if (fd < 0)
		return fd;
	if (!av_own_fd_keep(&folder, fd))
		return -errno;
	fd = openat(folder.fd, FILE_NAME, flags);
	if (fd < 0 && errno == ENOENT) {
		ret = create_directory_file();
		return ret ? ret : -EAGAIN;
	}
	if (fd < 0 && (errno == ELOOP || errno == EISDIR || errno == ENXIO))
		return -EPROTO;
	if (!av_own_fd_keep(&dir_file, fd))
		return -errno;
	return map_directory_file(dir_file.fd, PROT_READ | PROT_WRITE, &av_dir);
}

/* Does the folder's path still lead to it? */
static bool is_in_place(void)
{
	struct stat a, b;

	return fstat(av_own_fd(&folder), &a) == 0 && lstat(path, &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

/*
 * Rename the folder, so that a process can make a new one; who has it open continues in it. @why,
 * for the warning: it is ... Return: -EAGAIN: done, or about to be, by anybody; or other -errno
 */
static int set_aside(const char *why)
{
	char aside[PATH_MAX];

	if (flock(folder.fd, LOCK_EX | LOCK_NB)) /* one at a time; until it is closed */
		return -errno;
	if (!is_in_place())
		return -EAGAIN;
	if (snprintf(aside, sizeof(aside), "%s" AV_FOLDER_ASIDE "%016llx", path,
		     (unsigned long long)av_random()) >= (int)sizeof(aside))
		return -ENAMETOOLONG;
	if (rename(path, aside))
		return -errno;
	av_warn_once("%s is %s; it is %s now, and a new one is made", path, why, aside);
	return -EAGAIN;
}

/* --- joining ---------------------------------------------------------------------- */

/* The slot whose lock this process gets, or AV_REF_SLOTS. @any: of a dead process, too */
static uint32_t lock_slot(bool any)
{
	uint32_t slot;

	for (slot = 0; slot < AV_REF_SLOTS; slot++)
		if ((any || atomic_load(&av_dir->proc[slot].ref) == 0) &&
		    av_dir_record_lock(F_OFD_SETLK, F_WRLCK, AV_DIR_LOCK_SLOT(slot)) == 0)
			break;
	return slot;
}

/* Return: 0; -EAGAIN: the file has been removed; -EBUSY: it is being removed; -EUSERS */
static int take_slot(void)
{
	struct av_dir_proc *p;
	struct stat st;
	uint32_t slot;

	if (is_being_removed())
		return -EBUSY;
	slot = lock_slot(false);
	if (slot == AV_REF_SLOTS)
		slot = lock_slot(true);
	if (slot == AV_REF_SLOTS)
		return is_being_removed() ? -EBUSY : -EUSERS;
	/* With that lock, nobody removes it any more. */
	if (fstat(dir_file.fd, &st) || st.st_nlink == 0 || !is_in_place())
		return -EAGAIN;
	p = &av_dir->proc[slot];
	av_dir_will_use(&av_dir->proc_end, slot);
	self = av_dir_next_ref(slot, &p->last);
	atomic_store(&p->pid, getpid());
	atomic_store(&p->qpn, 0);
	atomic_store(&p->ref, self);
	return 0;
}

/* Another process has been removing the directory since @since: removals take no time. */
static int wait_for_removal(uint64_t *since)
{
	const struct timespec nap = {.tv_nsec = 1000000};
	uint64_t now = av_now_coarse_ns();

	if (*since == 0)
		*since = now;
	if (now - *since < SOON_NS) {
		nanosleep(&nap, NULL);
		return -EAGAIN;
	}
	return set_aside("being removed by a process that is stopped");
}

/* Try once. Return: 0 or -errno; -EAGAIN: try again */
static int join_once(uint64_t *removed_since)
{
	int ret;

	close_all(); /* in a forked child, what is left of the parent's */
	ret = open_directory_file();
	if (ret == -EPROTO)
		return set_aside("damaged");
	if (ret == 0)
		ret = take_slot();
	return ret == -EBUSY ? wait_for_removal(removed_since) : ret;
}

static int join_first(av_dir_count *count)
{
	AV_UNCANCELLED;
	uint64_t removed_since = 0, until = 0;
	int ret;

	av_dir_count_context = count;
	do
		ret = join_once(&removed_since);
	while (ret == -EAGAIN && !av_timed_out(&until));
	if (ret) {
		if (av_own_fd(&folder) >= 0)
			rmdir(path); /* which may have been made for this */
		close_all();
		return ret == -EAGAIN ? -EBUSY : ret;
	}
	av_flight_join(av_own_fd(&folder));
	av_lock_self = self;
	av_lock_owner_alive = av_dir_proc_alive;
	return 0;
}

int av_dir_join(av_dir_count *count)
{
	bool first;
	int ret = 0;

	if (av_fork_register(AV_FORK_DIRECTORY, &fork_handlers))
		return -ENOMEM;
	pthread_mutex_lock(&mutex);
	first = joins == 0;
	if (first)
		ret = join_first(count);
	if (ret == 0)
		joins++;
	pthread_mutex_unlock(&mutex);
	if (first && ret == 0)
		av_dir_sweep_soon();
	return ret;
}

bool av_dir_join_again(void)
{
	AV_LOCKED(&mutex);
	joins += joins > 0;
	return joins > 0;
}

/* --- leaving ---------------------------------------------------------------------- */

/* Who opens the file after the unlink makes a new one; who opened it before sees nlink 0. */
static void remove_everything(void)
{
	if (is_in_place()) /* else it has been set aside */
		av_dir_counts_keep(path, av_dir);
	av_folder_clear(av_own_fd(&folder)); /* left by processes that died */
	av_flight_forget(av_own_fd(&folder));
	unlinkat(av_own_fd(&folder), FILE_NAME, 0);
	rmdir(path);
}

/* The own slot is free before all are locked: of several that leave at once, the last succeeds. */
static void leave_last(void)
{
	uint32_t slot = AV_REF_SLOT(self);

	atomic_store(&av_dir->proc[slot].ref, 0);
	(void)av_dir_record_lock(F_OFD_SETLK, F_UNLCK, AV_DIR_LOCK_SLOT(slot));
	if (lock_all_slots()) {
		av_dir_sweep(); /* who has died just now has counted, too */
		remove_everything();
	}
	self = 0;
	close_all(); /* this drops the locks */
}

void av_dir_leave(void)
{
	bool last;

	pthread_mutex_lock(&mutex);
	last = joins == 1;
	pthread_mutex_unlock(&mutex);
	if (last)
		av_dir_sweep_soon();
	AV_LOCKED(&mutex);
	if (joins > 0 && --joins == 0)
		leave_last();
}

/*
 * Threads of this process may still run and hold queue pair locks, which peers would take over if
 * it were declared dead. The kernel drops the record lock when it really ends.
 */
void av_dir_abandon(void)
{
	if (!av_exit_lock(&mutex))
		return; /* the next process sweeps */
	if (joins > 0) {
		bool alone = lock_all_slots();

		if (lock_change()) {
			av_dir_contexts_end(self, false);
			av_dir_sweep();
			(void)av_dir_record_lock(F_OFD_SETLK, F_UNLCK, LOCK_CHANGE);
		}
		if (alone)
			remove_everything();
	}
	pthread_mutex_unlock(&mutex);
}

/* --- locks of atomics ------------------------------------------------------------- */

struct av_dir_stripe *av_dir_stripe(uint32_t owner, uint64_t addr)
{
	uint64_t h = addr / AV_ATOMIC_BLOCK * 0x9e3779b97f4a7c15ull;

	return &av_dir->atomic[AV_REF_SLOT(owner)][(h >> 32) % AV_ATOMIC_STRIPES];
}
