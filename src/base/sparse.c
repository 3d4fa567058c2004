/* SPDX-License-Identifier: MIT */
#include "base/sparse.h"

#include <errno.h>
#include <unistd.h>

bool av_sparse_next(int fd, uint64_t *at, uint64_t end, uint64_t *part_end)
{
	off_t data = *at < end ? lseek(fd, (off_t)*at, SEEK_DATA) : (off_t)end, hole;

	*part_end = end;
	if (data < 0)
		return errno != ENXIO;
	if ((uint64_t)data >= end)
		return false;
	*at = (uint64_t)data;
	hole = lseek(fd, data, SEEK_HOLE);
	if (hole > data && (uint64_t)hole < end)
		*part_end = (uint64_t)hole;
	return true;
}

bool av_sparse_read(int fd, uint64_t at, uint64_t bytes, void *to)
{
	uint64_t pos = at, part_end;

	for (; av_sparse_next(fd, &pos, at + bytes, &part_end); pos = part_end)
		while (pos < part_end) {
			ssize_t n =
				pread(fd, (uint8_t *)to + (pos - at), part_end - pos, (off_t)pos);

			if (n <= 0)
				return false;
			pos += (uint64_t)n;
		}
	return true;
}
