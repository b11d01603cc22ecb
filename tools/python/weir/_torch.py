# SPDX-License-Identifier: Apache-2.0
"""Modules of torch: exported by torch.onnx.export, compiled, called with torch's tensors."""
import os
import tempfile

import torch

from . import _model


def _tensor(array):
    """The same memory as a tensor. NumPy has no word of its own for types such as bfloat16 when it hands them on."""
    if array.dtype.kind in "biufc" and array.dtype.isbuiltin == 1:
        return torch.from_dlpack(array)
    return torch.from_dlpack(array.view(f"u{array.itemsize}")).view(getattr(torch, array.dtype.name))


class TorchModel:
    """Takes the tensors that the module takes, in order (None and numbers that the exporter made constants are left
    out), gives tensors in the tuples and dicts that the module gives. Memory is shared both ways."""

    def __init__(self, model, form):
        self.model, self.form = model, form

    def __call__(self, *args):
        flat = [value for value in torch.utils._pytree.tree_leaves(args) if isinstance(value, torch.Tensor)]
        results = self.model(*[value.detach() for value in flat])
        results = results if len(self.model.outputs) > 1 else (results,)
        made = tuple(_tensor(one) for one in results)
        if self.form and self.form.num_leaves == len(made):
            return torch.utils._pytree.tree_unflatten(made, self.form)
        return made[0] if len(made) == 1 else made


def from_torch(module, args, dynamic_shapes=None, **options):
    args = args if isinstance(args, tuple) else (args,)
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        program = torch.onnx.export(module, args, dynamo=True, dynamic_shapes=dynamic_shapes, verbose=False)
        path = os.path.join(folder, "model.onnx")
        program.save(path, external_data=True)
        exported = program.exported_program
        return TorchModel(_model.compile(path, **options), exported.call_spec.out_spec if exported else None)
