/* SPDX-License-Identifier: MIT */
/* Pairs of processes that have nothing to do with those that come to harm, and must not notice. */
#ifndef HARDSHIP_BYSTANDER_H
#define HARDSHIP_BYSTANDER_H

#include <stdint.h>

#include "lib/spawn.h"

/* Moves data over one connection; opens, connects and closes again and again. */
enum bystander { BYSTANDER_MOVER, BYSTANDER_OPENER, BYSTANDERS };

/* Does not return if this process was started as one. */
void bystander_main(int argc, char **argv);

/* Start one, with its partner. Returns when it is at work. */
void bystander_start(struct spawned *s, enum bystander which);
/* It stops work, and tells how long its steps took; a mover keeps its contexts. Return: how many
 * were too long */
uint64_t bystander_stop(struct spawned *s, enum bystander which);
/* It closes everything and ends. */
void bystander_end(struct spawned *s);

#endif
