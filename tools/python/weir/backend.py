# SPDX-License-Identifier: Apache-2.0
"""The ONNX backend: onnx.backend.test.runner.Runner(weir.backend, __name__) runs the official cases on Weir."""
from onnx.backend.base import Backend, BackendRep
from onnx import helper

from . import _model


class Prepared(BackendRep):
    def __init__(self, model):
        self.model = model

    def run(self, inputs, **kwargs):
        """All outputs as a tuple; `inputs` in order, or a dict by name."""
        if not isinstance(inputs, (dict, list, tuple)):
            inputs = [inputs]
        if not isinstance(inputs, dict):
            inputs = {port.name: value for port, value in zip(self.model.inputs, inputs)}
        results = self.model(inputs)
        return results if len(self.model.outputs) > 1 else (results,)


class WeirBackend(Backend):
    @classmethod
    def supports_device(cls, device):
        return device.split(":")[0] == "CPU"

    @classmethod
    def prepare(cls, model, device="CPU", **kwargs):
        if not cls.supports_device(device):
            raise ValueError(f'there is no device "{device}"')
        return Prepared(_model.compile(model, threads=1))

    @classmethod
    def run_node(cls, node, inputs, device="CPU", outputs_info=None, opset_version=None, **kwargs):
        """One node as a model of its own; outputs_info must tell the outputs' types and shapes."""
        import numpy as np
        arrays = [np.asarray(value) for value in inputs]
        given = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
                 for name, array in zip((name for name in node.input if name), arrays)]
        made = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
                for name, (dtype, shape) in zip(node.output, outputs_info or [])]
        if len(made) != len(node.output):
            raise ValueError("outputs_info must tell the type and shape of every output")
        opsets = [helper.make_opsetid(node.domain, opset_version)] if opset_version else None
        model = helper.make_model(helper.make_graph([node], "node", given, made), opset_imports=opsets)
        return cls.prepare(model, device).run(arrays)


supports_device = WeirBackend.supports_device
is_compatible = WeirBackend.is_compatible
prepare = WeirBackend.prepare
run_model = WeirBackend.run_model
run_node = WeirBackend.run_node
