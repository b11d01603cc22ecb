/* SPDX-License-Identifier: Apache-2.0 */
/* The weights of a program as one run of bytes: every parameter and literal that its code reads, in
 * storage layout, each at a multiple of 64. They never pass through a compiler or a linker: they
 * are streamed, tensor by tensor, behind the linked library as a segment of its own (elf.c), into a
 * side file, or into memory. */
#ifndef WEIR_WEIGHTS_H
#define WEIR_WEIGHTS_H

#include "compiler/pack.h"
#include "ir/nest.h"

typedef struct Weight {
    int64_t offset;
    Pack pack;
} Weight;

/* Where one program's weights lie, by container of its flow; -1: not a weight of that kind. */
typedef struct WeightPlaces {
    int64_t *stored; /* bytes from the start */
    int64_t *made;   /* by the constant part: bytes in a set of weights */
} WeightPlaces;

typedef struct Weights {
    WeightPlaces *places; /* by program */
    /* Of programs with a constant part: where its inputs (weights as the model gives them) start;
     * where what it makes lies in a set of weights, by output. */
    int64_t *raw;
    int64_t *made_at;
    int64_t made_bytes;
    int64_t bytes;
    VEC(Weight) at; /* equal ones once */
} Weights;

/* Of n programs that the passes made of one flow: what they share by its name is stored once.
 * `part`: the constant part as weights_part made it, or NULL. `literals`: small ones too, which
 * else stand in the code. */
Weights weights_plan(Arena *arena, const Program *const *program, int n, const Program *part,
                     bool literals);
/* The constant part of a program as a program of its own, whose inputs are weights; or NULL. */
Program *weights_part(Arena *arena, const Program *program);
/* A hash of the weights' sources, by which a side file is known to belong to its library; never 0.
 */
uint64_t weights_hash(const Weights *w);

/* Where they go: to memory (`to`, w->bytes bytes), else to a file from byte `start` on. E_FILE with
 * the system's reason; `path` is for that message. Uses `jobs` threads. */
typedef struct WeightSink {
    void *to;
    int fd;
    int64_t start;
    const char *path;
    int jobs;
} WeightSink;
void weights_put(Ctx *ctx, const Weights *w, const WeightSink *sink);

/* ---- elf.c ----------------------------------------------------------------------------------- */

/* A linked library opened for its weights: write `head` at 0, the weights at `start`, `tail` at
 * `tail_start`. Without weights the head is all. E_INTERNAL when the library has no blob. */
typedef struct ElfPlan {
    const void *head, *tail;
    size_t head_bytes, tail_bytes;
    int64_t start, tail_start;
} ElfPlan;
ElfPlan elf_plan(Arena *arena, const void *library, size_t n, int64_t weight_bytes, bool embed);

#endif
