/* SPDX-License-Identifier: MIT */
/* ANYVERBS_CAPTURE: a capture of the own contexts, from the first that is opened. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fork.h"
#include "segment/capture_watch.h"
#include "observe/log.h"
#include "observe/pcapng.h"
#include "transport/capture.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned int number; /* of the capture that was begun last; 0: none */
static uint32_t stamp;	    /* its stamp */

static void init_mutex(void)
{
	pthread_mutex_init(&mutex, NULL);
}

static const struct av_fork_handlers fork_handlers = {.child = init_mutex};

/*
 * Make the file, and set its name and identity in @spec.
 * Return:  0 or errno
 */
static int make_file(const char *name, struct av_capture_spec *spec)
{
	int fd = av_pcapng_open(name, false), err = 0;
	struct stat st;

	if (fd < 0)
		return -fd;
	if (realpath(name, spec->path) && fstat(fd, &st) == 0) {
		spec->dev = st.st_dev;
		spec->ino = st.st_ino;
	} else {
		err = errno;
	}
	close(fd);
	return err;
}

static int begin_as(const struct av_capture_spec *spec)
{
	int ret = av_capture_begin(spec);

	if (ret < 0)
		return -ret;
	number = (unsigned int)ret;
	stamp = av_capture_stamp(number);
	return 0;
}

static void begin(const char *name)
{
	struct av_capture_spec *spec = calloc(1, sizeof(*spec));
	int err = spec ? make_file(name, spec) : ENOMEM;

	if (err == 0) {
		spec->snaplen = UINT32_MAX;
		spec->limit = UINT64_MAX;
		err = begin_as(spec);
	}
	free(spec);
	if (err)
		av_log(AV_LOG_WARN, "ANYVERBS_CAPTURE: cannot capture to %s: %s", name,
		       err == EBADMSG ? "it is a file of another kind" : strerror(err));
}

void av_capture_context_opened(struct av_seg *seg)
{
	const char *name = secure_getenv("ANYVERBS_CAPTURE");
	int saved = errno;

	(void)av_fork_register(AV_FORK_CAPTURE_SETTING, &fork_handlers);
	pthread_mutex_lock(&mutex);
	if (name && *name && !(number && av_capture_is_mine(number, stamp)))
		begin(name);
	pthread_mutex_unlock(&mutex);
	av_capture_watch_context(seg);
	errno = saved;
}
