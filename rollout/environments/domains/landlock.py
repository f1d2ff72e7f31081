"""Landlock: the kernel keeps this process to reading the paths it was given, for good.

Of a readable path, files can be read and folders listed; of a listable one, only the names in its folders. Writing,
creating, removing and executing are nowhere allowed, and neither is binding or connecting a TCP port. What a rule
grants for a folder holds for everything below it, so a folder with an exception has to be granted piece by piece.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
READ_FILE, READ_DIR = 4, 8


class _RulesetAttr(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathAttr(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def restrict_files(libc: ctypes.CDLL, readable: Iterable[str], listable: Iterable[str]) -> bool:
    """Whether the kernel now keeps this process to these paths. Needs `no_new_privs`."""
    version = libc.syscall(CREATE_RULESET, None, 0, 1)
    if version < 1:
        return False
    rights = (1 << (13 + (version >= 2) + (version >= 3) + (version >= 5))) - 1
    attr = _RulesetAttr(rights, 3 if version >= 4 else 0, 3 if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    rules = libc.syscall(CREATE_RULESET, ctypes.byref(attr), size, 0)
    if rules < 0:
        return False
    try:
        added = [_allow(libc, rules, path, READ_FILE | READ_DIR) for path in readable]
        added += [_allow(libc, rules, path, READ_DIR) for path in listable]
        return all(added) and bool(libc.syscall(RESTRICT_SELF, rules, 0) == 0)
    finally:
        os.close(rules)


def _allow(libc: ctypes.CDLL, rules: int, path: str, rights: int) -> bool:
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return True  # nothing is there to be read
    try:
        rule = _PathAttr(rights if os.path.isdir(path) else rights & READ_FILE, handle)
        return rule.allowed == 0 or bool(libc.syscall(ADD_RULE, rules, 1, ctypes.byref(rule), 0) == 0)
    finally:
        os.close(handle)
