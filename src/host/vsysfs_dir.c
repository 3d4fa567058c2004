/* SPDX-License-Identifier: MIT */
#include <unistd.h>

#include "base/thread.h"
#include "host/vsysfs.h"

/*
 * A virtual directory as the current directory. The kernel's is then an empty one that the library
 * made and removed, named by the virtual path, as /proc still shows. So children and executed
 * programs are in the same place, no directory stays behind, and creating a file by a relative path
 * fails, as in the kernel's own sysfs.
 */

#define MARK	   "anyverbs-cwd-"
#define DELETED	   " (deleted)"
#define SLASH	   '%' /* in the name; no name of the tree has one */
#define NAME_BYTES (AV_VSYSFS_PATH_BYTES + 64)

AV_LIBC_NEXT(int, chdir, (const char *));
AV_LIBC_NEXT(DIR *, opendir, (const char *));
AV_LIBC_NEXT(struct dirent *, readdir, (DIR *));
AV_LIBC_NEXT(int, closedir, (DIR *));

atomic_uint av_vlibc_cwd_seen;

static void invalidate_cwd_seen(void)
{
	unsigned int seen = atomic_load(&av_vlibc_cwd_seen);

	while (!atomic_compare_exchange_weak(&av_vlibc_cwd_seen, &seen,
					     (seen + 2) & ~AV_VLIBC_CWD_REAL))
		;
}

static bool parse_cwd_link(char *link, size_t len, char path[AV_VSYSFS_PATH_BYTES])
{
	const char *name, *from;
	size_t i;

	if (len <= strlen(DELETED))
		return false;
	len -= strlen(DELETED);
	if (memcmp(link + len, DELETED, strlen(DELETED)) != 0)
		return false;
	link[len] = '\0';
	name = strrchr(link, '/');
	if (!name || strncmp(name + 1, MARK, strlen(MARK)) != 0)
		return false;
	from = strchr(name, SLASH);
	if (!from || strlen(from) >= AV_VSYSFS_PATH_BYTES)
		return false;
	for (i = 0; from[i]; i++)
		path[i] = from[i] == SLASH ? '/' : from[i];
	path[i] = '\0';
	return true;
}

bool av_vlibc_cwd(char path[AV_VSYSFS_PATH_BYTES])
{
	unsigned int seen = atomic_load(&av_vlibc_cwd_seen);
	char link[NAME_BYTES];
	AV_ERRNO_KEPT;
	ssize_t len;

	if (seen & AV_VLIBC_CWD_REAL)
		return false;
	len = av_next_readlink()("/proc/thread-self/cwd", link, sizeof(link) - 1);
	if (len > 0 && parse_cwd_link(link, (size_t)len, path))
		return true;
	/* It is real, if nobody has changed it since. */
	atomic_compare_exchange_strong(&av_vlibc_cwd_seen, &seen, seen | AV_VLIBC_CWD_REAL);
	return false;
}

bool av_vlibc_cwd_is_virtual(void)
{
	char path[AV_VSYSFS_PATH_BYTES];

	return av_vlibc_cwd(path);
}

/* Return: 0, or -1 and errno. */
static int enter_below(const char *base, const struct av_vsysfs_node *node)
{
	char name[NAME_BYTES];
	int len = snprintf(name, sizeof(name), "%s/" MARK "%d-%d", base, getpid(), gettid()), ret;
	size_t i;

	for (i = 0; node->path[i]; i++)
		name[(size_t)len + i] = node->path[i] == '/' ? SLASH : node->path[i];
	name[(size_t)len + i] = '\0';
	if (mkdir(name, 0700))
		return -1;
	ret = av_next_chdir()(name);
	(void)rmdir(name);
	return ret;
}

static int chdir_vsysfs(const struct av_vsysfs_node *node)
{
	static const char *const bases[] = {"/dev/shm", "/tmp"};
	char path[AV_VSYSFS_PATH_BYTES];
	int saved = errno;

	if (node->kind != AV_VSYSFS_DIR)
		return av_vlibc_fail(ENOTDIR);
	if (av_next_readlink()("/proc/thread-self/cwd", path, sizeof(path)) < 0)
		return av_vlibc_fail(ENOENT); /* nobody could tell where we are */
	for (size_t i = 0; i < AV_ARRAY_SIZE(bases); i++) {
		if (enter_below(bases[i], node))
			continue;
		invalidate_cwd_seen();
		errno = saved;
		return 0;
	}
	return av_vlibc_fail(EACCES);
}

AV_LIBC_PATH(int, chdir, (const char *path), (path), AT_FDCWD, AV_VLIBC_FOLLOW | AV_VLIBC_UNION, -1,
	     chdir_vsysfs(node))

AV_LIBC(int, fchdir, (int fd))
{
	struct av_vsysfs_node node;

	if (av_vlibc_fd_suspects() && av_vlibc_node_of_fd(fd, &node))
		return chdir_vsysfs(&node);
	return av_next_fchdir()(fd);
}

/* @found: what the C library found: nothing, if the directory was removed. */
static char *getcwd_found(char *found, char *buffer, size_t size, int saved)
{
	char path[AV_VSYSFS_PATH_BYTES];

	if (av_likely(found) || errno != ENOENT || !av_vlibc_cwd(path))
		return found;
	if (buffer ? size <= strlen(path) : size && size <= strlen(path))
		return av_vlibc_fail_null(ERANGE);
	errno = saved;
	if (!buffer)
		buffer = malloc(size ? size : strlen(path) + 1);
	return buffer ? memcpy(buffer, path, strlen(path) + 1) : NULL;
}

AV_LIBC(char *, getcwd, (char *buffer, size_t size))
{
	int saved = errno;

	return getcwd_found(av_next_getcwd()(buffer, size), buffer, size, saved);
}

AV_LIBC(char *, __getcwd_chk, (char *buffer, size_t size, size_t room))
{
	int saved = errno;

	return getcwd_found(av_next___getcwd_chk()(buffer, size, room), buffer, size, saved);
}

AV_LIBC(char *, get_current_dir_name, (void))
{
	int saved = errno;

	return getcwd_found(av_next_get_current_dir_name()(), NULL, 0, saved);
}

/* Reading directories: opening and rewinding make the list of our entries and the kernel's. */

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

static bool is_entry_listed(const struct listing *listing, const char *name)
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
		if (!is_entry_listed(listing, entry->d_name))
			add_entry(listing, entry->d_name, entry->d_ino, entry->d_type);
	av_next_closedir()(dir);
}

static void add_dots(struct listing *listing)
{
	char parent[AV_VSYSFS_PATH_BYTES];
	struct stat st;

	if (!is_entry_listed(listing, "."))
		add_entry(listing, ".", av_vsysfs_ino(listing->path), DT_DIR);
	if (is_entry_listed(listing, ".."))
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
	int fd = av_vlibc_open_node(node, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir;

	if (fd < 0)
		return NULL;
	dir = create_stream(node, fd);
	if (!dir) {
		AV_ERRNO_KEPT;
		close(fd);
	}
	return dir;
}

AV_LIBC_PATH(DIR *, opendir, (const char *path), (path), AT_FDCWD, AV_VLIBC_FOLLOW | AV_VLIBC_UNION,
	     NULL, opendir_node(node))

AV_LIBC(DIR *, fdopendir, (int fd))
{
	struct av_vsysfs_node node;

	if (!av_vlibc_fd_suspects() || !av_vlibc_node_of_fd(fd, &node))
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

/* NULL at the end. Keeps errno. */
static struct dirent *next_entry(struct stream *stream)
{
	if (stream->next >= stream->listing.count)
		return NULL;
	return &stream->listing.entries[stream->next++];
}

static int copy_next_entry(struct stream *stream, struct dirent *entry, struct dirent **result)
{
	struct dirent *found = next_entry(stream);

	/* The caller's buffer may end right after the longest name. */
	if (found)
		memcpy(entry, found, offsetof(struct dirent, d_name) + strlen(found->d_name) + 1);
	*result = found ? entry : NULL;
	return 0;
}

static void rewind_stream(struct stream *stream)
{
	struct listing fresh;

	stream->next = 0;
	if (make_listing(&stream->node, &fresh))
		return; /* keep the old listing */
	free_listing(&stream->listing);
	stream->listing = fresh;
}

/* Defines the hook of a function with a parameter @dir: @answer, if that is a @stream of ours. */
/* NOLINTBEGIN(bugprone-macro-parentheses): @args has its own */
#define DIR_HOOK(result, name, params, args, answer)                          \
	AV_LIBC(result, name, params)                                         \
	{                                                                     \
		struct stream *stream = stream_of(dir);                       \
                                                                              \
		return av_likely(!stream) ? av_next_##name() args : (answer); \
	}
/* NOLINTEND(bugprone-macro-parentheses) */

DIR_HOOK(int, closedir, (DIR * dir), (dir), close_stream(stream))
DIR_HOOK(struct dirent *, readdir, (DIR * dir), (dir), next_entry(stream))
DIR_HOOK(int, readdir_r, (DIR * dir, struct dirent *entry, struct dirent **result),
	 (dir, entry, result), copy_next_entry(stream, entry, result))
DIR_HOOK(void, rewinddir, (DIR * dir), (dir), rewind_stream(stream))
DIR_HOOK(long, telldir, (DIR * dir), (dir), (long)stream->next)
/* A negative position is beyond the end. */
DIR_HOOK(void, seekdir, (DIR * dir, long position), (dir, position),
	 (void)(stream->next = (size_t)position))
DIR_HOOK(int, dirfd, (DIR * dir), (dir), stream->fd)

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

static int scandir_node(const struct av_vsysfs_node *node, struct dirent ***result,
			av_vlibc_filter *filter, av_vlibc_compare *compare)
{
	struct listing listing;
	int count, err = node->kind == AV_VSYSFS_DIR ? make_listing(node, &listing) : ENOTDIR;

	if (err)
		return av_vlibc_fail(err);
	count = copy_entries(&listing, result, filter);
	free_listing(&listing);
	if (count > 0 && compare)
		qsort(*result, (size_t)count, sizeof(**result),
		      (int (*)(const void *, const void *))compare);
	return count;
}

AV_LIBC_PATH(int, scandirat,
	     (int dirfd, const char *path, struct dirent ***result, av_vlibc_filter *filter,
	      av_vlibc_compare *compare),
	     (dirfd, path, result, filter, compare), dirfd, AV_VLIBC_FOLLOW | AV_VLIBC_UNION, -1,
	     scandir_node(node, result, filter, compare))

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
