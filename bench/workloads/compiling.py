"""Compile the patterns of a workload by shape, as the job compiles those of a topic."""

from __future__ import annotations

import json

import numpy as np

from bench.workloads.documents import Documents
from matchers.index.segment import Segment
from matchers.index.skeletons import Skeletons, filled
from matchers.index.templates import Template
from matchers.index.texts import Texts
from matchers.language.parsing import parse


def compiled(patterns: Documents) -> Segment:
    """Compile patterns through templates; the id of a pattern is its position. All must have shapes that templates
    know."""
    skeletons = Skeletons.of(patterns.text, patterns.begins, patterns.ends)
    assert (skeletons.shape >= 0).all()
    parts = []
    for number, shape in enumerate(skeletons.shapes):
        template = Template.of(parse(json.loads(filled(shape))))
        assert template is not None, shape
        positions = np.flatnonzero(skeletons.shape == number)
        segment = template.segment(Texts.of(map(str, positions.tolist())), skeletons, skeletons.offsets[positions], {})
        parts.append((segment, np.empty(0, np.int32)))
    return Segment.merge(parts)
