"""Real MCP servers as worlds, on the official SDK (extra `rollout-engine[mcp]`), and worlds served as MCP servers.

`servers` holds what a dataset's episodes share, `world` is one episode's, `connection` one live session; `process` and
`http` are the two ways to a server, `content` reads its results. `serve` is the other side. Nothing here is imported
before a configuration names an MCP server: the SDK takes half a second to import.
"""
