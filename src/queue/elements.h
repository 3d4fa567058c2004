/* SPDX-License-Identifier: MIT */
/* When is the list of a request's elements missing? */
#ifndef AV_QUEUE_ELEMENTS_H
#define AV_QUEUE_ELEMENTS_H

#include "base/compiler.h"

/* @count elements are announced, but @list is NULL. Nobody may look at the elements then. */
#define AV_LIST_MISSING(count, list) av_unlikely((count) > 0 && !(list))

#endif
