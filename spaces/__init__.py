"""What can be tuned: parameters, constraints, flags, pass pipelines. May not build, run or search."""

if __name__ != "tuner.spaces":
    raise ImportError(
        "import this package as tuner.spaces, not as spaces: two copies of each class would exist"
    )
