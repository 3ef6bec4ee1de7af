"""What to try next: searchers propose configurations. May not build, run or time anything."""

if __name__ != "tuner.search":
    raise ImportError(
        "import this package as tuner.search, not as search: two copies of each class would exist"
    )
