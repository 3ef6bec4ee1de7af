/* Everything is in tuner_device.h, which stands in front of every source, or under emulation in tuner_emulation.h. */
#pragma once
