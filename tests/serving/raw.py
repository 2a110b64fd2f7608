"""Requests byte by byte, as no decent client would send them."""

import json
import socket
from typing import Any


class Raw:
    """One connection."""

    def __init__(self, port: int, patience: float = 60.0):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=patience)

    def __enter__(self) -> "Raw":
        return self

    def __exit__(self, *error: object) -> None:
        self.socket.close()

    def send(self, body: Any, path: str = "/v1/completions", **headers: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = {"Host": "127.0.0.1", "Content-Type": "application/json", "Content-Length": str(len(data))}
        head |= {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in head.items())]
        self.socket.sendall("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + data)

    def read_answer(self) -> tuple[int, Any]:
        """Status and JSON of an answer that says how long it is."""
        head, _, body = self.read_until(b"\r\n\r\n").partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        while len(body) < length and (piece := self.socket.recv(65536)):
            body += piece
        return int(head.split()[1]), json.loads(body)

    def read_until(self, mark: bytes) -> bytes:
        """Everything up to and with the mark, or up to the end of the connection."""
        found = b""
        while mark not in found and (piece := self.socket.recv(65536)):
            found += piece
        return found
