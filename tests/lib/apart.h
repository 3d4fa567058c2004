/* SPDX-License-Identifier: MIT */
/*
 * Addresses where nothing else is mapped. What a test unmaps here stays unmapped until the test
 * maps it again, whatever the C library or a sanitizer maps meanwhile. The range starts here and
 * has some terabytes; under ThreadSanitizer, which leaves little room, some hundred gigabytes.
 */
#ifndef TEST_APART_H
#define TEST_APART_H

#ifdef __SANITIZE_THREAD__
#define APART_AT 0x1000000000ul
#else
#define APART_AT 0x200000000000ul
#endif

#endif
