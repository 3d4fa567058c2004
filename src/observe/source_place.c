/* SPDX-License-Identifier: MIT */
#include "observe/source_place.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* --- by debug information -------------------------------------------------------- */

#if __has_include(<elfutils/libdwfl.h>)

#include <elfutils/libdwfl.h>

/* Of libdw: the types are those of its header. */
#define CALLS(X)             \
	X(dwfl_begin)        \
	X(dwfl_end)          \
	X(dwfl_report_begin) \
	X(dwfl_report_end)   \
	X(dwfl_addrmodule)   \
	X(dwfl_getsrc)       \
	X(dwfl_lineinfo)     \
	X(dwfl_module_addrname)

struct av_sources {
	void *library;
	Dwfl *dwfl;
	Dwfl_Callbacks callbacks;
#define MEMBER(name) __typeof__(name) *name;
	CALLS(MEMBER)
#undef MEMBER
	__typeof__(dwfl_linux_proc_report) *report;
};

static bool load(struct av_sources *s)
{
	s->library = dlopen("libdw.so.1", RTLD_LAZY | RTLD_LOCAL);
	if (!s->library)
		return false;
	s->callbacks.find_elf =
		(__typeof__(s->callbacks.find_elf))dlsym(s->library, "dwfl_linux_proc_find_elf");
	/* Looks in this host's folders alone: the usual one may ask servers. */
	s->callbacks.find_debuginfo = (__typeof__(s->callbacks.find_debuginfo))dlsym(
		s->library, "dwfl_build_id_find_debuginfo");
	s->report = (__typeof__(s->report))dlsym(s->library, "dwfl_linux_proc_report");
#define LOOK_UP(name) s->name = (__typeof__(s->name))dlsym(s->library, #name);
	CALLS(LOOK_UP)
#undef LOOK_UP
#define IS_THERE(name) &&s->name
	return s->callbacks.find_elf && s->callbacks.find_debuginfo && s->report CALLS(IS_THERE);
#undef IS_THERE
}

struct av_sources *av_sources_open(void)
{
	struct av_sources *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	if (load(s))
		s->dwfl = s->dwfl_begin(&s->callbacks);
	if (s->dwfl) {
		s->dwfl_report_begin(s->dwfl);
		if (s->report(s->dwfl, getpid()) == 0 &&
		    s->dwfl_report_end(s->dwfl, NULL, NULL) == 0)
			return s;
	}
	av_sources_close(s);
	return NULL;
}

void av_sources_close(struct av_sources *s)
{
	if (!s)
		return;
	if (s->dwfl)
		s->dwfl_end(s->dwfl);
	if (s->library)
		dlclose(s->library);
	free(s);
}

static bool by_line(const struct av_sources *s, uintptr_t address, char *to, size_t size)
{
	Dwfl_Module *module = s ? s->dwfl_addrmodule(s->dwfl, address) : NULL;
	Dwfl_Line *line = module ? s->dwfl_getsrc(s->dwfl, address) : NULL;
	const char *name = line ? s->dwfl_module_addrname(module, address) : NULL;
	int number = 0;
	const char *file = name ? s->dwfl_lineinfo(line, NULL, &number, NULL, NULL, NULL) : NULL;

	if (!file || number <= 0)
		return false;
	snprintf(to, size, "%s, %s:%d", name, base_of(file), number);
	return true;
}

#else

struct av_sources *av_sources_open(void)
{
	return NULL;
}

void av_sources_close(struct av_sources *s)
{
}

static bool by_line(const struct av_sources *s, uintptr_t address, char *to, size_t size)
{
	return false;
}

#endif

/* --- */

static void by_symbol(uintptr_t address, char *to, size_t size)
{
	const char *name;
	Dl_info info;

	if (!dladdr((const void *)address, &info) || !info.dli_fname)
		return;
	name = info.dli_sname ? info.dli_sname : "";
	snprintf(to, size, "%s(%s+0x%" PRIxPTR ")", base_of(info.dli_fname), name,
		 address - (uintptr_t)(*name ? info.dli_saddr : info.dli_fbase));
}

void av_source_place(const struct av_sources *s, const void *address, char *to, size_t size)
{
	to[0] = '\0';
	if (!address)
		return;
	/* The call is before where it returns to, which may be the next line. */
	if (!by_line(s, (uintptr_t)address - 1, to, size))
		by_symbol((uintptr_t)address, to, size);
	for (; *to; to++)
		if ((unsigned char)*to < ' ' || *to == '"' || *to == '\\')
			*to = '?';
}
