"""Cut JSON objects into their members."""

from __future__ import annotations

from typing import Any

from matchers.index.kernels.json import Documents
from matchers.kernels.jit import kernel


@kernel
def members(documents: Documents, text: Any, begins: Any, ends: Any, owner: Any) -> int:
    """Write each member of the documents, in order, as an object of its own:

        {"symbol":["IBM"],"price":[5]}    ->    {"symbol":["IBM"]}  {"price":[5]}

    The documents are objects as JSON encoders write them, without space. Member m is text[begins[m] : ends[m]], of
    document owner[m]. Returns how many there are; each has a colon, so a caller can count how much room suffices.
    """
    blob, first, last = documents
    m = 0
    t = 0
    for d in range(first.shape[0]):
        depth = 0
        quoted = False
        i = first[d]
        end = last[d]
        while i < end:
            c = blob[i]
            if quoted:
                if c == 0x5C:  # a backslash, and what it escapes
                    text[t] = c
                    t += 1
                    i += 1
                    c = blob[i]
                elif c == 0x22:
                    quoted = False
            elif c == 0x22:
                quoted = True
                if depth == 1 and (blob[i - 1] == 0x7B or blob[i - 1] == 0x2C):  # the name of a member
                    text[t] = 0x7B
                    begins[m] = t
                    t += 1
            elif c == 0x7B or c == 0x5B:
                depth += 1
                if depth == 1:
                    i += 1
                    continue
            elif c == 0x7D or c == 0x5D:
                depth -= 1
            if (depth == 0 and i - first[d] > 1) or (depth == 1 and c == 0x2C and not quoted):
                text[t] = 0x7D
                t += 1
                ends[m] = t
                owner[m] = d
                m += 1
            elif depth > 0:
                text[t] = c
                t += 1
            i += 1
    return m
