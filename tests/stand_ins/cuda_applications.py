"""Applications over the stand-ins for the CUDA driver and NVRTC, for tests: real processes that reach the driver as
runtimes do that are linked in statically.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import cuda_stand_in as stand_in

STAND_INS = Path(__file__).parent


KERNEL = """
#ifdef __CUDACC__
extern "C" __global__ void axpy(float a, const float *x, float *y, float *z, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { z[i] = a * x[i] + y[i]; y[i] = 2 * z[i]; }
}
#else
double stand_in_worked;
#define work_us(us) (stand_in_worked += (us) * 1e-6)
const unsigned long axpy_layout[] = {4, 8, 8, 8, 4, 0};
int axpy(void **args, const unsigned *grid, const unsigned *block, unsigned shared)
{
    float a = *(float *)args[0];
    const float *x = *(const float **)args[1];
    float *y = *(float **)args[2], *z = *(float **)args[3];
    int n = *(int *)args[4];
    work_us(500);
    for (int i = 0; i < n; i++) { z[i] = a * x[i] + y[i]; y[i] = 2 * z[i]; }
    return 0;
}
#undef work_us
#endif
"""

LAUNCH = """
    module = compiled(kernel, 1, options);
    CU(cuModuleGetFunction, &function, module, "axpy");
    float a = 0.5f;
    int n = 1000;
    uint64_t x = floats(1024, 0, 1), y = floats(1024, 3, 0.5f), z = floats(1024, 7, 0);
    void *arguments[] = {&a, &x, &y, &z, &n};
    CU(cuLaunchKernel, function, 8, 1, 1, 128, 1, 1, 96, stream, arguments, NULL);
    CU(cuStreamSynchronize, stream);
"""


class Applications:
    """Builds and runs applications over the stand-ins."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.libraries = [stand_in.build_driver(folder), stand_in.build_nvrtc(folder)]
        self._made = 0

    def command(self, body: str, kernel: str = KERNEL, first: str = "") -> list[str]:
        """A command that runs an application with this body."""
        self._made += 1
        source, program = self.folder / f"app{self._made}.c", self.folder / f"app{self._made}"
        text = (STAND_INS / "cuda_application.c").read_text()
        source.write_text(first + text.replace("BODY", body.replace("\n", "\n ")))
        subprocess.run([stand_in.CC, "-w", "-o", program, source, "-ldl"], check=True)
        (self.folder / f"kernel{self._made}.cu").write_text(kernel)
        return [str(program), *self.libraries, str(self.folder / f"kernel{self._made}.cu")]


IMAGE = """
    FILE *file = fopen(kernel, "rb");
    static char image[1 << 20] __attribute__((aligned(8)));
    struct { unsigned magic, version; void *data; void *none; } wrapper = {0x466243b1, 1, image, NULL};
    size_t size = fread(image + 16, 1, sizeof image - 16, file);
    unsigned head[2] = {0xba55ed50, 1 | 16 << 16};
    memcpy(image, head, 8);
    memcpy(image + 8, &size, 8);
    void *library;
    CU(cuLibraryLoadData, &library, &wrapper, NULL, NULL, 0, NULL, NULL, 0);
    CU(cuLibraryGetKernel, &function, library, "axpy");
"""
