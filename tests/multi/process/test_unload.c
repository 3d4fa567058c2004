/* SPDX-License-Identifier: MIT */
/*
 * A plug-in that has brought the library along is unloaded with its device open and memory
 * registered: the program goes on, and the report on misuse comes when it exits, not before. Not
 * linked with the library.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#include "lib/expect.h"
#include "lib/sandbox.h"

#define BYTES (1u << 20)

/* The verbs, as a plug-in has them. */
static struct {
	struct ibv_device **(*get_device_list)(int *count);
	struct ibv_context *(*open_device)(struct ibv_device *device);
	struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
	struct ibv_mr *(*reg_mr_iova2)(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				       unsigned int access);
} verbs;

static void *load(void)
{
	static const struct {
		const char *name;
		size_t at;
	} wanted[] = {
		{"ibv_get_device_list", offsetof(typeof(verbs), get_device_list)},
		{"ibv_open_device", offsetof(typeof(verbs), open_device)},
		{"ibv_alloc_pd", offsetof(typeof(verbs), alloc_pd)},
		{"ibv_reg_mr_iova2", offsetof(typeof(verbs), reg_mr_iova2)},
	};
	void *library = dlopen(ANYVERBS_LIBRARY, RTLD_NOW | RTLD_LOCAL);

	if (!library)
		DIE("%s", dlerror());
	for (size_t i = 0; i < COUNT_OF(wanted); i++) {
		void *address = dlsym(library, wanted[i].name);

		memcpy((char *)&verbs + wanted[i].at, &address, sizeof(address));
		if (!address)
			DIE("no %s", wanted[i].name);
	}
	return library;
}

/* The program: use, unload, and do then what the library watches. Return: its exit status. */
static int use_and_unload(void)
{
	void *library = load();
	struct ibv_device **list = verbs.get_device_list(NULL);
	struct ibv_context *ctx = list && list[0] ? verbs.open_device(list[0]) : NULL;
	struct ibv_pd *pd = ctx ? verbs.alloc_pd(ctx) : NULL;
	void *memory =
		mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pid_t child;
	int status;

	if (!pd ||
	    !verbs.reg_mr_iova2(pd, memory, BYTES, (uintptr_t)memory, IBV_ACCESS_LOCAL_WRITE))
		return 1;
	if (dlclose(library) || munmap(memory, BYTES))
		return 2;
	child = fork();
	if (child == 0)
		_exit(0);
	if (child < 0 || waitpid(child, &status, 0) != child || status)
		return 3;
	return write(STDERR_FILENO, "went on\n", 8) == 8 ? 0 : 4;
}

/* With ANYVERBS_CHECK=@check. Return: the status that waitpid() gives; @text: what was written. */
static int run(const char *check, char *text, size_t size)
{
	size_t have = 0;
	int out[2], status;
	ssize_t n;
	pid_t pid;

	setenv("ANYVERBS_CHECK", check, 1);
	NEED(pipe(out) == 0);
	pid = fork();
	if (pid == 0) {
		dup2(out[1], STDERR_FILENO);
		close(out[0]);
		close(out[1]);
		exit(use_and_unload());
	}
	close(out[1]);
	while ((n = read(out[0], text + have, size - 1 - have)) > 0)
		have += (size_t)n;
	text[have] = '\0';
	close(out[0]);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		DIE("waitpid");
	return status;
}

int main(void)
{
	static const struct {
		const char *check;
		int status;
		bool report;
	} rows[] = {{"0", 0, false}, {"json", 0, true}, {"json,fail", 86, true}};
	static char text[8192];

	sandbox_begin(100);
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		int status;
		const char *after, *said;

		row("unloaded with an open device, ANYVERBS_CHECK=%s", rows[i].check);
		status = run(rows[i].check, text, sizeof(text));
		after = strstr(text, "went on\n");
		said = strstr(text, "not-destroyed");
		EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == rows[i].status,
		       "status 0x%x: %s", status, text);
		EXPECT(after && (said != NULL) == rows[i].report && (!said || said > after), "%s",
		       text);
	}
	return sandbox_end();
}
