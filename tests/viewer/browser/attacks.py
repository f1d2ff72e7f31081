"""Texts that would run as a script if the page ever took text for markup, for an address, or for a name of code.

Each sets `window.__pwned`, by another way in: tags, attributes, the end of an element or of a comment, addresses,
templates, encodings, and characters that some sanitisers drop.
"""

from __future__ import annotations

EVIL = (
    "<img src=x onerror=window.__pwned=1>",
    "<script>window.__pwned=2</script>",
    '"><svg onload=window.__pwned=3>',
    "javascript:window.__pwned=4",
    "{{constructor.constructor('window.__pwned=5')()}}",
    "</script><script>window.__pwned=6</script>",
    "data:text/html,<script>window.__pwned=7</script>",
    "' autofocus onfocus=window.__pwned=8 x='",
    "</textarea><img src=x onerror=window.__pwned=9>",
    "</title><img src=x onerror=window.__pwned=10>",
    "--><img src=x onerror=window.__pwned=11><!--",
    "]]><img src=x onerror=window.__pwned=12>",
    "&lt;img src=x onerror=window.__pwned=13&gt;",
    "\\u003cimg src=x onerror=window.__pwned=14\\u003e",
    "<iframe srcdoc='<script>parent.__pwned=15</script>'></iframe>",
    "<details open ontoggle=window.__pwned=16>",
    "<math><mtext><style><img src=x onerror=window.__pwned=17></style></mtext></math>",
    "[link](javascript:window.__pwned=18) https://example.org/\"onmouseover=window.__pwned=19",
    "<a href='jAvAsCrIpT&colon;window.__pwned=20'>x</a>",
    "${window.__pwned=21}`;window.__pwned=22;`",
    "<\u0000script>window.__pwned=23</script>\u2028window.__pwned=24",
    "\u202e<img src=x onerror=window.__pwned=25>\ufeff",
    "<style>@import 'javascript:window.__pwned=26';*{background:url(javascript:window.__pwned=27)}</style>",
    "<base href=//example.org/><form action=javascript:window.__pwned=28><button autofocus>",
    "__proto__",
)  # fmt: skip
FORBIDDEN = ", ".join(
    (
        *(f"[on{event}]" for event in ("error", "load", "focus", "toggle", "mouseover")),
        *(f"a[href^='{scheme}' i]" for scheme in ("javascript", "data", "vbscript")),
        *(f"#page {tag}" for tag in ("script", "iframe", "base", "math", "style")),
        "[srcdoc]",
        "form[action]",
    )
)
"""What no text may become in the document."""
