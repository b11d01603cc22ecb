/* SPDX-License-Identifier: Apache-2.0 */
/* What recurrent operators share: operands, one direction, its loop. */
#ifndef WEIR_FRONTENDS_ONNX_RECURRENT_H
#define WEIR_FRONTENDS_ONNX_RECURRENT_H

#include "nn.h"

enum { W_X, W_W, W_R, W_B, W_LENS, W_H, W_C, W_P };

typedef struct Rnn {
    int in[8];             /* containers of the operands, -1: absent */
    int gates, dirs, kept; /* gate count; directions; activations of one direction */
    Dim T, N, I, H;
    bool batch_first, codes; /* codes: products take the state rounded to 8 bits */
    DType t;
    const char *act[6]; /* texts over $0, of all directions */
} Rnn;

/* One direction. */
typedef struct Cell {
    const Rnn *rnn;
    int dir;
    bool reverse;
    int gx, gh, h, c;   /* containers: input product, state product, states */
    int more;           /* a product beside gh, of its shape; -1 */
    int keys, attended; /* AttnLSTM's: [N,S,Q], before the loop; a state */
    Dim t;              /* the loop's step */
    Map *m;             /* the map of the gates */
    Dim n, j;
    int at;   /* value of `in this sequence`, or -1 */
    Dim from; /* element of the sequence that this step takes */
} Cell;

typedef void CellFn(Lower *lo, Cell *c);

/* Result types of a recurrent node with `gates` gates: Y, Y_h and, of an LSTM, Y_c. The weights of
 * inputs have `more` columns than these have elements. */
void rnn_infer(Infer *in, int gates, Dim more);
Rnn rnn_open(Lower *lo, int gates, int kept, const char *const *usual);
/* A state [T+1,N,width] whose entry 0 is operand `init`, or 0. */
int rnn_state(Lower *lo, const Cell *c, const char *name, Dim width, int init);
/* All directions: `open` (may be NULL) before the loop, `step` in it. */
void rnn_lower(Lower *lo, Rnn r, bool has_cell, CellFn *open, CellFn *step);
void lstm_step(Lower *lo, Cell *c);
extern const char *const lstm_usual[]; /* activations of one direction */

#endif
