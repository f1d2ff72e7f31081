"""Numbers, times and bars as commands print them."""

from __future__ import annotations

import datetime

BLOCKS = " ▏▎▍▌▋▊▉█"


def bar(share: float, width: int) -> str:
    """A bar of a share of `width`, in eighths of a character; at least a trace of what is there."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    if share > 0:
        eighths = max(1, eighths)
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (BLOCKS[rest] if rest else "")


def short_number(value: float) -> str:
    """A number in at most five characters or so: 12, 3.4k, 1.2M."""
    for limit, divisor, unit in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if abs(value) >= limit:
            return f"{value / divisor:.3g}{unit}"
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.3g}"


def seconds(value: float) -> str:
    """A duration: 8 ms, 1.2 s, 3 min 20 s, 2 h 5 min."""
    if value < 0.1:
        return f"{value * 1000:.3g} ms"
    if value < 60:
        return f"{value:.1f} s"
    minutes = int(value // 60)
    return f"{minutes} min {value % 60:.0f} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def dollars(value: float) -> str:
    """A cost; nothing where nothing was counted."""
    return f"${value:.2f}" if value >= 1 else f"${value:.4f}" if value else "–"


def per_cent(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}"


def size(value: float) -> str:
    """Bytes: 412 kB, 1.3 GB."""
    for limit, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= limit:
            return f"{value / limit:.3g} {unit}"
    return f"{value:.0f} bytes"


def day_and_time(moment: str | None) -> str:
    """A recorded time (ISO 8601) as day and time, with the year where it is not this one."""
    try:
        found = datetime.datetime.fromisoformat(moment or "").astimezone()
    except ValueError:
        return "–"
    now = datetime.datetime.now(found.tzinfo)
    return found.strftime("%m-%d %H:%M" if found.year == now.year else "%Y-%m-%d")


def shortened(text: str, width: int) -> str:
    """A text in at most `width` characters."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"
