"""Functions of numbers that loops use, change and lose in many ways, made by chance."""

from __future__ import annotations

import random

__all__ = ["LOOP", "made_function"]

LOOP = "/* loop */"
"""Stands in the first line of each loop."""
_NAMES = ("a", "b", "c", "d", "e")
_LEAST, _MOST, _DEEPEST = 3, 5, 3


def made_function(seed: int) -> str:
    """A program that prints what a function of its own makes of some numbers; its loops end."""
    chance = random.Random(seed)
    body = _block(chance, 0, "    ")
    declared = [f"    int {name} = {chance.randint(0, 3)};" for name in _NAMES[:3]]
    declared += [f"    int {name};" for name in _NAMES[3:]]
    first = [f"    {name} = p + {chance.randint(0, 3)};" for name in _NAMES[3:]]
    result = " + ".join(f"{3**i} * {name}" for i, name in enumerate(chance.sample(_NAMES, 3)))
    lines = [
        "#include <stdio.h>",
        "static int fuel;",
        "static int work(int p)",
        "{",
        *declared,
        "    int i;",
        *first,
        *body,
        f"    return {result};",
        "}",
        "int main(void)",
        "{",
        '    for (int p = 0; p < 5; p++) { fuel = 400; printf("%d\\n", work(p)); }',
        "    return 0;",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _block(chance: random.Random, depth: int, pad: str, *, inside: bool = False) -> list[str]:
    made: list[str] = []
    for _ in range(chance.randint(_LEAST, _MOST)):
        kind = chance.random()
        if kind < 0.35 and depth < _DEEPEST:
            made += _loop(chance, depth, pad)
        elif kind < 0.5 and depth < _DEEPEST:
            made += [f"{pad}if ({_value(chance)} % 3) {{"]
            made += _block(chance, depth + 1, pad + "    ", inside=inside)
            if chance.random() < 0.5:
                made += [f"{pad}}} else {{", *_block(chance, depth + 1, pad + "    ", inside=inside)]
            made += [f"{pad}}}"]
        elif kind < 0.55 and inside:
            leave = chance.choice(("break", "continue"))
            made.append(f"{pad}if ({_value(chance)} % 4 == 1) {leave};")
        elif kind < 0.6:
            made.append(
                f"{pad}{{ int t = {_value(chance)}; {_assigned(chance)} {chance.choice(_NAMES)} = t; }}"
            )
        else:
            made.append(pad + _assigned(chance))
    return made


def _loop(chance: random.Random, depth: int, pad: str) -> list[str]:
    body = _block(chance, depth + 1, pad + "    ", inside=True)
    bound = chance.randint(1, 4)
    kind = chance.randrange(4)
    if kind == 0:
        return [f"{pad}for (int k = 0; k < {bound}; k++) {{ {LOOP}", *body, f"{pad}}}"]
    if kind == 1:
        return [f"{pad}for (i = 0; i < {bound} && fuel-- > 0; i++) {{ {LOOP}", *body, f"{pad}}}"]
    if kind == 2:
        return [f"{pad}while ({_value(chance)} % 5 != 2 && fuel-- > 0) {{ {LOOP}", *body, f"{pad}}}"]
    return [f"{pad}do {{ {LOOP}", *body, f"{pad}}} while ({_value(chance)} % 3 == 0 && fuel-- > 0);"]


def _assigned(chance: random.Random) -> str:
    name = chance.choice(_NAMES)
    return f"{name} {chance.choice(('=', '=', '=', '+='))} {_value(chance)};"


def _value(chance: random.Random) -> str:
    first, second = chance.choice((*_NAMES, "p")), chance.choice((*_NAMES, "p"))
    return chance.choice(
        (f"({first} * 3 + {second}) % 17", f"({first} + {chance.randint(1, 9)}) % 11", first)
    )
