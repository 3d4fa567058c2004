/* SPDX-License-Identifier: MIT */
/* Looks at a program's file: rights, capabilities, ELF header, first line of a script. */
#include "unreached.h"

#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#define SCRIPTS_MAX 5	/* scripts whose interpreters are scripts: the kernel's limit */
#define HEAD_BYTES  256 /* of a script's first line: the kernel's limit */

/* --- the file -------------------------------------------------------------------- */

static bool executable(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* As execvp(3) does. An empty element of PATH is the current folder. */
static bool find(const char *name, char path[PATH_MAX])
{
	const char *folder = getenv("PATH");

	if (strchr(name, '/')) {
		snprintf(path, PATH_MAX, "%s", name);
		return executable(path);
	}
	for (folder = folder ? folder : "/bin:/usr/bin"; folder;) {
		int length = (int)strcspn(folder, ":");
		int whole = snprintf(path, PATH_MAX, "%.*s%s%s", length, folder,
				     length ? "/" : "./", name);
		if (whole < PATH_MAX && executable(path))
			return true;
		folder = folder[length] ? folder + length + 1 : NULL;
	}
	return false;
}

/* @head: the file's beginning, a string. Return: it is a script; @name is what interprets it */
static bool interpreter(char *head, char name[PATH_MAX])
{
	char *rest, *word;

	if (strncmp(head, "#!", 2) != 0)
		return false;
	head[strcspn(head, "\n")] = '\0';
	word = strtok_r(head + 2, " \t", &rest);
	if (!word)
		return false;
	snprintf(name, PATH_MAX, "%s", word);
	word = strrchr(word, '/');
	if (word && strcmp(word, "/env") == 0) {
		word = strtok_r(NULL, " \t", &rest);
		if (word && *word != '-' && !strchr(word, '='))
			snprintf(name, PATH_MAX, "%s", word);
	}
	return true;
}

/* --- what speaks against it ------------------------------------------------------ */

/* Does the kernel give this file more rights than the caller has? */
static const char *privileged(const char *path)
{
	struct statvfs fs;
	struct stat st;

	if (statvfs(path, &fs) != 0 || (fs.f_flag & ST_NOSUID) || stat(path, &st) != 0 ||
	    prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
		return NULL;
	if ((st.st_mode & S_ISUID) && st.st_uid != getuid())
		return "is set-user-ID";
	if ((st.st_mode & S_ISGID) && (st.st_mode & S_IXGRP) && st.st_gid != getgid())
		return "is set-group-ID";
	/* root has them all, so that the file adds none. */
	if (getuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0)
		return "has file capabilities";
	return NULL;
}

static bool has_loader(int fd, const Elf64_Ehdr *elf)
{
	for (unsigned int i = 0; i < elf->e_phnum; i++) {
		Elf64_Phdr part;
		off_t at = (off_t)(elf->e_phoff + i * sizeof(part));

		if (pread(fd, &part, sizeof(part), at) != (ssize_t)sizeof(part))
			return true; /* not a file to judge */
		if (part.p_type == PT_INTERP)
			return true;
	}
	return false;
}

/* Is it for the processor that this tool is for? */
static bool same_machine(const Elf64_Ehdr *elf)
{
	static const Elf64_Ehdr ours = {
		.e_ident = {[EI_CLASS] = ELFCLASS64},
#if defined(__x86_64__)
		.e_machine = EM_X86_64,
#elif defined(__aarch64__)
		.e_machine = EM_AARCH64,
#endif
	};

	return elf->e_ident[EI_CLASS] == ours.e_ident[EI_CLASS] &&
	       (!ours.e_machine || elf->e_machine == ours.e_machine);
}

static const char *without_loader(int fd, const char *head, ssize_t bytes)
{
	Elf64_Ehdr elf;

	if (bytes < (ssize_t)sizeof(elf) || memcmp(head, ELFMAG, SELFMAG) != 0)
		return NULL;
	memcpy(&elf, head, sizeof(elf));
	if (!same_machine(&elf))
		return "is for another processor";
	return has_loader(fd, &elf) ? NULL : "is statically linked";
}

const char *av_unreached_why(const char *name, char path[PATH_MAX])
{
	char wanted[PATH_MAX], head[HEAD_BYTES + 1];
	const char *why = NULL;
	bool script = true;

	snprintf(wanted, sizeof(wanted), "%s", name);
	for (int i = 0; i < SCRIPTS_MAX && script && find(wanted, path); i++) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t bytes = fd < 0 ? -1 : pread(fd, head, HEAD_BYTES, 0);

		head[bytes > 0 ? bytes : 0] = '\0';
		script = interpreter(head, wanted);
		/* Rights of a script's own file mean nothing to the kernel. */
		if (!script)
			why = privileged(path);
		if (!script && !why)
			why = without_loader(fd, head, bytes);
		if (fd >= 0)
			close(fd);
	}
	return why;
}
