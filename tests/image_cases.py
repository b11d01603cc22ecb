# SPDX-License-Identifier: Apache-2.0
"""Cases of ImageDecoder for contrib_cases.py, Pillow being the judge: every kind that each format is read in."""
import io

import numpy as np
from PIL import Image


def saved(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return np.frombuffer(out.getvalue(), np.uint8)


def pictures(m):
    y, x = np.mgrid[0:13, 0:19]
    smooth = np.stack([x * 12, y * 18, (x + y) * 7], -1) + m.i(0, 9, 13, 19, 3)
    color = Image.fromarray(smooth.astype(np.uint8))
    grey, few, bits = color.convert("L"), color.quantize(13), color.convert("1")
    clear = color.copy()
    clear.putalpha(grey)
    kinds = [
        ("bmp", color, "BMP", {}), ("bmp_palette", few, "BMP", {}), ("bmp_bits", bits, "BMP", {}),
        ("bmp_grey", grey, "BMP", {}), ("bmp_alpha", clear, "BMP", {}),
        ("pnm_grey", grey, "PPM", {}), ("pnm_bits", bits, "PPM", {}),
        ("png_palette", few, "PNG", {}), ("png_bits", bits, "PNG", {}), ("png_grey", grey, "PNG", {}),
        ("png_alpha", clear, "PNG", {}),
        ("jpeg_sharp", color, "JPEG", {"quality": 95, "subsampling": 0}),
        ("jpeg_progressive", color, "JPEG", {"progressive": True}), ("jpeg_grey", grey, "JPEG", {}),
        ("webp_lossless", color, "WEBP", {"lossless": True}), ("jpeg2000_grey", grey, "JPEG2000", {}),
        ("jpeg2000_lossy", color, "JPEG2000", {"quality_layers": [8], "irreversible": True}),
        ("tiff_grey", grey, "TIFF", {}), ("tiff_palette", few, "TIFF", {}),
        *((f"tiff_{c}", color, "TIFF", {"compression": c}) for c in ("tiff_lzw", "tiff_adobe_deflate", "packbits"))]
    for name, image, kind, options in kinds:
        file = saved(image, kind, **options)
        want = np.array(Image.open(io.BytesIO(file.tobytes())).convert("RGB"))
        yield f"image_{name}", "ImageDecoder", [file], {"pixel_format": "RGB"}, {
            "domain": "", "version": 20, "want": [want]}


cases = [pictures]
