/* SPDX-License-Identifier: Apache-2.0 */
/* TIFF as it is mostly written: chunky strips or tiles of 8 bits a sample, grey, RGB or with a
 * palette, not compressed or by PackBits, LZW or deflate, with or without horizontal differences.
 */
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "runtime/image/image.h"

enum { NONE = 1, LZW = 5, DEFLATE = 8, OLD_DEFLATE = 32946, PACKBITS = 32773 };
enum { WHITE_IS_ZERO, BLACK_IS_ZERO, IS_RGB, PALETTE };

typedef struct Tiff {
    weir_image *im;
    int big; /* endian */
    int64_t width, height, bits, compression, photometric, channels, planar, predictor;
    int64_t part_width, part_height; /* of strips and tiles */
    size_t offsets, counts, colors;  /* the entries of these lists; 0: there is none */
} Tiff;

static int64_t get(const Tiff *t, size_t at, int bytes) {
    int64_t v = 0;
    if (at > t->im->n || (size_t)bytes > t->im->n - at) return 0;
    for (int i = 0; i < bytes; i++)
        v |= (int64_t)t->im->at[at + (size_t)i] << 8 * (t->big ? bytes - 1 - i : i);
    return v;
}

/* Element i of the entry at `at`: bytes, shorts or longs, in the entry when they fit. */
static int64_t element(const Tiff *t, size_t at, int64_t i) {
    int64_t type = get(t, at + 2, 2), n = get(t, at + 4, 4),
            width = type == 1   ? 1
                    : type == 3 ? 2
                                : 4;
    if ((type != 1 && type != 3 && type != 4) || i < 0 || i >= n) return 0;
    size_t from = n * width <= 4 ? at + 8 : (size_t)get(t, at + 8, 4);
    return get(t, from + (size_t)(i * width), (int)width);
}

static void read_entries(Tiff *t, size_t at) {
    int64_t n = get(t, at, 2);
    for (int64_t i = 0; i < n; i++) {
        size_t e = at + 2 + 12 * (size_t)i;
        int64_t v = element(t, e, 0);
        switch (get(t, e, 2)) {
        case 256: t->width = v; break;
        case 257: t->height = v; break;
        case 258: t->bits = v; break;
        case 259: t->compression = v; break;
        case 262: t->photometric = v; break;
        case 277: t->channels = v; break;
        case 278: t->part_height = v; break;
        case 284: t->planar = v; break;
        case 317: t->predictor = v; break;
        case 320: t->colors = e; break;
        case 322: t->part_width = v; break;
        case 323: t->part_height = v; break;
        case 273:
        case 324: t->offsets = e; break;
        case 279:
        case 325: t->counts = e; break;
        default: break;
        }
    }
}

/* ---- compression ----------------------------------------------------------------------------- */

static int packbits(const uint8_t *from, size_t n, uint8_t *to, size_t room) {
    size_t at = 0, k = 0;
    while (at < n && k < room) {
        int head = (int8_t)from[at++];
        size_t run = (size_t)(head < 0 ? 1 - head : head + 1);
        if (head == -128) continue;
        if (run > room - k) run = room - k;
        if (head < 0) {
            if (at == n) return 0;
            memset(to + k, from[at++], run);
        } else {
            if (run > n - at) return 0;
            memcpy(to + k, from + at, run);
            at += run;
        }
        k += run;
    }
    return k == room;
}

/* Codes of 9 to 12 bits, high bits first; 256 clears the table, 257 ends. An entry is an earlier
 * one and one byte more: where its text stands in the result tells all. */
static int lzw(const uint8_t *from, size_t n, uint8_t *to, size_t room) {
    enum { CLEAR = 256, END, FIRST, MOST = 4096 };
    size_t start[MOST], length[MOST], k = 0, bit = 0, before = 0, before_n = 0;
    int next = FIRST, width = 9;
    while (k < room && bit + (size_t)width <= 8 * n) {
        int code = 0;
        for (int i = 0; i < width; i++, bit++)
            code = code << 1 | (from[bit / 8] >> (7 - bit % 8) & 1);
        if (code == END) break;
        if (code == CLEAR) {
            next = FIRST, width = 9, before_n = 0;
            continue;
        }
        if (before_n && next < MOST) start[next] = before, length[next] = before_n + 1, next++;
        if (code >= next || (code >= CLEAR && code < FIRST)) return 0;
        size_t run = code < CLEAR ? 1 : length[code], at = k;
        if (run > room - k) run = room - k;
        for (size_t i = 0; i < run; i++)
            to[k++] = code < CLEAR ? (uint8_t)code : to[start[code] + i];
        before = at, before_n = run;
        width = next >= 2047 ? 12 : next >= 1023 ? 11 : next >= 511 ? 10 : 9;
    }
    return k == room;
}

static int expand(const Tiff *t, const uint8_t *from, size_t n, uint8_t *to, size_t room) {
    uLongf have = room;
    switch (t->compression) {
    case NONE: return n >= room ? memcpy(to, from, room), 1 : 0;
    case PACKBITS: return packbits(from, n, to, room);
    case LZW: return lzw(from, n, to, room);
    case DEFLATE:
    case OLD_DEFLATE: return uncompress(to, &have, from, n) == Z_OK && have == room;
    default: return 0;
    }
}

/* ---- pixels ---------------------------------------------------------------------------------- */

static void put_pixel(const Tiff *t, int64_t y, int64_t x, const uint8_t *p) {
    uint8_t pixel[3];
    if (t->photometric == PALETTE)
        for (int k = 0; k < 3; k++)
            pixel[k] = (uint8_t)(element(t, t->colors, 256 * k + p[0]) >> 8);
    else if (t->photometric == WHITE_IS_ZERO)
        pixel[0] = (uint8_t)(255 - p[0]);
    weir_image_put(t->im, y, x,
                   t->photometric == IS_RGB || t->photometric == BLACK_IS_ZERO ? p : pixel,
                   t->photometric >= IS_RGB ? 3 : 1);
}

/* Strip or tile number `part`, whose first pixel is (y, x). */
static int put_part(const Tiff *t, int64_t part, int64_t y, int64_t x, uint8_t *spare) {
    int strips = t->part_width == t->width;
    int64_t rows = strips && t->height - y < t->part_height ? t->height - y : t->part_height;
    int64_t step = t->part_width * t->channels, from = element(t, t->offsets, part),
            n = element(t, t->counts, part);
    if (from < 0 || n < 0 || from > (int64_t)t->im->n || n > (int64_t)t->im->n - from) return 0;
    if (!expand(t, t->im->at + from, (size_t)n, spare, (size_t)(rows * step))) return 0;
    for (int64_t r = 0; r < rows && y + r < t->height; r++) {
        uint8_t *row = spare + r * step;
        for (int64_t i = t->channels; t->predictor == 2 && i < step; i++)
            row[i] = (uint8_t)(row[i] + row[i - t->channels]);
        for (int64_t k = 0; k < t->part_width && x + k < t->width; k++)
            put_pixel(t, y + r, x + k, row + k * t->channels);
    }
    return 1;
}

int weir_image_tiff(weir_image *im) {
    Tiff t = {.im = im,
              .big = im->at[0] == 'M',
              .bits = 1,
              .compression = 1,
              .channels = 1,
              .planar = 1,
              .predictor = 1};
    read_entries(&t, (size_t)get(&t, 4, 4));
    if (!t.part_width) t.part_width = t.width;
    if (!t.part_height || (t.part_width == t.width && t.part_height > t.height))
        t.part_height = t.height;
    int fits = !im->rgb || (im->height == t.height && im->width == t.width);
    im->height = t.height, im->width = t.width;
    int least = t.photometric == IS_RGB ? 3 : 1;
    if (!fits || t.width < 1 || t.height < 1 || t.bits != 8 || t.planar != 1 ||
        t.photometric > PALETTE || t.channels < least || t.channels > 16 || t.predictor < 1 ||
        t.predictor > 2 || !t.offsets || !t.counts || t.part_width < 1 || t.part_width > 1 << 24 ||
        t.part_height > 1 << 24)
        return 0;
    if (!im->rgb) return 1;
    int64_t part = 0, bytes = t.part_width * t.part_height * t.channels;
    uint8_t *spare = bytes < (int64_t)1 << 40 ? malloc((size_t)bytes) : NULL;
    int ok = spare != NULL;
    for (int64_t y = 0; ok && y < t.height; y += t.part_height)
        for (int64_t x = 0; ok && x < t.width; x += t.part_width)
            ok = put_part(&t, part++, y, x, spare);
    free(spare);
    return ok;
}
