"""The pages: one file each, in both languages, with plotly's script inside; they ask no address for anything."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from grader import results
from grader.profiling import thresholds
from grader.profiling.contents import contents
from grader.profiling.drawings import Drawing, drawings
from grader.profiling.figures.tile_time import tile_time
from grader.profiling.model_of import model_of
from grader.reports import pages
from grader.text import language, say
from kernels.perf import Shape, Soc
from kernels.perf.sweeping import Outcome
from kernels.profiles import Profile

ASSETS = Path(__file__).with_name("assets")


def page(profile: Profile, before: Profile | None = None, *, lang: str | None = None) -> str:
    """The page of a profile; with ``before``, compared with that one."""
    model = model_of(profile.emulated)
    drawn = drawings(profile, before, model)
    facts = SimpleNamespace(
        **vars(contents(profile, before, model)),
        buffers="buffers" in drawn,
        has_times="timeline" in drawn,
        has_model="core" in drawn,
        has_roofline="roofline" in drawn,
    )
    title = say("{name} · FlashDojo", "{name} · FlashDojo", name=profile.path.resolve().name)
    return _render("profile.html", lang, drawn, title=title, facts=facts, thresholds=thresholds.ALL)


def sweep_page(
    soc: Soc,
    shape: Shape,
    times: Mapping[tuple[int, int], float | None],
    winner: Outcome,
    *,
    lang: str | None = None,
) -> str:
    """The page of a sweep: the best time with each tile."""
    columns = sorted({tile[1] for tile in times})
    rows = [(row, [times[row, column] for column in columns]) for row in sorted({tile[0] for tile in times})]
    caption = say(
        "每种块（block_q × block_kv）的最短时间，us；空白处没有放得下的调度。",
        "The best time with each tile, block_q by block_kv, in us; nothing fits where it is empty.",
    )
    sizes = (shape.batch, shape.num_heads, shape.num_kv_heads, shape.seq_q, shape.seq_kv, shape.head_dim)
    kicker = say(
        "{soc} · B,N1,N2,S1,S2,D = {sizes} · {dtype}{causal}",
        "{soc} · B,N1,N2,S1,S2,D = {sizes} · {dtype}{causal}",
        soc=soc.name,
        sizes=",".join(map(str, sizes)),
        dtype=shape.dtype,
        causal=" · causal" if shape.causal else "",
    )
    verdict = say(
        "最快 {us:.1f} us：{q} × {kv}",
        "fastest {us:.1f} us: {q} × {kv}",
        us=winner.microseconds,
        q=winner.schedule.block_q,
        kv=winner.schedule.block_kv,
    )
    return _render(
        "sweep.html",
        lang,
        {"tiles": Drawing(tile_time(times, "zh"), tile_time(times, "en"), caption)},
        title=say("时间与块大小 · FlashDojo", "Time against tile size · FlashDojo"),
        kicker=kicker,
        verdict=verdict,
        caption=caption,
        columns=columns,
        rows=rows,
    )


def _render(template: str, lang: str | None, drawn: Mapping[str, Drawing], **values: Any) -> str:
    return (
        _environment()
        .get_template(template)
        .render(
            lang=lang or language(),
            version=results.version(),
            wide=True,
            captions={name: drawing.caption for name, drawing in drawn.items()},
            figures=_as_json(drawn),
            plotly=Markup(get_plotlyjs()),
            figures_script=Markup((ASSETS / "figures.js").read_text("utf-8")),
            **values,
        )
    )


def _as_json(drawn: Mapping[str, Drawing]) -> Markup:
    """For a script element, which ends at the first ``</``."""
    both = {name: {"zh": d.zh.to_plotly_json(), "en": d.en.to_plotly_json()} for name, d in drawn.items()}
    text = json.dumps(both, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))


@functools.cache
def _environment() -> Environment:
    env = pages.environment().overlay(loader=FileSystemLoader([ASSETS, pages.ASSETS]))
    style = (pages.ASSETS / "style.css").read_text("utf-8") + (ASSETS / "profile.css").read_text("utf-8")
    env.globals = {**env.globals, "style": Markup(style)}
    return env
