"""A build step with a tuned kernel: tunes once for this processor, reuses the object afterwards, links a library.

    python examples/library/build.py

The first call takes about a minute. The next ones find that source, toolchain and processor are the same and return
at once. In a build that may not tune (CI, a package), pass ``offline=True``: then only a recorded winner is used.
"""

import shutil
import subprocess
from pathlib import Path

import tuner

HERE = Path(__file__).resolve().parent
SPEC = HERE.parent / "matmul" / "matmul.yaml"
BUILD = HERE / "build"


def main() -> None:
    """Tunes, then links where there is a linker."""
    kernel = tuner.ensure(SPEC, out=BUILD / "matmul.o", minutes=0.7)
    print(f"tuned object: {kernel}")
    linker = shutil.which("cc")
    if linker is None:
        print("no C compiler found to link with: the object can be linked by any linker")
        return
    library = BUILD / "libmatmul.so"
    subprocess.run([linker, "-shared", "-o", library, kernel, "-lm"], check=True)
    print(f"library: {library}")


if __name__ == "__main__":
    main()
