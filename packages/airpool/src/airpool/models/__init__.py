"""Models: the trunk on each device, the classifiers, the codec between them, and their training.

model        interface of every model                     pretrained       shipped models: `load`, `infer`
stored       the same on disk, without torch              latents          latents of your own on disk
local        the local head; heads: shallow classifiers   weights          weights on disk
layers       arithmetic in NumPy and torch                card             model cards
loop         the training loop                            recipes          training settings by name
cameras      the camera of each device                    assets           the folder of what ships
vision/      trunks     sensors/   sensors of your own    codecs/          feature to latent, noisy sum to class
images/      photographs of your own cameras
"""

from airpool._support.rooms import import_on_use

import_on_use(__name__)
