"""HTTP as uvicorn reads it, with this server's answer to what is not HTTP."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from server.errors import JSON, door_body


class Protocol(HttpToolsProtocol):
    """uvicorn's protocol; a request it cannot parse gets llama-server's error object."""

    def send_400_response(self, msg: str) -> None:
        body = door_body(400, msg)
        head = f"content-type: {JSON}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[400] + head.encode("ascii") + body)
        self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """Nothing: a request for another protocol is answered in this one, and is no news to the operator."""
