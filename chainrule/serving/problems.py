"""What goes wrong for a client, in the shape that OpenAI's clients understand."""

from typing import Any

STATUSES = {
    400: "What was asked is wrong.",
    401: "The key is missing or wrong.",
    404: "There is no such model.",
    413: "The body is too large.",
    429: "Too much is waiting; try again.",
    503: "The server is shutting down.",
}
KINDS = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
GONE = 499  # nginx's status for a client that did not wait for its answer


class Problem(Exception):
    """An answer other than 200. `code` is a word for programs, `param` the field that is at fault."""

    def __init__(self, status: int, message: str, code: str | None = None, param: str | None = None):
        super().__init__(message)
        self.status, self.message, self.code, self.param = status, message, code, param

    def to_json(self) -> dict[str, Any]:
        kind = KINDS.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    @property
    def headers(self) -> dict[str, str]:
        if self.status == 401:
            return {"WWW-Authenticate": 'Basic realm="chainrule"'}  # so that a browser asks for the key
        return {"Retry-After": "1"} if self.status in (429, 503) else {}


def bug() -> Problem:
    return Problem(500, "something went wrong inside the server; its log says what", "bug")
