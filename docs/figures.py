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
    "deconfound": "the gallery's biology/plot_deconfound.py, by make docs",
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
    with matplotlib.rc_context({"svg.hashsalt": "isorep"}):
        figure = Figure(figsize=(8, 3.6), layout="constrained")
        result.plot_ladder(ax=figure.subplots())
        figure.suptitle("Two seeds of one autoencoder agree up to a rotation, not axis by axis", x=0.01, ha="left")
        figure.savefig(IMAGES / "ladder.svg", metadata={"Date": None})
    print("drew docs/images/ladder.svg")


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
