"""A ledger of notes, some of whose tools do wrong what they are asked to do wrong."""

import base64
import contextlib
import copy
import json
import os
import sys
import time
from pathlib import Path

KEY = Path(__file__).parent.parent / "database" / "outputs" / "entities" / "Key.json"


class Session:
    def __init__(self, tables):
        self.databases = tables


class LedgerServer:
    def __init__(self, domain_name):
        with open(KEY) as file:
            (self.row,) = json.load(file)
        self.tables = {"Note": []}
        self.sessions = {}

    def _get_session(self, session_id):
        if session_id not in self.sessions:
            self.sessions[session_id] = Session(copy.deepcopy(self.tables))
        return self.sessions[session_id]

    def invoke(self, session_id, tool_name, **arguments):
        return getattr(self, tool_name)(self._get_session(session_id), **arguments)

    def note(self, session, text):
        """Append a note; all notes of the session come back, so that a mixed session shows."""
        notes = session.databases["Note"]
        notes.append({"note_id": len(notes) + 1, "text": text})
        return {"notes": [row["text"] for row in notes]}

    def ponder(self, session, text):
        """Take long enough to be struck by a signal."""
        time.sleep(0.02)
        return self.note(session, text)

    def peek(self, session, text):
        """Say what must stay secret."""
        key = self.row["key"]
        return {"text": text, "key": key, "base64": base64.b64encode(f"user:{key}".encode()).decode()}

    def misbehave(self, session, how, text):
        session.databases["Note"].append({"note_id": 0, "text": f"never made: {text}"})
        return getattr(self, f"_{how}")(text)

    def _raise(self, text):
        raise RuntimeError(f"no {text}: {self.row['key']}")

    def _recursion(self, text):
        return self._recursion(text)

    def _hang(self, text):
        while True:
            time.sleep(0.1)

    def _spin(self, text):
        while True:
            pass

    def _exit(self, text):
        os._exit(3)

    def _memory(self, text):
        held = []
        while True:
            held.append(bytearray(64 << 20))

    def _junk(self, text):
        """Write to every descriptor, the engine's channel included."""
        for descriptor in range(3, 256):
            with contextlib.suppress(OSError):
                os.write(descriptor, b"\x00\x00\x00\x10junk and more junk")
        return {"text": text}

    def _print(self, text):
        for stream in (sys.stdout, sys.stderr):
            stream.write(text * 10_000)
            stream.flush()
        return {"text": text}

    def _huge(self, text):
        return {"text": text, "more": "x" * (20 << 20)}

    def _long(self, text):
        return {"text": text, "more": "x" * 300_000}

    def _unencodable(self, text):
        return {"text": text, "more": object(), "half": "\ud800"}

    def _cycle(self, text):
        made = {"text": text}
        made["self"] = made
        return made
