"""The tool of the toy task."""


async def press(button: str) -> str:
    """Press a button.

    button: its colour.
    """
    return f"pressed {button}"
