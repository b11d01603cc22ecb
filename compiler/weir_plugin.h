/* SPDX-License-Identifier: Apache-2.0 */
/* A pass of your own: a shared library with one function, that
 *
 *     weir compile M.onnx --pass-plugin "./P.so:after fuse"
 *
 * calls behind a pass (without `:after`: behind `clean`) with the Flow of the model as text
 * (ir/README.md has its grammar, `weir dump --after PASS` shows it). What the function puts is
 * parsed and verified, and takes the Flow's place. Inputs and outputs stay as they are; weights
 * keep their names, types and shapes: the text does not carry their values. */
#ifndef WEIR_PLUGIN_H
#define WEIR_PLUGIN_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Lives for the call, as all it points to. Later versions may add members at the end. */
typedef struct weir_plugin_call {
    size_t size;       /* of this struct */
    const char *after; /* the pass before */
    const char *text;  /* the Flow, of `bytes` bytes, a zero byte behind them */
    size_t bytes;
    void *host;
    /* Appends to the new Flow's text, of which Weir keeps a copy. */
    void (*put)(void *host, const char *text, size_t bytes);
    /* Says what goes wrong; copied. Then return a number other than 0. */
    void (*error)(void *host, const char *message);
} weir_plugin_call;

/* 0, and the text put is the Flow from now on (the old one where nothing was put); or else
 * compiling ends with the error. Called by the thread that compiles; nothing may be thrown through
 * it. */
typedef int weir_plugin_fn(const weir_plugin_call *call);

#define WEIR_PLUGIN_SYMBOL "weir_plugin"
int weir_plugin(const weir_plugin_call *call); /* what the library defines */

#ifdef __cplusplus
}
#endif
#endif
