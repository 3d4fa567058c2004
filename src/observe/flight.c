/* SPDX-License-Identifier: MIT */
#include "observe/flight.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/real_calls.h"

/* The ring of the flight recorder. */

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
	int fd = openat(folder_fd, AV_FLIGHT_FILE,
			O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	struct av_flight_file *f;

	if (fd < 0)
		return NULL;
	(void)!fchmod(fd, 0600); /* whatever the program's umask(2) is */
	f = prepare_flight_file(fd);
	close(fd);
	return f;
}

void av_flight_join(int folder_fd)
{
	int saved = errno;
	struct av_flight_file *f = open_or_make(folder_fd);

	if (!f &&
	    unlinkat(folder_fd, AV_FLIGHT_FILE, 0) == 0) /* another version, or the disk was full */
		f = open_or_make(folder_fd);
	atomic_store(&ring, f);
	errno = saved;
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
	int fd = open_to_read(folder_fd);
	bool whole = fd >= 0 && has_its_size(fd);
	const struct av_flight_file *f = whole ? map_flight_file(fd, PROT_READ) : NULL;

	if (fd >= 0 && (!whole || (f && (!is_flight_file(f) || is_empty(f)))))
		unlinkat(folder_fd, AV_FLIGHT_FILE, 0);
	av_flight_close(f);
	if (fd >= 0)
		close(fd);
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
	int saved = errno;
	uint64_t number;

	if (!f)
		return 0;
	number = atomic_fetch_add(&f->next, 1);
	write_slot(&f->slot[number % AV_FLIGHT_RECORDS], number + 1, record);
	atomic_fetch_add(&f->doorbell, 1);
	(void)futex(&f->doorbell, FUTEX_WAKE, INT32_MAX, NULL);
	av_flight_own_end();
	errno = saved;
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

const struct av_flight_file *av_flight_open(int folder_fd)
{
	int fd = open_to_read(folder_fd);
	struct av_flight_file *f;

	if (fd < 0)
		return NULL;
	f = has_its_size(fd) ? map_flight_file(fd, PROT_READ) : NULL;
	close(fd);
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
