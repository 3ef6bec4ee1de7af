"""What the product has to be, in float64: quicker than the naive loops in double, and independent of them."""


def matmul(a, b, **_):
    """The arrays by name; returns the output by name."""
    return {"c": a @ b}
