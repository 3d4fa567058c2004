/* SPDX-License-Identifier: MIT */
/* Programs that the tool cannot see. */
#pragma once

/* Say so if programs run with a library of another build: what is shown is not all there is. */
void av_others_complain(void);
