/* SPDX-License-Identifier: MIT */
/*
 * What a step can be. Each decides at random what to do, says so, predicts what must come of it
 * from the model, does it, and brings the model up to date. What does not suit the moment is left
 * out.
 */
#ifndef TORTURE_ACTIONS_H
#define TORTURE_ACTIONS_H

void act_create(void);
void act_change(void); /* ibv_rereg_mr() */
void act_destroy(void);

void act_bind(void);
void act_invalidate(void); /* by a request of this process */
void act_send_inv(void);   /* by one of the other */

void act_access(void); /* by the other process */
void act_access_dead(void);
void act_local(void);

void act_advise(void);
void act_device(void);
void act_pages(void);
void act_store(void); /* the program itself */

#endif
