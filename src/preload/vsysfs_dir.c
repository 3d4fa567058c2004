/* SPDX-License-Identifier: MIT */
/* Reading directories: opening or rewinding lists our entries and the kernel's, if any. */
#include "preload/vsysfs_libc.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/uncancelled.h"

/* DIR is opaque. The C library's begins with its descriptor, which is never negative. */
#define OUR_MARK   INT_MIN
#define OUR_MARK_2 0x616e797665726273u

struct stream {
	int mark;	 /* OUR_MARK */
	int fd;		 /* owned; for dirfd() */
	uint64_t mark_2; /* OUR_MARK_2 */
	struct av_vsysfs_node node;
	struct listing {
		struct dirent *entries; /* owned */
		size_t count, room;
		const char *path; /* of the directory; used only while the listing is made */
		bool failed;	  /* out of memory */
	} listing;
	size_t next; /* index of the next entry */
};

/* Our stream behind @dir, or NULL if it is the C library's. */
static struct stream *stream_of(DIR *dir)
{
	struct stream *stream = (struct stream *)dir;
	bool other = !dir || stream->mark != OUR_MARK;

	return av_likely(other) || stream->mark_2 != OUR_MARK_2 ? NULL : stream;
}

static bool add_entry(struct listing *listing, const char *name, uint64_t ino, unsigned char type)
{
	size_t room = listing->room ? 2 * listing->room : 32;
	struct dirent *grown, *entry;

	if (listing->count == listing->room) {
		grown = reallocarray(listing->entries, room, sizeof(*grown));
		if (!grown) {
			listing->failed = true;
			return false;
		}
		listing->entries = grown;
		listing->room = room;
	}
	entry = &listing->entries[listing->count];
	memset(entry, 0, sizeof(*entry));
	entry->d_ino = ino;
	entry->d_off = (off_t)++listing->count;
	entry->d_reclen = sizeof(*entry);
	entry->d_type = type;
	snprintf(entry->d_name, sizeof(entry->d_name), "%s", name);
	return true;
}

static bool is_listed(const struct listing *listing, const char *name)
{
	for (size_t i = 0; i < listing->count; i++)
		if (!strcmp(listing->entries[i].d_name, name))
			return true;
	return false;
}

static bool add_ours(void *arg, const char *name, enum av_vsysfs_kind kind)
{
	static const unsigned char types[] = {
		[AV_VSYSFS_DIR] = DT_DIR,
		[AV_VSYSFS_FILE] = DT_REG,
		[AV_VSYSFS_LINK] = DT_LNK,
		[AV_VSYSFS_CHAR] = DT_CHR,
	};
	char path[AV_VSYSFS_PATH_BYTES + NAME_MAX];
	struct listing *listing = arg;

	snprintf(path, sizeof(path), "%s/%s", listing->path, name);
	return add_entry(listing, name, av_vsysfs_ino(path), types[kind]);
}

/* Add the kernel's entries, including "." and "..", if it has this directory. */
static void add_the_kernels(struct listing *listing)
{
	DIR *dir = av_next_opendir()(listing->path);
	struct dirent *entry;

	if (!dir)
		return;
	while (!listing->failed && (entry = av_next_readdir()(dir)) != NULL)
		if (!is_listed(listing, entry->d_name))
			add_entry(listing, entry->d_name, entry->d_ino, entry->d_type);
	av_next_closedir()(dir);
}

static void add_dots(struct listing *listing)
{
	char parent[AV_VSYSFS_PATH_BYTES];
	struct stat st;

	if (!is_listed(listing, "."))
		add_entry(listing, ".", av_vsysfs_ino(listing->path), DT_DIR);
	if (is_listed(listing, ".."))
		return;
	snprintf(parent, sizeof(parent), "%s", listing->path);
	*strrchr(parent, '/') = '\0';
	if (av_next_fstatat()(AT_FDCWD, parent, &st, AT_SYMLINK_NOFOLLOW)) /* it is ours */
		st.st_ino = av_vsysfs_ino(parent);
	add_entry(listing, "..", st.st_ino, DT_DIR);
}

static void free_listing(struct listing *listing)
{
	free(listing->entries);
	*listing = (struct listing){0};
}

/* Make a new listing. Return: 0, or ENOMEM with an empty listing. */
static int make_listing(const struct av_vsysfs_node *node, struct listing *listing)
{
	AV_UNCANCELLED;

	*listing = (struct listing){.path = node->path};
	av_vsysfs_list(node, add_ours, listing);
	if (node->shared)
		add_the_kernels(listing);
	add_dots(listing);
	if (!listing->failed)
		return 0;
	free_listing(listing);
	return ENOMEM;
}

/* Return: a stream that owns @fd; or NULL and errno, and the caller keeps @fd. */
static DIR *create_stream(const struct av_vsysfs_node *node, int fd)
{
	struct stream *stream = calloc(1, sizeof(*stream));
	int err;

	if (!stream)
		return av_vlibc_fail_null(ENOMEM);
	err = make_listing(node, &stream->listing);
	if (err) {
		free(stream);
		return av_vlibc_fail_null(err);
	}
	stream->mark = OUR_MARK;
	stream->mark_2 = OUR_MARK_2;
	stream->fd = fd;
	stream->node = *node;
	return (DIR *)stream;
}

static DIR *opendir_node(const struct av_vsysfs_node *node)
{
	AV_UNCANCELLED;
	int fd = av_vlibc_open_node(node, O_RDONLY | O_DIRECTORY | O_CLOEXEC), err;
	DIR *dir;

	if (fd < 0)
		return NULL;
	dir = create_stream(node, fd);
	if (!dir) {
		err = errno;
		close(fd);
		errno = err;
	}
	return dir;
}

static DIR *opendir_suspect(const char *path)
{
	struct av_vlibc_claim claim;

	if (!av_vlibc_claim_path(&path, AV_VLIBC_FOLLOW | AV_VLIBC_UNION, &claim))
		return av_next_opendir()(path);
	if (claim.error)
		return av_vlibc_fail_null(claim.error);
	return opendir_node(&claim.walk.node);
}

AV_LIBC(DIR *, opendir, (const char *path))
{
	if (av_unlikely(av_vlibc_suspects(AT_FDCWD, path)))
		return opendir_suspect(path);
	return av_next_opendir()(path);
}

AV_LIBC(DIR *, fdopendir, (int fd))
{
	struct av_vsysfs_node node;
	struct stat st;

	if (!atomic_load_explicit(&av_vlibc_handed_out, memory_order_relaxed) ||
	    av_next_fstat()(fd, &st) || !av_vlibc_node_of(fd, &st, &node))
		return av_next_fdopendir()(fd);
	if (node.kind != AV_VSYSFS_DIR)
		return av_vlibc_fail_null(ENOTDIR);
	fcntl(fd, F_SETFD, FD_CLOEXEC); /* as the C library does */
	return create_stream(&node, fd);
}

static int close_stream(struct stream *stream)
{
	AV_UNCANCELLED;
	int fd = stream->fd;

	free_listing(&stream->listing);
	stream->mark = 0;
	free(stream);
	return close(fd);
}

AV_LIBC(int, closedir, (DIR * dir))
{
	struct stream *stream = stream_of(dir);

	return av_likely(!stream) ? av_next_closedir()(dir) : close_stream(stream);
}

AV_LIBC(struct dirent *, readdir, (DIR * dir))
{
	struct stream *stream = stream_of(dir);

	if (av_likely(!stream))
		return av_next_readdir()(dir);
	if (stream->next >= stream->listing.count)
		return NULL;
	return &stream->listing.entries[stream->next++];
}

AV_LIBC(int, readdir_r, (DIR * dir, struct dirent *entry, struct dirent **result))
{
	struct stream *stream = stream_of(dir);
	struct dirent *found;

	if (av_likely(!stream))
		return av_next_readdir_r()(dir, entry, result);
	found = av_libc_readdir(dir);
	/* The caller's buffer may end right after the longest name. */
	if (found)
		memcpy(entry, found, offsetof(struct dirent, d_name) + strlen(found->d_name) + 1);
	*result = found ? entry : NULL;
	return 0;
}

AV_LIBC(void, rewinddir, (DIR * dir))
{
	struct stream *stream = stream_of(dir);
	struct listing fresh;

	if (av_likely(!stream)) {
		av_next_rewinddir()(dir);
		return;
	}
	stream->next = 0;
	if (make_listing(&stream->node, &fresh))
		return; /* keep the old listing */
	free_listing(&stream->listing);
	stream->listing = fresh;
}

AV_LIBC(long, telldir, (DIR * dir))
{
	struct stream *stream = stream_of(dir);

	return av_likely(!stream) ? av_next_telldir()(dir) : (long)stream->next;
}

AV_LIBC(void, seekdir, (DIR * dir, long position))
{
	struct stream *stream = stream_of(dir);

	if (av_likely(!stream))
		av_next_seekdir()(dir, position);
	else
		stream->next = (size_t)position; /* negative: beyond the end */
}

AV_LIBC(int, dirfd, (DIR * dir))
{
	struct stream *stream = stream_of(dir);

	return av_likely(!stream) ? av_next_dirfd()(dir) : stream->fd;
}

static void free_entries(struct dirent **entries, size_t count)
{
	while (count)
		free(entries[--count]);
	free(entries);
}

/* Each in memory of its own, as scandir(3) says. Return: their number, or -1 and errno. */
static int copy_entries(const struct listing *listing, struct dirent ***result,
			av_vlibc_filter *filter)
{
	struct dirent **copies = calloc(listing->count + 1, sizeof(*copies));
	size_t count = 0;

	if (!copies)
		return av_vlibc_fail(ENOMEM);
	for (size_t i = 0; i < listing->count; i++) {
		if (filter && !filter(&listing->entries[i]))
			continue;
		copies[count] = malloc(sizeof(*copies[count]));
		if (!copies[count]) {
			free_entries(copies, count);
			return av_vlibc_fail(ENOMEM);
		}
		*copies[count++] = listing->entries[i];
	}
	*result = copies;
	return (int)count;
}

static int scandir_suspect(int dirfd, const char *path, struct dirent ***result,
			   av_vlibc_filter *filter, av_vlibc_compare *compare)
{
	struct av_vlibc_claim claim;
	struct listing listing;
	int count, err;

	if (!av_vlibc_claim(&dirfd, &path, AV_VLIBC_FOLLOW | AV_VLIBC_UNION, &claim))
		return av_next_scandirat()(dirfd, path, result, filter, compare);
	if (!claim.error && claim.walk.node.kind != AV_VSYSFS_DIR)
		claim.error = ENOTDIR;
	if (claim.error)
		return av_vlibc_fail(claim.error);
	err = make_listing(&claim.walk.node, &listing);
	if (err)
		return av_vlibc_fail(err);
	count = copy_entries(&listing, result, filter);
	free_listing(&listing);
	if (count > 0 && compare)
		qsort(*result, (size_t)count, sizeof(**result),
		      (int (*)(const void *, const void *))compare);
	return count;
}

AV_LIBC(int, scandirat,
	(int dirfd, const char *path, struct dirent ***result, av_vlibc_filter *filter,
	 av_vlibc_compare *compare))
{
	if (av_unlikely(av_vlibc_suspects(dirfd, path)))
		return scandir_suspect(dirfd, path, result, filter, compare);
	return av_next_scandirat()(dirfd, path, result, filter, compare);
}

/* The C library's scandir() would call its own opendir() and readdir(), not ours. */
AV_LIBC(int, scandir,
	(const char *path, struct dirent ***result, av_vlibc_filter *filter,
	 av_vlibc_compare *compare))
{
	return av_libc_scandirat(AT_FDCWD, path, result, filter, compare);
}

AV_LIBC_ALIAS(readdir64, readdir);
AV_LIBC_ALIAS(readdir64_r, readdir_r);
AV_LIBC_ALIAS(scandir64, scandir);
AV_LIBC_ALIAS(scandirat64, scandirat);
