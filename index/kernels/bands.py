"""Band hashes, by which entries are filed and a batch's rows meet. `index.lsm.shape` defines them."""

import numpy as np
import numpy.typing as npt

from index.kernels.jit import compiled


@compiled
def band_hashes(
    values: npt.NDArray[np.uint8], draws: npt.NDArray[np.int64], bands: int, rows: int
) -> npt.NDArray[np.uint64]:
    """Band hashes for signatures: values uint8 [n, bins] -> uint64 [n, bands].

    They are the low 40 bits of `band_keys`, as the top bits of a word. draws: int64 [bins, bins - 1], from `densify`.
    """
    count, used, orders = values.shape[0], bands * rows, draws.shape[1]
    hashes, filled = np.empty((count, bands), np.uint64), np.empty(used, np.uint8)
    # Empty bins are random, so reading every bin's first two draws without a branch is faster.
    first, second = draws[:used, 0].copy(), draws[:used, 1].copy()
    for place in range(count):
        row = values[place]
        for own in range(used):
            value, drawn, other = row[own], row[first[own]], row[second[own]]
            drawn = drawn if drawn else other
            filled[own] = value if value else drawn
        # A bin [0] with draws [5, 2, 7] takes the first value that is not 0 among bins 5, 2 and 7.
        for own in range(used):
            draw = 2
            while filled[own] == 0 and draw < orders:
                filled[own] = row[draws[own, draw]]
                draw += 1
        for band in range(bands):
            # Order counts: bins 1 2 and bins 2 1 have different hashes.
            chain = np.uint64(0)
            for own in range(band * rows, (band + 1) * rows):
                chain = (chain + np.uint64(filled[own])) * np.uint64(0x9E3779B97F4A7C15)
                chain ^= chain >> np.uint64(32)
            hashes[place, band] = (chain * np.uint64(0xD6E8FEB86659FD93)) & np.uint64(0xFFFF_FFFF_FF00_0000)
    return hashes
