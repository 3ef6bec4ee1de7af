"""Leaves out of a module what has no part in one function's code, so that nothing of it is optimised for nothing.

What stays: all that the function reaches, and every function that shares something with these which only the file
sees, because what LLVM makes of that depends on who uses it. Imports the standard library only, as every compile worker
loads it.
"""

from __future__ import annotations

from collections.abc import Iterator

from tuner.evaluators.host.llvm import Module
from tuner.evaluators.host.llvm_library import Library

__all__ = ["drop_unrelated"]

_OWN = (8, 9)
"""Linkage of what only its file sees: internal and private."""


def drop_unrelated(library: Library, module: Module, entry: str, *, callers: bool) -> None:
    """Drops functions and variables of the module that have no part in the entry's code.

    Args:
        library: LLVM's.
        module: changed in place.
        entry: a function of it.
        callers: whether those stay that share nothing with it but functions which both call.
    """
    functions = list(module.functions())
    values = [*functions, *module.variables()]
    users: dict[int, set[int]] = {value: set() for value in values}
    used: dict[int, set[int]] = {value: set() for value in values}
    kept = set[int]()
    for value in values:
        for user in _users(library, value):
            if user in users:
                users[value].add(user)
                used[user].add(value)
            else:
                # Another name of it, or something else that is no function and no variable.
                kept.add(value)
    kept |= {v for v in values if module.name(v).startswith("llvm.") or v == module.function(entry)}
    waiting = list(kept)
    while waiting:
        value = waiting.pop()
        near = set(used[value])
        constant = library.IsAGlobalVariable(value) and library.IsGlobalConstant(value)
        shared = callers or not library.IsAFunction(value)
        if library.GetLinkage(value) in _OWN and shared and not constant:
            near |= users[value]
        waiting += near - kept
        kept |= near
    dropped = [value for value in values if value not in kept and not library.IsDeclaration(value)]
    for value in dropped:
        library.ReplaceAllUsesWith(value, library.GetUndef(library.TypeOf(value)))
    for value in dropped:
        (library.DeleteFunction if library.IsAFunction(value) else library.DeleteGlobal)(value)


def _users(library: Library, value: int) -> Iterator[int]:
    """Functions and variables that a value is named in, through constants; or what else names it."""
    waiting, seen = [value], set[int]()
    while waiting:
        use = library.GetFirstUse(waiting.pop())
        while use:
            user = library.GetUser(use)
            use = library.GetNextUse(use)
            if library.IsAInstruction(user):
                yield library.GetBasicBlockParent(library.GetInstructionParent(user))
            elif library.IsAGlobalValue(user):
                yield user
            elif user not in seen:
                seen.add(user)
                waiting.append(user)
