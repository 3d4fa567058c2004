/* SPDX-License-Identifier: MIT */
#include "segment/observers.h"

#include <stdio.h>
#include <unistd.h>

unsigned int av_capture_next(const struct av_seg *seg, unsigned int *at)
{
	return av_capture_find(seg->head->proc, seg->head->device, at);
}

/* Set before looking; who begins a capture calls this afterwards, so the flag is never missing. */
void av_capture_observe_context(struct av_seg *seg)
{
	atomic_fetch_or(&seg->head->observers, AV_OBSERVER_CAPTURE);
	av_capture_unobserve_context(seg);
}

void av_capture_unobserve_context(struct av_seg *seg)
{
	unsigned int at = 0;

	atomic_fetch_and(&seg->head->observers, ~(uint32_t)AV_OBSERVER_CAPTURE);
	if (av_capture_next(seg, &at)) /* begun just now */
		atomic_fetch_or(&seg->head->observers, AV_OBSERVER_CAPTURE);
}

void av_capture_observe(void)
{
	struct av_seg *seg;

	for (uint32_t slot = 0; (seg = av_seg_next(&slot)); av_seg_put(seg))
		av_capture_observe_context(seg);
}

/* --- the process' own ------------------------------------------------------------ */

static pthread_once_t own_once = PTHREAD_ONCE_INIT;
static char own_text[AV_FAULTS_BYTES]; /* "": none; written under own_once */

static void read_own(void)
{
	static struct av_faults_rule rules[AV_FAULTS_RULES];
	const char *text = secure_getenv("ANYVERBS_FAULTS");
	struct av_faults_error error;

	if (!text || !*text)
		return;
	if (av_faults_parse(text, rules, &error) < 0)
		av_log(AV_LOG_WARN,
		       "ANYVERBS_FAULTS: line %u, column %u: %s; no faults are injected",
		       error.line, error.column, error.text);
	else
		snprintf(own_text, sizeof(own_text), "%s", text);
}

/* --- a device's ------------------------------------------------------------------ */

static int format_faults_path(char path[PATH_MAX], const char *device)
{
	int n = snprintf(path, PATH_MAX, "%s/anyverbs-%u.faults.%s", av_folder_base(),
			 (unsigned int)geteuid(), device);

	return n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

bool av_faults_read(const char *device, char text[AV_FAULTS_BYTES])
{
	char path[PATH_MAX];

	return format_faults_path(path, device) == 0 &&
	       av_small_file_read(path, text, AV_FAULTS_BYTES) && *text;
}

static bool tell_context(struct av_seg *seg, const char *device)
{
	if (strncmp(seg->head->device, device, sizeof(seg->head->device)) || !av_seg_alive(seg))
		return false;
	atomic_fetch_add(&seg->head->faults_change, 1);
	atomic_fetch_or(&seg->head->observers, AV_OBSERVER_FAULTS);
	av_seg_wake_timer(seg);
	av_seg_call(seg);
	return true;
}

static unsigned int notify_device_contexts(const char *device)
{
	unsigned int told = 0;
	struct av_seg *seg;

	for (uint32_t slot = 0; (seg = av_seg_next(&slot)); av_seg_put(seg))
		told += tell_context(seg, device);
	return told;
}

static int replace_faults_file(const char *device, const char *text)
{
	char path[PATH_MAX];
	int ret = format_faults_path(path, device);

	if (ret)
		return ret;
	if (*text)
		return av_small_file_write(path, text, strlen(text));
	return unlink(path) && errno != ENOENT ? -errno : 0;
}

int av_faults_write(const char *device, const char *text, unsigned int *told)
{
	int ret = av_dir_change_begin();

	*told = 0;
	if (ret)
		return ret;
	ret = replace_faults_file(device, text);
	av_dir_change_end();
	*told = ret ? 0 : notify_device_contexts(device);
	return ret;
}

/* Load version @change in the place of @from. Return: as av_faults_set() */
static unsigned int load_texts(struct av_faults *f, uint32_t from, uint32_t change)
{
	char *text = malloc(AV_FAULTS_BYTES);
	unsigned int rules;

	if (text && !av_faults_read(f->device, text))
		text[0] = '\0';
	rules = av_faults_set(f, from, change, (const char *const[2]){own_text, text});
	free(text);
	return rules;
}

/* --- without a context ----------------------------------------------------------- */

bool av_faults_there(const char *device)
{
	AV_ERRNO_KEPT;
	char path[PATH_MAX];

	pthread_once(&own_once, read_own);
	return *own_text || (format_faults_path(path, device) == 0 && access(path, F_OK) == 0);
}

/* Another number for each text that is written: the file is a new one. Never 0 */
static uint32_t version_of(const char *device)
{
	char path[PATH_MAX];
	uint32_t version;
	struct stat st;

	if (format_faults_path(path, device) || stat(path, &st))
		return 1;
	version = ((uint32_t)st.st_ino * 31 + (uint32_t)st.st_mtim.tv_sec) * 31;
	return (version + (uint32_t)st.st_mtim.tv_nsec) | 2;
}

void av_faults_refresh(struct av_faults *f)
{
	AV_ERRNO_KEPT;
	uint32_t from = atomic_load(&f->change), version = version_of(f->device);

	if (from != version)
		(void)load_texts(f, from, version);
}

/* --- a context's ----------------------------------------------------------------- */

static void load_context_faults(struct av_seg *seg, struct av_faults *f)
{
	/* In this order: another thread may load a later change meanwhile, which then stays. */
	uint32_t from = atomic_load(&f->change), change = atomic_load(&seg->head->faults_change);

	if (load_texts(f, from, change)) {
		atomic_fetch_or(&seg->head->observers, AV_OBSERVER_FAULTS);
	} else {
		atomic_fetch_and(&seg->head->observers, ~(uint32_t)AV_OBSERVER_FAULTS);
		if (atomic_load(&seg->head->faults_change) != change) /* changed again meanwhile */
			atomic_fetch_or(&seg->head->observers, AV_OBSERVER_FAULTS);
	}
}

static struct av_faults *create_context_faults(struct av_seg *seg)
{
	struct av_faults *f = malloc(sizeof(*f)), *none = NULL;

	if (!f)
		return NULL;
	av_faults_init(f, seg->head->device);
	load_context_faults(seg, f);
	if (atomic_compare_exchange_strong(&seg->faults, &none, f))
		return f;
	av_faults_fini(f);
	free(f);
	return none;
}

void av_faults_attach(struct av_seg *seg)
{
	if (av_faults_there(seg->head->device))
		(void)create_context_faults(seg);
}

void av_faults_detach(struct av_seg *seg)
{
	struct av_faults *f = atomic_exchange(&seg->faults, NULL);

	if (!f)
		return;
	av_faults_fini(f);
	free(f);
}

/* Only one thread loads after each change: loading resets the counts. */
static void reload_if_stale(struct av_seg *seg, struct av_faults *f)
{
	while (atomic_load(&f->change) != atomic_load(&seg->head->faults_change))
		load_context_faults(seg, f);
}

struct av_faults *av_faults_of(struct av_seg *seg)
{
	struct av_faults *f = atomic_load(&seg->faults);
	AV_ERRNO_KEPT;

	if (!f)
		f = create_context_faults(seg);
	else
		reload_if_stale(seg, f);
	return f;
}
