/* SPDX-License-Identifier: MIT */
/* The kernel populates one piece after the other, and each is then marked valid. */
#include "memory/odp.h"

#include "base/thread.h"
#include "memory/region.h"

#define PIECE_BYTES (8 * AV_ODP_LEAF_SPAN) /* how much is repeated if pages go away meanwhile */
#define RESTARTS    64 /* others that invalidate beside the piece disturb it, too */

/* One advice being carried out. */
struct job {
	STAILQ_ENTRY(job) link;
	struct av_seg *seg;
	enum ib_uverbs_advise_mr_advice advice;
	bool flush;
	uint64_t pages;	 /* pages that became valid so far */
	uint64_t number; /* those queued are done in this order */
	uint32_t count;
	struct av_odp_range range[];
};

static bool wants_write(const struct job *job)
{
	return job->advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
}

static bool only_present(const struct job *job)
{
	return job->advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT;
}

/* The whole pages around a piece. Cannot wrap: the last page of all is never mapped. */
static struct av_odp_range whole_pages(const struct av_odp_range *p)
{
	uint64_t page = av_page_bytes(), begin = p->addr & ~(page - 1);

	return (struct av_odp_range){begin, av_round_up(p->addr - begin + p->length, page)};
}

/* --- populating ------------------------------------------------------------------ */

/* For kernels before 5.14. */
static int touch_all(const struct av_odp_range *pages, bool write)
{
	for (uint64_t at = 0; at < pages->length; at += av_page_bytes())
		if (av_copy_probe((const void *)(uintptr_t)(pages->addr + at), write) != AV_COPY_OK)
			return EFAULT;
	return 0;
}

/* Return: 0, EFAULT or ENOMEM. */
static int populate_piece(const struct av_odp_range *p, bool write)
{
	struct av_odp_range pages = whole_pages(p);
	int err = av_mapped_populate(pages.addr, pages.length, write);

	return err == EINVAL ? touch_all(&pages, write) : err;
}

/* --- pages already present ------------------------------------------------------- */

/*
 * Mark the pages in this process's page table. Not swapped ones, nor those only in the page cache:
 * accesses to them fault, though mincore(2) calls both present. Return: false: not known
 */
static bool mark_present(struct job *job, const struct av_odp_range *p, uint64_t *fresh)
{
	struct av_odp_range pages = whole_pages(p);
	uint64_t page = av_page_bytes(), entry[512], last = p->addr + p->length;

	*fresh = 0;
	for (uint64_t at = pages.addr; at < pages.addr + pages.length;) {
		size_t left = (pages.addr + pages.length - at) / page;
		size_t n = av_pagemap_read(at, entry, left < 512 ? left : 512);

		if (n == 0)
			return false;
		for (size_t i = 0; i < n; i++, at += page) {
			/* System pages may be larger than the table's. */
			uint64_t begin = at < p->addr ? p->addr : at;
			uint64_t end = at + page > last ? last : at + page;

			if (entry[i] & AV_PAGEMAP_PRESENT)
				*fresh += av_odp_set(job->seg, begin, end - begin, false);
		}
	}
	return true;
}

/* --- one advice ------------------------------------------------------------------ */

/*
 * Bring a piece in and mark it. If the kernel hides its page table, no page is known to be present:
 * success without effect. Return: 0, EFAULT or ENOMEM; EAGAIN: it was invalidated meanwhile
 */
static int try_piece(struct job *job, const struct av_odp_range *p)
{
	bool write = wants_write(job), markable, steady;
	uint64_t stamp, fresh;
	int ret = 0;

	av_odp_settle(job->seg);
	markable = av_odp_prepare(job->seg, p->addr, p->length, &stamp);
	steady = av_odp_track(job->seg, p->addr, p->length);
	if (!only_present(job))
		ret = populate_piece(p, write);
	if (ret || !markable)
		return ret;
	if (only_present(job)) {
		if (!mark_present(job, p, &fresh))
			return 0;
		steady = steady && av_odp_unchanged(job->seg, p->addr, p->length, stamp);
		if (!steady)
			av_odp_clear(job->seg, p->addr, p->length);
	} else {
		steady = steady && av_odp_mark(job->seg, p->addr, p->length, write, stamp, &fresh);
	}
	if (!steady)
		return EAGAIN;
	job->pages += fresh;
	av_odp_region_count(job->seg, p->addr, AV_MR_PREFETCH_PAGES, fresh);
	return 0;
}

/* After some restarts the piece is left. */
static int do_piece(struct job *job, const struct av_odp_range *p)
{
	int ret = EAGAIN;

	for (int i = 0; i < RESTARTS && ret == EAGAIN; i++) {
		ret = try_piece(job, p);
		if (ret == EAGAIN)
			av_odp_count(job->seg, AV_ODP_COUNT_CONTENTIONS, 1);
	}
	return ret == EAGAIN ? 0 : ret;
}

/* The first piece of [at, end): up to the next multiple of @bytes. */
static struct av_odp_range next_prefetch_piece(uint64_t at, uint64_t end, uint64_t bytes)
{
	uint64_t rest = bytes - at % bytes;

	return (struct av_odp_range){at, end - at < rest ? end - at : rest};
}

static bool is_nowhere(const struct av_odp_range *r)
{
	return av_range_wraps(r->addr, r->length) ||
	       r->addr + (r->length - 1) > UINT64_MAX - av_page_bytes();
}

static int one_range(struct job *job, const struct av_odp_range *r)
{
	struct av_odp_range pages = whole_pages(r);
	int ret = 0;

	if (r->length == 0)
		return 0;
	if (is_nowhere(r) ||
	    (only_present(job) && av_mapped_check(pages.addr, pages.length, false)))
		return EFAULT;
	for (uint64_t at = r->addr, end = at + r->length; at != end && ret == 0;) {
		struct av_odp_range p = next_prefetch_piece(at, end, PIECE_BYTES);

		ret = do_piece(job, &p);
		at += p.length;
	}
	return ret;
}

/* A range that fails ends only what is flushed: nobody would hear of it, and the rest helps. */
static int run_prefetch_job(struct job *job, const struct av_odp_range *range)
{
	int ret = 0;

	for (uint32_t i = 0; i < job->count && (ret == 0 || !job->flush); i++) {
		int err = one_range(job, &range[i]);

		ret = ret ? ret : err;
	}
	av_odp_count(job->seg, AV_ODP_COUNT_PREFETCH_PAGES, job->pages);
	if (ret == 0)
		av_odp_count(job->seg, AV_ODP_COUNT_PREFETCHES,
			     1); /* after the pages: who sees the call sees its pages */
	return ret;
}

/* --- later ----------------------------------------------------------------------- */

#define QUEUE_MAX 64
#define IDLE_S	  1 /* the thread ends after this time without a job */

static struct {
	pthread_mutex_t mutex;
	pthread_cond_t more; /* a job was queued */
	pthread_cond_t less; /* a job is done */
	STAILQ_HEAD(, job) jobs;
	unsigned int queued;
	bool running;	     /* the thread exists */
	struct av_seg *busy; /* context of the job being done */
	uint64_t last, done; /* numbers of jobs: queued last, done last */
} later = {
	.mutex = PTHREAD_MUTEX_INITIALIZER,
	.more = PTHREAD_COND_INITIALIZER,
	.less = PTHREAD_COND_INITIALIZER,
	.jobs = STAILQ_HEAD_INITIALIZER(later.jobs),
};

/* The queue is the parent's. The memory of its jobs is lost in the child. */
static void reset_prefetch_in_child(void)
{
	pthread_mutex_init(&later.mutex, NULL);
	pthread_cond_init(&later.more, NULL);
	pthread_cond_init(&later.less, NULL);
	STAILQ_INIT(&later.jobs);
	later.queued = 0;
	later.running = false;
	later.busy = NULL;
	later.last = later.done = 0;
}

static const struct av_fork_handlers fork_handlers = {.child = reset_prefetch_in_child};

/* The next job, or NULL after IDLE_S without one. Context: the mutex is held. */
static struct job *take_job(void)
{
	struct timespec until;
	struct job *job;
	int ret = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += IDLE_S;
	while (STAILQ_EMPTY(&later.jobs) && ret == 0)
		ret = pthread_cond_timedwait(&later.more, &later.mutex, &until);
	job = STAILQ_FIRST(&later.jobs);
	if (!job)
		return NULL;
	STAILQ_REMOVE_HEAD(&later.jobs, link);
	later.queued--;
	later.busy = job->seg;
	return job;
}

static void *later_main(void *arg)
{
	struct job *job;

	pthread_mutex_lock(&later.mutex);
	while ((job = take_job())) {
		pthread_mutex_unlock(&later.mutex);
		(void)run_prefetch_job(job, job->range);
		pthread_mutex_lock(&later.mutex);
		later.busy = NULL;
		later.done = job->number;
		pthread_cond_broadcast(&later.less);
		pthread_mutex_unlock(&later.mutex);
		free(job); /* outside the mutex: free() may unmap, and so wait for the listener */
		pthread_mutex_lock(&later.mutex);
	}
	later.running = false;
	pthread_mutex_unlock(&later.mutex);
	return NULL;
}

static bool start_thread(void)
{
	struct av_thread *thread;

	if (av_thread_start(&thread, "anyverbs-ahead", later_main, NULL))
		return false;
	av_thread_leave(thread);
	return true;
}

/* Return: false if the caller must do the job itself: no thread, or the queue is full. */
static bool queue(struct job *job)
{
	(void)av_fork_register(AV_FORK_ODP_PREFETCH, &fork_handlers);
	AV_LOCKED(&later.mutex);
	if (!later.running)
		later.running = start_thread();
	if (!later.running || later.queued >= QUEUE_MAX)
		return false;
	job->number = ++later.last;
	STAILQ_INSERT_TAIL(&later.jobs, job, link);
	later.queued++;
	pthread_cond_signal(&later.more);
	return true;
}

static int advise_later(const struct job *what, const struct av_odp_range *range)
{
	size_t bytes = sizeof(struct job) + what->count * sizeof(*range);
	struct job *job = malloc(bytes);

	if (!job)
		return ENOMEM;
	*job = *what;
	memcpy(job->range, range, what->count * sizeof(*range));
	if (!queue(job)) {
		(void)run_prefetch_job(job, job->range);
		free(job);
	}
	return 0;
}

/* Why is the advice not followed? That of the first range that explains it is noted. */
static void note_missing(const struct job *job, const struct av_odp_range *range)
{
	for (uint32_t i = 0; i < job->count; i++) {
		const struct av_odp_range *r = &range[i];

		if (r->length == 0)
			continue;
		if (is_nowhere(r)) {
			(void)av_refuse(EFAULT, AV_CHECK_ADVISE_RANGE, i, 0);
			return;
		}
		if (av_missing_note(r->addr, r->length, wants_write(job)))
			return;
	}
}

int av_odp_advise(struct av_seg *seg, const struct av_odp_range *range, uint32_t count,
		  enum ib_uverbs_advise_mr_advice advice, bool flush)
{
	AV_UNCANCELLED; /* jobs must not stay half queued, nor descriptors open */
	struct job job = {.seg = seg, .advice = advice, .flush = flush, .count = count};
	AV_ERRNO_KEPT;
	int ret;

	if (!av_odp_has_table(seg))
		return 0;
	ret = flush ? run_prefetch_job(&job, range) : advise_later(&job, range);
	if (ret == EFAULT)
		note_missing(&job, range);
	return ret;
}

/* The last job of a context, under way or queued; 0: none. Context: the mutex is held. */
static uint64_t last_of(const struct av_seg *seg)
{
	uint64_t number = later.busy == seg ? later.done + 1 : 0;
	const struct job *job;

	STAILQ_FOREACH(job, &later.jobs, link)
		if (job->seg == seg)
			number = job->number;
	return number;
}

void av_odp_quiesce(struct av_seg *seg)
{
	AV_UNCANCELLED;
	AV_LOCKED(&later.mutex);
	uint64_t number = last_of(seg);

	while (later.done < number)
		pthread_cond_wait(&later.less, &later.mutex);
}
