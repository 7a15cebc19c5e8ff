"""Our kinds' handlers, one line each."""

from __future__ import annotations

from handlers import inferadeployment
from handlers.handler import AnyHandler

HANDLERS: tuple[AnyHandler, ...] = (inferadeployment.HANDLER,)

BY_QUEUE_NAME: dict[str, AnyHandler] = {
    handler.contract.kind.queue_name: handler for handler in HANDLERS
}
