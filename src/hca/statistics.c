/* SPDX-License-Identifier: MIT */
/* Counters of devices and gauges of contexts. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hca/directory_file.h"
#include "hca/folder.h"

/* Index + 1 of a device, which gets a place if it has none and @add; 0: none. */
static uint32_t find_device(const struct av_dir_file *d, const char *name)
{
	for (uint32_t i = 0; i < AV_DIR_DEVICES; i++)
		if (strncmp(d->device[i].name, name, sizeof(d->device[i].name)) == 0)
			return i + 1;
	return 0;
}

static uint32_t device_place(const char *name)
{
	uint32_t place;

	av_dir_change_begin();
	place = find_device(av_dir, name);
	if (!place) {
		place = find_device(av_dir, "");
		if (place)
			snprintf(av_dir->device[place - 1].name, sizeof(av_dir->device[0].name), "%s", name);
	}
	av_dir_change_end();
	return place;
}

_Atomic uint64_t *av_dir_counters(const char *device)
{
	uint32_t place = device_place(device);

	return place ? av_dir->device[place - 1].counter : NULL;
}

_Atomic uint64_t *av_dir_gauges(uint32_t ref, const char *device)
{
	struct av_dir_context *c = &av_dir->context[AV_REF_SLOT(ref)];

	c->device = device_place(device);
	return c->gauge;
}

/* Does the process of a context live? @fd: a descriptor of the file, of a process that holds no lock on it.
 */
static bool lives(const struct av_dir_file *d, uint32_t slot, int fd)
{
	uint32_t proc = atomic_load(&d->context[slot].proc);
	struct flock fl = {.l_type = F_WRLCK,
			   .l_whence = SEEK_SET,
			   .l_start = AV_DIR_LOCK_SLOT(AV_REF_SLOT(proc)),
			   .l_len = 1};

	if (proc == 0)
		return false;
	if (fd < 0)
		return av_dir_proc_alive(proc);
	return fcntl(fd, F_GETLK, &fl) == 0 && fl.l_type != F_UNLCK;
}

static void read_from(const struct av_dir_file *d, int fd, const char *device, uint64_t *counters,
		      uint64_t *gauges)
{
	uint32_t place = find_device(d, device);

	if (!place)
		return;
	for (int i = 0; i < AV_DIR_COUNTERS; i++)
		counters[i] = atomic_load(&d->device[place - 1].counter[i]);
	for (uint32_t slot = 0; slot < AV_REF_SLOTS; slot++)
		if (d->context[slot].device == place && lives(d, slot, fd))
			for (int i = 0; i < AV_DIR_GAUGES; i++)
				gauges[i] += atomic_load(&d->context[slot].gauge[i]);
}

/* A directory that this process has not joined, if there is one. */
static void read_unjoined(const char *device, uint64_t *counters, uint64_t *gauges)
{
	char name[256];
	struct stat st;
	void *p = MAP_FAILED;
	int folder = av_folder_find(name, sizeof(name)), fd;

	if (folder < 0)
		return;
	fd = openat(folder, "directory",
		    O_RDWR | O_CLOEXEC | O_NOFOLLOW); /* F_GETLK of a write lock wants it writable */
	close(folder);
	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0 &&
	    st.st_size >= (off_t)sizeof(struct av_dir_file)) /* else it is being made */
		p = mmap(NULL, sizeof(struct av_dir_file), PROT_READ, MAP_SHARED, fd, 0);
	if (p != MAP_FAILED) {
		const struct av_dir_file *d = p;

		if (d->magic == AV_DIR_MAGIC && d->layout == AV_LAYOUT)
			read_from(d, fd, device, counters, gauges);
		munmap(p, sizeof(*d));
	}
	close(fd); /* no record lock goes with it: this process holds none while it has not joined */
}

void av_dir_read(const char *device, uint64_t counters[AV_DIR_COUNTERS], uint64_t gauges[AV_DIR_GAUGES])
{
	memset(counters, 0, AV_DIR_COUNTERS * sizeof(*counters));
	memset(gauges, 0, AV_DIR_GAUGES * sizeof(*gauges));
	av_dir_hold();
	if (av_dir)
		read_from(av_dir, -1, device, counters, gauges);
	else
		read_unjoined(device, counters, gauges);
	av_dir_release();
}
