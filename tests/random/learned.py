# SPDX-License-Identifier: Apache-2.0
"""Random operands of learned models (ai.onnx.ml), of their training (ai.onnx.preview.training), of attention with graphs
as attributes, of words that are counted, and of operators that draw or read pictures."""
import io

import numpy as np
from onnx import TensorProto, helper

from operators import FLOATS, Net, Node, family, maybe, vector
from values import code, tensor

POST = ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"]
WORDS = ["cat", "dog", "eel", "fox", "gnu", "hen"]
LEARNED = [np.float32, np.float32, np.float64, np.int64, np.int32]


def table(d, t=None):
    """Rows of features."""
    return d.array((d.int(1, 5), d.int(1, 4)), t or d.one(*LEARNED), -4, 4)


def reals(d, n, lo=-2.0, hi=2.0):
    return [float(v) for v in d.array((n,), np.float32, lo, hi)]


def labels(d, n, ints="classlabels_ints"):
    return {"classlabels_strings": WORDS[:n]} if d.chance(0.5) else {ints: [int(v) for v in d.rng.permutation(20)[:n]]}


def words(d, shape):
    return np.array(WORDS, object)[d.rng.integers(0, len(WORDS), shape)].reshape(shape)


# ---- features -------------------------------------------------------------------------------------

@family("ArrayFeatureExtractor")
def extractor(d, name, version):
    x = d.array(d.full(2, 3), d.one(*LEARNED, object))
    return Node([x, d.array((1, d.int(1, 4)) if d.chance(0.5) else (d.int(1, 4),), np.int64, 0, x.shape[-1] - 1)], fixed=(1,))


@family("Binarizer")
def binarizer(d, name, version):
    return Node([d.array(d.full(1, 3), d.one(*LEARNED))], maybe(d, {"threshold": d.one(0.5, -1.0, 1.0)}))


@family("Normalizer")
def normalizer(d, name, version):
    return Node([table(d) if d.chance(0.8) else d.array((d.int(1, 4),), np.float32)], maybe(d, {"norm": d.one("MAX", "L1", "L2")}))


@family("Scaler")
def scaler(d, name, version):
    x = table(d)
    n = d.one(1, x.shape[1])
    return Node([x], {"offset": reals(d, n), "scale": reals(d, n)})


@family("Imputer")
def imputer(d, name, version):
    x = table(d)
    n = d.one(1, x.shape[1])
    if x.dtype.kind == "i":
        return Node([x], {"imputed_value_int64s": [d.int(-9, 9) for _ in range(n)], "replaced_value_int64": d.int(-1, 1)})
    gone = d.one(float("nan"), 2.0)
    x[d.rng.random(x.shape) < 0.3] = gone
    return Node([x], {"imputed_value_floats": reals(d, n), "replaced_value_float": gone})


@family("FeatureVectorizer")
def feature_vectorizer(d, name, version):
    rows, t, wide = d.int(1, 3), d.one(*LEARNED), [d.int(1, 3) for _ in range(d.int(1, 3))]
    return Node([d.array((rows, n), t) for n in wide], {"inputdimensions": wide})


@family("OneHotEncoder")
def one_hot_encoder(d, name, version):
    a = maybe(d, {"zeros": 1})
    if d.chance(0.4):
        return Node([words(d, d.full(1, 2))], {**a, "cats_strings": WORDS if a.get("zeros") is None else WORDS[:4]})
    return Node([d.array(d.full(1, 2), d.one(*LEARNED), 0, 3).round()], {**a, "zeros": 1, "cats_int64s": [3, 0, 2]})


@family("CategoryMapper")
def category_mapper(d, name, version):
    a = {"cats_strings": WORDS[:4], "cats_int64s": [7, 1, 4, 2], **maybe(d, {"default_int64": -5, "default_string": "none"})}
    return Node([words(d, d.full(1, 2)) if d.chance(0.5) else d.array(d.full(1, 2), np.int64, 0, 8)], a)


def pairs(d, t, n):
    """Values without repetition."""
    return words(d, (0,)) if n == 0 else np.array(WORDS[:n], object) if t == object else d.rng.permutation(9)[:n].astype(t)


@family("LabelEncoder")
def label_encoder(d, name, version):
    if version == 1:
        a = {"classes_strings": WORDS[:4], **maybe(d, {"default_int64": -3, "default_string": "none"})}
        return Node([words(d, d.full(1, 2)) if d.chance(0.5) else d.array(d.full(1, 2), np.int64, 0, 6)], a)
    word = {object: "string", np.int64: "int64", np.float32: "float"}
    n, t, to = d.int(1, 5), d.one(*word), d.one(*word)
    as_tensors = version > 2 and d.chance(0.5)
    t, to = (d.one(object, np.int64, np.float32, np.float64, np.int16, np.int32) for _ in "ab") if as_tensors else (t, to)
    keys, found = pairs(d, t, n), pairs(d, to, n)
    x = words(d, d.full(1, 2)) if t == object else d.array(d.full(1, 2), np.float32, 0, 9).round().astype(t)
    if as_tensors:
        return Node([x], {"keys_tensor": tensor(keys, "k"), "values_tensor": tensor(found, "v"), "default_tensor": tensor(pairs(d, to, 1), "d")})
    other = {object: "none", np.int64: -7, np.float32: 0.5}[to]
    return Node([x], {f"keys_{word[t]}s": keys.tolist(), f"values_{word[to]}s": found.tolist(), **maybe(d, {f"default_{word[to]}": other})})


def unlike(d, size, n):
    """n different n-grams."""
    return [[int(v) // 4 ** k % 4 for k in range(size)] for v in d.rng.permutation(4 ** size)[:n]]


@family("TfIdfVectorizer")
def counted_words(d, name, version):
    most, t = d.int(1, 3), d.one(np.int32, np.int64, object)
    sizes = [d.int(1, 3) for _ in range(most)]
    starts = np.cumsum([0] + [k * n for k, n in enumerate(sizes, 1)])[:-1]
    order = [int(v) for v in d.rng.permutation(sum(sizes))]
    grams = [g for k, n in enumerate(sizes, 1) for g in unlike(d, k, n)]
    flat = [v for g in grams for v in g]
    pool = {"pool_strings": [WORDS[v] for v in flat]} if t == object else {"pool_int64s": flat}
    x = words(d, d.full(1, 2)) if t == object else d.array((*d.full(0, 1), d.int(1, 9)), t, 0, 3)
    return Node([x], {"mode": d.one("TF", "IDF", "TFIDF"), "min_gram_length": d.int(1, most), "max_gram_length": most, "max_skip_count": d.int(0, 3),
                      "ngram_counts": [int(v) for v in starts], "ngram_indexes": order, **pool, **maybe(d, {"weights": reals(d, len(order))})})


# ---- maps -----------------------------------------------------------------------------------------

def one_node(name, attributes, feed, want=None):
    return Net([helper.make_node(name, list(feed), ["y0"], domain="ai.onnx.ml", **attributes)], feed, ["y0"], want=want)


@family("DictVectorizer")
def dict_vectorizer(d, name, version):
    text = d.chance(0.5)
    keys = WORDS if text else [3, 1, 4, 9, 6, 2]
    t = d.one(np.float32, np.float64, np.int64, *([] if text else [object]))
    some = [keys[i] for i in d.rng.permutation(len(keys))[:d.int(1, 5)]]
    value = {k: WORDS[d.int(0, 5)] if t == object else t(d.int(-4, 4)) for k in some}
    known = keys[:4]
    zero = "" if t == object else t(0)
    want = np.array([value.get(k, zero) for k in known], t)
    return one_node(name, {"string_vocabulary" if text else "int64_vocabulary": known}, {"x0": value}, [want])


@family("CastMap")
def cast_map(d, name, version):
    """Judged by its text: values in the order of keys, or at places that keys say, or zero (as text "0", which onnxruntime writes)."""
    text = d.chance(0.4)
    keys = sorted(int(v) for v in d.rng.permutation(7)[:d.int(1, 4)])
    value = {k: str(d.int(-4, 4)) if text else np.float32(d.int(-9, 9)) for k in d.rng.permutation(keys).tolist()}
    to, sparse, most = d.one("TO_FLOAT", "TO_INT64", "TO_STRING"), d.chance(0.5), d.int(2, 8)
    t = {"TO_FLOAT": np.float32, "TO_INT64": np.int64, "TO_STRING": object}[to]
    if to == "TO_STRING" and not text:
        raise ValueError("how a float is written is not said")
    cast = lambda v: v if t == object else t(float(v))
    row = [cast(value[k]) if k in value else ("0" if t == object else t(0)) for k in range(most)] if sparse else [cast(value[k]) for k in keys]
    return one_node(name, {"cast_to": to, **({"map_form": "SPARSE", "max_map": most} if sparse else {})}, {"x0": value}, [np.array([row], t)])


@family("ZipMap")
def zip_map(d, name, version):
    x = d.array((d.int(1, 3), 4))
    keys, a = (WORDS[:4], "classlabels_strings") if d.chance(0.5) else ([5, 1, 7, 2], "classlabels_int64s")
    return one_node(name, {a: keys}, {"x0": x}, [[dict(zip(keys, row)) for row in x]])


# ---- linear models, machines, trees ---------------------------------------------------------------

@family("LinearClassifier", "LinearRegressor")
def linear(d, name, version):
    x, n, post = table(d), d.int(1, 4), maybe(d, {"post_transform": d.one(*POST)})
    if name == "LinearRegressor":
        post = post if n > 1 else {}  # judges leave one score as it is
        return Node([x], {"coefficients": reals(d, n * x.shape[1]), "targets": n, **post, **maybe(d, {"intercepts": reals(d, n)})})
    return Node([x], {"coefficients": reals(d, n * x.shape[1]), "intercepts": reals(d, n), **labels(d, max(n, 2)), **post}, 2)


def kernel(d):
    how = d.one("LINEAR", "POLY", "RBF", "SIGMOID")
    return {"kernel_type": how, "kernel_params": {"POLY": [0.5, 0.2, float(d.int(1, 3))], "RBF": [0.4, 0.0, 0.0], "SIGMOID": [0.3, 0.1, 0.0]}.get(how, [0.0] * 3)}


@family("SVMRegressor", "SVMClassifier")
def machines(d, name, version):
    x, post = table(d), maybe(d, {"post_transform": d.one(*POST)})
    n = d.int(1, 4)
    if name == "SVMRegressor":
        if d.chance(0.2):
            return Node([x], {"kernel_params": [0.0] * 3, "coefficients": reals(d, x.shape[1]), "rho": reals(d, 1)})
        return Node([x], {**kernel(d), "support_vectors": reals(d, n * x.shape[1]), "coefficients": reals(d, n), "rho": reals(d, 1), "n_supports": n,
                          **maybe(d, {"one_class": 1})})
    classes = d.int(2, 4)
    per = [d.int(1, 3) for _ in range(classes)]
    two = classes * (classes - 1) // 2
    likely = {"prob_a": reals(d, two, -2, -0.1), "prob_b": reals(d, two)} if d.chance(0.5) else {}
    return Node([x], {**kernel(d), "support_vectors": reals(d, sum(per) * x.shape[1]), "coefficients": reals(d, sum(per) * (classes - 1)),
                      "vectors_per_class": per, "rho": reals(d, two), **likely, **labels(d, classes), **post}, 2)


WAYS = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


def grown(d, features, ways):
    """A tree as [(way, feature, split, true child, false child, missing) or None for a leaf]."""
    nodes = []

    def add(depth):
        at = len(nodes)
        nodes.append(None)
        if depth and d.chance(0.8):
            own = d.one(*ways), d.int(0, features - 1), float(np.round(d.rng.uniform(-2, 2), 1)), d.int(0, 1)
            nodes[at] = (*own[:3], add(depth - 1), add(depth - 1), own[3])
        return at
    add(d.int(0, 3))
    return nodes


def forest(d, features, ways):
    a = {key: [] for key in ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids", "missing_value_tracks_true")}
    leaves = []
    for tree in range(d.int(1, 4)):
        for node, own in enumerate(grown(d, features, ways)):
            way, feature, split, yes, no, missing = own or ("LEAF", 0, 0.0, 0, 0, 0)
            for key, value in zip(a, (tree, node, feature, way, split, yes, no, missing)):
                a[key].append(value)
            leaves += [] if own else [(tree, node)]
    return {f"nodes_{key}": value for key, value in a.items()}, leaves


@family("TreeEnsembleClassifier", "TreeEnsembleRegressor")
def trees(d, name, version):
    x = table(d)
    x = np.round(x, 1) if x.dtype.kind == "f" else x
    ways = d.one(WAYS[:1], WAYS[:4], WAYS)
    nodes, leaves = forest(d, x.shape[1], ways)
    n = d.int(1, 3)  # judges leave out what has no vote, and transforms of one target
    post = maybe(d, {"post_transform": d.one(*POST)}) if n > 1 or name == "TreeEnsembleClassifier" else {}
    tree, node, ids = zip(*[(t, k, c) for t, k in leaves for c in range(n)])
    w = reals(d, len(ids))
    wide = version >= 3 and x.dtype == np.float64 and d.chance(0.7)
    if wide:
        nodes["nodes_values_as_tensor"] = tensor(np.array(nodes.pop("nodes_values"), np.float64), "n")
    weights = lambda key: {f"{key}_as_tensor": tensor(np.array(w, np.float64), "w")} if wide else {key: w}
    if name == "TreeEnsembleRegressor":
        base = {} if wide else maybe(d, {"base_values": reals(d, n)})
        return Node([x], {**nodes, "target_treeids": tree, "target_nodeids": node, "target_ids": ids, "n_targets": n, **weights("target_weights"), **post,
                          **base, **maybe(d, {"aggregate_function": d.one("SUM", "AVERAGE", "MIN", "MAX")})})
    classes = n if n > 1 else 2
    base = {} if wide else maybe(d, {"base_values": reals(d, classes)}) if n > 1 else {}
    return Node([x], {**nodes, "class_treeids": tree, "class_nodeids": node, "class_ids": ids, **weights("class_weights"), **base,
                      **labels(d, classes, "classlabels_int64s"), **post}, 2)


@family("TreeEnsemble")
def tree_ensemble(d, name, version):
    t = d.one(np.float32, np.float64)
    x = np.round(table(d, t), 1)
    a = {f"nodes_{k}": [] for k in ("featureids", "truenodeids", "falsenodeids", "trueleafs", "falseleafs", "missing_value_tracks_true")}
    modes, splits, roots, leaves, n, member = [], [], [], 0, d.int(1, 3), []
    for _ in range(d.int(1, 3)):
        tree = grown(d, x.shape[1], WAYS)
        inner = {i: len(modes) + k for k, i in enumerate(i for i, own in enumerate(tree) if own)}
        if not inner:
            continue
        leaf = {i: leaves + k for k, i in enumerate(i for i, own in enumerate(tree) if not own)}
        leaves += len(leaf)
        roots.append(len(modes))
        for i in inner:
            way, feature, split, yes, no, missing = tree[i]
            is_set = d.chance(0.2)
            modes.append(6 if is_set else WAYS.index(way))
            member += [*np.round(d.rng.uniform(-2, 2, d.int(1, 3)), 1), np.nan] if is_set else []
            splits.append(split)
            for key, value in zip(a, (feature, inner.get(yes, leaf.get(yes)), inner.get(no, leaf.get(no)), yes in leaf, no in leaf, missing)):
                a[key].append(int(value))
    more = {"membership_values": tensor(np.array(member, t), "m")} if member else {}
    return Node([x], {**a, "nodes_modes": tensor(np.array(modes, np.uint8), "m"), "nodes_splits": tensor(np.array(splits, t), "s"), "tree_roots": roots,
                      "leaf_targetids": [d.int(0, n - 1) for _ in range(leaves)], "leaf_weights": tensor(d.array((leaves,), t), "w"), "n_targets": n,
                      **more, **maybe(d, {"post_transform": d.int(0, 3)} if n > 1 else {"aggregate_function": d.int(0, 3)})})


# ---- training -------------------------------------------------------------------------------------

@family("Adagrad", "Adam", "Momentum")
def steps(d, name, version):
    t, n = d.one(np.float32, np.float32, np.float64), d.int(1, 2)
    shapes = [d.full(0, 2) for _ in range(n)]
    states = 2 if name == "Adam" else 1
    groups = [[d.array(s, t) for s in shapes] for _ in range(2)] + [[d.array(s, t, 0, 2) for s in shapes] for _ in range(states)]
    a = maybe(d, {"norm_coefficient": 0.01})
    if name == "Adagrad":
        a |= maybe(d, {"decay_factor": 0.1, "epsilon": 1e-4})
    elif name == "Adam":
        a |= maybe(d, {"alpha": 0.8, "beta": 0.95, "epsilon": 1e-4, "norm_coefficient_post": 0.02})
    else:
        a = {"norm_coefficient": 0.01, "alpha": 0.9, "beta": 0.8, "mode": d.one("standard", "nesterov")}
    return Node([np.array(0.1, d.one(np.float32, t)), np.array(d.int(0, 9), np.int64), *[x for g in groups for x in g]], a, (1 + states) * n)


@family("Gradient")
def gradient(d, name, version):
    """Of a few smooth nodes; the judge is the difference of two near values, in double precision."""
    shape = d.full(1, 2)
    feed = {f"x{i}": d.array(shape, np.float64, 0.3, 1.5) for i in range(2)}
    nodes, known, functions = [], dict.fromkeys(feed), []
    smooth = {"Tanh": np.tanh, "Exp": np.exp, "Log": lambda v: np.log(np.abs(v) + 0), "Sigmoid": lambda v: 1 / (1 + np.exp(-v)), "Sin": np.sin,
              "Add": np.add, "Mul": np.multiply, "Sub": np.subtract}
    at = "x0"
    for k in range(d.int(2, 5)):
        op = d.one("Tanh", "Exp", "Sigmoid", "Sin", "Add", "Mul", "Sub")
        inputs = [at] + ([d.one(*known)] if op in ("Add", "Mul", "Sub") else [])
        nodes.append(helper.make_node(op, inputs, [f"h{k}"]))
        functions.append((smooth[op], inputs, f"h{k}"))
        at = f"h{k}"
        known[at] = None
    nodes.append(helper.make_node("Mul", [at, "x1"], ["y"]))
    functions.append((np.multiply, [at, "x1"], "y"))

    def run(values):
        values = dict(values)
        for function, inputs, out in functions:
            values[out] = function(*[values[i] for i in inputs])
        return values["y"]
    # Element by element functions: the change of all elements at once changes each by its own.
    near = lambda x, h: run({k: v + h if k == x else v for k, v in feed.items()})
    want = [run(feed), *[(near(x, 1e-5) - near(x, -1e-5)) / 2e-5 for x in feed]]
    nodes.append(helper.make_node(name, list(feed), ["g0", "g1"], domain="ai.onnx.preview.training", xs=list(feed), y="y"))
    return Net(nodes, feed, ["y", "g0", "g1"], want=want)


def changed_scores(d, prefix, shape, t):
    """A graph over scores: scaled, shifted, capped or masked."""
    name, nodes = f"{prefix}in", []
    for k in range(d.int(1, 2)):
        op = d.one("Tanh", "Mul", "Add")
        other = [] if op == "Tanh" else [f"{prefix}c{k}"]
        if other:
            nodes.append(helper.make_node("Constant", [], other, value=tensor(d.array(d.one((), shape[-2:]), t, 0.2, 1))))
        nodes.append(helper.make_node(op, [name, *other], [f"{prefix}{k}"]))
        name = f"{prefix}{k}"
    kind = code(np.zeros((), t))
    return helper.make_graph(nodes, prefix, [helper.make_tensor_value_info(f"{prefix}in", kind, shape)], [helper.make_tensor_value_info(name, kind, shape)])


@family("FlexAttention")
def flex_attention(d, name, version):
    t, b, kv, q, k, w, v = d.one(np.float32, np.float32, np.float64, np.float16), d.int(1, 2), d.int(1, 2), d.int(1, 4), d.int(1, 5), d.int(1, 5), d.int(1, 5)
    h = kv * d.int(1, 2)
    inner = np.float64 if t == np.float64 else np.float32
    graphs = {key: changed_scores(d, key[0], (b, h, q, k), inner) for key in ("score_mod", "prob_mod") if d.chance(0.5)}
    return Node([d.array((b, h, q, w), t), d.array((b, kv, k, w), t), d.array((b, kv, k, v), t)], {**graphs, **maybe(d, {"scale": 0.3})})


# ---- draws: shape, type and moments are judged, so the wanted results are draws too ----------------

DRAWN = {TensorProto.FLOAT: np.float32, TensorProto.DOUBLE: np.float64, TensorProto.FLOAT16: np.float16}


def moments(d, name):
    if "Uniform" in name:
        lo = d.rng.uniform(-3, 1)
        a = maybe(d, {"low": float(lo), "high": float(lo + d.rng.uniform(1, 3))})
        a = a if len(a) == 2 else {}
        return a, lambda shape: d.rng.uniform(a.get("low", 0), a.get("high", 1), shape)
    a = maybe(d, {"mean": float(d.rng.uniform(-3, 3)), "scale": float(d.rng.uniform(0.5, 2))})
    return a, lambda shape: d.rng.normal(a.get("mean", 0), a.get("scale", 1), shape)


@family("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike")
def draws(d, name, version):
    a, draw = moments(d, name)
    shape = (d.int(20, 60), d.int(10, 40)) if d.chance(0.9) else (0, 3)
    a |= maybe(d, {"seed": float(d.int(1, 99))})
    dtype = d.one(*DRAWN, None)
    a |= {"dtype": dtype} if dtype else {}
    if not name.endswith("Like"):
        made = helper.make_node(name, [], ["y0"], shape=shape, **a)
        return Net([made], {}, ["y0"], want=[draw(shape).astype(DRAWN[dtype or TensorProto.FLOAT])])
    x = d.array(shape, d.one(np.float32, np.float64, np.float16, *([np.int32] if dtype else [])))
    return Net([helper.make_node(name, ["x0"], ["y0"], **a)], {"x0": x}, ["y0"], want=[draw(shape).astype(DRAWN[dtype] if dtype else x.dtype)])


@family("Bernoulli")
def bernoulli(d, name, version):
    x = d.array((d.int(20, 60), d.int(10, 40)), d.one(*FLOATS), 0, 1)
    t = d.one(None, np.float32, np.float64, np.int32, np.int64, np.bool_, np.uint8)
    a = maybe(d, {"seed": float(d.int(1, 99))}) | ({"dtype": code(np.zeros((), t))} if t else {})
    want = (d.rng.random(x.shape) < x).astype(t or x.dtype)
    return Net([helper.make_node(name, ["x0"], ["y0"], **a)], {"x0": x}, ["y0"], want=[want])


@family("Multinomial")
def multinomial(d, name, version):
    x = d.array((d.int(1, 3), d.int(2, 5)), d.one(np.float32, np.float64, np.float16), -2, 1)
    n, t = d.int(400, 600), d.one(None, np.int32, np.int64)
    p = np.exp(x.astype(np.float64))
    p /= p.sum(1, keepdims=True)
    want = np.stack([d.rng.choice(x.shape[1], n, p=row) for row in p]).astype(t or np.int32)
    a = {"sample_size": n, **maybe(d, {"seed": float(d.int(1, 99))}), **({"dtype": code(want)} if t else {})}
    return Net([helper.make_node(name, ["x0"], ["y0"], **a)], {"x0": x}, ["y0"], want=[want])


# ---- pictures: Pillow is the judge ----------------------------------------------------------------

@family("ImageDecoder")
def picture(d, name, version):
    from PIL import Image
    h, w, form = d.int(1, 24), d.int(1, 24), d.one("RGB", "BGR", "Grayscale")
    kind = d.one("PNG", "BMP", "TIFF", "PPM", "WEBP", *(["JPEG"] if form != "Grayscale" else []))
    image = Image.fromarray(np.asarray(d.rng.integers(0, 256, (h, w, 3)), np.uint8))
    out = io.BytesIO()
    image.save(out, kind, **({"lossless": True} if kind == "WEBP" else {"subsampling": 0} if kind == "JPEG" else {}))
    read = Image.open(io.BytesIO(out.getvalue())).convert("RGB")
    want = np.array(read)[..., ::-1] if form == "BGR" else np.array(read.convert("L"))[..., None] if form == "Grayscale" else np.array(read)
    return Net([helper.make_node(name, ["x0"], ["y0"], pixel_format=form)], {"x0": np.frombuffer(out.getvalue(), np.uint8)}, ["y0"], want=[want])
