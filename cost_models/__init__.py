"""Guesses before paying: may rank or abstain, may not accept a candidate."""

if __name__ != "tuner.cost_models":
    raise ImportError(
        "import this package as tuner.cost_models, not as cost_models: two copies of each class would exist"
    )
