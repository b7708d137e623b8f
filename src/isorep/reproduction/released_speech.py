"""Whisper's encoders by depth: speech that eSpeak NG reads out, or made-up syllables, and states frame by frame."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import wave
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, import_extra
from ..models.released import Released
from ..models.states import batched_outputs
from ..representation import Array
from .experiment import Run
from .outcomes import seeds_from
from .released_rows import Compared, first_file, sentences_of

SPEAKERS = ("espeak-ng", "syllables")


def speech(models: dict[str, Released], folder: Path, run: Run) -> Iterator[Compared]:
    """States of Whisper's encoders by depth, for synthesised speech; clips are groups."""
    from ..extraction.onnx_file import onnxruntime
    from ..models import extract

    transformers = import_extra("transformers", "hf", "the features of Whisper")
    onnxruntime("Whisper")
    names = [name for name in models if name.startswith("whisper")][: run.preset.sizes]
    homes = [first_file(models[name].opened(folder), "config.json").parent for name in names]
    rng = np.random.default_rng([run.seed, 101])
    settings = json.loads((homes[0] / "preprocessor_config.json").read_text("utf-8"))
    extractor = transformers.WhisperFeatureExtractor(
        feature_size=settings["feature_size"], n_fft=settings["n_fft"], hop_length=settings["hop_length"]
    )
    clips = speech_clips(run, rng)
    sounds = np.concatenate([extractor(clip, sampling_rate=RATE, return_tensors="np").input_features for clip in clips])
    sides: dict[str, list[dict[str, Array]]] = {"trained": []}
    for home in homes:
        depth = json.loads((home / "config.json").read_text("utf-8"))["encoder_layers"]
        layers = {name: f"/layers.{round(share * depth) - 1}/Add_1_output_0" for name, share in DEPTHS.items()}
        wanted = [*layers.values(), LAST]
        found = extract(home / "onnx" / "encoder_model_quantized.onnx", sounds, layers=wanted, pool="token", batch=1)
        named = {**layers, "output": LAST}
        sides["trained"].append({name: _frames(np.asarray(found[layer].values), run) for name, layer in named.items()})
        run.progress("speech", len(sides["trained"]), len(homes))
    if run.preset.control:
        seeds = seeds_from(run.seed, 103, count=len(homes))
        sides["untrained"] = [
            _untrained_encoder(home, sounds, seed, run) for home, seed in zip(homes, seeds, strict=True)
        ]
    groups = np.repeat(np.arange(len(clips)), len(sides["trained"][0]["output"]) // len(clips))
    for one, other in pairwise(range(len(homes))):
        for name in sides["trained"][0]:
            both = {when: (each[one][name], each[other][name]) for when, each in sides.items()}
            yield Compared(name, both["trained"], (one, other), both.get("untrained"), groups)


def speech_clips(run: Run, rng: np.random.Generator) -> list[Array]:
    """Clips of 30 seconds, each of another voice: sentences that are read out, or syllables."""
    if speaker_of(run.preset.speaker) == "syllables":
        return [draw_speech(rng, CLIP_SECONDS) for _ in range(run.preset.clips)]
    lines = sentences_of(run.preset.text, SENTENCES * run.preset.clips)
    share = max(1, len(lines) // run.preset.clips)
    clips = []
    for number in range(run.preset.clips):
        mine = [lines[(number * share + place) % len(lines)] for place in range(SENTENCES)]
        clips.append(read_out(" ".join(mine), rng, CLIP_SECONDS))
        run.progress("speaking", number + 1, run.preset.clips)
    return clips


def speaker_of(wanted: str) -> str:
    """The speaker that is asked for, or syllables where its program is not installed."""
    return wanted if wanted == "syllables" or shutil.which(wanted) else "syllables"


def read_out(text: str, rng: np.random.Generator, seconds: float) -> Array:
    """Text as eSpeak NG speaks it, by a voice, a speed and a pitch at random; shorter speech is filled with silence."""
    from scipy.signal import resample_poly

    voice = f"{rng.choice(['en-us', 'en-gb'])}+{rng.choice(VOICES)}"
    with tempfile.TemporaryDirectory(prefix="isorep-speech-") as scratch:
        path = Path(scratch) / "clip.wav"
        said = ["-v", voice, "-s", str(rng.integers(140, 190)), "-p", str(rng.integers(30, 70)), "-w", str(path)]
        try:
            subprocess.run([SPEAKERS[0], *said, "--stdin"], input=text.encode(), check=True, capture_output=True)
            with wave.open(str(path)) as file:
                rate, values = file.getframerate(), np.frombuffer(file.readframes(file.getnframes()), "<i2")
        except (OSError, EOFError, subprocess.CalledProcessError, wave.Error) as error:
            raise InputError(f"{SPEAKERS[0]} could not speak: {error}") from None
    common = int(np.gcd(RATE, rate))
    sound = resample_poly(values.astype(np.float64), RATE // common, rate // common)[: int(seconds * RATE)]
    filled = np.pad(sound, (0, int(seconds * RATE) - len(sound)))
    return np.asarray(0.3 * filled / max(np.abs(filled).max(), 1e-12), np.float32)


VOICES = ("m1", "m2", "m3", "m4", "m5", "m6", "m7", "f1", "f2", "f3", "f4")
SENTENCES = 14  # of a clip, more than 30 seconds can hold
DEPTHS = {"1/4": 0.25, "1/2": 0.5, "3/4": 0.75, "last block": 1.0}
LAST = "last_hidden_state"
RATE, CLIP_SECONDS = 16_000, 30
VOWELS = {
    "i": (270, 2290, 3010),
    "e": (530, 1840, 2480),
    "a": (730, 1090, 2440),
    "o": (570, 840, 2410),
    "u": (300, 870, 2240),
    "er": (490, 1350, 1690),
}
"""Formants of men's vowels in hertz (Peterson and Barney 1952)."""


def draw_speech(rng: np.random.Generator, seconds: float) -> Array:
    """Syllables of a made-up speaker: a burst of noise, then pulses through the resonances of a vowel."""
    from scipy.signal import lfilter

    size = rng.uniform(0.9, 1.2)  # of the vocal tract: formants of a smaller one are higher
    pitch = rng.uniform(90, 220)
    parts: list[Array] = []
    while sum(map(len, parts)) < seconds * RATE:
        burst = rng.standard_normal(int(RATE * rng.uniform(0.02, 0.08)))
        centre = rng.uniform(1500, 6000)
        parts.append(0.3 * _resonance(burst, centre, 1500, lfilter))
        length = int(RATE * rng.uniform(0.08, 0.25))
        glide = pitch * (1 + 0.15 * np.sin(np.linspace(0, rng.uniform(1, 4), length)))
        pulses = np.diff(np.floor(np.cumsum(glide / RATE)), prepend=0.0)
        voiced = pulses + 0.01 * rng.standard_normal(length)
        for place, formant in enumerate(VOWELS[str(rng.choice(list(VOWELS)))]):
            voiced = _resonance(voiced, formant * size, 60 + 30 * place, lfilter)
        parts.append(np.hanning(length) * voiced)
        if rng.uniform() < 0.15:
            parts.append(np.zeros(int(RATE * rng.uniform(0.05, 0.3))))
    sound = np.concatenate(parts)[: int(seconds * RATE)]
    return np.asarray(0.3 * sound / np.abs(sound).max(), np.float32)


def _resonance(sound: Array, centre: float, width: float, lfilter: Any) -> Array:
    """A filter of two poles, scaled to the loudness of one."""
    radius = np.exp(-np.pi * width / RATE)
    found = lfilter([1.0], [1.0, -2 * radius * np.cos(2 * np.pi * centre / RATE), radius**2], sound)
    return np.asarray(found / (found.std() + 1e-12))


def _untrained_encoder(home: Path, sounds: Array, seed: int, run: Run) -> dict[str, Array]:
    """States of an encoder with random weights at the same depths."""
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    from ..models.batched import seeded

    config = WhisperConfig(**json.loads((home / "config.json").read_text("utf-8")))
    network = seeded(lambda _: WhisperEncoder(config), seed).eval()
    count = config.encoder_layers
    places = [round(share * count) for share in DEPTHS.values()]

    def states(part: Any) -> list[Any]:
        found = network(part, output_hidden_states=True)
        hidden = [*found.hidden_states[:count], found.last_hidden_state]
        return [hidden[place].flatten(0, 1) for place in places] + [found.last_hidden_state.flatten(0, 1)]

    return dict(
        zip((*DEPTHS, "output"), (_frames(each, run) for each in batched_outputs(states, sounds, 1)), strict=True)
    )


def _frames(values: Array, run: Run) -> Array:
    """Every so many frames of every clip."""
    return values.reshape(run.preset.clips, -1, values.shape[1])[:, :: run.preset.stride].reshape(-1, values.shape[1])
