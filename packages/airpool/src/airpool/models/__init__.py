"""Models: the trunk on each device, the classifiers, the codec between them, and their training.

model        interface of every model                     pretrained       shipped models: `load`, `infer`
stored       the same on disk, without torch              latents          latents of your own on disk
local        the local head; heads: shallow classifiers   weights          weights on disk
layers       arithmetic in NumPy and torch
loop         the training loop, and its settings by name
cameras      the camera of each device                    assets           the folder of what ships
vision/      trunks     sensors/   sensors of your own    codecs/          feature to latent, noisy sum to class
images/      photographs of your own cameras
"""
