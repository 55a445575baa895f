"""Local web pages: a small server for one page and one browser, and a worker beside it that may take its time.

The pages of `gyrfalcon.vision` and `gyrfalcon.fields` are built from these pieces.
"""

from .document import Document, assemble
from .gate import Gate, Settings
from .latest import Latest
from .pictures import PictureError, decode_mask, decode_picture, encode_mask, encode_picture
from .server import Peer, Program, Server
from .wire import Message, RequestError
from .worker import JobError, Worker, WorkerEndedError

__all__ = [
    "Document",
    "Gate",
    "JobError",
    "Latest",
    "Message",
    "Peer",
    "PictureError",
    "Program",
    "RequestError",
    "Server",
    "Settings",
    "Worker",
    "WorkerEndedError",
    "assemble",
    "decode_mask",
    "decode_picture",
    "encode_mask",
    "encode_picture",
]
