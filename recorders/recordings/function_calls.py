"""C text of a library that records the calls of one function.

Arrays have the extents that a spec gives, or reach as far as their blocks of memory. May not compile anything;
:mod:`tuner.recorders.recordings.capture` runs an application with what was made of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from importlib.resources import files

from tuner.core.passing import members
from tuner.core.types import Argument, ArgumentRole
from tuner.recorders.recordings.c_text import is_address, item_text, parameter_text
from tuner.recorders.recordings.function import Interposed

__all__ = ["recording_library"]


def recording_library(function: Interposed, *, blocks: bool = False) -> str:
    """The text that follows ``captures.c``.

    Args:
        function: whose calls are recorded.
        blocks: whether arrays are taken as far as their blocks of memory reach, where those are known, whatever the
            spec's extents are.

    Raises:
        SpecError: a type that C does not pass by value here, or an extent that cannot be computed in C.
    """
    heads, before, after, signs = _captures(function)
    call = f"function({function.passed_on})"
    parameters = "".join(f", {parameter_text(a)} a{i}" for i, a in enumerate(function.arguments))
    names = "".join(f", a{i}" for i in range(len(function.arguments)))
    own = files(__package__)
    allocations = own.joinpath("allocations.c").read_text(encoding="utf-8") if blocks else _AS_SAID
    counts = own.joinpath("call_counts.c").read_text(encoding="utf-8")
    memory = own.joinpath("memory.c").read_text(encoding="utf-8") if function.keeps_memory else _NO_MEMORY
    return f"{function.head()}\n{allocations}\n{counts}" + _TEMPLATE.format(
        memory=memory,
        definition=function.definition,
        count=len(function.arguments),
        comma_parameters=parameters,
        comma_names=names,
        call=call,
        plain=f"return {call};",
        result=function.result,
        declared=function.declared,
        said=",\n        ".join(_said(function)) or "{0}",
        missing=_checks(function.views.missing),
        reasons=_checks(_reasons(function)),
        heads=heads,
        before=before,
        after=after,
        signs=signs,
    )


def _addresses(function: Interposed) -> list[int]:
    """The arguments of which nothing is known but their address."""
    return [i for i, a in enumerate(function.arguments) if is_address(a)]


def _checks(reasons: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f"    if (!why && ({bad})) why = {json.dumps(why)};" for bad, why in reasons)


def _said(function: Interposed) -> Iterator[str]:
    """Of each argument in C: where it lies and what the spec says that it has, the bytes of an element, who writes it.

    Also whether it may reach as far as its block of memory does.
    """
    places = {one.argument: one for one in members(function.passed)}
    for number, argument in enumerate(function.arguments):
        if not argument.is_array or argument.by_pointer:
            yield "{0}"
            continue
        place = places.get(number)
        # Of several rows the next one begins where one ends.
        several = place is not None and place.rows and (argument.shape or ())[0].text.strip() != "1"
        fixed = several or (place is not None and place.by_value)
        variable = function.variables.get(number)
        whole = not fixed and (variable is None or variable[1])
        written = int(argument.role is not ArgumentRole.INPUT)
        said = f"{function.is_size(number)} ? {function.extent(number)} : 0"
        yield f"{{a{number}, {said}, {item_text(argument)}, {written}, {int(whole)}}}"


def _captures(function: Interposed) -> tuple[str, str, str, str]:
    heads: list[str] = []
    before: list[str] = []
    after: list[str] = []
    signs: list[str] = []
    for number, argument in enumerate(function.arguments):
        name = f"a{number}"
        if is_address(argument):
            last = len(function.arguments)
            heads.append(f"    address_field(capture, {number}, (const void *){name}, {last});")
            continue
        heads.append(f'    number_field(capture, "{number}/address", 0);')
        if argument.by_pointer and argument.role is ArgumentRole.INPUT:
            # As a scalar, whose value is what lies there: problem sizes are read from scalars.
            size = item_text(argument)
            heads.append(f'    field(capture, "{number}/value", {name}, (size_t)({size}));')
            signs.append(f"    if ({name}) sign = mix(sign, {name}, (size_t)({size}));")
            continue
        if not argument.is_array:
            heads.append(f'    field(capture, "{number}/value", &{name}, sizeof {name});')
            signs.append(f"    sign = mix(sign, &{name}, sizeof {name});")
            continue
        size = item_text(argument) if argument.by_pointer else f"bytes[{number}]"
        ahead = "0" if argument.by_pointer else f"ahead[{number}]"
        back = "" if argument.by_pointer else f" - ahead[{number}]"
        heads.append(
            f"    {{ uint64_t words[4] = {{(uint64_t)(uintptr_t){name}{back}, {ahead}, (uint64_t)({size}), 0}};"
            f' field(capture, "{number}/buffer", words, sizeof words); }}'
        )
        for lines, when in ((before, "before"), (after, "after")):
            lines.append(
                f'        array_out(&capture, "{number}/{when}", (const char *){name}{back}, (size_t)({size}),'
                f" {_unread(argument)});"
            )
    return "\n".join(heads), "\n".join(before), "\n".join(after), "\n".join(signs)


def _unread(argument: Argument) -> str:
    return json.dumps(f"{argument.name} is shorter than the spec says, or leads to no memory")


def _reasons(function: Interposed) -> Iterator[tuple[str, str]]:
    """Conditions in C under which a call cannot be captured, and why; each holds once those before it do not."""
    arrays = [i for i, a in enumerate(function.arguments) if a.is_array and not a.by_pointer]
    for i in _addresses(function):
        reason = f"{function.arguments[i].name} leads out of the heap, the stack and the program's variables"
        yield f"a{i} && piece_of((const void *)a{i}) < 0", reason
    for i in arrays:
        yield f"bytes[{i}] <= 0", f"an extent of the spec is no size here: of {function.arguments[i].name}"
    for i, condition in function.views.in_rows(function.names).items():
        yield f"!{condition}", f"the rows of {function.arguments[i].name} do not lie one behind the other"
    for i in arrays:
        yield f"!a{i}", f"{function.arguments[i].name} is a null pointer"
        yield (
            f"!reaches((const char *)a{i} - ahead[{i}], bytes[{i}])",
            json.loads(_unread(function.arguments[i])),
        )


_NO_MEMORY = """
static void piece_heads(Capture *capture, int first) { (void)capture, (void)first; }
static void piece_contents(Capture *capture, int first, const char *when) { (void)capture, (void)first, (void)when; }
enum { piece_count = 0 };
#define FIND_PIECES NULL
"""
"""In the place of ``memory.c``."""

_AS_SAID = """
struct reach { const void *address; long said, item; int written, whole; };
static long reach_of(const struct reach *all, size_t count, size_t which) { (void)count; return all[which].said; }
static long before_of(const struct reach *all, size_t count, size_t which)
{
    (void)all, (void)count, (void)which;
    return 0;
}
struct block { uintptr_t address; size_t size; };
__attribute__((unused)) static struct block *own_blocks(uintptr_t begin, uintptr_t end, size_t *count, size_t *bytes)
{
    (void)begin, (void)end, (void)count, (void)bytes;
    return NULL;
}
"""
"""In the place of ``allocations.c``."""

_TEMPLATE = """
static void begin_more(const char *mode) {{ (void)mode; }}

/* The kernel refuses to read what is not mapped, where a copy would end the application. */
static const char *unread;

static void contents_out(Capture *capture, const void *from, size_t size, const char *why)
{{
    if (capture->failed) return;
    bytes_out(capture, from, size);
    if (capture->failed && *__errno_location() == 14) unread = why;
}}

__attribute__((unused)) static void array_out(
    Capture *capture, const char *name, const void *from, size_t size, const char *why)
{{
    field_head(capture, name, size);
    contents_out(capture, from, size, why);
}}

{memory}
static void heads(Capture *capture, uint64_t sign, const long *bytes, const long *ahead{comma_parameters})
{{
    text_field(capture, "kernel", ENTRY);
    text_field(capture, "form", "none");
    text_field(capture, "text", "");
    text_field(capture, "options", "");
    text_field(capture, "api", "c");
    number_field(capture, "signature", sign);
    number_field(capture, "arguments", {count} + (uint64_t)piece_count);
{heads}
    piece_heads(capture, {count});
}}

static int others;
static Capture capture; /* of the call that is watched; there is one at most */
static uint64_t watched; /* its number; 0 while there is none */
static int capturing; /* 1 while its file is open, 2 while that is put in place */
static __thread char *frame; /* where this thread's watched call lies on the stack */
static char **owner; /* the frame of the thread whose call is watched */

/* A call that an exception or a jump left never came back here. The stack shows it: what its thread calls next lies no
 * deeper than it did. A signal's handler may leave this one, too: frame is forgotten last.
 */
static void forget_left(char *here)
{{
    if (!frame || here < frame) return;
    if (__atomic_load_n(&owner, __ATOMIC_ACQUIRE) == &frame) {{
        if (capturing == 1) close(capture.file);
        if (capturing) unlink(capture.path);
        capturing = 0;
        count_call(0, 0, "it was left by an exception or a jump");
        __atomic_store_n(&watched, 0, __ATOMIC_RELEASE);
        __atomic_store_n(&owner, NULL, __ATOMIC_RELEASE);
    }}
    frame = NULL;
}}

{definition}
{{
    static uint64_t calls;
    begin();
    Function function = (Function)original(__builtin_return_address(0));
    uint64_t *counter = __atomic_load_n(&only_counted, __ATOMIC_ACQUIRE);
    if (counter) {{
        __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
        {plain}
    }}
    forget_left(__builtin_frame_address(0));
    if (frame || !mode_record) {plain}
    if (!is_meant((void *)function)) {{
        say("launch\t%s\t1\t0\t0.0\tanother function of that name, of another library", ENTRY);
        {plain}
    }}
    char **none = NULL;
    frame = __builtin_frame_address(0);
    if (!__atomic_compare_exchange_n(&owner, &none, &frame, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {{
        /* Another thread is in it: what either changes would be taken for the other's. */
        frame = NULL;
        __atomic_store_n(&others, 1, __ATOMIC_RELEASE);
        count_call(0, 0, "calls of several threads at once");
        {plain}
    }}
    uint64_t own = watched = ++calls;
    const char *why = NULL;
    uint64_t sign = 0xCBF29CE484222325u;
{declared}
{missing}
{signs}
    struct reach said[] = {{
        {said}}};
    long bytes[{count} + 1], ahead[{count} + 1];
    int asked = !why && place_for(sign) >= 0;
    for (int i = 0; i < {count}; i++) {{
        ahead[i] = asked ? before_of(said, {count}, i) : 0;
        bytes[i] = ahead[i] + (asked ? reach_of(said, {count}, i) : said[i].said);
    }}
    if (asked) {{
        why = FIND_PIECES;
{reasons}
    }}
    __atomic_store_n(&others, 0, __ATOMIC_RELEASE);
    unread = NULL;
    capturing = !why && is_wanted(sign) && open_capture(&capture);
    if (capturing) {{
        heads(&capture, sign, bytes, ahead{comma_names});
{before}
        piece_contents(&capture, {count}, "before");
    }}
    double start = now();
    {result} result = {call};
    double seconds = now() - start;
    if (capturing && capture.process != getpid()) {{
        /* The function has made another process of itself; the recording is the first one's. */
        close(capture.file);
        capturing = 0;
        why = "it goes on in another process";
    }}
    /* Taken for one that was left: it runs on a stack of its own. */
    if (__atomic_load_n(&watched, __ATOMIC_ACQUIRE) != own) return result;
    if (capturing) {{
{after}
        piece_contents(&capture, {count}, "after");
        if (__atomic_load_n(&others, __ATOMIC_ACQUIRE)) why = "calls of several threads at once";
        if (unread) why = unread, capture.failed = 0;
        capturing = 2;
        close_capture(&capture, seconds, !why, sign);
    }}
    launch_took(sign, seconds);
    count_call(sign, seconds, why ? why : "");
    look_less(seconds);
    capturing = 0;
    __atomic_store_n(&watched, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&owner, NULL, __ATOMIC_RELEASE);
    frame = NULL;
    return result;
}}
"""
