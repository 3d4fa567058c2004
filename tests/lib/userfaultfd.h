/* SPDX-License-Identifier: MIT */
/* Does this host have what the library needs to notice that memory goes? */
#ifndef TEST_USERFAULTFD_H
#define TEST_USERFAULTFD_H

#include <stdbool.h>

/* Can this process have a userfaultfd? Where it cannot, tests of invalidations skip. */
bool has_userfaultfd(void);

#endif
