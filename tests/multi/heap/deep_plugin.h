/* SPDX-License-Identifier: MIT */
#ifndef TEST_DEEP_PLUGIN_H
#define TEST_DEEP_PLUGIN_H

#include <stddef.h>

/* The functions that a plugin finds. */
struct deep_plugin {
	void *(*malloc)(size_t bytes);
	void *(*realloc)(void *p, size_t bytes);
	void (*free)(void *p);
	void *(*map)(size_t bytes);
	int (*munmap)(void *p, size_t bytes);
};

extern const struct deep_plugin deep_plugin __attribute__((visibility("default")));

#endif
