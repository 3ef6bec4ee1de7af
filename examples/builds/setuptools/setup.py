"""A wheel with a tuned kernel in it: tunes once on the machine that builds it.

pip wheel --no-build-isolation --no-deps examples/builds/setuptools

A wheel is for the processor it was tuned on. Where a build may not tune, keep the record and set TUNE_OFFLINE=1.
"""

import os
import subprocess
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

import tuner

HERE = Path(__file__).resolve().parent
SPEC = HERE.parent / "saxpy.yaml"
RECORDED = Path(os.environ.get("TUNE_RECORDED", HERE / "build"))


class BuildTuned(build_py):
    """Also links the tuned object into the package."""

    def run(self) -> None:
        """Tunes or reuses, then links."""
        super().run()
        offline = os.environ.get("TUNE_OFFLINE") == "1"
        kernel = tuner.ensure(SPEC, out=RECORDED / "saxpy.o", offline=offline)
        library = Path(self.build_lib, "saxpy_tuned", "libsaxpy.so")
        subprocess.run([os.environ.get("CC", "cc"), "-shared", "-o", library, kernel], check=True)


class ForThisPlatform(Distribution):
    """Its wheel holds machine code."""

    def has_ext_modules(self) -> bool:
        """Makes the wheel's name say so."""
        return True


setup(
    name="saxpy-tuned",
    version="1.0",
    packages=["saxpy_tuned"],
    install_requires=["numpy"],
    cmdclass={"build_py": BuildTuned},
    distclass=ForThisPlatform,
)
