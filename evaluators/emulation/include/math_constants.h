#pragma once
#include "../../cuda/include/math_constants.h"
