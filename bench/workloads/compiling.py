"""Compile the patterns of a workload by shape, as the job compiles those of a topic."""

from __future__ import annotations

import numpy as np

from bench.workloads.documents import Documents
from matchers.index.segment import Segment
from matchers.index.skeletons import Skeletons
from matchers.index.templates import by_shape, template_of
from matchers.index.texts import Texts


def compiled(patterns: Documents) -> Segment:
    """Compile patterns through templates; the id of a pattern is its position. All must have shapes that templates
    know."""
    skeletons = Skeletons.of(patterns.text, patterns.begins, patterns.ends)
    parts = []
    for template, positions in by_shape(skeletons, template_of, fewest=1):
        ids = Texts.of(map(str, positions.tolist()))
        segment = template.segment(ids, skeletons, skeletons.offsets[positions], {})
        parts.append((segment, np.empty(0, np.int32)))
    assert sum(len(segment.ids) for segment, _ in parts) == len(patterns.begins)
    return Segment.merge(parts)
