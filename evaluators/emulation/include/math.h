/* The functions are in tuner_emulation.h, which is always included. */
#pragma once
#include "../../cuda/include/nvrtc/math.h"
