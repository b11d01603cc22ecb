# SPDX-License-Identifier: Apache-2.0
"""Compile ONNX models and run them.

    model = weir.compile("model.onnx")
    y = model(x)
"""
from ._library import Diagnostic, Error
from ._model import Model, Port, compile, open, version


def from_torch(module, args, **options):
    """A torch.nn.Module, exported by torch itself for arguments such as `args` and compiled; takes
    and gives torch tensors. `dynamic_shapes` goes to the exporter, other options to `compile`."""
    from ._torch import from_torch as convert

    return convert(module, args, **options)


__all__ = ["Diagnostic", "Error", "Model", "Port", "compile", "from_torch", "open", "version"]
__version__ = "0.1.0"
