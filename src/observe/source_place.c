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
struct av_sources {
	void *library;
	Dwfl *dwfl;
	Dwfl_Callbacks callbacks;
	__typeof__(dwfl_begin) *begin;
	__typeof__(dwfl_end) *end;
	__typeof__(dwfl_report_begin) *report_begin;
	__typeof__(dwfl_report_end) *report_end;
	__typeof__(dwfl_linux_proc_report) *report;
	__typeof__(dwfl_addrmodule) *addrmodule;
	__typeof__(dwfl_getsrc) *getsrc;
	__typeof__(dwfl_lineinfo) *lineinfo;
	__typeof__(dwfl_module_addrname) *addrname;
};

/* Symbols of files are looked for in this host's folders alone: the usual call may ask servers. */
static bool load(struct av_sources *s)
{
	const struct {
		const char *name;
		void *to; /* a pointer to a function */
	} calls[] = {
		{"dwfl_linux_proc_find_elf", &s->callbacks.find_elf},
		{"dwfl_build_id_find_debuginfo", &s->callbacks.find_debuginfo},
		{"dwfl_begin", &s->begin},
		{"dwfl_end", &s->end},
		{"dwfl_report_begin", &s->report_begin},
		{"dwfl_report_end", &s->report_end},
		{"dwfl_linux_proc_report", &s->report},
		{"dwfl_addrmodule", &s->addrmodule},
		{"dwfl_getsrc", &s->getsrc},
		{"dwfl_lineinfo", &s->lineinfo},
		{"dwfl_module_addrname", &s->addrname},
	};

	s->library = dlopen("libdw.so.1", RTLD_LAZY | RTLD_LOCAL);
	for (size_t i = 0; s->library && i < sizeof(calls) / sizeof(calls[0]); i++) {
		void *found = dlsym(s->library, calls[i].name);

		if (!found)
			return false;
		memcpy(calls[i].to, &found, sizeof(found));
	}
	return s->library != NULL;
}

struct av_sources *av_sources_open(void)
{
	struct av_sources *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	if (load(s))
		s->dwfl = s->begin(&s->callbacks);
	if (s->dwfl) {
		s->report_begin(s->dwfl);
		if (s->report(s->dwfl, getpid()) == 0 && s->report_end(s->dwfl, NULL, NULL) == 0)
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
		s->end(s->dwfl);
	if (s->library)
		dlclose(s->library);
	free(s);
}

static bool by_line(const struct av_sources *s, uintptr_t address, char *to, size_t size)
{
	Dwfl_Module *module = s ? s->addrmodule(s->dwfl, address) : NULL;
	Dwfl_Line *line = module ? s->getsrc(s->dwfl, address) : NULL;
	const char *name = line ? s->addrname(module, address) : NULL;
	int number = 0;
	const char *file = name ? s->lineinfo(line, NULL, &number, NULL, NULL, NULL) : NULL;

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
