"""One self-contained HTML page about a study: the report in words, and all figures."""

from __future__ import annotations

from datetime import datetime
import html

from optuna_pcts._analysis.infos import INFOS
from optuna_pcts._analysis.report import report_of
from optuna_pcts._analysis.snapshot import Snapshot
from optuna_pcts.visualization import _plotly
from optuna_pcts.visualization._figures import DRAW_PLOTLY


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name} - optuna-pcts</title>
<style>
:root {{ color-scheme: light dark; --ink: #24292f; --soft: #59636e; --page: #f6f8fa;
  --card: #ffffff; --edge: #d8dee4; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --ink: #e6edf3; --soft: #9aa4af; --page: #0d1117; --card: #161b22; --edge: #30363d; }}
}}
body {{ margin: 0 auto; max-width: 1500px; padding: 24px; background: var(--page);
  color: var(--ink); font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; }}
h1 {{ font-size: 24px; margin: 0; overflow-wrap: anywhere; }}
.when {{ color: var(--soft); margin: 2px 0 18px; }}
.card {{ background: var(--card); border: 1px solid var(--edge); border-radius: 8px; }}
dl {{ display: grid; grid-template-columns: max-content 1fr; gap: 6px 20px; margin: 0 0 18px;
  padding: 16px 20px; }}
dt {{ color: var(--soft); }}
dd {{ margin: 0; overflow-wrap: anywhere; }}
.figures {{ display: grid; gap: 18px;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 560px), 1fr)); }}
.figure {{ height: 460px; padding: 6px; min-width: 0; }}
</style>
<script>{script}</script>
</head>
<body>
<h1>{name}</h1>
<p class="when">{direction}, as of {when}</p>
<dl class="card">
{rows}
</dl>
<div class="figures">
{figures}
</div>
<script>
const dark = matchMedia("(prefers-color-scheme: dark)");
function paint() {{
  for (const plot of document.querySelectorAll(".js-plotly-plot"))
    Plotly.relayout(plot, {{"font.color": dark.matches ? "#c3ccd5" : "#3d4650"}});
}}
dark.addEventListener("change", paint);
paint();
</script>
</body>
</html>
"""


def page_of(source: Snapshot) -> str:
    """Return the page. It needs no network: plotly's script is in it, once."""
    _plotly.check()
    from plotly.offline import get_plotlyjs

    found = report_of(source)
    rows = [
        f"<dt>{html.escape(name)}</dt><dd>{'<br>'.join(map(html.escape, texts))}</dd>"
        for name, texts in found.rows()
    ]
    figures = []
    for name in INFOS:
        info = source.info(INFOS[name])
        if info is not None:
            drawn = DRAW_PLOTLY[name](info).to_html(
                full_html=False,
                include_plotlyjs=False,
                div_id=f"pcts-{name}",
                default_height="100%",
                config={"responsive": True, "displaylogo": False},
            )
            figures.append(f'<div class="card figure">{drawn}</div>')
    return _PAGE.format(
        name=html.escape(found.study_name),
        direction=found.direction,
        when=f"{datetime.now():%Y-%m-%d %H:%M:%S}",
        script=get_plotlyjs(),
        rows="\n".join(rows),
        figures="\n".join(figures),
    )
