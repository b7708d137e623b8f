"""Rendered scenes: images a second and memory, over sizes and settings, on one thread and on all.

    python benchmarks/scenes.py                # some minutes on two cores
    python benchmarks/scenes.py --images 2000  # fewer images
    python benchmarks/scenes.py --settings 2   # fewer settings

Every setting runs in a fresh process. The first images are not counted: they build what is kept for later ones. Images
a second of processor time, from the run on one thread, tell what a busy machine hides.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Stage, Table, apart_watched, keep, machine

RESULTS = Path(__file__).parent / "results" / "scenes.json"
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "rooms 64 x 64": ("Rooms", {}),
    "rooms 64 x 64, no antialiasing": ("Rooms", {"antialias": 1}),
    "rooms 64 x 64, no antialiasing, no shadow": ("Rooms", {"antialias": 1, "shadow": "none"}),
    "rooms 64 x 64, antialias 4": ("Rooms", {"antialias": 4}),
    "rooms 32 x 32": ("Rooms", {"size": 32}),
    "rooms 32 x 32, no antialiasing": ("Rooms", {"size": 32, "antialias": 1}),
    "sprites 64 x 64": ("Sprites", {}),
    "sprites 64 x 64, four, coloured": ("Sprites", {"count": 4, "colour": "arc"}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--settings", type=int, default=len(SETTINGS), help="how many of the settings")
    chosen = parser.parse_args()
    images = chosen.images
    cores = os.cpu_count() or 1
    print(f"SCENES: {images:,} images as bytes; continuous factors, best of three")
    table = Table(
        {"scene": 44, "1 thread": 10, f"{cores} threads": 10, "a CPU second": 12, "own GB": 8, "images GB": 9}
    )
    results: dict[str, Any] = {"images": images}
    for label, (scene, options) in list(SETTINGS.items())[: chosen.settings]:
        runs = [apart_watched(render, scene, options, images, threads) for threads in (1, cores)]
        results[label] = runs
        table.add(
            label,
            *(f"{run['rate']:,.0f}/s" for run in runs),
            f"{runs[0]['cpu_rate']:,.0f}",
            f"{runs[-1]['own_gb']:.2f}",
            f"{runs[-1]['images_gb']:.2f}",
        )
    keep(RESULTS, {"machine": machine(), "scenes": results})


def render(stage: Stage, scene: str, options: dict[str, Any], images: int, threads: int) -> dict[str, float]:
    from threadpoolctl import threadpool_limits

    from isorep import datasets

    data = getattr(datasets, scene)(**options).draw(images, seed=0)
    with threadpool_limits(threads):
        data.images(np.arange(200))
        best = least = np.inf
        with stage:
            for _ in range(3):
                started, used = time.perf_counter(), time.process_time()
                found = data.images()
                best, least = min(best, time.perf_counter() - started), min(least, time.process_time() - used)
                size = found.nbytes
                del found
    return {"rate": images / best, "cpu_rate": images / least, "images_gb": size / 1e9}


if __name__ == "__main__":
    main()
