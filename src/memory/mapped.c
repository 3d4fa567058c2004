/* SPDX-License-Identifier: MIT */
/* Parses /proc/self/maps. */
#include "memory/mapped.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Parse one line "BEGIN-END rwxp ...". Return: the start of the next line; NULL at the end. */
static const char *parse_line(const char *p, uint64_t *begin, uint64_t *end, const char **rights)
{
	char *q;

	if (!*p)
		return NULL;
	*begin = strtoull(p, &q, 16);
	if (*q != '-')
		return NULL;
	*end = strtoull(q + 1, &q, 16);
	if (*q != ' ')
		return NULL;
	*rights = q + 1;
	q = strchr(q, '\n');
	return q ? q + 1 : "";
}

int av_mapped_check_text(const char *maps, uint64_t addr, uint64_t bytes, bool writable)
{
	uint64_t begin, end, at = addr, last = addr + bytes;
	const char *rights;

	while (at != last && (maps = parse_line(maps, &begin, &end, &rights))) {
		if (end <= at)
			continue;
		if (begin > at || rights[0] != 'r' || (writable && rights[1] != 'w'))
			return EFAULT;
		at = end - at < last - at ? end : last;
	}
	return at == last ? 0 : EFAULT;
}

static char *read_all(int fd)
{
	size_t size = 0, room = 1 << 16;
	char *text = malloc(room);

	while (text) {
		ssize_t n = read(fd, text + size, room - size - 1);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		size += (size_t)n;
		if (room - size < 4096) {
			char *grown = realloc(text, room *= 2);

			if (!grown) {
				free(text);
				return NULL;
			}
			text = grown;
		}
	}
	if (text)
		text[size] = '\0';
	return text;
}

char *av_mapped_text(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *text = fd < 0 ? NULL : read_all(fd);

	if (fd >= 0)
		close(fd);
	else
		errno = EFAULT;
	return text;
}

int av_mapped_check(uint64_t addr, uint64_t bytes, bool writable)
{
	char *text = av_mapped_text("/proc/self/maps");
	int ret = errno == EFAULT ? EFAULT : ENOMEM;

	if (text)
		ret = av_mapped_check_text(text, addr, bytes, writable);
	free(text);
	return ret;
}
