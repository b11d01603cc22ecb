# SPDX-License-Identifier: Apache-2.0
"""libweir.so, found and loaded: compiler/weir.h as ctypes, over what _abi.py has of runtime/weir_model.h."""
import collections
import ctypes as c
import ctypes.util
import os
import shutil

from ._abi import HANDLE, Descriptor

Diagnostic = collections.namedtuple("Diagnostic", "severity id text message file node tensor op opset line")


class Error(Exception):
    """What went wrong; `diagnostics` tells code, message, file, node, tensor and operator of each part."""

    def __init__(self, text, diagnostics=()):
        super().__init__(text)
        self.diagnostics = list(diagnostics)


# ---- compiler/weir.h ---------------------------------------------------------------------------------------


class CDiagnostic(c.Structure):
    _fields_ = ([("size", c.c_size_t), ("severity", c.c_int)]
                + [(name, c.c_char_p) for name in ("id", "text", "message", "file", "node", "tensor", "op")]
                + [("opset", c.c_int), ("line", c.c_int)])


SONAME = "libweir.so.0"
DIAGNOSTIC_FN = c.CFUNCTYPE(None, c.c_void_p, c.POINTER(CDiagnostic))
FUNCTIONS = {
    "weir_version": (c.c_char_p,),
    "weir_context_new": (HANDLE, DIAGNOSTIC_FN, c.c_void_p),
    "weir_context_free": (None, HANDLE),
    "weir_option": (c.c_int, HANDLE, c.c_char_p, c.c_char_p),
    "weir_operators": (c.c_int, HANDLE, c.c_char_p),
    "weir_compile_file": (c.c_int, HANDLE, c.c_char_p, c.c_char_p),
    "weir_compile_memory": (c.c_int, HANDLE, c.c_char_p, c.c_size_t, c.c_char_p, c.c_char_p),
    "weir_load_file": (HANDLE, HANDLE, c.c_char_p),
    "weir_load_memory": (HANDLE, HANDLE, c.c_char_p, c.c_size_t, c.c_char_p),
    "weir_open": (HANDLE, HANDLE, c.c_char_p),
    "weir_loaded_model": (c.POINTER(Descriptor), HANDLE),
    "weir_unload": (None, HANDLE),
}


def _beside_command():
    """The library that was installed with the `weir` on the path."""
    command = shutil.which("weir")
    path = command and os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(command))), "lib", SONAME)
    return path if path and os.path.exists(path) else None


def _load():
    found = os.environ.get("WEIR_LIBRARY") or _beside_command() or ctypes.util.find_library("weir") or SONAME
    try:
        library = c.CDLL(found)
    except OSError as error:
        raise ImportError(f"cannot load libweir.so ({error}); `meson install` it (and run `ldconfig` once, or have its `weir` on the "
                          "PATH), or set WEIR_LIBRARY to its path") from None
    for name, (result, *arguments) in FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


library = _load()
free = c.CDLL(None).free
free.restype, free.argtypes = None, [c.c_void_p]


class Context:
    """One compilation: its options, and what was said meanwhile."""

    def __init__(self, options, operators):
        self.diagnostics = []
        self.callback = DIAGNOSTIC_FN(self._note)  # kept: C holds no reference
        self.handle = library.weir_context_new(self.callback, None)
        if not self.handle:
            raise MemoryError("no memory for a compilation")
        if operators:
            self.check(library.weir_operators(self.handle, operators.encode()) == 0)
        for name, value in options.items():
            for one in value if isinstance(value, (list, tuple)) else [value]:
                text = {True: "yes", False: "no"}.get(one, str(one)) if isinstance(one, bool) else str(one)
                self.check(library.weir_option(self.handle, name.replace("_", "-").encode(), text.encode()) == 0)

    def _note(self, _, diagnostic):
        d = diagnostic.contents
        if d.severity < 2:
            texts = {name: value.decode("utf-8", "replace") if isinstance(value, bytes) else value
                     for name, value in ((name, getattr(d, name)) for name in Diagnostic._fields)}
            self.diagnostics.append(Diagnostic(**texts))

    def check(self, fine):
        if fine:
            return fine
        errors = [d for d in self.diagnostics if d.severity == 0]
        self.close()
        raise Error("\n".join(d.text for d in errors) or "out of memory", errors)

    def close(self):
        if self.handle:
            library.weir_context_free(self.handle)
        self.handle = None
