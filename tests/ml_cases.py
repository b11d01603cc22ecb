# SPDX-License-Identifier: Apache-2.0
"""Cases of ai.onnx.ml for contrib_cases.py, onnxruntime being the judge."""
import numpy as np

WORDS = "NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"
ML = {"domain": "ai.onnx.ml", "results": [1, 1], "version": 3}


def linear(m):
    x = m.f(5, 4)
    for word in WORDS:
        yield f"linear_classifier_{word.lower()}", "LinearClassifier", [x], {
            "coefficients": m.f(12), "intercepts": m.f(3), "classlabels_ints": [3, 7, 5], "post_transform": word}, ML
        yield f"linear_classifier_pair_{word.lower()}", "LinearClassifier", [x], {
            "coefficients": m.f(4), "intercepts": m.f(1), "classlabels_strings": ["no", "yes"],
            "post_transform": word}, ML
    yield "linear_classifier_almost_zero", "LinearClassifier", [np.array([[1, 5e-8, 2], [-5e-8, 0, 3]], np.float32)], {
        "coefficients": np.eye(3).ravel().tolist(), "intercepts": [0.0] * 3, "classlabels_ints": [3, 7, 5],
        "post_transform": "SOFTMAX_ZERO"}, ML
    yield "linear_classifier_i64", "LinearClassifier", [m.i(-4, 5, 3, 4)], {
        "coefficients": m.f(12), "intercepts": m.f(3), "classlabels_strings": ["a", "b", "c"]}, ML
    yield "linear_classifier_row", "LinearClassifier", [m.f(4)], {
        "coefficients": m.f(8), "intercepts": m.f(2), "classlabels_ints": [0, 1]}, ML


def machines(m):
    x, one = m.f(6, 3), ML | {"results": [1]}
    kernels = {"LINEAR": [0.0, 0.0, 0.0], "POLY": [0.5, 0.2, 3], "RBF": [0.4, 0, 0], "SIGMOID": [0.3, 0.1, 0]}
    for kernel, params in kernels.items():
        yield f"svm_regressor_{kernel.lower()}", "SVMRegressor", [x], {
            "kernel_type": kernel, "kernel_params": params, "support_vectors": m.f(12), "coefficients": m.f(4),
            "rho": m.f(1), "n_supports": 4}, one
        four = {"kernel_type": kernel, "kernel_params": params, "support_vectors": m.f(21),
                "vectors_per_class": [2, 1, 3, 1], "coefficients": m.f(21), "rho": m.f(6)}
        yield f"svm_classifier_{kernel.lower()}", "SVMClassifier", [x], {
            **four, "classlabels_ints": [4, 2, 9, 0]}, ML
        yield f"svm_classifier_likely_{kernel.lower()}", "SVMClassifier", [x], {
            **four, "classlabels_strings": ["a", "b", "c", "d"], "prob_a": -np.abs(m.f(6)), "prob_b": m.f(6)}, ML
    yield "svm_regressor_one_class", "SVMRegressor", [x], {
        "kernel_type": "RBF", "kernel_params": [0.4, 0, 0], "support_vectors": m.f(12), "coefficients": m.f(4),
        "rho": m.f(1), "n_supports": 4, "one_class": 1}, one
    yield "svm_regressor_linear_model", "SVMRegressor", [x], {
        "kernel_params": [0.0, 0.0, 0.0], "coefficients": m.f(3), "rho": m.f(1)}, one
    pair = {"kernel_type": "RBF", "kernel_params": [0.4, 0, 0], "support_vectors": m.f(12),
            "vectors_per_class": [2, 2], "coefficients": m.f(4), "rho": m.f(1), "classlabels_ints": [3, 8]}
    for word in WORDS:
        yield f"svm_classifier_pair_{word.lower()}", "SVMClassifier", [x], {**pair, "post_transform": word}, ML
        yield f"svm_classifier_linear_model_{word.lower()}", "SVMClassifier", [x], {
            "kernel_params": [0.0, 0.0, 0.0], "coefficients": m.f(9), "rho": m.f(3), "classlabels_ints": [3, 8, 5],
            "post_transform": word}, ML
    yield "svm_classifier_pair_likely", "SVMClassifier", [x], {**pair, "prob_a": [-1.5], "prob_b": [0.2]}, ML


def stumps(m, n, classes, features, ways=6):
    """n trees of two levels, with every way to branch; the votes of their leaves by `classes`."""
    words = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
    a = {key: [] for key in ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids",
                             "missing_value_tracks_true")}
    votes = []
    for tree in range(n):
        for node in range(7):
            inner = node < 3
            a["treeids"].append(tree)
            a["nodeids"].append(node)
            a["featureids"].append(int(m.i(0, features)) if inner else 0)
            a["modes"].append(words[int(m.i(0, ways))] if inner else "LEAF")
            a["values"].append(float(np.round(m.f(), 1)))
            a["truenodeids"].append(2 * node + 1 if inner else 0)
            a["falsenodeids"].append(2 * node + 2 if inner else 0)
            a["missing_value_tracks_true"].append(int(m.i(0, 2)))
            votes += [] if inner else [(tree, node, c) for c in classes]
    trees = {f"nodes_{key}": value for key, value in a.items()}
    return trees, [list(v) for v in zip(*votes)]


def many_rows(m, x):
    """More rows than are walked side by side, and than have sums at a time; with numbers that are missing, and without."""
    trees, (tree, node, ids) = stumps(m, 11, [0, 1, 2], 4, ways=5)
    votes = {**trees, "target_treeids": tree, "target_nodeids": node, "target_ids": ids, "n_targets": 3, "target_weights": m.f(len(ids))}
    for how in "SUM", "MIN":
        yield f"tree_rows_{how.lower()}", "TreeEnsembleRegressor", [x], votes | {"aggregate_function": how}, ML | {"results": [1]}
        missing = np.where(m.i(0, 9, 301, 4) == 0, np.nan, x.astype(np.float64))
        yield f"tree_rows_missing_{how.lower()}", "TreeEnsembleRegressor", [missing], votes | {"aggregate_function": how}, ML | {"results": [1]}
    least, (tree, node, ids) = stumps(m, 11, [0], 4, ways=1)
    yield "tree_rows_plain", "TreeEnsembleRegressor", [x], {
        **least, "target_treeids": tree, "target_nodeids": node, "target_ids": ids, "n_targets": 1, "target_weights": m.f(len(ids))}, ML | {"results": [1]}


def forests(m):
    x = np.round(m.f(7, 4), 1)
    missing = np.where(m.i(0, 4, 7, 4) == 0, np.nan, x.astype(np.float64))
    for word in WORDS:
        trees, (tree, node, ids) = stumps(m, 3, [0, 1, 2], 4)
        weights = {"class_treeids": tree, "class_nodeids": node, "class_ids": ids, "post_transform": word}
        yield f"tree_classifier_{word.lower()}", "TreeEnsembleClassifier", [x], {
            **trees, **weights, "class_weights": m.f(len(ids)), "classlabels_int64s": [5, 1, 3],
            "base_values": m.f(3)}, ML
        trees, (tree, node, ids) = stumps(m, 3, [0], 4)
        weights = {"class_treeids": tree, "class_nodeids": node, "class_ids": ids, "post_transform": word}
        for name, some in ("", m.f(len(ids))), ("_likely", np.abs(m.f(len(ids), scale=0.2))):
            yield f"tree_classifier_pair{name}_{word.lower()}", "TreeEnsembleClassifier", [x], {
                **trees, **weights, "class_weights": some, "classlabels_strings": ["no", "yes"]}, ML
        trees, (tree, node, ids) = stumps(m, 3, [0, 1], 4)
        yield f"tree_regressor_{word.lower()}", "TreeEnsembleRegressor", [x], {
            **trees, "target_treeids": tree, "target_nodeids": node, "target_ids": ids, "n_targets": 2,
            "target_weights": m.f(len(ids)), "post_transform": word}, ML | {"results": [1]}
    for how in "SUM", "AVERAGE", "MIN", "MAX":
        trees, (tree, node, ids) = stumps(m, 3, [0], 4, ways=5)  # a NaN that is not equal: the judge is not the text
        yield f"tree_regressor_{how.lower()}", "TreeEnsembleRegressor", [missing], {
            **trees, "target_treeids": tree, "target_nodeids": node, "target_ids": ids, "n_targets": 1,
            "target_weights": m.f(len(ids)), "aggregate_function": how, "base_values": m.f(1)}, ML | {"results": [1]}
    yield from many_rows(m, np.round(m.f(301, 4), 1))


def maps(m):
    one = ML | {"results": [1]}
    words, numbers = ["cat", "dog", "eel", "fox"], [3, 1, 4, 9]
    real = {k: np.float32(k / 4) for k in (4, -2, 3, 7)}
    yield "dict_vectorizer", "DictVectorizer", [{"fox": np.float32(1.5), "cat": np.float32(-2), "yak": np.float32(8)}], {
        "string_vocabulary": words}, one
    yield "dict_vectorizer_i64", "DictVectorizer", [{"eel": np.int64(5)}], {"string_vocabulary": words}, {
        **one, "want": [np.array([0, 0, 5, 0])]}
    yield "dict_vectorizer_f64", "DictVectorizer", [{4: 0.25, 9: -1.0}], {"int64_vocabulary": numbers}, {
        **one, "want": [np.array([0, 0, 0.25, -1])]}
    yield "dict_vectorizer_text", "DictVectorizer", [{4: "four", 3: "three"}], {"int64_vocabulary": numbers}, {
        **one, "want": [np.array(["three", "", "four", ""])]}
    yield "cast_map", "CastMap", [real], {}, one
    yield "cast_map_i64", "CastMap", [real], {"cast_to": "TO_INT64"}, one
    yield "cast_map_sparse", "CastMap", [{4: np.float32(1.5), 1: np.float32(2)}], {
        "map_form": "SPARSE", "max_map": 6}, one
    yield "cast_map_text", "CastMap", [{4: "1.5", 1: "-2"}], {"map_form": "SPARSE", "max_map": 5}, {
        **one, "want": [np.array([[0, -2, 0, 0, 1.5]], np.float32)]}
    yield "cast_map_to_text", "CastMap", [{4: "b", 1: "a"}], {"cast_to": "TO_STRING"}, {
        **one, "want": [np.array([["a", "b"]])]}
    yield "zip_map", "ZipMap", [m.f(3, 4)], {"classlabels_strings": words}, one
    yield "zip_map_i64", "ZipMap", [m.f(2, 4)], {"classlabels_int64s": numbers}, one
    yield "feature_vectorizer", "FeatureVectorizer", [m.f(3, 2), m.f(3, 1), m.f(3, 4)], {
        "inputdimensions": [2, 1, 3]}, one
    yield "feature_extractor", "ArrayFeatureExtractor", [m.f(3, 4), np.array([2, 0])], {}, one
    yield "feature_extractor_column", "ArrayFeatureExtractor", [m.f(5), np.array([[2], [0], [4]])], {}, one


cases = [linear, machines, forests, maps]
