"""The colours of a page: blue speaks for a prediction, orange against it.

Colour-blind eyes tell them apart, and as transparent tints they are legible on a light and on a dark page.
"""

import base64
from io import BytesIO

import numpy as np

FOR, AGAINST = (20, 130, 205), (222, 105, 15)


def tint(value: float, opacity: float = 1.0) -> str:
    """A CSS colour for a value from -1 to 1, the more opaque the larger, at most `opacity`."""
    red, green, blue = FOR if value >= 0 else AGAINST
    return f"rgb({red} {green} {blue} / {min(abs(value), 1.0) * opacity:.3f})"


def heat_map_png(values: np.ndarray) -> bytes:
    """A matrix of values from -1 to 1 as a picture with one pixel for each."""
    from matplotlib.image import imsave  # takes a while, and only some pages have pictures

    picture = np.empty((*values.shape, 4), np.uint8)
    picture[..., :3] = np.where((values >= 0)[..., None], np.array(FOR, np.uint8), np.array(AGAINST, np.uint8))
    picture[..., 3] = np.clip(np.abs(np.nan_to_num(values)), 0, 1) * 255
    file = BytesIO()
    imsave(file, picture, format="png", metadata={"Software": "chainrule"})
    return file.getvalue()


def heat_map_uri(values: np.ndarray) -> str:
    """The same as the source of an <img> that loads nothing."""
    return f"data:image/png;base64,{base64.b64encode(heat_map_png(values)).decode()}"
