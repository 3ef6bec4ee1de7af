"""What a candidate is worth: build, verify and measure, in processes that may die. May
not decide what to try."""

if __name__ != "tuner.evaluators":
    raise ImportError(
        "import this package as tuner.evaluators, not as evaluators: two copies of each class would exist"
    )
