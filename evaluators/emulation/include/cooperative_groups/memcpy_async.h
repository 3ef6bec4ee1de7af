/* Included by many that use nothing of it; what it has is not known under emulation and does not compile. */
#pragma once
#include <cooperative_groups.h>
