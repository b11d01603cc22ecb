/* SPDX-License-Identifier: Apache-2.0 */
/* Decoders of pictures. Linked by artifacts that decode pictures only: they bring static libraries
 * of the system with them, whose symbols the library hides. */
#ifndef WEIR_IMAGE_H
#define WEIR_IMAGE_H

#include <stddef.h>
#include <stdint.h>

/* A file in memory. A decoder gives height and width; where `rgb` is there, of exactly that size,
 * it fills in three bytes for each pixel, row by row. */
typedef struct weir_image {
    const uint8_t *at;
    size_t n;
    int64_t height, width;
    uint8_t *rgb;
} weir_image;

/* 0: the file is damaged, or of a kind of its format that is not read. */
typedef int weir_image_fn(weir_image *im);
weir_image_fn weir_image_bmp, weir_image_pnm, weir_image_tiff; /* by our own code */
weir_image_fn weir_image_jpeg, weir_image_png, weir_image_webp, weir_image_jpeg2000;

/* From one byte of grey, or from three in order red, green, blue (4: with one that is ignored). */
void weir_image_put(weir_image *im, int64_t y, int64_t x, const uint8_t *from, int channels);

#endif
