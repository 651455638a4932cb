"""ONNX Runtime's CUDA provider, where this machine's build has one. The model is built in memory."""

import hashlib
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper


def model():
    rng = np.random.default_rng(0)
    weights = {f"w{i}": rng.standard_normal((512, 512), dtype=np.float32) / 22 for i in range(4)}
    nodes, name = [], "x"
    for i in range(4):
        nodes += [helper.make_node("MatMul", [name, f"w{i}"], [f"m{i}"]), helper.make_node("Relu", [f"m{i}"], [f"r{i}"])]
        name = f"r{i}"
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 512])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 512])],
        [helper.make_tensor(n, TensorProto.FLOAT, w.shape, w.tobytes(), raw=True) for n, w in weights.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 9
    return made.SerializeToString()


def main():
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        print("skip this onnxruntime has no CUDA provider")
        return
    session = onnxruntime.InferenceSession(model(), providers=["CUDAExecutionProvider"])
    if "CUDAExecutionProvider" not in session.get_providers():
        print("skip the CUDA provider does not load here")
        return
    digest = hashlib.sha256()
    for i in range(20):
        x = np.random.default_rng(i).standard_normal((64 + 32 * (i % 5), 512), dtype=np.float32)
        digest.update(session.run(None, {"x": x})[0].tobytes())
    print(f"result onnxruntime {digest.hexdigest()[:16]}")


if __name__ == "__main__":
    sys.exit(main())
