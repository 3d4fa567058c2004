/* SPDX-License-Identifier: MIT */
/*
 * What the library does around the program's fork(): handlers in the order of the locks. Before the
 * fork they run from first to last (outer locks first), after it from last to first, in parent and
 * child. None can fail: the library never prevents a fork().
 */
#ifndef AV_BASE_FORK_H
#define AV_BASE_FORK_H

#include <pthread.h>

enum av_fork_row {
	AV_FORK_DEVICE_LIST,	 /* its mutex is held while the system's library is called */
	AV_FORK_WATCHER,	 /* its mutexes are held while a thread starts or ends */
	AV_FORK_PORT_WATCH,	 /* its mutex is held while something is watched */
	AV_FORK_CAPTURE_SETTING, /* its mutex is held while the directory is read */
	AV_FORK_NET,		 /* its mutexes are held while the directory is changed */
	AV_FORK_CM,		 /* its mutex is held while the directory is changed */
	AV_FORK_DIRECTORY,	 /* its mutex is held while files are locked */
	AV_FORK_PAGE_USERS,	 /* guarded by the directory's mutex */
	/* These take only the locks of rows below them. */
	AV_FORK_CONTEXTS,
	AV_FORK_SEGMENTS,
	AV_FORK_BUFFERS,
	AV_FORK_GUARDED_RANGES,
	AV_FORK_ODP_NOTIFY,
	AV_FORK_ODP_PREFETCH,
	AV_FORK_SHARED_HEAP,  /* its mutex is held while pages move: */
	AV_FORK_PAGE_MOVE,    /* so this mutex is taken while that one is held */
	AV_FORK_LINGERING,    /* and this one while that one is held */
	AV_FORK_FILE_RUNS,    /* taken while a region begins or ends */
	AV_FORK_CAPTURE_FILE, /* taken by any executor of a request */
	AV_FORK_WINDOWS,      /* taken while a queue pair is connected or destroyed */
	AV_FORK_GROUPS,	      /* guards which groups a queue pair has joined, and nothing else */
	AV_FORK_THREADS,      /* taken while a thread starts or has ended */
	AV_FORK_N
};

struct av_fork_handlers {	/* NULL: nothing to do */
	pthread_mutex_t *mutex; /* held over the fork, handlers included; made anew in the child */
	void (*prepare)(void);
	void (*parent)(void); /* if @prepare ran, in the same thread; also after a failed fork */
	void (*child)(void);  /* in the only thread of the child, even if @prepare did not run */
};

/*
 * Call these handlers, which stay valid for ever, at each fork() from now on. Again changes
 * nothing. Context: any thread, any locks held; before the lock of the row is taken for the first
 * time. Return: 0 or ENOMEM, then for all rows: only joining the directory has to check
 */
int av_fork_register(enum av_fork_row row, const struct av_fork_handlers *handlers);

#endif
