/* SPDX-License-Identifier: MIT */
/* What is in the shared folder, and in the machine's shared memory. */
#ifndef HARDSHIP_REMAINS_H
#define HARDSHIP_REMAINS_H

#include <stdint.h>

struct remains {
	uint64_t contexts; /* their folders */
	uint64_t bytes;	   /* of all files, but the flight recorder */
	uint64_t sockets;  /* where packets are passed on to */
	uint64_t rows;	   /* of processes and contexts in the directory, */
	uint64_t members;  /* and of sockets that share the port of an address */
	uint64_t shm_kb;   /* used in /dev/shm */
	uint64_t shmem_kb; /* Shmem of /proc/meminfo */
};

struct remains remains_now(void);

#endif
