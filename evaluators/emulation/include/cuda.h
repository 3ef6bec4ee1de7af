#pragma once
/* Everything is in tuner_emulation.h, which is always included. */
