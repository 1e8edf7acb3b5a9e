"""Compile the patterns of a workload by their shapes, as the stream compiles those of a topic."""

from __future__ import annotations

import json

import numpy as np

from bench.documents import Documents
from matchers.language import parse
from matchers.segment import Segment
from matchers.skeletons import Skeletons, filled
from matchers.templates import Template
from matchers.texts import Texts


def compiled(patterns: Documents) -> Segment:
    """The id of a pattern is its position. All must have shapes that templates know."""
    found = Skeletons.of(patterns.text, patterns.begins, patterns.ends)
    assert (found.shape >= 0).all()
    parts = []
    for number, shape in enumerate(found.shapes):
        template = Template.of(parse(json.loads(filled(shape))))
        assert template is not None, shape
        positions = np.flatnonzero(found.shape == number)
        segment = template.segment(Texts.of(map(str, positions.tolist())), found, found.offsets[positions], {})
        parts.append((segment, np.empty(0, np.int32)))
    return Segment.merge(parts)
