"""Untrusted text made safe to show on a terminal.

Models, tools, servers and data files write text that people read on a terminal. A terminal obeys what it reads: escape
sequences move the cursor, rename the window, write to the clipboard, and bidirectional overrides show a text in another
order than it has. `printable` removes all of that and keeps everything else. The console of the command line
(`rollout.terminal.console`) applies it to whatever it prints.
"""

from __future__ import annotations

import re

_UNSAFE = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f"  # C0 without tab and newline, and DEL
    "\x80-\x9f"  # C1: 0x9b alone begins a sequence
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks, embeddings, overrides and isolates of text direction
    "\u2028\u2029"  # line and paragraph separators
    "\ud800-\udfff"  # lone surrogates, which cannot be written at all
    "]"
)
_SEQUENCE = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor, screen
    "|(?:\x1b[\\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\\\|\x9c)"  # OSC, DCS, SOS, PM, APC
    "|\x1b[ -/]*[0-~]"  # every other escape
)


def printable(text: str) -> str:
    """The text without control sequences and control characters other than tab and newline."""
    if _UNSAFE.search(text) is None:
        return text
    return _UNSAFE.sub("", _SEQUENCE.sub("", text))


def printable_json(text: str) -> str:
    """JSON in which such characters are escaped, so that programs read the same values."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
