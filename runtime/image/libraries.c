/* SPDX-License-Identifier: Apache-2.0 */
/* JPEG, PNG, WebP and JPEG 2000 by the libraries that define what they mean in practice. Each is
 * told to return instead of ending the process, and to say nothing. */
#include <stdio.h>

#include <jpeglib.h>
#include <openjpeg.h>
#include <png.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <webp/decode.h>

#include "runtime/image/image.h"

static int sized(weir_image *im, int64_t height, int64_t width) {
    int fits = !im->rgb || (im->height == height && im->width == width);
    im->height = height;
    im->width = width;
    return fits;
}

/* ---- JPEG ------------------------------------------------------------------------------------ */

typedef struct JpegErrors {
    struct jpeg_error_mgr base;
    jmp_buf back;
} JpegErrors;

static void jpeg_fails(j_common_ptr j) {
    longjmp(((JpegErrors *)(void *)j->err)->back, 1);
}

static void jpeg_silent(j_common_ptr j) {
    (void)j;
}

static void jpeg_message(j_common_ptr j, int level) {
    (void)j, (void)level;
}

int weir_image_jpeg(weir_image *im) {
    struct jpeg_decompress_struct j = {0};
    JpegErrors errors = {.base = {.error_exit = jpeg_fails,
                                  .emit_message = jpeg_message,
                                  .output_message = jpeg_silent,
                                  .reset_error_mgr = jpeg_silent}};
    j.err = &errors.base;
    volatile int ok = 0;
    if (!setjmp(errors.back)) {
        jpeg_create_decompress(&j);
        jpeg_mem_src(&j, im->at, im->n);
        jpeg_read_header(&j, TRUE);
        ok = sized(im, j.image_height, j.image_width);
        if (ok && im->rgb) {
            j.out_color_space = JCS_RGB;
            jpeg_start_decompress(&j);
            while (j.output_scanline < j.output_height) {
                JSAMPROW row = im->rgb + 3 * (size_t)im->width * j.output_scanline;
                jpeg_read_scanlines(&j, &row, 1);
            }
            jpeg_finish_decompress(&j);
        }
    } else {
        ok = 0;
    }
    jpeg_destroy_decompress(&j);
    return ok;
}

/* ---- PNG, WebP ------------------------------------------------------------------------------- */

int weir_image_png(weir_image *im) {
    png_image p = {.version = PNG_IMAGE_VERSION};
    int ok = png_image_begin_read_from_memory(&p, im->at, im->n) && sized(im, p.height, p.width);
    p.format = PNG_FORMAT_RGBA;
    uint8_t *all = ok && im->rgb ? malloc(PNG_IMAGE_SIZE(p)) : NULL;
    if (ok && im->rgb) ok = all && png_image_finish_read(&p, NULL, all, 0, NULL);
    for (int64_t i = 0; ok && im->rgb && i < im->height * im->width; i++)
        weir_image_put(im, 0, i, all + 4 * i, 4);
    free(all);
    png_image_free(&p);
    return ok;
}

int weir_image_webp(weir_image *im) {
    int width, height;
    if (!WebPGetInfo(im->at, im->n, &width, &height) || !sized(im, height, width)) return 0;
    return !im->rgb ||
           WebPDecodeRGBInto(im->at, im->n, im->rgb, 3 * (size_t)width * (size_t)height, 3 * width);
}

/* ---- JPEG 2000 ------------------------------------------------------------------------------- */

typedef struct Source {
    const weir_image *im;
    size_t at;
} Source;

static OPJ_SIZE_T source_read(void *to, OPJ_SIZE_T n, void *user) {
    Source *s = user;
    size_t left = s->im->n - s->at;
    if (!left) return (OPJ_SIZE_T)-1;
    if (n > left) n = left;
    memcpy(to, s->im->at + s->at, n);
    s->at += n;
    return n;
}

static OPJ_BOOL source_seek(OPJ_OFF_T at, void *user) {
    Source *s = user;
    if (at < 0 || (size_t)at > s->im->n) return OPJ_FALSE;
    s->at = (size_t)at;
    return OPJ_TRUE;
}

static OPJ_OFF_T source_skip(OPJ_OFF_T n, void *user) {
    Source *s = user;
    return source_seek((OPJ_OFF_T)s->at + n, user) ? n : -1;
}

/* One component, or three of full size, of 8 bits at least; not in luma and chroma. */
static int components_put(weir_image *im, const opj_image_t *from) {
    int n = from->numcomps < 3 ? 1 : 3;
    if (from->color_space == OPJ_CLRSPC_SYCC || from->color_space == OPJ_CLRSPC_EYCC) return 0;
    for (int k = 0; k < n; k++) {
        const opj_image_comp_t *c = &from->comps[k];
        if (!c->data || c->w != im->width || c->h != im->height || c->prec < 8 || c->prec > 24)
            return 0;
    }
    for (int64_t i = 0; i < im->height * im->width; i++) {
        uint8_t pixel[3];
        for (int k = 0; k < n; k++) {
            const opj_image_comp_t *c = &from->comps[k];
            int32_t v = c->data[i] + (c->sgnd ? 1 << (c->prec - 1) : 0);
            v >>= c->prec - 8;
            pixel[k] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
        }
        weir_image_put(im, 0, i, pixel, n);
    }
    return 1;
}

int weir_image_jpeg2000(weir_image *im) {
    Source source = {im, 0};
    opj_codec_t *codec = opj_create_decompress(im->at[0] == 0xff ? OPJ_CODEC_J2K : OPJ_CODEC_JP2);
    opj_stream_t *stream = opj_stream_create(1 << 16, OPJ_TRUE);
    opj_image_t *image = NULL;
    opj_dparameters_t options;
    opj_set_default_decoder_parameters(&options);
    int ok = codec && stream;
    if (ok) {
        opj_stream_set_user_data(stream, &source, NULL);
        opj_stream_set_user_data_length(stream, im->n);
        opj_stream_set_read_function(stream, source_read);
        opj_stream_set_seek_function(stream, source_seek);
        opj_stream_set_skip_function(stream, source_skip);
        ok = opj_setup_decoder(codec, &options) && opj_read_header(stream, codec, &image) &&
             image->numcomps > 0 &&
             sized(im, (int64_t)image->y1 - image->y0, (int64_t)image->x1 - image->x0);
    }
    if (ok && im->rgb)
        ok = opj_decode(codec, stream, image) && opj_end_decompress(codec, stream) &&
             components_put(im, image);
    opj_image_destroy(image);
    opj_stream_destroy(stream);
    opj_destroy_codec(codec);
    return ok;
}
