/* SPDX-License-Identifier: MIT */
/* Does this host have what the library needs to notice that memory goes? */
#ifndef TEST_USERFAULTFD_H
#define TEST_USERFAULTFD_H

#include <stdbool.h>

/* Can this process have a userfaultfd? */
bool has_userfaultfd(void);

/* Ends the whole test as skipped, saying why, where it cannot: invalidations go unnoticed then. */
void need_userfaultfd(void);

#endif
