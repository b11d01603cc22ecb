/* SPDX-License-Identifier: Apache-2.0 */
/* BMP without compression and PNM: formats that are little more than their pixels. */
#include "runtime/image/image.h"

/* Does the picture whose size is being read fit what the caller made room for? */
static int sized(weir_image *im, int64_t height, int64_t width) {
    int fits = !im->rgb || (im->height == height && im->width == width);
    im->height = height;
    im->width = width;
    return fits && height > 0 && width > 0;
}

/* ---- BMP ------------------------------------------------------------------------------------- */

static uint32_t little(const uint8_t *p, int bytes) {
    uint32_t v = 0;
    for (int i = 0; i < bytes; i++) v |= (uint32_t)p[i] << 8 * i;
    return v;
}

/* Rows from the bottom up unless the height is negative, each padded to four bytes; colors are
 * blue, green, red. */
int weir_image_bmp(weir_image *im) {
    const uint8_t *p = im->at;
    if (im->n < 54) return 0;
    int64_t start = little(p + 10, 4), head = little(p + 14, 4), width = (int32_t)little(p + 18, 4),
            height = (int32_t)little(p + 22, 4), bits = little(p + 28, 2), size = (int64_t)im->n;
    int up = height > 0;
    if (height == INT32_MIN || little(p + 30, 4) != 0) return 0;
    if (!sized(im, up ? height : -height, width) || width > INT32_MAX / 32) return 0;
    if (bits != 1 && bits != 4 && bits != 8 && bits != 24 && bits != 32) return 0;
    int64_t step = (width * bits + 31) / 32 * 4, palette = 14 + head;
    if (start > size || (size - start) / step < im->height || palette > start) return 0;
    for (int64_t y = 0; im->rgb && y < im->height; y++)
        for (int64_t x = 0; x < width; x++) {
            const uint8_t *row = p + start + (up ? im->height - 1 - y : y) * step, *from;
            if (bits >= 24) {
                from = row + x * bits / 8;
            } else {
                int64_t per = 8 / bits, shift = 8 - bits - x % per * bits;
                int64_t color = palette + 4 * (row[x / per] >> shift & ((1 << bits) - 1));
                if (color + 3 > start) return 0;
                from = p + color;
            }
            weir_image_put(im, y, x, (uint8_t[]){from[2], from[1], from[0]}, 3);
        }
    return 1;
}

/* ---- PNM ------------------------------------------------------------------------------------- */

/* The next number of the head; white space and comments before it are skipped. -1: there is none.
 */
static int64_t number(const weir_image *im, size_t *at) {
    int64_t v = -1;
    while (*at < im->n && (im->at[*at] < '0' || im->at[*at] > '9')) {
        if (im->at[*at] == '#')
            while (*at < im->n && im->at[*at] != '\n') ++*at;
        if (*at < im->n) ++*at;
    }
    for (; *at < im->n && im->at[*at] >= '0' && im->at[*at] <= '9' && v < 1 << 24; ++*at)
        v = (v < 0 ? 0 : v) * 10 + (im->at[*at] - '0');
    return v;
}

typedef struct Samples {
    int kind, channels; /* P1 .. P6 */
    int64_t top;
    size_t at;
    int bit;
} Samples;

/* The next sample as 0 .. 255; -1 at the end of the file. */
static int sample(const weir_image *im, Samples *s) {
    int64_t v = 0;
    if (s->kind == 1) {
        while (s->at < im->n && im->at[s->at] != '0' && im->at[s->at] != '1') s->at++;
        return s->at < im->n ? im->at[s->at++] == '0' ? 255 : 0 : -1;
    }
    if (s->kind < 4) {
        v = number(im, &s->at);
        return v < 0 ? -1 : (int)((v < s->top ? v : s->top) * 255 / s->top);
    }
    size_t width = s->top > 255 ? 2 : 1;
    if (s->at + width > im->n) return -1;
    if (s->kind == 4) {
        v = im->at[s->at] >> (7 - s->bit) & 1 ? 0 : 255;
        s->bit = (s->bit + 1) % 8;
        s->at += s->bit == 0;
        return (int)v;
    }
    for (size_t i = 0; i < width; i++) v = v << 8 | im->at[s->at++];
    return (int)((v < s->top ? v : s->top) * 255 / s->top);
}

int weir_image_pnm(weir_image *im) {
    if (im->n < 3 || im->at[1] < '1' || im->at[1] > '6') return 0;
    Samples s = {.kind = im->at[1] - '0', .top = 1, .at = 2};
    s.channels = s.kind % 3 == 0 ? 3 : 1;
    int64_t width = number(im, &s.at), height = number(im, &s.at);
    if (s.kind % 3 != 1) s.top = number(im, &s.at);
    if (!sized(im, height, width) || s.top < 1 || s.top > 65535) return 0;
    s.at += s.kind >= 4;
    for (int64_t y = 0; im->rgb && y < height; y++) {
        for (int64_t x = 0; x < width; x++) {
            uint8_t pixel[3];
            for (int k = 0; k < s.channels; k++) {
                int v = sample(im, &s);
                if (v < 0) return 0;
                pixel[k] = (uint8_t)v;
            }
            weir_image_put(im, y, x, pixel, s.channels);
        }
        if (s.bit) s.bit = 0, s.at++;
    }
    return 1;
}
