/* SPDX-License-Identifier: MIT */
#include "observe/flight.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
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

/* The calls of libdw, which is not linked. */
/* clang-format off */
#define CALLS(X) \
	X(dwfl_begin) X(dwfl_end) X(dwfl_report_begin) X(dwfl_report_end) \
	X(dwfl_linux_proc_report) X(dwfl_addrmodule) X(dwfl_module_addrname) X(dwfl_module_nextcu) \
	X(dwarf_haspc) X(dwarf_getsrc_die) X(dwarf_linesrc) X(dwarf_lineno) X(dwarf_getscopes) \
	X(dwarf_getscopes_die) X(dwarf_tag) X(dwarf_attr) X(dwarf_formudata) X(dwarf_getsrcfiles) \
	X(dwarf_filesrc)
#define CALL(name) __typeof__(name) *name; /* NOLINT(bugprone-macro-parentheses) */
#define ADDRESS(name) {#name, &s->name},
/* clang-format on */

struct av_sources {
	void *library;
	Dwfl *dwfl;
	Dwfl_Callbacks callbacks;
	CALLS(CALL)
};

/* Symbols of files are looked for in this host's folders alone: the usual call may ask servers. */
static bool load_libdw_calls(struct av_sources *s)
{
	const struct {
		const char *name;
		void *to; /* a pointer to a function */
	} calls[] = {{"dwfl_linux_proc_find_elf", &s->callbacks.find_elf},
		     {"dwfl_build_id_find_debuginfo", &s->callbacks.find_debuginfo},
		     CALLS(ADDRESS)};

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
		s->dwfl = s->dwfl_begin(&s->callbacks);
	if (s->dwfl) {
		s->dwfl_report_begin(s->dwfl);
		if (s->dwfl_linux_proc_report(s->dwfl, getpid()) == 0 &&
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

struct place {
	const char *file; /* NULL: unknown */
	int line;
};

/* The unit of @address. Not by dwfl_addrdie(): clang writes no table. @pc: out, in the unit */
static Dwarf_Die *unit_of(const struct av_sources *s, Dwfl_Module *module, uintptr_t address,
			  Dwarf_Addr *pc)
{
	Dwarf_Die *unit = NULL;
	Dwarf_Addr bias = 0;

	while ((unit = s->dwfl_module_nextcu(module, unit, &bias))) {
		*pc = address - bias;
		if (s->dwarf_haspc(unit, *pc) == 1)
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

	if (s->dwarf_formudata(s->dwarf_attr(inlined, DW_AT_call_file, &file_attr), &file) ||
	    s->dwarf_formudata(s->dwarf_attr(inlined, DW_AT_call_line, &line_attr), &line) ||
	    s->dwarf_getsrcfiles(unit, &files, &count) || file >= count)
		return (struct place){0};
	return (struct place){s->dwarf_filesrc(files, file, NULL, NULL), (int)line};
}

static bool is_in_header(const struct place *p)
{
	const char *dot = p->file ? strrchr(p->file, '.') : NULL;

	return dot && !strcmp(dot, ".h");
}

/* A place in a header, as of ibv_reg_mr(), becomes the one where the program called it. */
static void leave_headers(const struct av_sources *s, Dwarf_Die *unit, Dwarf_Addr pc,
			  struct place *p)
{
	Dwarf_Die *innermost = NULL, *around = NULL;
	int count = 0;

	if (is_in_header(p) && s->dwarf_getscopes(unit, pc, &innermost) > 0)
		count = s->dwarf_getscopes_die(&innermost[0], &around);
	for (int i = 0; i < count && is_in_header(p); i++)
		if (s->dwarf_tag(&around[i]) == DW_TAG_inlined_subroutine)
			*p = call_of(s, unit, &around[i]);
	free(around);
	free(innermost);
}

static struct place find_source_place(const struct av_sources *s, Dwfl_Module *module,
				      uintptr_t address)
{
	Dwarf_Addr pc = 0;
	Dwarf_Die *unit = unit_of(s, module, address, &pc);
	Dwarf_Line *line = unit ? s->dwarf_getsrc_die(unit, pc) : NULL;
	struct place p = {0};

	if (line && s->dwarf_lineno(line, &p.line) == 0)
		p.file = s->dwarf_linesrc(line, NULL, NULL);
	if (p.file)
		leave_headers(s, unit, pc, &p);
	return p;
}

static bool by_line(const struct av_sources *s, uintptr_t address, char *to, size_t size)
{
	Dwfl_Module *module = s ? s->dwfl_addrmodule(s->dwfl, address) : NULL;
	const char *name = module ? s->dwfl_module_addrname(module, address) : NULL;
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
