"""Pictures and output blocks of README and docs, made again by running isorep.

    make figures                            # everything, in a few minutes
    python docs/figures.py outputs          # the output blocks alone
    python docs/figures.py hero report      # single pictures

A block stands between ``<!-- output: NAME -->`` and ``<!-- end -->``, in the README or in a page of the docs; ``NAME``
is a key of ``OUTPUTS``. Pictures of long experiments are not made here: ``EXPERIMENTS`` says which command makes them.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
COLUMNS = 80

# Each runs in a folder with seed0.npy to seed2.npy, trainings of the demo's autoencoder.
OUTPUTS = {
    "compare": ["compare", "seed0.npy", "seed1.npy"],
    "ladder": ["compare", "seed0.npy", "seed1.npy"],
    "many": ["compare", "seed0.npy", "seed1.npy", "seed2.npy"],
    "similarity": ["similarity", "seed0.npy", "seed1.npy"],
}

# Where a block ends early, at a line that begins so; the rest is left out.
LAST_LINES = {"ladder": "> marks"}

# Copied from the folder that the command writes, docs/images/reproduce-NAME-FIGURE.svg from figures/FIGURE.svg.
EXPERIMENTS = {
    "reproduce-bbbc021, reproduce-simulated": "isorep reproduce deconfounding --scale laptop",
    "reproduce-classes-*": "isorep reproduce classes --scale laptop",
    "reproduce-contrastive-*": "isorep reproduce contrastive --scale laptop",
    "reproduce-disentanglement-*": "isorep reproduce disentanglement --scale laptop",
    "reproduce-layers-*": "isorep reproduce layers --scale laptop",
    "reproduce-pretrained-*": "isorep reproduce pretrained --scale laptop",
    "reproduce-mechanisms, reproduce-slots-*": "isorep reproduce slots --scale laptop",
    "reproduce-warmup-*": "isorep reproduce warmup --scale laptop",
    "reproduce-words-*": "isorep reproduce words --scale laptop",
    "deconfound": "the gallery's plot_deconfound.py, by make docs",
    "disentangle-rooms": "isorep disentangle on 4,000 rendered rooms, cut from its report",
    "ensembles-spliceai": "the gallery's plot_spliceai.py with ISOREP_SPLICEAI=folder, by make docs",
    "scenes": "the gallery's plot_scenes.py, by make docs",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help="outputs, hero, report; all by default")
    chosen = parser.parse_args().parts or ["outputs", "hero", "report"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train(folder, seeds=3 if "outputs" in chosen else 2)
        if "outputs" in chosen:
            write_outputs(folder)
        if "hero" in chosen:
            draw_hero(folder)
        if "report" in chosen:
            shoot_report(folder)
    print("\nNot made here:")
    for pictures, source in EXPERIMENTS.items():
        print(f"  {pictures}: {source}")


def train(folder: Path, seeds: int = 2) -> None:
    """Latents of the demo's autoencoder, one file per seed."""
    import numpy as np

    from isorep.models import load_digit_images, train_autoencoder

    images = load_digit_images()
    for seed in range(seeds):
        np.save(folder / f"seed{seed}.npy", train_autoencoder(images, seed=seed).encode(images))


# Output blocks


def write_outputs(folder: Path) -> None:
    """Fill every block of every page that names one of the outputs."""
    made: dict[str, str] = {}
    for path in pages():
        text = path.read_text(encoding="utf-8")
        for name in blocks(text):
            if name not in made:
                made[name] = output(name, folder)
            text = replace(text, name, made[name])
        if text != path.read_text(encoding="utf-8"):
            path.write_text(text, encoding="utf-8")
            print(f"renewed {path.relative_to(ROOT)}")


def pages() -> list[Path]:
    """The README and the Markdown pages of the docs."""
    made = {ROOT / "docs" / "_build", ROOT / "docs" / "gallery", ROOT / "docs" / "api"}
    found = [path for path in (ROOT / "docs").rglob("*.md") if not made & set(path.parents)]
    return [ROOT / "README.md", *sorted(found)]


def blocks(text: str) -> dict[str, str]:
    """Output blocks of a page: what stands between the fences, by name."""
    return dict(re.findall(r"<!-- output: ([\w-]+) -->\n```text\n(.*?)```\n<!-- end -->", text, re.DOTALL))


def replace(text: str, name: str, block: str) -> str:
    """The page with another text in one of its blocks."""
    opening, closing = f"<!-- output: {name} -->\n```text\n", "```\n<!-- end -->"
    before, _, rest = text.partition(opening)
    return before + opening + block + closing + rest.partition(closing)[2]


def output(name: str, folder: Path) -> str:
    """What a command prints on a terminal of 80 columns."""
    environment = os.environ | {"COLUMNS": str(COLUMNS), "NO_COLOR": "1"}
    command = [sys.executable, "-m", "isorep", *OUTPUTS[name]]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    lines = [line.rstrip() for line in done.stdout.strip().splitlines()]
    ends = [place for place, line in enumerate(lines) if name in LAST_LINES and line.startswith(LAST_LINES[name])]
    return "\n".join([*lines[: ends[0] + 1], "..."] if ends else lines) + "\n"


# Pictures


def draw_hero(folder: Path) -> None:
    """The ladder of two seeds: held-out errors with intervals, and the range that shuffled rows give."""
    import matplotlib
    from matplotlib.figure import Figure

    import isorep

    result = isorep.compare(folder / "seed0.npy", folder / "seed1.npy")
    with matplotlib.rc_context({"svg.hashsalt": "isorep", "font.size": 10.5}):
        figure = Figure(figsize=(8, 3.3), layout="constrained")
        ladder(figure.subplots(), result)
        figure.savefig(IMAGES / "ladder.svg", metadata={"Date": None})
    print("drew docs/images/ladder.svg")


def ladder(axes: Any, result: Any) -> None:
    """Rungs from the top, errors to the right; the rung of the verdict in colour."""
    import numpy as np

    accent, ink, chance = "#1d5b8f", "#8ea3b3", "#f3d9c6"
    for place, (name, rung) in enumerate(result.rungs.items()):
        colour = accent if name == result.verdict.rung else ink
        low, high = np.quantile(rung.null.draws, [0.025, 0.975])
        middle, width = (low + high) / 2, max(high - low, 0.012)
        axes.barh(place, width, left=middle - width / 2, height=0.8, color=chance, zorder=1)
        axes.plot([0, rung.held_out.mean], [place, place], color=colour, linewidth=1.2, alpha=0.5, zorder=2)
        axes.plot([rung.interval.low, rung.interval.high], [place, place], color=colour, linewidth=5, zorder=3)
        axes.plot(rung.held_out.mean, place, "o", color=colour, markersize=8, zorder=4)
        axes.annotate(
            f"{rung.held_out.mean:.2f}",
            (rung.held_out.mean, place),
            (0, 9),
            textcoords="offset points",
            ha="center",
            color=colour if name == result.verdict.rung else "#44525c",
            fontweight="bold" if name == result.verdict.rung else None,
        )
    names = [name.replace("_", " ") for name in result.rungs]
    axes.set_yticks(range(len(names)), names)
    axes.get_yticklabels()[names.index(result.verdict.rung.replace("_", " "))].set(color=accent, fontweight="bold")
    axes.invert_yaxis()
    axes.set_xlim(0, None)
    axes.axvline(1, color="#44525c", linewidth=0.8, linestyle=":", zorder=0)
    axes.set_xlabel("held-out error (1: no better than predicting the mean)")
    axes.set_title(
        "Two seeds of one autoencoder agree up to a rotation, not axis by axis", loc="left", fontsize=12, pad=12
    )
    axes.annotate("chance: 95% range of shuffled rows", (1.02, 2.62), color="#a85a26", ha="left", fontsize=9.5)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)


def shoot_report(folder: Path) -> None:
    """The first screen of the report, by a headless Chromium where there is one."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        print("docs/images/report.png is as it was: there is no Chromium to draw it with")
        return
    import isorep

    isorep.compare(folder / "seed0.npy", folder / "seed1.npy").to_html(folder / "report.html")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]
    command += [f"--user-data-dir={folder / 'browser'}", "--disable-background-networking", "--window-size=1280,1180"]
    command += [f"--screenshot={IMAGES / 'report.png'}", f"file://{folder / 'report.html'}"]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    print("took docs/images/report.png")


if __name__ == "__main__":
    main()
