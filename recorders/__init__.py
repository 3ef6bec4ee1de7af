"""What happened: formats and storage. May not decide, build or run anything."""

if __name__ != "tuner.recorders":
    raise ImportError(
        "import this package as tuner.recorders, not as recorders: two copies of each class would exist"
    )
