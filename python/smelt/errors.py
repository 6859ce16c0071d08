"""Exceptions of smelt. The message says what is wrong, where, and what was expected."""

__all__ = [
    "CancelledError",
    "DeviceError",
    "Error",
    "FileError",
    "InternalError",
    "InvalidInputError",
    "InvalidModelError",
    "LimitError",
    "UnsupportedError",
]


class Error(Exception):
    """Base class of smelt's exceptions. Arguments of a wrong Python type raise TypeError."""


class InvalidModelError(Error, ValueError):
    """The bytes of a model violate its format."""


class UnsupportedError(Error, NotImplementedError):
    """A valid model, or an array, needs something that this build lacks; the message names it."""


class InvalidInputError(Error, ValueError):
    """An input or option does not fit the model: number, name, element type, shape, range, or a closed session."""


class LimitError(Error, RuntimeError):
    """A limit of memory, time, steps or size was reached."""


class CancelledError(Error, RuntimeError):
    """The run was cancelled by `Session.cancel`."""


class FileError(Error, OSError):
    """A file could not be read or written."""


class DeviceError(Error, RuntimeError):
    """An accelerator failed or is absent."""


class InternalError(Error, RuntimeError):
    """A broken invariant of smelt itself; please report it."""
