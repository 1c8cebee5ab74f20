from typing import Any

from openchatml import OpenChatMLError as OpenChatMLError, UnknownTokenError as UnknownTokenError

class HarmonyError(OpenChatMLError, RuntimeError):
    messages: list[Any]
