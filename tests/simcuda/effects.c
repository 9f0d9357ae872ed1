/* Data of collectives. */
#include "simcuda.h"

void effects_settle(void) {}
