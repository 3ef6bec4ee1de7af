// A stand-in for NVML: one device, whose clocks and throttling a test sets.
#include <stdint.h>
#include <string.h>

static int readings;                  // that still say what was set; below 0: all of them
static unsigned long long reasons;
static unsigned slow_mhz;
static unsigned long long held_ns, held_each_ns;

// For the next readings of reasons and clocks: these reasons, this clock (0: the usual one).
void stand_in_throttle(int count, unsigned long long which, unsigned mhz) {
    readings = count, reasons = which, slow_mhz = mhz;
}
// Every look at the time held down finds that much more of it.
void stand_in_hold(unsigned long long each_ns) { held_each_ns = each_ns; }

int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) { *device = (void *)1; return strncmp(uuid, "GPU-", 4) != 0; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) { strncpy(text, "stand-in", size); return 0; }
int nvmlDeviceGetMaxClockInfo(void *device, int which, unsigned *mhz) { *mhz = 2000; return 0; }
int nvmlDeviceGetClockInfo(void *device, int which, unsigned *mhz) {
    *mhz = readings && slow_mhz && which == 1 ? slow_mhz : 1980;
    return 0;
}
int nvmlDeviceGetTemperature(void *device, int which, unsigned *degrees) { *degrees = 40; return 0; }
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) { *milliwatts = 100000; return 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *found) {
    *found = readings ? reasons : 0;
    if (readings > 0) readings--;
    return 0;
}
typedef struct { unsigned long long reference_us, held_ns; } Violation;
int nvmlDeviceGetViolationStatus(void *device, int policy, Violation *found) {
    if (policy != 1) return 3;  // not supported
    held_ns += held_each_ns;
    found->held_ns = held_ns;
    return 0;
}
