/* SPDX-License-Identifier: MIT */
/* The directory, read by a process that need not have joined it. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "registry/directory_file.h"
#include "base/map.h"
#include "registry/folder.h"

/* Map the directory if there is one. This process has not joined it. */
static bool map_unjoined(struct av_dir_view *view)
{
	char name[256];
	struct stat st;
	void *p = MAP_FAILED;
	int folder = av_folder_find(name, sizeof(name));

	if (folder < 0)
		return false;
	view->fd =
		openat(folder, "directory",
		       O_RDWR | O_CLOEXEC | O_NOFOLLOW); /* to ask for a write lock needs O_RDWR */
	close(folder);
	if (view->fd < 0)
		return false;
	if (fstat(view->fd, &st) == 0 &&
	    st.st_size >= (off_t)sizeof(struct av_dir_file)) /* else it is damaged */
		p = mmap(NULL, sizeof(struct av_dir_file), PROT_READ, MAP_SHARED, view->fd, 0);
	if (p != MAP_FAILED) {
		view->dir = p;
		if (av_dir_is_sound(view->dir))
			return true;
		av_munmap(p, sizeof(struct av_dir_file));
	}
	close(view->fd);
	return false;
}

/* There is no directory: an empty one, with what its devices have counted. */
static bool map_counts(struct av_dir_view *view)
{
	char name[256];
	int folder = av_folder_find(name, sizeof(name));
	struct av_dir_file *d = MAP_FAILED;

	if (folder < 0)
		return false;
	close(folder);
	d = av_mmap(NULL, sizeof(*d), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (d == MAP_FAILED)
		return false;
	*view = (struct av_dir_view){.dir = d, .fd = -1, .copy = true};
	if (av_dir_counts_load(name, d))
		return true;
	av_munmap(d, sizeof(*d));
	return false;
}

bool av_dir_view(struct av_dir_view *view)
{
	av_dir_hold();
	*view = (struct av_dir_view){.dir = av_dir, .fd = -1};
	if (av_dir || map_unjoined(view) || map_counts(view))
		return true;
	av_dir_release();
	return false;
}

void av_dir_view_end(struct av_dir_view *view)
{
	if (view->fd >= 0 || view->copy)
		av_munmap((void *)(uintptr_t)view->dir, sizeof(struct av_dir_file));
	if (view->fd >= 0)
		close(view->fd);
	av_dir_release();
}

bool av_dir_view_knows(const struct av_dir_view *view, uint32_t proc)
{
	const struct av_dir_proc *p = &view->dir->proc[AV_REF_SLOT(proc)];
	struct flock fl = {.l_type = F_WRLCK,
			   .l_whence = SEEK_SET,
			   .l_start = AV_DIR_LOCK_SLOT(AV_REF_SLOT(proc)),
			   .l_len = 1};

	if (proc == 0 || atomic_load(&p->ref) != proc)
		return false;
	if (view->fd < 0)
		return av_dir_proc_alive(proc);
	return fcntl(view->fd, F_OFD_GETLK, &fl) == 0 && fl.l_type != F_UNLCK;
}

bool av_dir_view_lives(const struct av_dir_view *view, uint32_t slot)
{
	return av_dir_view_knows(view, atomic_load(&view->dir->context[slot].proc));
}
