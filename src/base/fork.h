/* SPDX-License-Identifier: MIT */
/*
 * What the library does around the program's fork(): one table, in the order of the locks.
 *
 * Before the fork the rows run from the first to the last, so that a lock which is held over others
 * is taken before them; after it they run from the last to the first, in the parent and in the
 * child. A handler cannot fail: nothing of ours stands between a program and its fork().
 */
#ifndef AV_BASE_FORK_H
#define AV_BASE_FORK_H

enum av_fork_row {
	AV_FORK_DEVICE_LIST,	 /* its mutex is held over a call of the system's library */
	AV_FORK_PORT_WATCH,	 /* its mutex is held while a thread starts or ends */
	AV_FORK_CAPTURE_SETTING, /* its mutex is held while the directory is looked at */
	AV_FORK_DIRECTORY,	 /* its mutex is held while files are locked */
	AV_FORK_PAGE_USERS,	 /* the directory's mutex guards it */
	/* What keeps books takes the locks of nobody but those below. */
	AV_FORK_CONTEXTS,
	AV_FORK_SEGMENTS,
	AV_FORK_BUFFERS,
	AV_FORK_GUARDED_RANGES,
	AV_FORK_ODP_NOTIFY,
	AV_FORK_ODP_PREFETCH,
	AV_FORK_ADOPTED,      /* its mutex is held while pages move: */
	AV_FORK_SHARED_HEAP,  /* as do those of the shared heap, whose lock is taken */
	AV_FORK_PAGE_MOVE,    /* so that this one is taken under it */
	AV_FORK_CAPTURE_FILE, /* taken by whoever executes a request */
	/* No locks. */
	AV_FORK_THREADS,
	AV_FORK_N
};

struct av_fork_handlers { /* NULL: nothing to do */
	void (*prepare)(void);
	void (*parent)(void); /* if @prepare ran, in the same thread; also if the fork failed */
	void (*child)(void);  /* in the only thread of the child, even if @prepare came too late */
};

/**
 * av_fork_register() - have these handlers called from the next fork() on
 * @handlers: for good; called again with the same ones, it changes nothing
 *
 * Context: any thread, any lock held; before the row's lock is taken for the first time.
 * Return: 0, or ENOMEM: the C library has no room for the table, and no row will be called. It is
 * the same for all rows: joining the directory looks at it, and nobody behind that has to.
 */
int av_fork_register(enum av_fork_row row, const struct av_fork_handlers *handlers);

#endif
