/* SPDX-License-Identifier: MIT */
/*
 * Addresses that nothing else is mapped at: what a test unmaps there stays unmapped, whatever the C
 * library or a sanitizer maps meanwhile, until the test maps it again. From here on upwards, and
 * some terabytes; under ThreadSanitizer, which leaves programs little room, some hundred gigabytes.
 */
#ifndef TEST_APART_H
#define TEST_APART_H

#ifdef __SANITIZE_THREAD__
#define APART_AT 0x1000000000ul
#else
#define APART_AT 0x200000000000ul
#endif

#endif
