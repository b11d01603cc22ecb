/* SPDX-License-Identifier: Apache-2.0 */
/* The instructions on tiles (AMX), for processors that have none: linked into a library that was
 * built for them in place of weir_cpus.c, this answers the signal that each raises by doing what it
 * would have done. What a processor would refuse (shapes that do not fit each other, tiles that are
 * not set up) ends the process with a message. Source: Intel 64 and IA-32 Architectures Software
 * Developer's Manual, volume 2, "Intel Advanced Matrix Extensions". */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { TILES = 8, ROWS = 16, BYTES = 64 };

typedef struct Tile {
    int rows, bytes; /* as set up; 0: not at all */
    uint8_t at[ROWS][BYTES];
} Tile;

static _Thread_local Tile tiles[TILES];
static _Thread_local int set_up;

/* An instruction on tiles: VEX prefix, operation, registers, memory. */
typedef struct Instruction {
    int prefix; /* 0: none, 1: 66, 2: f3, 3: f2 */
    int operation, reg, rm, third;
    uint8_t *memory; /* NULL: registers alone */
    int64_t step;    /* of rows in memory: the index register */
    int length;
} Instruction;

static void refuse(const char *what) {
    fprintf(stderr, "tiles: %s\n", what);
    _exit(70);
}

/* ---- reading an instruction ------------------------------------------------------------------ */

static int64_t value_of(const ucontext_t *c, int reg) {
    static const int of[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                             REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                             REG_R12, REG_R13, REG_R14, REG_R15};
    return c->uc_mcontext.gregs[of[reg]];
}

static int64_t displacement(const uint8_t *p, int bytes) {
    int32_t wide;
    if (bytes == 0) return 0;
    if (bytes == 1) return (int8_t)*p;
    memcpy(&wide, p, 4);
    return wide;
}

/* Operand in memory behind the ModRM byte `p`; `x` and `b` are the upper bits of index and base. */
static void read_memory(Instruction *i, const ucontext_t *c, const uint8_t *start, const uint8_t *p,
                        int x, int b) {
    int mode = p[0] >> 6, base = p[0] & 7, bytes = mode == 1 ? 1 : mode == 2 ? 4 : 0;
    int64_t address = 0;
    p++;
    if (base == 4) {
        int index = (p[0] >> 3 & 7) + 8 * x;
        if (index != 4) i->step = value_of(c, index) << (p[0] >> 6);
        base = p[0] & 7;
        p++;
    }
    int none = mode == 0 &&
               base == 5; /* a displacement alone, from the next instruction if without index */
    if (none) bytes = 4;
    address = displacement(p, bytes);
    i->length = (int)(p + bytes - start);
    if (!none)
        address += value_of(c, base + 8 * b);
    else if (p[-1] >> 6 == 0 && (p[-1] & 7) == 5)
        address += (int64_t)(intptr_t)(start + i->length);
    i->memory = (uint8_t *)(intptr_t)address;
}

/* 0: this is none of them. */
static int read_instruction(Instruction *i, const ucontext_t *c, const uint8_t *p) {
    *i = (Instruction){0};
    if (p[0] != 0xc4 || (p[1] & 31) != 2 || (p[2] & 0x84)) return 0;
    i->prefix = p[2] & 3;
    i->third = ~p[2] >> 3 & 15;
    i->operation = p[3];
    i->reg = (p[4] >> 3 & 7) + 8 * !(p[1] & 0x80);
    i->rm = (p[4] & 7) + 8 * !(p[1] & 0x20);
    i->length = 5;
    if (p[4] >> 6 != 3) read_memory(i, c, p, p + 4, !(p[1] & 0x40), !(p[1] & 0x20));
    return 1;
}

/* ---- doing it -------------------------------------------------------------------------------- */

static Tile *tile(int n) {
    if (!set_up) refuse("an instruction before tiles are set up");
    if (n >= TILES || tiles[n].rows == 0) refuse("a tile that is not set up");
    return &tiles[n];
}

static void set_tiles_up(const uint8_t *how) {
    memset(tiles, 0, sizeof tiles);
    set_up = how[0] == 1;
    if (how[0] > 1) refuse("no such palette");
    for (int n = 1; n < 16; n++)
        if (how[n]) refuse("bytes of the set-up that must be 0");
    for (int n = 0; n < 16 && set_up; n++) {
        uint16_t bytes;
        memcpy(&bytes, how + 16 + 2 * n, 2);
        if (bytes > BYTES || how[48 + n] > ROWS || !bytes != !how[48 + n] || (n >= TILES && bytes))
            refuse("rows or bytes that no tile has");
        if (n < TILES) tiles[n].rows = how[48 + n], tiles[n].bytes = bytes;
    }
}

static void move_tile(const Instruction *i, int store) {
    Tile *t = tile(i->reg);
    if (!store) memset(t->at, 0, sizeof t->at);
    for (int r = 0; r < t->rows; r++) {
        uint8_t *row = i->memory + r * i->step;
        if (store)
            memcpy(row, t->at[r], (size_t)t->bytes);
        else
            memcpy(t->at[r], row, (size_t)t->bytes);
    }
}

static float f32_of_bf16(const uint8_t *p) {
    uint32_t bits = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 24;
    float f;
    if ((bits & 0x7f800000) == 0) bits &= 0x80000000; /* small numbers count as 0 */
    memcpy(&f, &bits, 4);
    return f;
}

static void multiply_halves(Tile *c, const Tile *a, const Tile *b, int row) {
    float even[16] = {0}, odd[16] = {0};
    for (int k = 0; k < a->bytes / 4; k++)
        for (int n = 0; n < c->bytes / 4; n++) {
            even[n] += f32_of_bf16(&a->at[row][4 * k]) * f32_of_bf16(&b->at[k][4 * n]);
            odd[n] += f32_of_bf16(&a->at[row][4 * k + 2]) * f32_of_bf16(&b->at[k][4 * n + 2]);
        }
    float *sum = (float *)(void *)c->at[row];
    for (int n = 0; n < c->bytes / 4; n++) sum[n] += even[n] + odd[n];
}

static int code(uint8_t byte, int is_signed) {
    return is_signed ? (int8_t)byte : byte;
}

static void multiply_codes(Tile *c, const Tile *a, const Tile *b, int row, int signed_a,
                           int signed_b) {
    uint32_t *sum = (uint32_t *)(void *)c->at[row];
    for (int k = 0; k < a->bytes; k++)
        for (int n = 0; n < c->bytes / 4; n++)
            sum[n] += (uint32_t)(code(a->at[row][k], signed_a) *
                                 code(b->at[k / 4][4 * n + k % 4], signed_b));
}

static void multiply(const Instruction *i) {
    Tile *c = tile(i->reg), *a = tile(i->rm), *b = tile(i->third);
    if (c == a || a == b || b == c) refuse("one tile is two operands");
    if (c->rows != a->rows || c->bytes != b->bytes || a->bytes != 4 * b->rows || c->bytes % 4)
        refuse("shapes of a product that do not fit");
    if (i->operation == 0x5c && i->prefix != 2) refuse("only halves of kind bf16 are known");
    for (int row = 0; row < c->rows; row++) {
        if (i->operation == 0x5c)
            multiply_halves(c, a, b, row);
        else /* none: u8 by u8, 66: u8 by i8, f3: i8 by u8, f2: i8 by i8 */
            multiply_codes(c, a, b, row, i->prefix >= 2, i->prefix & 1);
    }
}

/* 0: no instruction on tiles. */
static int execute(const Instruction *i) {
    int memory = i->memory != NULL;
    switch (i->operation << 8 | i->prefix << 4 | memory) {
    case 0x4901: set_tiles_up(i->memory); return 1;
    case 0x4900: set_tiles_up((uint8_t[BYTES]){0}); return 1;
    case 0x4930: memset(tile(i->reg)->at, 0, sizeof tiles->at); return 1;
    case 0x4b31:
    case 0x4b11: move_tile(i, 0); return 1;
    case 0x4b21: move_tile(i, 1); return 1;
    case 0x5c20:
    case 0x5e00:
    case 0x5e10:
    case 0x5e20:
    case 0x5e30: multiply(i); return 1;
    default: return 0;
    }
}

static void answer(int sig, siginfo_t *info, void *user) {
    ucontext_t *c = user;
    Instruction i;
    (void)info;
    if (read_instruction(&i, c, (const uint8_t *)(intptr_t)c->uc_mcontext.gregs[REG_RIP]) &&
        execute(&i))
        c->uc_mcontext.gregs[REG_RIP] += i.length;
    else
        signal(sig, SIG_DFL); /* it comes again, and ends the process */
}

/* A processor that has tiles does set them up, so that it has to do the rest too: for who asks. */
__attribute__((constructor)) static void listen(void) {
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    if (syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0) return;
    struct sigaction how = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGILL, &how, NULL);
}

/* ---- in place of weir_cpus.c ----------------------------------------------------------------- */

const char *weir_cpu_missing(uint64_t need) {
    (void)need;
    return NULL;
}

int weir_cpus(void) {
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online < 1 ? 1 : (int)online;
}
