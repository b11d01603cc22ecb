/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures as calls: a file's size, and its pixels. Meaning: ir/call.def. */
#include <string.h>

#include "runtime/calls.h"
#include "runtime/image/image.h"

enum { RGB, BGR, GREY, SIDE_MOST = 1 << 24 };

static const struct {
    int at, n;
    const char *magic;
    weir_image_fn *decode;
} formats[] = {
    {0, 3, "\xff\xd8\xff", weir_image_jpeg},
    {0, 8, "\x89PNG\r\n\x1a\n", weir_image_png},
    {0, 2, "BM", weir_image_bmp},
    {8, 4, "WEBP", weir_image_webp},
    {0, 4, "II*\0", weir_image_tiff},
    {0, 4, "MM\0*", weir_image_tiff},
    {4, 4, "jP  ", weir_image_jpeg2000},
    {0, 4, "\xff\x4f\xff\x51", weir_image_jpeg2000},
    {0, 1, "P", weir_image_pnm},
};

static int decode(weir_call *c, weir_image *im) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        size_t end = (size_t)(formats[i].at + formats[i].n);
        if (im->n < end || memcmp(im->at + formats[i].at, formats[i].magic, (size_t)formats[i].n))
            continue;
        if (formats[i].decode(im) && im->height > 0 && im->width > 0 && im->height <= SIDE_MOST &&
            im->width <= SIDE_MOST)
            return 1;
        break;
    }
    c->status = WEIR_E_ARGUMENT;
    c->reason = "a picture is damaged, or of a kind that is not read";
    return 0;
}

static weir_image image_of(const weir_call *c) {
    return (weir_image){.at = c->in[0].data, .n = (size_t)c->in[0].dims[0]};
}

void weir_image_put(weir_image *im, int64_t y, int64_t x, const uint8_t *from, int channels) {
    uint8_t *to = im->rgb + 3 * (y * im->width + x);
    for (int k = 0; k < 3; k++) to[k] = from[channels < 3 ? 0 : k];
}

int64_t weir_call_image_size_scratch(const weir_call *c) {
    (void)c;
    return 0;
}

void weir_call_image_size(weir_call *c) {
    weir_image im = image_of(c);
    int64_t *to = c->out[0].data;
    if (decode(c, &im)) to[0] = im.height, to[1] = im.width;
}

int64_t weir_call_image_decode_scratch(const weir_call *c) {
    return c->attr[0] == GREY ? 3 * weir_tensor_count(&c->out[0]) : 0;
}

void weir_call_image_decode(weir_call *c) {
    weir_image im = image_of(c);
    weir_tensor *to = &c->out[0];
    uint8_t *out = to->data;
    im.rgb = c->attr[0] == GREY ? c->scratch : out;
    im.height = to->dims[0], im.width = to->dims[1];
    if (!decode(c, &im)) return;
    int64_t n = im.height * im.width;
    for (int64_t i = 0; c->attr[0] == BGR && i < n; i++) {
        uint8_t red = out[3 * i];
        out[3 * i] = out[3 * i + 2];
        out[3 * i + 2] = red;
    }
    for (int64_t i = 0; c->attr[0] == GREY && i < n; i++) {
        const uint8_t *p = im.rgb + 3 * i;
        out[i] = (uint8_t)((p[0] * 19595u + p[1] * 38470u + p[2] * 7471u + 0x8000u) >> 16);
    }
}
