/* SPDX-License-Identifier: MIT */
/* Buffers of ibv_alloc_buf(): plain memory behind an opaque handle. */
#ifndef AV_VERBS_IBV_BUF_H
#define AV_VERBS_IBV_BUF_H

#include "verbs/objects.h"

/**
 * av_buf_check() - may a region of @pd use that range of @buf?
 * @buf: any value; dereferenced only if it is an existing buffer
 * Return: 0, or EINVAL: not one of our buffers, another domain's, or the range is not inside it
 */
int av_buf_check(const struct ibv_pd *pd, const struct ibv_buf *buf, const void *addr,
		 size_t length);

#endif
