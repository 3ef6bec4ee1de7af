"""Pass pipelines: the catalogue from LLVM's own texts, the tree, edits, and the space around O3."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tuner.core.errors import SpecError
from tuner.spaces.edits import Edit, EditKind, random_edit, random_params, random_prefix
from tuner.spaces.parameters import Parameter
from tuner.spaces.passes import Catalogue, PassSpace
from tuner.spaces.pipeline import Pipeline
from tuner.spaces.space import Space
from tuner.spaces.undoing import shortest

GOLDEN = Path(__file__).parent.parent / "golden"
LISTING = (GOLDEN / "llvm23_passes.txt").read_text()
O3 = (GOLDEN / "llvm23_o3.txt").read_text().strip()
CATALOGUE = Catalogue.from_listing(LISTING, O3, "23.1.4")


def rng(seed=0):
    return np.random.default_rng(seed)


def apply(text, kind, path, new="", other=()):
    edit = Edit(kind=EditKind(kind), path=path, text=new, other=other)
    return edit.apply(Pipeline.parse(text), CATALOGUE).text


@pytest.mark.parametrize(
    "text",
    [
        O3,
        "default<O3>",
        "cgscc(devirt<4>(inline,function<eager-inv;no-rerun>(sroa<modify-cfg>,gvn<>)))",
        "require<globals-aa>,function(invalidate<aa>)",
        "function(loop-mssa(licm<allowspeculation>),print<access-info><allow-partial>)",
        "repeat<3>(function(gvn))",
    ],
)
def test_texts_come_back_unchanged(text):
    pipeline = Pipeline.parse(text)
    assert pipeline.text == text
    assert Pipeline.build([(leaf.containers, leaf.node) for leaf in pipeline.leaves()]).text == text
    assert Pipeline.parse(f" {text}\n") == pipeline


@pytest.mark.parametrize(
    "text",
    ["", ",", "a,", "a,,b", "function(", "function()", "a)", "a<b", "gvn(sroa)", "a b<c>)", "a<(>", "(a)",
     "function(" * 30 + "a" + ")" * 30, "a," * 60_000 + "a"],
)  # fmt: skip
def test_broken_texts_are_refused(text):
    with pytest.raises(SpecError):
        Pipeline.parse(text)


def test_catalogue_reads_levels_and_options():
    passes = CATALOGUE.passes
    assert passes["licm"].level == "loop-mssa"
    assert passes["licm"].options == ("allowspeculation", "no-allowspeculation")
    assert passes["loop-interchange"].level == "loop"
    assert passes["inline"].level == "cgscc"
    assert passes["gvn"].level == "function"
    assert "full-unroll-max=N" in passes["loop-unroll"].options
    assert passes["globalopt"].level == "module"
    assert "machine-cse" not in passes
    assert CATALOGUE.forms["instcombine"] == ("<max-iterations=1;no-verify-fixpoint>",)


def test_catalogue_leaves_out_what_is_of_no_use():
    usable = {p.name for p in CATALOGUE.usable}
    assert {
        "licm",
        "gvn",
        "loop-unroll",
        "sroa",
        "slp-vectorizer",
        "inline",
        "function-simplification",
    } <= usable
    unwanted = {"print", "verify", "asan", "dfsan", "coro-early", "pgo-instr-gen", "dot-cfg", "debugify"}
    unwanted |= {"internalize", "strip", "metarenamer", "thinlto", "default", "no-op-loop", "invalidate"}
    unwanted |= {"lower-atomic", "loop-extract", "extract-blocks", "memprof", "trigger-crash-function"}
    assert not unwanted & usable
    assert all(CATALOGUE.passes[n].unused for n in unwanted)
    broken = Catalogue.from_listing(LISTING, O3, "23", broken=["gvn"])
    assert "gvn" not in {p.name for p in broken.usable}


def test_catalogue_as_json():
    assert Catalogue.from_json(json.loads(json.dumps(CATALOGUE.to_json()))) == CATALOGUE
    with pytest.raises(SpecError):
        Catalogue.from_json({"version": "1"})
    with pytest.raises(SpecError):
        Catalogue.from_listing("", O3, "1")


def test_levels_are_checked():
    assert CATALOGUE.explain(Pipeline.parse(O3)) == ""
    assert CATALOGUE.explain(Pipeline.parse("function(loop-mssa(licm)),default<O3>")) == ""
    assert "unknown pass 'nope'" in CATALOGUE.explain(Pipeline.parse("function(nope)"))
    assert "needs loop-mssa" in CATALOGUE.explain(Pipeline.parse("function(loop(licm))"))
    assert "module pass" in CATALOGUE.explain(Pipeline.parse("function(globalopt)"))
    assert "function pass" in CATALOGUE.explain(Pipeline.parse("function(loop(gvn))"))


def test_containers_that_llvm_adds_by_itself():
    explicit = lambda text: CATALOGUE.explicit(Pipeline.parse(text)).text  # noqa: E731
    assert explicit("gvn,sroa") == "function(gvn,sroa)"
    assert explicit("licm") == "function(loop-mssa(licm))"
    assert explicit("indvars") == "function(loop(indvars))"
    assert explicit("inline") == "cgscc(inline)"
    assert explicit("loop(indvars),gvn") == "function(loop(indvars),gvn)"
    assert explicit("default<O3>") == "default<O3>"


@pytest.mark.parametrize(
    ("path", "new", "expected"),
    [
        ((0, 0), "gvn", "function(gvn,sroa,loop(indvars)),globalopt"),
        ((0, 2), "gvn", "function(sroa,loop(indvars),gvn),globalopt"),
        ((0, 0), "indvars", "function(loop(indvars),sroa,loop(indvars)),globalopt"),
        ((0, 0), "licm", "function(loop-mssa(licm),sroa,loop(indvars)),globalopt"),
        ((0, 1, 0), "loop-rotate", "function(sroa,loop(loop-rotate,indvars)),globalopt"),
        ((0, 1, 0), "licm", "function(sroa,loop-mssa(licm),loop(indvars)),globalopt"),
        ((0, 1, 0), "gvn<>", "function(sroa,gvn<>,loop(indvars)),globalopt"),
        ((0, 1, 0), "globaldce", "globaldce,function(sroa,loop(indvars)),globalopt"),
        ((1,), "inline", "function(sroa,loop(indvars)),cgscc(inline),globalopt"),
        ((2,), "licm", "function(sroa,loop(indvars)),globalopt,function(loop-mssa(licm))"),
    ],
)
def test_insertion_wraps_as_the_place_asks(path, new, expected):
    assert apply("function(sroa,loop(indvars)),globalopt", "insert", path, new) == expected


def test_loop_mssa_takes_only_passes_that_preserve_it():
    text = "function(loop-mssa(licm))"
    assert apply(text, "insert", (0, 0, 0), "loop-rotate") == "function(loop-mssa(loop-rotate,licm))"
    assert apply(text, "insert", (0, 0, 0), "indvars") == "function(loop(indvars),loop-mssa(licm))"
    assert apply(text, "replace", (0, 0, 0), "indvars") == "function(loop(indvars))"


def test_other_edits():
    text = "function(sroa,loop(indvars)),globalopt"
    assert apply(text, "delete", (0, 1, 0)) == "function(sroa),globalopt"
    assert apply(text, "delete", (1,)) == "function(sroa,loop(indvars))"
    assert apply(text, "replace", (0, 0), "gvn<memdep>") == "function(gvn<memdep>,loop(indvars)),globalopt"
    assert apply(text, "replace", (0, 0), "globaldce") == "globaldce,function(loop(indvars)),globalopt"
    assert (
        apply(text, "set_option", (0, 0), "<preserve-cfg>")
        == "function(sroa<preserve-cfg>,loop(indvars)),globalopt"
    )
    assert apply("function(sroa,gvn)", "swap", (0, 0), other=(0, 1)) == "function(gvn,sroa)"
    crossed = apply("function(sroa),cgscc(inline,function(gvn<>))", "swap", (0, 0), other=(1, 1, 0))
    assert crossed == "function(gvn<>),cgscc(inline,function(sroa))"


@pytest.mark.parametrize(
    ("kind", "path", "new", "other"),
    [
        ("insert", (), "gvn", ()),
        ("insert", (9,), "gvn", ()),
        ("insert", (0, 0, 5), "gvn", ()),
        ("insert", (0, 0), "nope", ()),
        ("insert", (0, 0), "gvn,sroa", ()),
        ("delete", (0,), "", ()),
        ("delete", (5,), "", ()),
        ("swap", (0, 0), "", (1,)),
        ("swap", (0, 0), "", (0,)),
    ],
)
def test_edits_that_do_not_apply(kind, path, new, other):
    with pytest.raises(SpecError):
        apply("function(sroa),globalopt", kind, path, new, other)


def test_the_last_pass_stays():
    with pytest.raises(SpecError, match="empty"):
        apply("function(sroa)", "delete", (0, 0))


def test_random_edits_keep_the_pipeline_sound_and_use_every_kind():
    pipeline, draw, kinds = Pipeline.parse(O3), rng(), set()
    for _ in range(300):
        edit, changed = random_edit(pipeline, CATALOGUE, draw)
        assert changed != pipeline
        assert edit.apply(pipeline, CATALOGUE) == changed
        assert CATALOGUE.explain(changed) == ""
        kinds.add(edit.kind)
        pipeline = changed
    assert kinds == set(EditKind)


def test_random_edits_leave_whole_pipelines_and_analyses_alone():
    pipeline, draw = Pipeline.parse("require<globals-aa>,default<O3>"), rng()
    for _ in range(100):
        _, pipeline = random_edit(pipeline, CATALOGUE, draw)
    heads = [leaf.node.head for leaf in pipeline.leaves()]
    assert heads.count("default<O3>") == heads.count("require<globals-aa>") == 1


def test_options_that_end_the_compiler_are_never_drawn():
    draw = rng()
    for _ in range(400):
        assert "verify-fixpoint" not in random_prefix(CATALOGUE, draw).text.replace("no-verify-fixpoint", "")
    # Nor is what keeps it from being on, as it is by itself, ever taken back.
    info, params = CATALOGUE.passes["instcombine"], CATALOGUE.forms["instcombine"][0]
    for _ in range(50):
        params = random_params(info, params, draw)
        assert "no-verify-fixpoint" in params


def test_the_space_around_o3():
    space = PassSpace(CATALOGUE, max_edits=5)
    assert space.distance("default<O3>") == space.distance(O3) == 0
    assert space.flattened == O3
    assert space.distance("function(gvn),default<O3>,function(loop-mssa(licm))") == 2
    far = ",".join(["function(gvn)"] * 6) + ",default<O3>"
    assert "6 edits from default<O3>; at most 5" in space.explain(far)
    assert "not a pass pipeline" in space.explain("gvn(")
    assert "unknown pass" in space.explain("nope,default<O3>")


@pytest.mark.integration
def test_random_mutate_and_crossover_stay_in_the_space():
    space, draw = PassSpace(CATALOGUE, max_edits=6), rng(1)
    texts = [space.random(draw) for _ in range(120)]
    assert space.base not in texts
    assert len(set(texts)) > 100
    assert sum(t.endswith(",default<O3>") for t in texts) > 40
    assert sum("default" not in t for t in texts) > 20
    children = [space.mutate(t, draw, 1 + i % 3) for i, t in enumerate([space.base, O3, *texts])]
    assert all(c != t for c, t in zip(children, [space.base, O3, *texts], strict=True))
    crossed = [space.crossover(a, b, draw) for a, b in zip(texts, children, strict=False)]
    assert sum(c not in (a, b) for c, a, b in zip(crossed, texts, children, strict=False)) > 40
    for text in (*texts, *children, *crossed):
        assert space.explain(text) == ""
        assert space.distance(text) <= 6


def test_draws_depend_on_the_stream_alone():
    one, two = PassSpace(CATALOGUE), PassSpace(CATALOGUE)
    first = [one.random(rng(7)), one.mutate(O3, rng(8), 3), one.crossover(O3, "default<O3>", rng(9))]
    [two.random(rng(i)) for i in range(5)]
    assert first == [two.random(rng(7)), two.mutate(O3, rng(8), 3), two.crossover(O3, "default<O3>", rng(9))]


def test_another_base():
    with pytest.raises(SpecError, match="'licm' needs loop-mssa"):
        PassSpace(CATALOGUE, base="sroa,gvn,licm", max_edits=3)
    bare = PassSpace(CATALOGUE, base="sroa,gvn", max_edits=3)
    assert (bare.base, bare.flattened) == ("sroa,gvn", "function(sroa,gvn)")
    assert bare.distance("sroa,gvn") == bare.distance("function(sroa,gvn)") == 0
    ok = PassSpace(CATALOGUE, base="function(sroa,gvn)", max_edits=3)
    assert all(ok.is_valid(ok.random(rng(i))) for i in range(20))
    assert all(ok.is_valid(ok.mutate(ok.base, rng(i))) for i in range(20))


@pytest.mark.parametrize(("base", "edits"), [("nope", 3), ("default<O3", 3), ("default<O3>", 0)])
def test_mistakes(base, edits):
    with pytest.raises(SpecError):
        PassSpace(CATALOGUE, base=base, max_edits=edits)


def test_pipelines_in_configurations():
    space = Space([Parameter.choice("T", [1, 2])], passes=PassSpace(CATALOGUE), flags={"m": ["", "-Ofast"]})
    default = space.default()
    assert default == {"T": 1, "m": "", "passes": "default<O3>"}
    assert space.resolve(default).pipeline == "default<O3>"
    assert space.is_valid(default)
    assert "unknown pass" in space.explain(default | {"passes": "nope"})
    assert "passes has no value" in space.explain({"T": 1, "m": ""})
    chosen = default | {"passes": "function(gvn),default<O3>"}
    assert {c["passes"] for c in space.neighbours(chosen)} == {chosen["passes"]}
    assert {c["passes"] for c in space.sample(rng(), 4)} == {"default<O3>"}
    assert space.sample(rng(), 1, passes=O3)[0]["passes"] == O3
    assert space.normalise(chosen) == chosen


@pytest.mark.parametrize("needed", [(), ("newgvn",), ("newgvn", "loop-fusion")])
def test_the_shortest_pipeline_has_what_it_needs_and_no_more(needed):
    space, draw = PassSpace(CATALOGUE), rng(3)
    extra = "".join(f"function({name})," for name in needed)
    asked = []

    def same(text):
        asked.append(text)
        return all(name in text for name in needed)

    for _ in range(10):
        before = space.crossover(space.random(draw), f"{extra}default<O3>" if needed else space.base, draw)
        if not same(before):
            continue
        left = shortest(space, before, same)
        assert same(left)
        assert space.explain(left) == ""
        # Not one of its passes can go.
        leaves = [leaf.node.name for leaf in Pipeline.parse(left).leaves() if leaf.node.name != "default"]
        assert sorted(leaves) == sorted(needed) or "default" not in left
    assert len(asked) > 10
    assert (
        shortest(space, "function(newgvn),default<O3>", lambda text: False) == "function(newgvn),default<O3>"
    )
    assert shortest(space, "function(newgvn),default<O3>", lambda text: True) == "default<O3>"
    # Written as one group it is another pipeline, which is asked for.
    apart = "function(newgvn),function(sroa<modify-cfg>),default<O3>"
    assert shortest(space, apart, lambda text: "newgvn" in text and "sroa" in text) != apart
    assert shortest(space, apart, lambda text: "newgvn,sroa" not in text and "sroa" in text) == apart
