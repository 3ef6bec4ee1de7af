/* Everything is in tuner_device.h, which stands in front of every source. */
#pragma once
