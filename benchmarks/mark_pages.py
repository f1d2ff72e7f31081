"""Ten pages on which numbers are hard to place, for `benchmarks.marks`."""

from __future__ import annotations

BASE = """<!doctype html><meta charset=utf-8><title>{title}</title><style>
*{{box-sizing:border-box}} body{{margin:0;font:13px/1.35 sans-serif;color:#222}} a{{color:#06c}}
table{{border-collapse:collapse}} td,th{{border:1px solid #ddd;padding:1px 4px;text-align:left}}
button{{font:inherit}} {style}</style>{body}"""


def _page(title: str, body: str, style: str = "") -> str:
    return BASE.format(title=title, body=body, style=style)


def _shop() -> str:
    names = ["Trail tent", "Fox 2 tent", "Down bag", "Gas stove", "Steel mug", "Head lamp", "Dry bag", "Rain cape"]
    cards = "".join(
        f"<div class=card><a href=/p{n}><b>{names[n % 8]} {n + 1}</b></a><br>"
        f"<span class=price>{19 + n * 7}.{n * 13 % 90 + 10} €</span> <s>{29 + n * 7}.00 €</s><br>"
        f"<button>Add</button> <a href=/c{n}>Compare</a> <a href=/w{n}>♡</a></div>"
        for n in range(24)
    )
    style = (
        ".g{display:grid;grid-template-columns:repeat(6,1fr);gap:2px} .card{border:1px solid #eee;padding:3px}"
        " .price{font-weight:bold}"
    )
    nav = "".join(
        f"<a href=/n{n}>{name}</a> " for n, name in enumerate(["Tents", "Bags", "Stoves", "Sale", "Help", "Cart (3)"])
    )
    return _page("Dense shop", f"<div>{nav}</div><div class=g>{cards}</div>", style)


def _table() -> str:
    rows = "".join(
        f"<tr><td><input type=checkbox></td><td><a href=/o{n}>ORD-{1040 + n}</a></td><td>2025-03-{n % 28 + 1:02}</td>"
        f"<td><a href=/u{n}>Customer {n}</a></td><td>{n * 37 % 400}.{n * 7 % 90 + 10}</td>"
        f"<td><a href=/e{n}>Edit</a></td>"
        f"<td><a href=/d{n}>Delete</a></td></tr>"
        for n in range(60)
    )
    head = "".join(f"<th><a href=/s>{name}</a></th>" for name in ("", "Order", "Date", "Customer", "Total", "", ""))
    return _page("Table", f"<table><tr>{head}</tr>{rows}</table>")


def _form() -> str:
    fields = "".join(
        f"<label>{name} <input value='{value}'></label> "
        for name, value in [
            ("First name", "Ann"),
            ("Last name", "Lee"),
            ("Street", "12 Hill Road"),
            ("City", "Leeds"),
            ("Postcode", "LS1 4AB"),
            ("Phone", "0113 496 0000"),
            ("E-mail", "ann@example.org"),
            ("Company", ""),
        ]
    )
    boxes = "".join(
        f"<label><input type=checkbox> {name}</label> " for name in ("Gift wrap", "Newsletter", "Express", "Insure")
    )
    radios = "".join(f"<label><input type=radio name=r> {name}</label> " for name in ("Card", "Invoice", "Cash"))
    body = (
        f"<h3>Delivery</h3>{fields}<p>{boxes}</p><p>{radios}</p><select><option>Small</select> "
        "<textarea>Ring twice</textarea><p><input type=submit value='Place order'> <input type=reset value=Clear> "
        "<input type=date value=2025-03-01> <input type=range> <a href=/terms>Terms</a> and <a href=/p>privacy</a></p>"
    )
    return _page("Form", body, "label{display:inline-block;margin:2px} input:not([type]){width:110px}")


def _frames(other: str) -> str:
    inner = "<p>Inside: total 41.80 <button>Pay 41.80</button> <a href=/x>Cancel</a></p>" * 3
    body = (
        "<p>Outside <a href=/a>Help</a> <button>Back</button></p>"
        f'<iframe srcdoc="{inner}" style="width:300px;height:130px"></iframe> '
        f"<iframe src={other}/inner style='width:300px;height:130px;margin-top:20px'></iframe>"
    )
    return _page("Frames", body)


def _inner() -> str:
    rows = "".join(
        f"<p>From another origin {n}.99 <a href=/i{n}>Open {n}</a> <button>Take</button></p>" for n in range(4)
    )
    return _page("Inner", rows, "p{margin:3px}")


def _moving() -> str:
    rows = "".join(
        f"<p><a href=/r{n}>Headline number {n} of the day</a> <button>Read</button> {n}.50 €</p>" for n in range(14)
    )
    style = (
        "@keyframes m{from{transform:translate(0,0)}to{transform:translate(150px,90px)}}"
        " .m{animation:m .7s linear infinite alternate} "
    )
    return _page("Moving", f"<p>The list below moves.</p><div class=m>{rows}</div>", style + "p{margin:4px}")


def _links() -> str:
    return _page("300 links", " ".join(f"<a href=/l{n}>Topic {n}</a>" for n in range(300)), "body{padding:4px}")


def _toolbar() -> str:
    signs = "✂⎘⎌⟲⟳✎☰★☆⚙⚑✉☎⌂⌫⏎←→↑↓"
    buttons = "".join(f"<button title='Tool {n}'>{sign}</button>" for n, sign in enumerate(signs))
    tabs = "".join(
        f"<div role=tab tabindex=0 style='display:inline-block;padding:0 6px'>Tab {n}</div>" for n in range(8)
    )
    text = "".join(
        f"<p>Line {n} of the document, with a <a href=/f{n}>foot note</a> and {n}.25 in it.</p>" for n in range(12)
    )
    return _page(
        "Toolbar",
        f"<div>{buttons}</div><div>{tabs}</div>{text}",
        "button{width:20px;height:20px;padding:0} p{margin:2px}",
    )


def _scripts() -> str:
    right = "".join(f"<p><a href=/h{n}>מוצר מספר {n}</a> <button>הוסף</button> {n}.90 ₪</p>" for n in range(7))
    left = "".join(
        f"<p><a href=/j{n}>Καταχώρηση {n}</a> <button>Προσθήκη</button> {n}.980 ₽ за штуку</p>" for n in range(7)
    )
    return _page("Scripts", f"<div dir=rtl>{right}</div><div>{left}</div>", "p{margin:1px}")


def _dialog() -> str:
    rows = "".join(f"<p>Behind {n} <a href=/b{n}>link {n}</a></p>" for n in range(14))
    card = (
        "<div style='position:fixed;left:150px;top:100px;width:330px;background:#fff;border:1px solid;padding:8px'>"
        "We use 312 cookies of <a href=/v>87 partners</a>.<p><label><input type=checkbox> Analytics</label> "
        "<label><input type=checkbox> Adverts</label></p>"
        "<button>Accept all</button> <button>Reject</button> <a href=/m>More</a></div>"
    )
    return _page("Dialog", f"{rows}<div style='position:fixed;inset:0;background:#0008'></div>{card}")


def _calendar() -> str:
    days = "".join(
        f"<td><a href=/d{n}>{n}</a><br>{40 + n * 3 % 50}.90</td>" + ("</tr><tr>" if n % 7 == 0 else "")
        for n in range(1, 32)
    )
    return _page(
        "Calendar", f"<p>← <a href=/p>February</a> March 2025 <a href=/n>April</a> →</p><table><tr>{days}</tr></table>"
    )


def pages(other: str) -> dict[str, str]:
    """The pages by path. `other`: the same site under another origin."""
    return {
        "shop": _shop(), "table": _table(), "form": _form(), "frames": _frames(other), "moving": _moving(),
        "links": _links(), "toolbar": _toolbar(), "scripts": _scripts(), "dialog": _dialog(), "calendar": _calendar(),
        "inner": _inner(),
    }  # fmt: skip
