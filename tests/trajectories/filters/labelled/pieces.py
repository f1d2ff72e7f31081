"""Texts that the labelled sets share: questions, answers, code, thoughts, in several languages and forms."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, TypeVar

from rollout.core.messages import Message
from rollout.trajectories.trajectory import Trajectory
from tests.trajectories.filters.attempts import attempt, call, result, say

T = TypeVar("T")

ASKS = (
    "Which of my books are due this week?",
    "Bitte storniere meine Buchung vom Dienstag.",
    "¿Puedes decirme el saldo de mi cuenta de ahorros?",
    "明日の会議室を予約してください。",
    "Solve: how many positive divisors does 360 have?",
    "write a function that reverses a linked list pls",
    "J'ai besoin de changer l'adresse de livraison de ma commande 88-1204.",
    "Find the cheapest red kettle on the shop's site and put it into the cart.",
    "把这份日志里的错误行找出来。",
    "What does the flag --dry-run do, and is it safe on production?",
)
FOLLOW_UPS = (
    "Thank you, that is all.",
    "Hm, and the second one?",
    "Nein, das andere Konto.",
    "ok",
    "好的，谢谢",
    "Are you sure about that?",
)
ANSWERS = (
    "Two books are due on Friday: *Dune* and *The Dispossessed*.",
    "Your booking for Tuesday has been cancelled; the refund of 84.20 € arrives within five days.",
    "El saldo es de 1.204,55 €. ¿Quieres ver los últimos movimientos?",
    "会議室Bを10時から11時まで予約しました。",
    "360 = 2^3 · 3^2 · 5, so it has 4·3·2 = 24 divisors. The answer is $\\boxed{24}$.",
    "Use two pointers, `prev` and `node`, and turn each `next` around as you go.",
    "| order | status |\n|---|---|\n| 88-1204 | address changed |\n| 88-1177 | delivered |",
    '{"answer": 24, "method": "prime factorisation"}',
    "I could not find a red kettle under 20 €. Shall I look at blue ones?",
    "1. Open the settings.\n2. Choose *Delivery*.\n3. Press **Save**.\n\nThat is all there is to it.",
    "`--dry-run` prints what would be done and writes nothing, so it is safe.",
    "日志里有三行错误：第 12、40 和 77 行，都是连接超时。",
)
THOUGHTS = (
    None,
    "The user wants the due dates; one call should do.",
    "Okay, let me think. 360 = 8 * 45, so 2^3 * 3^2 * 5.\nThat gives 4 * 3 * 2.",
    "Zuerst die Buchung suchen, dann stornieren.",
    "用户要的是错误行，不是警告。",
)
PREAMBLES = (
    "",
    "Let me work this out in code.\n\n",
    "Sure! Here is what I would run:\n",
    "Zuerst prüfe ich das Ergebnis:\n\n",
    "我来写一个脚本。\n",
    "### Step 1\n\nWe need to count carefully, so:\n\n",
)
CODE = {
    "python": "def divisors(n):\n    return [d for d in range(1, n + 1) if n % d == 0]\n\nprint(len(divisors(360)))",
    "py": "import re\ntext = open('log.txt').read()\nfor line in text.splitlines():\n    if re.search(r'ERROR', line):",
    "": "total = 0\nfor i in range(10):\n    total += i * i",
    "sql": "SELECT loan_id, due FROM loans\nWHERE member = 'm1' AND due < '2026-12-01'",
    "bash": 'grep -n "ERROR" /var/log/app.log | tail -20',
    "json": '{"name": "find_loans", "arguments": {"member": "m1"',
    "js": "const reverse = (head) => {\n  let prev = null;\n  while (head) {",
    "rust": 'fn main() {\n    let s = String::from("kettle");\n    println!("{s}");',
}
TALKS = ("alone", "then_user", "after_call", "late")


def rotate(items: Sequence[T], *seed: object) -> T:
    """One of the items, the same for the same seed."""
    digest = hashlib.blake2b(repr(seed).encode("utf-8", "replace"), digest_size=4).digest()
    return items[int.from_bytes(digest, "big") % len(items)]


def talk(kind: str, answer: Message, *seed: object, finish: str | None = None, tokens: int | None = None, **more: Any):
    """A trajectory with an answer in it, and the number of the answer's turn."""
    ask = Message(role="user", content=rotate(ASKS, *seed))
    then = Message(role="user", content=rotate(FOLLOW_UPS, *seed))
    good = say(rotate(ANSWERS[:6], "good", *seed))
    before: list[Message] = []
    after: list[Message] = []
    if kind == "then_user":
        after = [then]
    elif kind == "after_call":
        before = [call(content=rotate((None, "One moment.", "Ich sehe nach."), *seed)), result()]
    elif kind == "late":
        before, after = [good, then], [then, good]
    said = [ask, *before, answer]
    place = len(said) - 1
    if answer.tool_calls:
        after = [result(), *after]
    turn = sum(message.role == "assistant" for message in before)
    extra: dict[str, Any] = {}
    if finish is not None:
        extra["finish"] = {place: finish}
    if tokens is not None:
        extra["tokens"] = {place: tokens}
    made: Trajectory = attempt(*said, *after, **extra, **more)
    return made, turn
