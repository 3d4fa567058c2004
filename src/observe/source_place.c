/* SPDX-License-Identifier: MIT */
#include "observe/flight.h"

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

#include <dwarf.h>
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
	__typeof__(dwfl_module_addrname) *addrname;
	__typeof__(dwfl_module_nextcu) *next_unit;
	__typeof__(dwarf_haspc) *has;
	__typeof__(dwarf_getsrc_die) *line_of;
	__typeof__(dwarf_linesrc) *file_of_line;
	__typeof__(dwarf_lineno) *number_of_line;
	__typeof__(dwarf_getscopes) *scopes;
	__typeof__(dwarf_getscopes_die) *scopes_around;
	__typeof__(dwarf_tag) *tag;
	__typeof__(dwarf_attr) *attribute;
	__typeof__(dwarf_formudata) *number;
	__typeof__(dwarf_getsrcfiles) *files;
	__typeof__(dwarf_filesrc) *file;
};

/* Symbols of files are looked for in this host's folders alone: the usual call may ask servers. */
static bool load_libdw_calls(struct av_sources *s)
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
		{"dwfl_module_addrname", &s->addrname},
		{"dwfl_module_nextcu", &s->next_unit},
		{"dwarf_haspc", &s->has},
		{"dwarf_getsrc_die", &s->line_of},
		{"dwarf_linesrc", &s->file_of_line},
		{"dwarf_lineno", &s->number_of_line},
		{"dwarf_getscopes", &s->scopes},
		{"dwarf_getscopes_die", &s->scopes_around},
		{"dwarf_tag", &s->tag},
		{"dwarf_attr", &s->attribute},
		{"dwarf_formudata", &s->number},
		{"dwarf_getsrcfiles", &s->files},
		{"dwarf_filesrc", &s->file},
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
	if (load_libdw_calls(s))
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

struct place {
	const char *file; /* NULL: unknown */
	int line;
};

/*
 * The unit that has the code at @address. Not by dwfl_addrdie(): it asks a table of addresses that
 * clang does not write. @pc: out; the address as the unit's debug information counts it
 */
static Dwarf_Die *unit_of(const struct av_sources *s, Dwfl_Module *module, uintptr_t address,
			  Dwarf_Addr *pc)
{
	Dwarf_Die *unit = NULL;
	Dwarf_Addr bias = 0;

	while ((unit = s->next_unit(module, unit, &bias))) {
		*pc = address - bias;
		if (s->has(unit, *pc) == 1)
			break;
	}
	return unit;
}

/* Where the function was called that is @inlined there. */
static struct place call_of(const struct av_sources *s, Dwarf_Die *unit, Dwarf_Die *inlined)
{
	Dwarf_Attribute file_attr, line_attr;
	Dwarf_Word file, line;
	Dwarf_Files *files;
	size_t count;

	if (s->number(s->attribute(inlined, DW_AT_call_file, &file_attr), &file) ||
	    s->number(s->attribute(inlined, DW_AT_call_line, &line_attr), &line) ||
	    s->files(unit, &files, &count) || file >= count)
		return (struct place){0};
	return (struct place){s->file(files, file, NULL, NULL), (int)line};
}

static bool is_in_header(const struct place *p)
{
	const char *dot = p->file ? strrchr(p->file, '.') : NULL;

	return dot && !strcmp(dot, ".h");
}

/*
 * ibv_reg_mr() and others are inline functions of headers. A place in a header becomes the one
 * where the program called them.
 */
static void leave_headers(const struct av_sources *s, Dwarf_Die *unit, Dwarf_Addr pc,
			  struct place *p)
{
	Dwarf_Die *innermost = NULL, *around = NULL;
	int count = 0;

	if (is_in_header(p) && s->scopes(unit, pc, &innermost) > 0)
		count = s->scopes_around(&innermost[0], &around);
	for (int i = 0; i < count && is_in_header(p); i++)
		if (s->tag(&around[i]) == DW_TAG_inlined_subroutine)
			*p = call_of(s, unit, &around[i]);
	free(around);
	free(innermost);
}

static struct place find_source_place(const struct av_sources *s, Dwfl_Module *module,
				      uintptr_t address)
{
	Dwarf_Addr pc = 0;
	Dwarf_Die *unit = unit_of(s, module, address, &pc);
	Dwarf_Line *line = unit ? s->line_of(unit, pc) : NULL;
	struct place p = {0};

	if (line && s->number_of_line(line, &p.line) == 0)
		p.file = s->file_of_line(line, NULL, NULL);
	if (p.file)
		leave_headers(s, unit, pc, &p);
	return p;
}

static bool by_line(const struct av_sources *s, uintptr_t address, char *to, size_t size)
{
	Dwfl_Module *module = s ? s->addrmodule(s->dwfl, address) : NULL;
	const char *name = module ? s->addrname(module, address) : NULL;
	struct place p = name ? find_source_place(s, module, address) : (struct place){0};

	if (!p.file || p.line <= 0)
		return false;
	snprintf(to, size, "%s, %s:%d", name, base_of(p.file), p.line);
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
		if (*to < ' ' || *to > '~' || *to == '"' || *to == '\\')
			*to = '?';
}
