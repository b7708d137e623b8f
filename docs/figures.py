"""Pictures and output blocks of README and docs, made again by running isorep.

    make figures                            # everything, in some minutes
    python docs/figures.py outputs          # the output blocks alone
    python docs/figures.py hero report      # single pictures

A block stands between ``<!-- output: NAME -->`` and ``<!-- end -->``, in the README or in a page of the docs; ``NAME``
is a key of ``OUTPUTS`` or ``UNTESTED``. Scripts are Python blocks of the guides that begin with ``# NAME.py``. Long
experiments are not made here: ``EXPERIMENTS`` and ``PASTED`` say which command makes their pictures and blocks.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
COLUMNS = 80

# Commands by block. All run in this order, in one folder with the scripts of the guides and seed0.npy to seed4.npy,
# trainings of the demo's autoencoder. A block shows what the last command of its line prints.
OUTPUTS = {
    "compare": "isorep compare seed0.npy seed1.npy",
    "ladder": "isorep compare seed0.npy seed1.npy",
    "ladder-short": "isorep compare seed0.npy seed1.npy",
    "worst-case": "isorep compare seed0.npy seed1.npy",
    "many": "isorep compare seed0.npy seed1.npy seed2.npy seed3.npy seed4.npy",
    "similarity": "python pair.py && isorep similarity a.npy b.npy --permutations 200",
    "blocks": "python views.py && isorep blocks view1.npy view2.npy --components 40 --least 0.5",
}

# The same for those that no test runs: another machine may print other numbers (training with torch, ties), or they
# take long.
EXTRACT = "isorep extract nets:build digits.npy --weights {0}.safetensors -l 1,3,4 -o {0}/"
UNTESTED = {
    "checkpoints-train": "python train.py",
    "checkpoints-list": "isorep extract nets:build digits.npy --list-layers",
    "checkpoints-extract": f"{EXTRACT.format('seed1')} && {EXTRACT.format('seed0')}",
    "checkpoints-compare": "isorep compare seed0/3.parquet seed1/3.parquet",
    "checkpoints-layers": "isorep compare seed0/ seed1/",
    "checkpoints-capture": "python captured.py",
    "checkpoints-heads": "isorep heads seed1.safetensors::4.weight --bias 4.bias",
    "structure": "python latents.py && isorep structure latents.npy factors.csv --scores infomec,mcc",
    "heads-circle": "python circle.py",
    "bounds-pair": "python autoencoders.py",
    "deconfound": "python screen.py && isorep deconfound screen.parquet --label treatment --batch plate",
}

# Blocks that show parts of the output: each from a line that begins so to one that begins so, to the next empty line
# (None) or to the end ("").
PARTS: dict[str, tuple[tuple[str, str | None], ...]] = {
    "ladder": (("verdict", "> marks"),),
    "ladder-short": (("verdict", None), ("   ", "> marks")),
    "worst-case": (("worst case", ""),),
    "bounds-pair": (("verdict", "bound: with one scale"),),
    "checkpoints-extract": (("  ", "4 "),),  # the table, without the time that it took
}

# Pasted from the output of the command, at 80 columns: runs of minutes, or data and weights that are not shipped.
PASTED = {
    "guide/translate.md": "isorep translate fit, on 4,000 sentences embedded by the two models that it names",
    "guide/screen.md": "its commands, with wells.py and ISOREP_DATA=FOLDER, which holds bbbc021",
    "guide/dictionaries.md": "its script tokens.py and the commands, with model.safetensors of all-MiniLM-L6-v2",
    "guide/disentangle.md": "the script and the command above the block",
}

# Copied from the folder that the command writes, docs/images/reproduce-NAME-FIGURE.svg from figures/FIGURE.svg.
EXPERIMENTS = {
    "reproduce-deconfounding-*": "isorep reproduce deconfounding --scale laptop --set further=8",
    "reproduce-classes-*": "isorep reproduce classes --scale laptop",
    "reproduce-contrastive-*": "isorep reproduce contrastive --scale laptop",
    "reproduce-disentanglement-*": "isorep reproduce disentanglement --scale laptop",
    "reproduce-inversion-*": "isorep reproduce inversion --scale laptop",
    "reproduce-layers-*": "isorep reproduce layers --scale laptop",
    "reproduce-pretrained-*": "isorep reproduce pretrained --scale laptop",
    "reproduce-slots-trace": "isorep reproduce slots --scale paper, with the settings on its page",
    "reproduce-slots-*": "isorep reproduce slots --scale laptop",
    "reproduce-released-*": "isorep reproduce released --scale laptop",
    "reproduce-warmup-*": "isorep reproduce warmup --scale laptop",
    "reproduce-words-*": "isorep reproduce words --scale laptop",
    "blocks-*": "the gallery's factors/plot_content_style.py, by make docs",
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
        train(folder, seeds=5 if "outputs" in chosen else 2)
        if "outputs" in chosen:
            write_outputs(folder)
        if "hero" in chosen:
            draw_hero(folder)
        if "report" in chosen:
            shoot_report(folder)
    print("\nNot made here:")
    for made, source in (EXPERIMENTS | PASTED).items():
        print(f"  {made}: {source}")


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
    write_scripts(folder)
    made = {name: output(name, folder) for name in OUTPUTS | UNTESTED}
    for path in pages():
        before = text = path.read_text(encoding="utf-8")
        for name in blocks(text):
            text = replace(text, name, made[name])
        if text != before:
            path.write_text(text, encoding="utf-8")
            print(f"renewed {path.relative_to(ROOT)}")


def write_scripts(folder: Path) -> None:
    """The Python blocks of the pages that begin with ``# NAME.py``, as files."""
    for path in pages():
        for name, code in re.findall(r"```python\n# (\w+\.py)\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL):
            (folder / name).write_text(code, encoding="utf-8")


def pages() -> list[Path]:
    """The README and the Markdown pages of the docs."""
    made = {ROOT / "docs" / "_build", ROOT / "docs" / "gallery", ROOT / "docs" / "api" / "generated"}
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
    """What the last command of a line prints on a terminal of 80 columns; dots stand for the parts left out."""
    lines = []
    for line in _printed((OUTPUTS | UNTESTED)[name], folder):  # sentences that Python prints are in one line
        lines += [line.rstrip()] if len(line.rstrip()) <= COLUMNS else textwrap.wrap(line, COLUMNS)
    return "\n".join(_shown(lines, PARTS[name]) if name in PARTS else lines) + "\n"


@cache
def _printed(commands: str, folder: Path) -> list[str]:
    """The lines of the last of these commands, each of which runs once however many blocks show it."""
    environment = os.environ | {"COLUMNS": str(COLUMNS), "NO_COLOR": "1"}
    programs = {"isorep": [sys.executable, "-m", "isorep"], "python": [sys.executable]}
    for command in commands.split(" && "):
        program, *arguments = command.split()
        call = [*programs[program], *arguments]
        done = subprocess.run(call, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip("\n").splitlines()


def _shown(lines: list[str], parts: tuple[tuple[str, str | None], ...]) -> list[str]:
    """Parts of an output, with dots for what is left out."""
    shown, seen = [], 0
    for opening, closing in parts:
        first = next(place for place, line in enumerate(lines) if place >= seen and line.startswith(opening))
        after = list(enumerate(lines))[first:]
        if closing is None:
            ends = [place for place, line in after if not line]
        else:
            ends = [place + 1 for place, line in after if closing and line.startswith(closing)]
        last = ends[0] if ends else len(lines)
        shown += ["..."] * (first > seen) + lines[first:last]
        seen = last
    return shown + ["..."] * (seen < len(lines))


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
