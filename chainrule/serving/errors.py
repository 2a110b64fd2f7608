"""Errors as clients see them: an HTTP status and a JSON body in OpenAI's format."""

from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from chainrule.errors import UserError

STATUSES = {
    400: "The request is wrong.",
    401: "The key is missing or wrong.",
    404: "There is no such model.",
    413: "The body is too large.",
    429: "Too many requests are waiting; try again.",
    503: "The server is shutting down.",
}
TYPES = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
CLIENT_CLOSED_REQUEST = 499  # nginx's status for a client that did not wait for its response


class APIError(HTTPException):
    """A response other than 200. `code` identifies the error for programs, `param` the field that is at fault."""

    def __init__(self, status: int, message: str, code: str | None = None, param: str | None = None):
        super().__init__(status, message, _headers(status))
        self.code, self.param = code, param

    @classmethod
    def from_user_error(cls, error: UserError, code: str | None = None, param: str | None = None) -> "APIError":
        """400 with the error's sentence; its remedy is an argument, which clients cannot pass."""
        return cls(400, error.sentence, code, param)

    def to_json(self) -> dict[str, object]:
        kind = TYPES.get(self.status_code, "invalid_request_error" if self.status_code < 500 else "server_error")
        return {"error": {"message": self.detail, "type": kind, "param": self.param, "code": self.code}}


def _headers(status: int) -> dict[str, str]:
    if status == 401:
        return {"WWW-Authenticate": 'Basic realm="chainrule"'}  # so that a browser asks for the key
    return {"Retry-After": "1"} if status in (429, 503) else {}


def error_response(error: APIError) -> JSONResponse:
    return JSONResponse(error.to_json(), error.status_code, error.headers)


def internal_error() -> APIError:
    return APIError(500, "internal error; the server's log has the details", "bug")


def shutting_down() -> APIError:
    return APIError(503, "the server is shutting down", "shutting_down")
