"""The radio link: fading, power control, outage, channel knowledge. No privacy, no models.

Sampling follows the array API (NumPy, torch) and loads no SciPy; laws are computed in float64 with SciPy.

laws, fading     fading laws; gains drawn from them       link             γ, outage, signal and noise level
power, outage    power control; averages over fading      csi, strength    imperfect channel knowledge
beam             a server with several antennas           sionna_models    3GPP channels
waveform/        OFDM samples
"""

from airpool._support.rooms import import_on_use

import_on_use(__name__)
