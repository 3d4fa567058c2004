// SPDX-License-Identifier: MIT
/*
 * device_user WHAT [ARGUMENT]...: a program that opens a device and then uses memory as many do. It
 * prints the same with the shared heap and without it (opened.txt).
 *
 *   as, data     how much malloc() and mmap() give under that limit
 *   cgroup       how much can be written in a control group before the kernel ends the process
 *   fork MIB N   N forks beside threads that store, as databases save themselves
 *   sparse       100 GiB of which little is written
 *   maps         as many mappings as a process may have
 *   malloc       what the allocator says of itself
 *   dump         itself to a file "core.PID", by gcore(1), and looks for its bytes there
 *   core         likewise, by the kernel
 *
 * Exit status: 77: not possible here
 */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE   4096ul
#define MIB    (1ul << 20)
#define BUDGET (512 * MIB) /* what a limit leaves, */
#define PIECE  (4 * MIB)   /* and what is asked for at a time */
#define NOTES  10	   /* pieces that may be missing */

static struct ibv_context *context;

static void give_up(int status, const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	exit(status);
}

static void open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	if (!context)
		give_up(1, "no device");
	ibv_free_device_list(list);
}

/* Within a few per cent of the budget. */
static const char *verdict(size_t pieces)
{
	static char text[64];
	size_t all = BUDGET / PIECE;

	if (pieces <= all && pieces + NOTES >= all)
		return "at the limit";
	snprintf(text, sizeof(text), "after %zu MiB of %lu", pieces * PIECE / MIB, BUDGET / MIB);
	return text;
}

/* --- limits ---------------------------------------------------------------------- */

static uint64_t status_bytes(const char *name)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[256];
	uint64_t kib = 0;

	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, name, strlen(name)) == 0)
			kib = strtoul(line + strlen(name), NULL, 10);
	if (f)
		fclose(f);
	return kib << 10;
}

static void *by_malloc(void)
{
	return malloc(PIECE);
}

static void *by_mmap(void)
{
	void *p = mmap(NULL, PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static void limited(const char *name, int limit, const char *field)
{
	static const struct {
		const char *name;
		void *(*get)(void);
	} how[] = {{"malloc()", by_malloc}, {"mmap()", by_mmap}};

	open_device();
	for (size_t i = 0; i < sizeof(how) / sizeof(how[0]); i++) {
		struct rlimit few = {status_bytes(field) + BUDGET, RLIM_INFINITY};
		size_t pieces = 0;

		setrlimit(limit, &few);
		while (pieces <= BUDGET / PIECE && how[i].get())
			pieces++;
		printf("%s: %s: %s, %s\n", name, how[i].name, verdict(pieces), strerror(errno));
	}
}

/* --- a control group ------------------------------------------------------------- */

static bool write_file(const char *folder, const char *name, uint64_t number)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "we");
	if (!f)
		return false;
	fprintf(f, "%lu\n", (unsigned long)number);
	return fclose(f) == 0;
}

/* Of either version. Return: false: there can be none here */
static bool make_group(char folder[128])
{
	static const char *const roots[][2] = {
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
		{"/sys/fs/cgroup", "memory.max"},
	};

	for (size_t i = 0; i < 2; i++) {
		snprintf(folder, 128, "%s/anyverbs-%d", roots[i][0], (int)getpid());
		if (mkdir(folder, 0700))
			continue;
		if (write_file(folder, roots[i][1], BUDGET)) {
			(void)write_file(folder, "memory.swap.max", 0);
			(void)write_file(folder, "memory.memsw.limit_in_bytes", BUDGET);
			return true;
		}
		rmdir(folder);
	}
	return false;
}

#define FREED 16

/* What an allocator keeps for later, it keeps from the program. */
static void write_and_free(void)
{
	void *p[FREED];

	for (int i = 0; i < FREED; i++)
		memset(p[i] = malloc(2 * PIECE), 1, 2 * PIECE);
	for (int i = 0; i < FREED; i++)
		free(p[i]);
}

static void write_all(const char *folder, _Atomic size_t *pieces)
{
	if (!write_file(folder, "cgroup.procs", (uint64_t)getpid()))
		give_up(77, "cgroup.procs");
	open_device();
	write_and_free();
	while (*pieces <= BUDGET / PIECE) {
		uint8_t *p = by_mmap();

		if (!p)
			exit(1);
		for (size_t at = 0; at < PIECE; at += PAGE)
			p[at] = 1;
		atomic_fetch_add(pieces, 1);
	}
	exit(0);
}

static void in_group(void)
{
	_Atomic size_t *pieces =
		mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char folder[128];
	int status;
	pid_t child;

	if (!make_group(folder))
		give_up(77, "no control group");
	child = fork();
	if (child == 0)
		write_all(folder, pieces);
	waitpid(child, &status, 0);
	while (rmdir(folder) && errno == EBUSY)
		; /* the group of a process that has just ended */
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		exit(77);
	printf("cgroup: %s, %s\n", verdict(*pieces),
	       WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "not killed");
}

/* --- forks ----------------------------------------------------------------------- */

#define THREADS 4

static uint8_t *memory;
static _Atomic bool stop;
static _Atomic uint64_t lost, started;

/* Counts in a page of its own. */
static void *count(void *page)
{
	_Atomic uint64_t *word = page;

	for (uint64_t i = 0; !stop; i++) {
		if (atomic_fetch_add(word, 1) != i)
			lost++;
		started += i == 0;
	}
	return NULL;
}

static bool is_saved(size_t bytes)
{
	for (size_t at = THREADS * PAGE; at < bytes; at += PAGE)
		if (*(uint64_t *)(void *)(memory + at) != at)
			return false;
	return true;
}

/* All is written once more while the child saves what was. */
static bool save(size_t bytes)
{
	int status = -1;
	pid_t child = fork();

	if (child == 0)
		_exit(!is_saved(bytes));
	for (size_t at = THREADS * PAGE; at < bytes; at += PAGE)
		memory[at + 8]++;
	return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static void forks(size_t bytes, int number)
{
	pthread_t threads[THREADS];
	int saved = 0;

	open_device();
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		give_up(1, "mmap");
	for (size_t at = THREADS * PAGE; at < bytes; at += PAGE)
		*(uint64_t *)(void *)(memory + at) = at;
	for (size_t i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, count, memory + i * PAGE))
			give_up(1, "pthread_create");
	while (started < THREADS)
		sched_yield();
	for (int i = 0; i < number; i++)
		saved += save(bytes);
	stop = true;
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("fork: %d of %d saved, %lu stores lost\n", saved, number, (unsigned long)lost);
}

/* --- other memory ---------------------------------------------------------------- */

static void sparse(void)
{
	size_t bytes = 100ul << 30, step = bytes / 64;
	uint64_t before;
	uint8_t *p;
	int status;

	open_device();
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		 -1, 0);
	if (p == MAP_FAILED)
		give_up(77, "mmap");
	before = status_bytes("VmRSS:");
	for (size_t at = 0; at < bytes; at += step)
		p[at] = 1;
	if (fork() == 0)
		_exit(p[bytes / 2] != 1 || p[bytes / 2 + PAGE] != 0);
	wait(&status);
	printf("sparse: child %#x, %s\n", (unsigned int)status,
	       status_bytes("VmRSS:") - before < 16 * MIB ? "little written" : "filled");
}

/* Every other one without rights, so that they do not merge; then a fork. */
static void mappings(void)
{
	size_t n = 0;
	int status;
	uint8_t *p, *kept;

	open_device();
	kept = by_mmap();
	memset(kept, 7, PIECE);
	p = mmap(NULL, 200000 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
		 0);
	while (n < 100000 && mprotect(p + (2 * n + 1) * PAGE, PAGE, PROT_READ) == 0)
		n++;
	printf("maps: %s\n", n > 32000 && n < 32767 ? "about 65,530" : "another number");
	if (fork() == 0)
		_exit(kept[PIECE - 1] != 7);
	wait(&status);
	munmap(p, 200000 * PAGE);
	printf("maps: child %#x, %s\n", (unsigned int)status, by_mmap() ? "more" : "no more");
}

static void allocator(void)
{
	char *p;
	void *volatile q;

	open_device();
	p = malloc(MIB + 1);
	memset(p, 1, malloc_usable_size(p));
	q = malloc(SIZE_MAX / 2);
	printf("malloc: %s, %s, ", malloc_usable_size(p) > MIB ? "usable" : "too short",
	       q ? "endless" : strerror(errno));
	p = realloc(p, 64 * MIB);
	printf("%d, arena %s\n", p[MIB], mallinfo2().arena > 0 ? "counted" : "empty");
	free(p);
}

/* Known from what the program's file has by other bytes. */
static uint8_t *marked(size_t bytes)
{
	uint8_t *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (size_t i = 0; p != MAP_FAILED && i < 64; i++)
		p[bytes / 2 + i] = (uint8_t)(i * i + 3);
	return p;
}

static bool is_in(int fd, const uint8_t *mark)
{
	struct stat st;
	uint8_t *file;

	if (fd < 0 || fstat(fd, &st))
		return false;
	file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	return file != MAP_FAILED && memmem(file, (size_t)st.st_size, mark, 64);
}

static void expect_in(const char *name, const uint8_t *mark)
{
	int fd = open(name, O_RDONLY | O_CLOEXEC);

	printf("dump: %s\n", is_in(fd, mark) ? "in it" : "not in it");
	unlink(name);
}

static void dump(void)
{
	char command[64];
	uint8_t *p;

	open_device();
	p = marked(MIB);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	snprintf(command, sizeof(command), "gcore -o core %d >/dev/null 2>&1", (int)getpid());
	if (system(command) != 0)
		exit(77);
	snprintf(command, sizeof(command), "core.%d", (int)getpid());
	expect_in(command, p + MIB / 2);
}

static bool dumps_here(void)
{
	const struct rlimit most = {RLIM_INFINITY, RLIM_INFINITY};
	FILE *f = fopen("/proc/sys/kernel/core_pattern", "re");
	char pattern[128] = "";
	bool ret = f && fgets(pattern, sizeof(pattern), f) && strcmp(pattern, "core\n") == 0;

	if (f)
		fclose(f);
	return ret && setrlimit(RLIMIT_CORE, &most) == 0;
}

/* Its child has no device before. */
static void core(void)
{
	static uint8_t mark[64];
	char name[32];
	int status, to[2];
	pid_t child;

	if (!dumps_here() || pipe2(to, O_CLOEXEC))
		exit(77);
	child = fork();
	if (child == 0) {
		open_device();
		if (write(to[1], marked(MIB) + MIB / 2, sizeof(mark)) == sizeof(mark))
			abort();
		_exit(1);
	}
	if (read(to[0], mark, sizeof(mark)) != sizeof(mark))
		exit(1);
	waitpid(child, &status, 0);
	printf("core: %s, ", WCOREDUMP(status) ? "dumped" : "not dumped");
	snprintf(name, sizeof(name), "core.%d", (int)child);
	expect_in(access("core", F_OK) == 0 ? "core" : name, mark);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (strcmp(what, "as") == 0)
		limited("RLIMIT_AS", RLIMIT_AS, "VmSize:");
	else if (strcmp(what, "data") == 0)
		limited("RLIMIT_DATA", RLIMIT_DATA, "VmData:");
	else if (strcmp(what, "cgroup") == 0)
		in_group();
	else if (strcmp(what, "fork") == 0 && argc == 4)
		forks(strtoul(argv[2], NULL, 10) * MIB, atoi(argv[3]));
	else if (strcmp(what, "sparse") == 0)
		sparse();
	else if (strcmp(what, "maps") == 0)
		mappings();
	else if (strcmp(what, "malloc") == 0)
		allocator();
	else if (strcmp(what, "dump") == 0)
		dump();
	else if (strcmp(what, "core") == 0)
		core();
	else
		return 2;
	if (context)
		ibv_close_device(context);
	return 0;
}
