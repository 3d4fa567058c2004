/* SPDX-License-Identifier: MIT */
#include "observe/flight.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/real_calls.h"
#include "base/thread.h"
#include "observe/check.h"

#define MAGIC	0x3154484749465641ull /* "AVFIGHT1" */
#define VERSION 2u
#define WORDS	(sizeof(struct av_flight_record) / sizeof(uint64_t))

struct slot {
	_Atomic uint64_t stamp; /* number + 1 of the record in this slot; 0: none */
	_Atomic uint64_t sum;
	_Atomic uint64_t word[WORDS];
};
static_assert(sizeof(struct slot) == 256, "slots");

struct av_flight_file {
	uint64_t magic;
	uint32_t version, records;
	_Atomic uint32_t doorbell; /* futex: changes with each complete record */
	uint32_t unused[11];
	_Atomic uint64_t next AV_ALIGNED(AV_CACHE_LINE);
	struct slot slot[AV_FLIGHT_RECORDS] AV_ALIGNED(256);
};

static _Atomic(struct av_flight_file *) ring;
static _Atomic uint32_t users; /* threads of this process that use @ring now */

/* --- the file -------------------------------------------------------------------- */

static bool is_flight_file(const struct av_flight_file *f)
{
	return f->magic == MAGIC && f->version == VERSION && f->records == AV_FLIGHT_RECORDS;
}

static struct av_flight_file *map_flight_file(int fd, int prot)
{
	void *p = mmap(NULL, sizeof(struct av_flight_file), prot, MAP_SHARED, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

static int open_to_read(int folder_fd)
{
	return openat(folder_fd, AV_FLIGHT_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

/* Access behind the end of a shorter file is SIGBUS. Writers may make it longer. */
static bool has_its_size(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	       st.st_size >= (off_t)sizeof(struct av_flight_file);
}

/* Reserve the file's blocks now, so that no later access finds the file system full. */
static struct av_flight_file *prepare_flight_file(int fd)
{
	struct av_flight_file *f;

	if (av_file_may_have(fd, sizeof(*f)) || av_file_back(fd, 0, sizeof(*f)))
		return NULL;
	f = map_flight_file(fd, PROT_READ | PROT_WRITE);
	if (!f || is_flight_file(f))
		return f;
	if (f->magic == 0) {
		f->records = AV_FLIGHT_RECORDS;
		f->version = VERSION;
		f->magic = MAGIC;
		return f;
	}
	av_munmap(f, sizeof(*f));
	return NULL;
}

static struct av_flight_file *open_or_make(int folder_fd)
{
	int fd AV_CLOSED = openat(folder_fd, AV_FLIGHT_FILE,
				  O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);

	if (fd < 0)
		return NULL;
	(void)!fchmod(fd, 0600); /* whatever the program's umask(2) is */
	return prepare_flight_file(fd);
}

void av_flight_join(int folder_fd)
{
	AV_ERRNO_KEPT;
	struct av_flight_file *f = open_or_make(folder_fd);

	if (!f &&
	    unlinkat(folder_fd, AV_FLIGHT_FILE, 0) == 0) /* another version, or the disk was full */
		f = open_or_make(folder_fd);
	atomic_store(&ring, f);
}

void av_flight_leave(void)
{
	struct av_flight_file *f = atomic_exchange(&ring, NULL);

	if (!f)
		return;
	while (atomic_load(&users))
		sched_yield();
	av_munmap(f, sizeof(*f));
}

void av_flight_forked(void)
{
	atomic_store(&users, 0);
}

static bool is_empty(const struct av_flight_file *f)
{
	uint64_t next = av_flight_next(f), at = av_flight_first(next);
	struct av_flight_record r;

	while (at < next && !av_flight_read(f, at, &r))
		at++;
	return at == next;
}

/* One that cannot be looked at now, for want of a descriptor or memory, may have records. */
void av_flight_forget(int folder_fd)
{
	int fd AV_CLOSED = open_to_read(folder_fd);
	bool whole = fd >= 0 && has_its_size(fd);
	const struct av_flight_file *f = whole ? map_flight_file(fd, PROT_READ) : NULL;

	if (fd >= 0 && (!whole || (f && (!is_flight_file(f) || is_empty(f)))))
		unlinkat(folder_fd, AV_FLIGHT_FILE, 0);
	av_flight_close(f);
}

const struct av_flight_file *av_flight_own(void)
{
	struct av_flight_file *f;

	/* Announced before the look: av_flight_leave() waits for users. */
	atomic_fetch_add(&users, 1);
	f = atomic_load(&ring);
	if (!f)
		atomic_fetch_sub(&users, 1);
	return f;
}

void av_flight_own_end(void)
{
	atomic_fetch_sub(&users, 1);
}

/* --- records --------------------------------------------------------------------- */

/* A checksum over record and stamp. A mix of two records fails it. */
static uint64_t checksum_flight_record(uint64_t stamp, const uint64_t word[WORDS])
{
	uint64_t sum = stamp * 0x9e3779b97f4a7c15ull;

	for (size_t i = 0; i < WORDS; i++)
		sum = ((sum ^ word[i]) << 13 | (sum ^ word[i]) >> 51) * 0xff51afd7ed558ccdull;
	return sum;
}

static void write_slot(struct slot *s, uint64_t stamp, const struct av_flight_record *record)
{
	uint64_t word[WORDS];

	memcpy(word, record, sizeof(word));
	atomic_store_explicit(&s->stamp, 0, memory_order_relaxed);
	/* Each store is a release: no word appears before the stamp is 0. */
	for (size_t i = 0; i < WORDS; i++)
		atomic_store_explicit(&s->word[i], word[i], memory_order_release);
	atomic_store_explicit(&s->sum, checksum_flight_record(stamp, word), memory_order_relaxed);
	atomic_store_explicit(&s->stamp, stamp, memory_order_release);
}

static long futex(const _Atomic uint32_t *word, int op, uint32_t value,
		  const struct timespec *timeout)
{
	return syscall(SYS_futex, word, op, value, timeout, NULL, 0);
}

uint64_t av_flight_append(const struct av_flight_record *record)
{
	struct av_flight_file *f = (struct av_flight_file *)(uintptr_t)av_flight_own();
	AV_ERRNO_KEPT;
	uint64_t number;

	if (!f)
		return 0;
	number = atomic_fetch_add(&f->next, 1);
	write_slot(&f->slot[number % AV_FLIGHT_RECORDS], number + 1, record);
	atomic_fetch_add(&f->doorbell, 1);
	(void)futex(&f->doorbell, FUTEX_WAKE, INT32_MAX, NULL);
	av_flight_own_end();
	return number + 1;
}

void av_flight_withdraw(uint64_t number)
{
	struct av_flight_file *f = (struct av_flight_file *)(uintptr_t)av_flight_own();
	uint64_t stamp = number + 1;

	if (!f)
		return;
	(void)atomic_compare_exchange_strong(&f->slot[number % AV_FLIGHT_RECORDS].stamp, &stamp, 0);
	av_flight_own_end();
}

void av_flight_replace(_Atomic uint64_t *last, uint64_t number)
{
	uint64_t before = number ? atomic_exchange(last, number) : 0;

	if (before)
		av_flight_withdraw(before - 1);
}

const struct av_flight_file *av_flight_open(int folder_fd)
{
	int fd AV_CLOSED = open_to_read(folder_fd);
	struct av_flight_file *f;

	if (fd < 0)
		return NULL;
	f = has_its_size(fd) ? map_flight_file(fd, PROT_READ) : NULL;
	if (!f || is_flight_file(f))
		return f;
	av_munmap(f, sizeof(*f));
	return NULL;
}

void av_flight_close(const struct av_flight_file *file)
{
	if (file)
		av_munmap((void *)(uintptr_t)file, sizeof(*file));
}

uint64_t av_flight_next(const struct av_flight_file *file)
{
	return atomic_load(&file->next);
}

bool av_flight_read(const struct av_flight_file *file, uint64_t number,
		    struct av_flight_record *record)
{
	const struct slot *s = &file->slot[number % AV_FLIGHT_RECORDS];
	uint64_t stamp = number + 1, word[WORDS], sum;

	if (atomic_load_explicit(&s->stamp, memory_order_acquire) != stamp)
		return false;
	/* Each load is an acquire: no word is read after the second look at the stamp. */
	for (size_t i = 0; i < WORDS; i++)
		word[i] = atomic_load_explicit(&s->word[i], memory_order_acquire);
	sum = atomic_load_explicit(&s->sum, memory_order_acquire);
	if (atomic_load_explicit(&s->stamp, memory_order_relaxed) != stamp ||
	    sum != checksum_flight_record(stamp, word))
		return false;
	memcpy(record, word, sizeof(*record));
	record->process[sizeof(record->process) - 1] = '\0';
	record->device[sizeof(record->device) - 1] = '\0';
	return true;
}

void av_flight_wait(const struct av_flight_file *file, uint64_t next, unsigned int ms)
{
	const struct timespec timeout = av_timespec(ms * 1000000ull);
	uint32_t doorbell = atomic_load(&file->doorbell);

	if (av_flight_next(file) == next)
		(void)futex(&file->doorbell, FUTEX_WAIT, doorbell, &timeout);
}

/* Pending records, and their recording. */

#define IN_A_ROW_NS 1000000000ull /* what happens again later than that is told again */

static __thread struct {
	struct av_flight_record pending;
	struct av_flight_record last; /* recorded, but for its times */
	uint64_t last_ns;
	/* Records of the row that the last one belongs to, + 1 each; [row_count - 1]: the last. */
	uint64_t row[AV_DIAG_ROW];
	unsigned int row_count; /* of those that were not withdrawn */
} mine;

_Atomic bool av_explain_on;

static uint64_t began_ns; /* what is older is of a process that had this one's number */
static char device[sizeof(((struct av_flight_record *)0)->device)];
static _Atomic int devices; /* different ones that were opened: 0, 1, 2 or more */

struct av_flight_record *av_diag_pending(void)
{
	return &mine.pending;
}

struct av_flight_record *av_diag_note(enum av_check check, uint64_t wanted, uint64_t limit)
{
	mine.pending = (struct av_flight_record){
		.check = (uint16_t)check, .wanted = wanted, .limit = limit, .has = AV_HAS_MEASURE};
	return &mine.pending;
}

void av_diag_state(uint32_t state)
{
	mine.pending.state = (uint16_t)state;
	mine.pending.has |= AV_HAS_STATE;
}

int av_refuse_device(int err, enum av_check check, const char *name)
{
	snprintf(av_diag_note(check, 0, 0)->device, sizeof(mine.pending.device), "%s", name);
	return av_refuse_as(err);
}

void av_diag_detail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(mine.pending.detail, sizeof(mine.pending.detail), fmt, ap);
	va_end(ap);
	mine.pending.has |= AV_HAS_DETAIL;
}

void av_refuse_object(int err, enum av_flight_object object, uint32_t number)
{
	if (mine.pending.error != err) {
		(void)av_refuse(err, av_check_of_errno(err), 0, 0);
		mine.pending.has = 0;
	}
	mine.pending.object = (uint8_t)object;
	mine.pending.number = number;
	mine.pending.has |= AV_HAS_OBJECT;
}

void av_diag_drop(void)
{
	memset(&mine.pending, 0, sizeof(mine.pending));
}

static void complete_flight_record(struct av_flight_record *r)
{
	r->by = (int32_t)getpid();
	r->by_group = (int32_t)getpgrp();
	if (!r->pid)
		r->pid = r->by;
	if (!r->process[0] && r->pid == r->by)
		snprintf(r->process, sizeof(r->process), "%s", program_invocation_short_name);
	if (!r->device[0] && atomic_load(&devices) == 1)
		memcpy(r->device, device, sizeof(r->device));
}

/* The same rule broken in the same way, by the same amount? */
static bool is_same(const struct av_flight_record *r)
{
	struct av_flight_record like = *r;

	like.repeats = mine.last.repeats;
	return memcmp(&like, &mine.last, sizeof(like)) == 0;
}

/* The same verb refused by the same check, perhaps by another amount? */
static bool is_row(const struct av_flight_record *r)
{
	return r->kind == AV_FLIGHT_REFUSAL && mine.last.kind == AV_FLIGHT_REFUSAL &&
	       r->verb == mine.last.verb && r->check == mine.last.check && r->by == mine.last.by;
}

static void withdraw_last(void)
{
	av_flight_withdraw(mine.row[--mine.row_count] - 1);
}

/* Add record @number, + 1, to the row. A full one loses its first. */
static void append_diag_row(uint64_t number)
{
	if (!number)
		return;
	if (mine.row_count == AV_DIAG_ROW)
		memmove(mine.row, mine.row + 1, --mine.row_count * sizeof(mine.row[0]));
	mine.row[mine.row_count++] = number;
}

/* The same again at once? Then only the 2nd, 4th, 8th ... time replaces the record before. */
static bool is_news(struct av_flight_record *r, uint64_t now_ns)
{
	bool soon = mine.last_ns && now_ns - mine.last_ns <= IN_A_ROW_NS,
	     again = soon && is_same(r);

	r->repeats = !again ? 0 : mine.last.repeats ? mine.last.repeats + 1 : 2;
	if (!again && !(soon && is_row(r)))
		mine.row_count = 0;
	mine.last = *r;
	mine.last_ns = now_ns;
	return (r->repeats & (r->repeats - 1)) == 0;
}

static void print(const struct av_flight_record *r)
{
	char text[AV_EXPLAIN_MAX];

	(void)av_write_quietly(STDERR_FILENO, text, av_explain(r, text));
}

uint64_t av_report(void)
{
	AV_UNCANCELLED;
	struct av_flight_record r = mine.pending;
	uint64_t now = av_now_ns(), number = 0;
	AV_ERRNO_KEPT;

	av_diag_drop();
	complete_flight_record(&r);
	if (is_news(&r, now)) {
		r.monotonic_ns = now;
		r.time_ns = av_now_real_ns();
		if (r.repeats && mine.row_count)
			withdraw_last();
		number = av_flight_append(&r);
		append_diag_row(number);
		if (av_explaining() && r.pid == r.by)
			print(&r);
	}
	return number;
}

uint64_t av_report_beside(const struct av_flight_record *record)
{
	AV_UNCANCELLED;
	struct av_flight_record before = mine.pending;
	uint64_t number;

	mine.pending = *record;
	number = av_report();
	mine.pending = before;
	return number;
}

void av_overcome(enum av_verb verb)
{
	if (mine.last.kind == AV_FLIGHT_REFUSAL && mine.last.verb == verb &&
	    mine.last.by == (int32_t)getpid())
		while (mine.row_count)
			withdraw_last();
}

int av_refused(enum av_verb verb, int err)
{
	struct av_flight_record *r = &mine.pending;

	if (r->error != err) /* of something that was overcome, or not said */
		memset(r, 0, sizeof(*r));
	if (r->check == AV_CHECK_NONE)
		r->check = (uint16_t)av_check_of_errno(err);
	r->kind = AV_FLIGHT_REFUSAL;
	r->verb = (uint16_t)verb;
	r->error = err;
	r->has |= AV_HAS_VERB;
	av_report();
	return err;
}

void av_diag_begin(void)
{
	static struct av_setting setting = {"ANYVERBS_EXPLAIN", "1", 0};

	if (began_ns == 0)
		began_ns = av_now_real_ns();
	atomic_store(&av_explain_on, av_setting_is(&setting));
}

void av_diag_device(const char *name)
{
	av_diag_begin();
	if (atomic_load(&devices) == 0) {
		snprintf(device, sizeof(device), "%s", name);
		atomic_store(&devices, 1);
	} else if (strncmp(device, name, sizeof(device) - 1)) {
		atomic_store(&devices, 2);
	}
}

/* Write what others have recorded of this process. Return: number of the next record */
static uint64_t print_foreign_records(const struct av_flight_file *file, uint64_t at)
{
	uint64_t next = av_flight_next(file);
	struct av_flight_record r;
	AV_ERRNO_KEPT;

	if (at < av_flight_first(next) || at > next)
		at = av_flight_first(next);
	for (; at < next; at++)
		if (av_flight_read(file, at, &r) && r.pid == (int32_t)getpid() && r.by != r.pid &&
		    r.time_ns >= began_ns)
			print(&r);
	return next;
}

/* @at: where reading has come to; one thread at a time reads. */
void av_explain_others(void)
{
	AV_UNCANCELLED;
	static atomic_flag busy = ATOMIC_FLAG_INIT;
	static uint64_t at;
	const struct av_flight_file *file;

	if (atomic_flag_test_and_set(&busy))
		return;
	file = av_flight_own();
	if (file) {
		at = print_foreign_records(file, at);
		av_flight_own_end();
	}
	atomic_flag_clear(&busy);
}
