"""An MCP server over standard input and output. Each attempt has a process, and so a state, of its own."""

from __future__ import annotations

from mcp.server.mcpserver import MCPServer

server = MCPServer("library")
copies = {"Dune": 2, "Emma": 1, "Ulysses": 0}


@server.tool()
def find_book(title: str) -> str:
    """Look a book up by its title: how many copies are on the shelf."""
    if title not in copies:
        raise ValueError(f"there is no book {title!r}")
    return f"{title}: {copies[title]} copies"


@server.tool()
def lend_book(title: str, member: str) -> str:
    """Lend a copy of a book to a member."""
    if not copies.get(title):
        raise ValueError(f"no copy of {title!r} is on the shelf")
    copies[title] -= 1
    return f"{title} is lent to {member}"


if __name__ == "__main__":
    server.run()
