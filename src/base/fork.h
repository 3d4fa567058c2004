/* SPDX-License-Identifier: MIT */
/*
 * What the library does around the program's fork(): one table of handlers, in the order of the
 * locks.
 *
 * Before the fork the rows run from first to last, so that outer locks are taken before inner ones.
 * After it they run from last to first, in the parent and in the child. A handler cannot fail: the
 * library never prevents a fork().
 */
#ifndef AV_BASE_FORK_H
#define AV_BASE_FORK_H

#include <pthread.h>

enum av_fork_row {
	AV_FORK_DEVICE_LIST,	 /* its mutex is held while the system's library is called */
	AV_FORK_PORT_WATCH,	 /* its mutex is held while a thread starts or ends */
	AV_FORK_CAPTURE_SETTING, /* its mutex is held while the directory is read */
	AV_FORK_DIRECTORY,	 /* its mutex is held while files are locked */
	AV_FORK_PAGE_USERS,	 /* guarded by the directory's mutex */
	/* These take only the locks of rows below them. */
	AV_FORK_CONTEXTS,
	AV_FORK_SEGMENTS,
	AV_FORK_BUFFERS,
	AV_FORK_GUARDED_RANGES,
	AV_FORK_ODP_NOTIFY,
	AV_FORK_ODP_PREFETCH,
	AV_FORK_ADOPTED,      /* its mutex is held while pages move, */
	AV_FORK_SHARED_HEAP,  /* and this one moves pages, too: */
	AV_FORK_PAGE_MOVE,    /* so this mutex is taken while that one is held */
	AV_FORK_CAPTURE_FILE, /* taken by any executor of a request */
	/* These have no locks. */
	AV_FORK_THREADS,
	AV_FORK_N
};

struct av_fork_handlers {	/* NULL: nothing to do */
	pthread_mutex_t *mutex; /* held over the fork, handlers included; made anew in the child */
	void (*prepare)(void);
	void (*parent)(void); /* if @prepare ran, in the same thread; also after a failed fork */
	void (*child)(void);  /* in the only thread of the child, even if @prepare did not run */
};

/**
 * av_fork_register() - call these handlers at each fork() from now on
 * @handlers: must stay valid for ever; registering the same ones again changes nothing
 *
 * Context: any thread, with any locks held; before the lock of the row is taken for the first time
 * Return: 0, or ENOMEM if the C library has no room, and then for all rows: joining the directory
 * checks this, so later callers need not
 */
int av_fork_register(enum av_fork_row row, const struct av_fork_handlers *handlers);

#endif
