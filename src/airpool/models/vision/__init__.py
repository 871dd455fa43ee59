"""Cameras: meshes and images to views, trunks, their training and their int8 form.

meshes, cad, prepare      mesh files; the packed file of many; how it is made
shapes                    our own sample objects
picture, outside          a photograph or a frame as a trunk takes it; checks of views from outside
views, renders, augment   views of a mesh (raster); of packed objects; random changes in training
mvcnn, vgg, lite          one network over many views, and its trunks
features, splits          what a trunk makes of views; of each split of a packed file
training, runs            training of a trunk; from plan to file
quantisation, graph, int8 a trunk in int8; as an ONNX graph; on a device without torch
"""

from airpool._support.rooms import import_on_use

import_on_use(__name__)
