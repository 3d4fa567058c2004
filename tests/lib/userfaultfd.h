/* SPDX-License-Identifier: MIT */
/* Does this host have what the library needs to notice that memory goes away? */
#ifndef TEST_USERFAULTFD_H
#define TEST_USERFAULTFD_H

#include <stdbool.h>

/* Can this process have a userfaultfd? */
bool has_userfaultfd(void);

/* End the whole test as skipped, with the reason, if not: invalidations would go unnoticed. */
void need_userfaultfd(void);

#endif
