/* SPDX-License-Identifier: MIT */
/* The name of a process's own socket in the directory's folder: pSLOT-GENERATION. */
#ifndef AV_REGISTRY_PROCESS_SOCKET_H
#define AV_REGISTRY_PROCESS_SOCKET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/un.h>

#include "base/compiler.h"

/* Context: joined. Return: false: neither the path nor a way around it fits into an address */
AV_MUST_USE bool av_process_socket(struct sockaddr_un *a, uint32_t proc);

/* Context: joined; makes system calls */
void av_process_socket_remove(uint32_t proc);

#endif
