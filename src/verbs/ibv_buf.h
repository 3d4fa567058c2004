/* SPDX-License-Identifier: MIT */
/* Buffers of ibv_alloc_buf(): plain memory behind a handle that only the library looks into. */
#ifndef AV_VERBS_IBV_BUF_H
#define AV_VERBS_IBV_BUF_H

#include "verbs/objects.h"

/**
 * av_buf_check() - may a region of @pd be on that range of @buf?
 * @buf: any value; it is not read unless it is a buffer that exists
 * Return: 0, or EINVAL: no buffer of ours, another domain's, or a range that is not inside it
 */
int av_buf_check(const struct ibv_pd *pd, const struct ibv_buf *buf, const void *addr,
		 size_t length);

#endif
